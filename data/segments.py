"""Sorting many series in one array, each by itself."""

import itertools

import numpy as np
from jaxtyping import Int64

_LONG = 32  # rows a series, on average, from which sorting one after the other is faster


def order_within(
    values: Int64[np.ndarray, " N"], indptr: Int64[np.ndarray, " n1"]
) -> Int64[np.ndarray, " N"]:
    """Find the order that sorts each series; equal values keep theirs.

    Args:
        values: Of all series together.
        indptr: Start of each series' values, and the end; the first starts at 0.
    """
    if len(values) < _LONG * (len(indptr) - 1):
        series = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        return np.lexsort((values, series))
    order = np.empty(len(values), dtype=np.int64)
    for start, end in itertools.pairwise(indptr.tolist()):
        order[start:end] = np.argsort(values[start:end], kind="stable")
        order[start:end] += start
    return order
