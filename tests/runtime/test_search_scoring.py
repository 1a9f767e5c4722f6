"""A given translation is as probable as the search says of it when it finds it."""

import runpy
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.text.tokenizer import EOS
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.scoring import score_targets
from foretell.runtime.search.search import search

TABLES = runpy.run_path(str(Path(__file__).with_name("search_tables.py")))
TableDecoder, batch, random_table = (
    TABLES["TableDecoder"],
    TABLES["batch"],
    TABLES["random_table"],
)
SOURCES = [(3, 2), (4, 4, 5, 2), (5, 2)]


@settings(max_examples=30)
@given(
    seed=st.integers(0, 10**6),
    targets=st.lists(st.lists(st.integers(3, 6), max_size=6), min_size=1, max_size=3),
)
def test_each_token_has_the_probability_that_the_table_gives_it(seed, targets) -> None:
    """Targets of all lengths in one batch; the shortest leaves first."""
    table = random_table(seed, 7)
    ended = [[*target, EOS] for target in targets]
    found = score_targets(TableDecoder(table, 7), *batch(SOURCES[: len(ended)]), ended)
    assert found == [
        [table(source, tuple(target[:place]))[token] for place, token in enumerate(target)]
        for source, target in zip(SOURCES, ended, strict=False)
    ]


@settings(max_examples=15)
@given(seed=st.integers(0, 10**6))
def test_what_is_found_scores_the_same_when_it_is_given(seed) -> None:
    decoder = TableDecoder(random_table(seed, 7), 7)
    options = TranslateOptions(beam_size=3, n_best=3)
    (found,) = search(decoder, *batch(SOURCES[:1]), [SearchRequest(options=options, max_length=8)])
    for one in found:
        if one.finish_reason == "eos":
            target = [*one.token_ids, EOS]
            (scored,) = score_targets(decoder, *batch(SOURCES[:1]), [target])
            assert tuple(scored) == one.token_log_probs
