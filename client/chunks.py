"""Cuts what is asked into requests that fit a message, their answers too."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pandas as pd

from foretell.client.codec import Span
from foretell.data.errors import Refusal
from foretell.data.series.options import ForecastOptions
from foretell.data.series.panel import Rows

_NUMBER_BYTES = 8
_SERIES_BYTES = 64  # lengths, positions, frequency, tags
_REASON_BYTES = 400  # any series may be refused, and then has a reason instead of numbers


def cut(
    rows: Rows,
    texts: list[str],
    future: Rows | None,
    options: ForecastOptions,
    chunk_bytes: int,
    *,
    most: int,
) -> Iterator[Span]:
    """Cut the series into spans, in order, each as long as request and answer stay within the size.

    A series that is larger by itself makes a span of its own: it can't be cut.

    Args:
        rows: All rows of the table.
        texts: The ids as texts.
        future: Known-future rows, series by series as in `rows`.
        options: Horizon and levels, which make the size of the answer.
        chunk_bytes: Size to stay within.
        most: Series of a span.
    """
    fixed = np.array([len(text.encode()) for text in texts], np.int64) + _SERIES_BYTES
    sent = fixed + np.diff(rows.indptr) * _NUMBER_BYTES * (2 + rows.covariates.shape[1])
    sent += _NUMBER_BYTES * rows.static.shape[1]
    if future is not None:
        sent += fixed + np.diff(future.indptr) * _NUMBER_BYTES * (1 + future.covariates.shape[1])
    numbers = options.horizon * _NUMBER_BYTES * (2 + len(options.quantile_levels))
    answered = fixed + max(numbers, _REASON_BYTES)
    return spans(sent, answered, chunk_bytes, most=most)


def spans(sent: np.ndarray, answered: np.ndarray, chunk_bytes: int, *, most: int) -> Iterator[Span]:
    """Cut items into spans, in order, each as long as its limits allow, but one item at least.

    Args:
        sent: Bytes that each item adds to a request.
        answered: Bytes that each item adds to an answer.
        chunk_bytes: Size that requests and answers stay within.
        most: Items of a span.
    """
    ends = [np.concatenate([[0], np.cumsum(sizes)]) for sizes in (sent, answered)]
    start = 0
    while start < len(sent):
        stop = min(int(np.searchsorted(end, end[start] + chunk_bytes, "right")) - 1 for end in ends)
        stop = max(min(stop, start + most), start + 1)
        yield Span(start, stop)
        start = stop


def align_future(future: Rows, rows: Rows, owner: np.ndarray) -> Rows:
    """Bring the known-future rows into the order of the table's series.

    Args:
        future: Rows of the future table.
        rows: Rows of the table.
        owner: Place in `rows.ids` of each future row, -1 for none.

    Returns:
        Series i of it belongs to series i of `rows`, and is empty where there is none; so do its
        refusals, by position.
    """
    order = np.argsort(owner, kind="stable")
    taken = order[np.searchsorted(owner[order], 0) :]
    lengths = np.bincount(owner[taken], minlength=len(rows.ids))
    return replace(
        future,
        ids=rows.ids,
        indptr=np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64),
        stamps=future.stamps[taken],
        covariates=future.covariates[taken],
        static=np.empty((len(rows.ids), 0)),
        positions=rows.positions,
        refusals=_placed(future.refusals, rows),
    )


def _placed(refusals: tuple[Refusal, ...], rows: Rows) -> tuple[Refusal, ...]:
    """Refusals by the place of their series in the table; those of other series are left out."""
    ids = pd.Index([refusal.unique_id for refusal in refusals], tupleize_cols=False)
    places = rows.ids.get_indexer(ids)
    return tuple(
        replace(refusal, position=place)
        for place, refusal in zip(places.tolist(), refusals, strict=True)
        if place >= 0
    )
