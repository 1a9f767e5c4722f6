"""Rows to requests and back: every series in exactly one request, every answer to its series."""

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from foretell.client.chunks import align_future, cut
from foretell.client.codec import Span, read_response, wire_ids
from foretell.client.errors import RemoteError
from foretell.data.errors import Refusal, TableError
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import Rows
from foretell.protos.arrays import pack_doubles, pack_integers
from foretell.protos.v1.arrays_pb2 import StampKind
from foretell.protos.v1.forecaster_pb2 import ForecastResponse, SeriesError


def make_rows(lengths, num_covariates=0, ids=None):
    total = sum(lengths)
    return Rows(
        ids=pd.Index(list(range(len(lengths))) if ids is None else ids),
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        stamps=np.arange(total),
        stamp_kind="integer",
        time_zone=None,
        target=np.zeros(total),
        covariates=np.arange(total * num_covariates, dtype=float).reshape(total, num_covariates),
        static=np.zeros((len(lengths), 0)),
        positions=np.arange(len(lengths)),
    )


@given(
    lengths=st.lists(st.integers(1, 60), max_size=40),
    horizon=st.integers(1, 60),
    chunk_bytes=st.integers(1, 20_000),
    most=st.integers(1, 50),
)
def test_spans_cover_every_series_once_and_stay_within_their_limits(
    lengths, horizon, chunk_bytes, most
):
    rows, options = make_rows(lengths), ForecastOptions(horizon=horizon)
    texts = [str(name) for name in rows.ids]
    spans = list(cut(rows, texts, None, options, chunk_bytes, most=most))
    assert [i for span in spans for i in range(span.start, span.stop)] == list(range(len(lengths)))
    for span in spans:
        assert span.stop - span.start <= most
        sent = sum(64 + len(texts[i]) + 16 * lengths[i] for i in range(span.start, span.stop))
        answered = sum(
            64 + len(texts[i]) + max(40 * horizon, 400) for i in range(span.start, span.stop)
        )
        assert span.stop == span.start + 1 or max(sent, answered) <= chunk_bytes


def test_spans_are_as_long_as_the_size_allows():
    rows = make_rows([10] * 100)
    options = ForecastOptions(horizon=1)
    spans = list(cut(rows, ["x"] * 100, None, options, 465 * 10, most=100))
    assert [span.stop - span.start for span in spans] == [10] * 10


@given(
    series=st.permutations(range(6)),
    counts=st.lists(st.integers(0, 4), min_size=6, max_size=6),
    known=st.lists(st.integers(0, 5), unique=True, min_size=1),
)
def test_future_rows_find_their_series(series, counts, known):
    future = make_rows(counts, num_covariates=1, ids=list(series))
    rows = make_rows([1] * len(known), ids=known)
    owner = np.repeat(rows.ids.get_indexer(future.ids), counts)
    aligned = align_future(future, rows, owner)
    for place, name in enumerate(known):
        there = list(series).index(name)
        expected = future.covariates[future.indptr[there] : future.indptr[there + 1]]
        got = aligned.covariates[aligned.indptr[place] : aligned.indptr[place + 1]]
        np.testing.assert_array_equal(got, expected)


def test_ids_become_texts_that_differ():
    assert wire_ids(pd.Index(["a", "b"])) == ["a", "b"]
    assert wire_ids(pd.Index([1, 2])) == ["1", "2"]
    assert wire_ids(pd.Index([1, "1"], dtype=object)) == ["1", "'1'"]
    assert wire_ids(pd.Index(["\ud800"], dtype=object)) == ["\\ud800"]


class Nameless:
    def __repr__(self):
        return "nameless"


def test_ids_that_look_alike_are_refused():
    with pytest.raises(TableError, match="two ids have the same text"):
        wire_ids(pd.Index([Nameless(), Nameless()], dtype=object))


def make_response(**changes):
    fields = {
        "horizon": 2,
        "positions": pack_integers(np.array([0, 2])),
        "frequencies": ["1", "1"],
        "stamp_kind": StampKind.STAMP_KIND_INTEGER,
        "stamps": pack_integers(np.arange(4)),
        "forecast": pack_doubles(np.arange(4.0)),
        "quantile_levels": pack_doubles(np.array([0.5])),
        "quantiles": pack_doubles(np.arange(4.0)),
        "errors": [SeriesError(position=1, unique_id="11", reason="why.")],
    }
    return ForecastResponse(**fields | changes)


def test_answers_get_the_tables_own_ids_and_positions():
    rows = make_rows([1] * 5, ids=[10, 11, 12, 13, 14])
    answer = read_response(make_response(), rows, Span(2, 5), "host:1")
    assert answer.ids.tolist() == [12, 14]
    assert answer.refusals == (Refusal(3, 13, "why."),)
    assert answer.forecast.tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize(
    "changes",
    [
        {"positions": pack_integers(np.array([0, 1]))},
        {"positions": pack_integers(np.array([0, 9]))},
        {"positions": pack_integers(np.array([2, 0]))},
        {"horizon": 3},
        {"frequencies": ["1"]},
        {"errors": []},
        {"stamps": pack_integers(np.arange(3))},
        {"quantiles": pack_doubles(np.arange(5.0))},
        {"stamp_kind": StampKind.STAMP_KIND_UNSPECIFIED},
    ],
)
def test_an_answer_that_does_not_fit_is_never_taken(changes):
    """A shifted answer would give series each other's forecasts."""
    rows = make_rows([1] * 3)
    with pytest.raises(RemoteError, match="the answer doesn't fit the request"):
        read_response(make_response(**changes), rows, Span(0, 3), "host:1")
