"""Cuts a table into requests that fit a message, their answers too."""

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from foretell.client.codec import Span
from foretell.data.errors import TableError
from foretell.data.options import ForecastOptions
from foretell.data.panel import Rows

_NUMBER_BYTES = 8
_NAMED = 10
_SERIES_BYTES = 64  # lengths, positions, frequency, tags


def cut(
    rows: Rows,
    texts: list[str],
    future: Rows | None,
    options: ForecastOptions,
    chunk_bytes: int,
) -> Iterator[Span]:
    """Cut the series into spans, in order, each as long as request and answer stay within the size.

    A series that is larger by itself makes a span of its own: it can't be cut.

    Args:
        rows: All rows of the table.
        texts: The ids as texts.
        future: Known-future rows, series by series as in `rows`.
        options: Horizon and levels, which make the size of the answer.
        chunk_bytes: Size to stay within.
    """
    fixed = np.array([len(text.encode()) for text in texts], np.int64) + _SERIES_BYTES
    sent = fixed + np.diff(rows.indptr) * _NUMBER_BYTES * (2 + rows.covariates.shape[1])
    sent += _NUMBER_BYTES * rows.static.shape[1]
    if future is not None:
        sent += fixed + np.diff(future.indptr) * _NUMBER_BYTES * (1 + future.covariates.shape[1])
    answered = fixed + options.horizon * _NUMBER_BYTES * (2 + len(options.quantile_levels))
    ends = [np.concatenate([[0], np.cumsum(sizes)]) for sizes in (sent, answered)]
    start = 0
    while start < len(texts):
        stop = min(int(np.searchsorted(end, end[start] + chunk_bytes, "right")) - 1 for end in ends)
        stop = max(stop, start + 1)
        yield Span(start, stop)
        start = stop


def align_future(future: Rows, rows: Rows) -> tuple[Rows, list[str]]:
    """Bring the known-future rows into the order of the table's series.

    Returns:
        Series i of it belongs to series i of `rows` and is empty where there is none; and a warning
        if rows of unknown ids were left out.

    Raises:
        TableError: No id of it is one of the table's.
    """
    at = future.ids.get_indexer(rows.ids)
    lengths = np.append(np.diff(future.indptr), 0)[at]  # -1, no such series, finds the 0 at the end
    starts = np.append(future.indptr[:-1], 0)[at]
    indptr = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    taken = np.arange(indptr[-1]) + np.repeat(starts - indptr[:-1], lengths)
    aligned = replace(
        future,
        ids=rows.ids,
        indptr=indptr,
        stamps=future.stamps[taken],
        covariates=future.covariates[taken],
        static=np.empty((len(rows.ids), 0)),
        positions=rows.positions,
    )
    return aligned, _unknown_ids(future, rows)


def _unknown_ids(future: Rows, rows: Rows) -> list[str]:
    refused = {refusal.unique_id for refusal in rows.refusals}
    at = rows.ids.get_indexer(future.ids)
    unknown = [unique_id for unique_id in future.ids[at < 0] if unique_id not in refused]
    if not unknown:
        return []
    if len(unknown) == len(future.ids) and len(rows.ids):
        raise TableError(
            f"the future table has no id of the history: it has {unknown[0]!r}, the history "
            f"{rows.ids[0]!r}; write ids alike, in one type."
        )
    named = ", ".join(str(unique_id) for unique_id in unknown[:_NAMED])
    more = f" and {len(unknown) - _NAMED} more" if len(unknown) > _NAMED else ""
    return [
        "the future table has rows of ids that the history lacks; they are not used: "
        f"{named}{more}."
    ]
