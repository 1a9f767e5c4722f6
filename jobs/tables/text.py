"""Forecasts as lines of CSV, byte for byte as pandas writes them, in a tenth of its time.

pandas asks Python for the text of every number; Arrow makes that of a whole column at once. What
Arrow spells otherwise (5 for 5.0, 0.00001 for 1e-05) is left to Python.

Axes: N rows, n series, H horizon.
"""

import csv
import io
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc
from jaxtyping import Bool, Float64, Int64

# Between these Arrow and Python spell every number that is not whole alike.
_LEAST, _MOST = 1e-4, 1e10
# Nanoseconds of a unit, and what Arrow calls it.
_DAY_NS = 86_400_000_000_000
_UNITS = ((1_000_000_000, "s"), (1_000_000, "ms"), (1_000, "us"), (1, "ns"))


class _Line:
    """A file whose `write` returns what is written; a csv writer passes that on."""

    def write(self, text: str) -> str:
        return text


def header_line(names: Iterable[object]) -> bytes:
    """Write the names of columns."""
    line: str = csv.writer(_Line(), lineterminator="\n").writerow(list(names))
    return line.encode()


def table_lines(table: pd.DataFrame, horizon: int) -> memoryview:
    """Write a table of forecasts as lines, without a header.

    Stamps of one table are told alike: as days where all are midnights, else with as much of the
    time as any has. (pandas decides that anew every so many rows.)

    Args:
        table: Ids, stamps (dates, or whole numbers), and columns of floats; `horizon` rows of each
            id, one after the other.
        horizon: Rows of each series.

    Returns:
        UTF-8.
    """
    if table.empty:
        return memoryview(b"")
    ids = pa.array(_cells(table.iloc[::horizon, 0]), pa.large_string())
    each = np.repeat(np.arange(len(ids)), horizon)
    texts = [ids.take(pa.array(each)), _stamps(table.iloc[:, 1])]
    texts += _columns(table.iloc[:, place].to_numpy() for place in range(2, table.shape[1]))
    texts[-1] = pc.binary_join_element_wise(texts[-1], _text("\n"), _text(""))
    lines = pc.binary_join_element_wise(*texts, _text(","))
    # One after the other, as Arrow keeps texts, they are the file.
    return memoryview(lines.buffers()[2])


def _cells(column: pd.Series) -> list[str]:
    """Write each value as it stands between separators, in quotes where it needs them."""
    values: Sequence[str] = column.tolist()
    if not isinstance(column.dtype, pd.StringDtype):  # pandas knows how each type is told
        text = column.to_frame().to_csv(index=False, header=False, lineterminator="\n")
        values = [row[0] for row in csv.reader(io.StringIO(text, newline=""))]
    write = csv.writer(_Line(), lineterminator="\n").writerow
    # The second value is empty: for a line of one value other rules hold.
    return [write((value, "")).removesuffix(",\n") for value in values]


def _stamps(column: pd.Series) -> pa.Array:
    if column.dtype.kind in "iu":
        return pc.cast(pa.array(column.to_numpy()), pa.large_string())
    dates = pd.DatetimeIndex(column).as_unit("ns")
    if dates.tz is None:
        return _times(np.asarray(dates.asi8), may_be_days=True)
    local = np.asarray(dates.tz_localize(None).asi8)
    shifts, each = np.unique(local - np.asarray(dates.asi8), return_inverse=True)
    offsets = pa.array(list(map(_offset, shifts.tolist())), pa.large_string())
    times = _times(local, may_be_days=False)
    return pc.binary_join_element_wise(times, offsets.take(pa.array(each)), _text(""))


def _times(ticks: Int64[np.ndarray, " N"], *, may_be_days: bool) -> pa.Array:
    """Write nanoseconds since 1970 with as much of the time as any of them has."""
    if may_be_days and not (ticks % _DAY_NS).any():
        days = pa.array((ticks // _DAY_NS).astype(np.int32)).cast(pa.date32())
        return pc.cast(days, pa.large_string())
    factor, unit = next((factor, unit) for factor, unit in _UNITS if not (ticks % factor).any())
    return pc.cast(pa.array(ticks // factor).cast(pa.timestamp(unit)), pa.large_string())


def _offset(shift_ns: int) -> str:
    """Write a clock's distance from UTC: +02:00, and of old local times the seconds too."""
    minutes, seconds = divmod(abs(shift_ns) // 1_000_000_000, 60)
    tail = f":{seconds:02d}" if seconds else ""
    return f"{'-' if shift_ns < 0 else '+'}{minutes // 60:02d}:{minutes % 60:02d}{tail}"


def _columns(numbers: Iterable[Float64[np.ndarray, " N"]]) -> list[pa.Array]:
    """Write columns; a copy of another, as the forecast is of the median, costs nothing."""
    known: dict[bytes, pa.Array] = {}
    texts = []
    for values in numbers:
        bits = values.tobytes()
        if bits not in known:
            known[bits] = _floats(values)
        texts.append(known[bits])
    return texts


def _floats(values: Float64[np.ndarray, " N"]) -> pa.Array:
    texts = pc.cast(pa.array(values), pa.large_string())
    size = np.abs(values)
    alike: Bool[np.ndarray, " N"] = (size >= _LEAST) & (size < _MOST) & (values != np.rint(values))
    if alike.all():
        return texts
    others = ["" if np.isnan(value) else repr(value) for value in values[~alike].tolist()]
    return pc.replace_with_mask(texts, pa.array(~alike), pa.array(others, pa.large_string()))


def _text(value: str) -> pa.Scalar:
    return pa.scalar(value, pa.large_string())
