"""What is drawn follows the model's probabilities, and the seed alone decides what it is."""

import math
import runpy
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from foretell.data.text.tokenizer import BOS, EOS
from foretell.data.text.translation import TranslateOptions
from foretell.runtime.search.hypotheses import SearchRequest
from foretell.runtime.search.sampling import draw
from foretell.runtime.search.search import search

TABLES = runpy.run_path(str(Path(__file__).with_name("search_tables.py")))
TableDecoder, batch = TABLES["TableDecoder"], TABLES["batch"]
fixed_table, random_table = TABLES["fixed_table"], TABLES["random_table"]
A, B, C = 4, 5, 6


def sample(table, places, **options) -> list[tuple[int, ...]]:
    """One drawn translation for each place in the call, all in one batch."""
    chosen = TranslateOptions(sample=True, beam_size=1, **options)
    requests = [SearchRequest(options=chosen, max_length=8, place=place) for place in places]
    found = search(TableDecoder(table, 7), *batch([(5, 2)] * len(requests)), requests)
    return [one.token_ids for (one,) in found]


def shares(**options: object) -> list[float]:
    """How often the tokens of probabilities 0.3, 0.5, 0 and 0.2 are drawn."""
    gains = np.array([math.log(0.3), math.log(0.5), -math.inf, math.log(0.2)], dtype=np.float32)
    chosen = TranslateOptions(sample=True, beam_size=1, **options)
    generator = np.random.Generator(np.random.PCG64(0))
    counts = Counter(draw(gains, chosen, generator) for _ in range(4000))
    return [counts[token] / 4000 for token in range(4)]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, [0.3, 0.5, 0, 0.2]),
        ({"temperature": 0.5}, [0.09 / 0.38, 0.25 / 0.38, 0, 0.04 / 0.38]),
        ({"temperature": 1e-3}, [0, 1, 0, 0]),
        ({"top_k": 2}, [0.375, 0.625, 0, 0]),
        ({"top_k": 9}, [0.3, 0.5, 0, 0.2]),
        ({"top_p": 0.7}, [0.375, 0.625, 0, 0]),
        ({"top_p": 0.85}, [0.3, 0.5, 0, 0.2]),
        ({"top_p": 1e-9}, [0, 1, 0, 0]),  # at least one
        # The share is one of what the temperature and top_k have left: 0.625 of 0.8.
        ({"top_k": 2, "top_p": 0.6}, [0, 1, 0, 0]),
        ({"temperature": 10.0, "top_p": 0.6}, [0.4871, 0.5129, 0, 0]),
    ],
)
def test_draws_follow_the_probabilities(options: dict, expected: list[float]) -> None:
    """First the temperature, then top_k, then top_p; a wrong order gives other shares."""
    for share, right in zip(shares(**options), expected, strict=True):
        assert share == pytest.approx(right, abs=4 * math.sqrt(right * (1 - right) / 4000))


def test_of_equally_probable_tokens_top_k_takes_the_lower() -> None:
    gains = np.zeros(4, dtype=np.float32)
    chosen = TranslateOptions(sample=True, beam_size=1, top_k=2)
    generator = np.random.Generator(np.random.PCG64(0))
    assert {draw(gains, chosen, generator) for _ in range(50)} == {0, 1}


@settings(max_examples=10)
@given(seed=st.integers(0, 2**63 - 1), table_seed=st.integers(0, 10**6))
def test_a_sentence_draws_the_same_in_any_batch(seed: int, table_seed: int) -> None:
    """Place and seed decide, not the neighbours: a batch is split as it suits the machine."""
    table = random_table(table_seed, 7, none=0.0)
    together = sample(table, range(6), seed=seed)
    assert together == sample(table, range(6), seed=seed)
    assert together[::-1] == sample(table, range(6)[::-1], seed=seed)
    assert together == [sample(table, [place], seed=seed)[0] for place in range(6)]


def test_equal_sentences_at_other_places_and_other_seeds_draw_otherwise() -> None:
    table = random_table(1, 7, none=0.0)
    drawn = sample(table, range(30), seed=1)
    assert len(set(drawn)) > 10
    assert drawn != sample(table, range(30), seed=2)
    # The seed and the place are no sum: (1, 2) and (2, 1) are strangers.
    assert sample(table, range(9), seed=1)[2:] != sample(table, range(9), seed=2)[1:-1]


def test_a_drawn_translation_reports_the_models_own_probabilities() -> None:
    """Neither the temperature nor what was cut off shows in them."""
    table = fixed_table({(BOS,): {A: 0.7, B: 0.3}, (A,): {EOS: 1.0}, (B,): {EOS: 1.0}}, 7)
    options = TranslateOptions(sample=True, beam_size=1, temperature=3.0, top_k=1)
    request = SearchRequest(options=options, max_length=4)
    ((found,),) = search(TableDecoder(table, 7), *batch([(5, 2)]), [request])
    assert found.token_ids == (A,)
    assert found.token_log_probs == pytest.approx((math.log(0.7), 0.0))


def test_a_prefix_takes_no_number_from_the_stream() -> None:
    """What is drawn after it is what would be drawn first without it."""
    words = {A: 0.25, B: 0.25, C: 0.25, EOS: 0.25}
    table = fixed_table({(one,): words for one in (BOS, A, B, C)}, 7)
    options = TranslateOptions(sample=True, beam_size=1, seed=5)
    for place in range(10):
        free = SearchRequest(options=options, max_length=8, place=place)
        led = SearchRequest(options=options, max_length=10, prefix=(A, B), place=place)
        found = search(TableDecoder(table, 7), *batch([(5, 2)] * 2), [free, led])
        assert found[1][0].token_ids == (A, B, *found[0][0].token_ids)
