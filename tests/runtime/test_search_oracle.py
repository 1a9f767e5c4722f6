"""The search gives what a slow and obvious search of each sentence alone gives, whatever is asked.

Everything that a batch brings about shows here: shared steps, rows that leave, other people's
options, candidates that were not asked for, and states that must follow their parents.
"""

import math
import runpy
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.search import search

TABLES = runpy.run_path(str(Path(__file__).with_name("search_tables.py")))
random_table, TableDecoder = TABLES["random_table"], TABLES["TableDecoder"]
batch, weights = TABLES["batch"], TABLES["weights"]
search_slowly = runpy.run_path(str(Path(__file__).with_name("search_oracle.py")))["search_slowly"]

SOURCES = st.lists(st.integers(3, 5), min_size=1, max_size=4)


@st.composite
def settings_of_a_request(draw: st.DrawFn, vocab_size: int) -> tuple[dict, dict]:
    """Options and the rest; all that is possible at once, for it may be asked for at once."""
    tokens = st.integers(3, vocab_size - 1)
    sample = draw(st.booleans())
    beam_size = 1 if sample else draw(st.integers(1, 6))
    max_length = draw(st.integers(1, 9))
    options = {
        "beam_size": beam_size,
        "n_best": draw(st.integers(1, beam_size)),
        "length_penalty": draw(st.sampled_from([0.0, 0.5, 1.0, 2.0])),
        "length_formula": draw(st.sampled_from(["power", "gnmt"])),
        "min_length": draw(st.integers(0, max_length)),
        "patience": draw(st.sampled_from([0.3, 1.0, 2.0, math.inf])),
        "no_repeat_ngram_size": draw(st.integers(0, 3)),
        "repetition_penalty": draw(st.sampled_from([1.0, 1.0, 1.5, 4.0])),
        "sample": sample,
        "temperature": draw(st.sampled_from([0.5, 1.0, 3.0])),
        "top_k": draw(st.integers(0, 3)),
        "top_p": draw(st.sampled_from([1.0, 0.37, 0.81])),
        "seed": draw(st.integers(0, 3)),
        "replace_unknowns": draw(st.booleans()),
        "attention": draw(st.booleans()),
    }
    banned = st.lists(st.lists(tokens, min_size=1, max_size=3).map(tuple), max_size=2)
    rest = {
        "max_length": max_length,
        "prefix": tuple(draw(st.lists(tokens, max_size=min(3, max_length - 1)))),
        "banned": tuple(draw(banned)),
        "place": draw(st.integers(0, 5)),
    }
    return options, rest


def make_request(options: dict, rest: dict) -> SearchRequest:
    return SearchRequest(options=TranslateOptions(**options), **rest)


def check_alike(found, expected) -> None:
    assert [one.token_ids for one in found] == [one.tokens for one in expected]
    assert [one.token_log_probs for one in found] == [one.log_probs for one in expected]
    assert [one.finish_reason for one in found] == [one.reason for one in expected]
    np.testing.assert_allclose(
        [one.score for one in found], [one.score for one in expected], rtol=1e-12, atol=0
    )


@settings(max_examples=150)
@given(data=st.data(), seed=st.integers(0, 10**6))
def test_every_sentence_of_a_batch_gets_what_it_would_get_alone(data, seed) -> None:
    vocab_size = data.draw(st.integers(4, 9))
    none = data.draw(st.sampled_from([0.0, 0.2, 0.6]))
    levels = data.draw(st.sampled_from([2, 24]))
    sources = data.draw(st.lists(SOURCES, min_size=1, max_size=5))
    asked = [make_request(*data.draw(settings_of_a_request(vocab_size))) for _ in sources]
    table = random_table(seed, vocab_size, none=none, levels=levels)
    found = search(TableDecoder(table, vocab_size), *batch(sources), asked)
    for source, request, hypotheses in zip(sources, asked, found, strict=True):
        check_alike(hypotheses, search_slowly(table, tuple(source), request))
        for one in hypotheses:
            assert (one.attention is not None) == request.wants_attention
            if one.attention is not None:
                rows = [
                    weights(tuple(source), one.token_ids[:step], len(source))
                    for step in range(len(one.token_ids))
                ]
                np.testing.assert_array_equal(one.attention, np.reshape(rows, (-1, len(source))))
