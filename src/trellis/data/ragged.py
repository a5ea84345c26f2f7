"""Ragged arrays: the rows of many instances in one flat array, cut by offsets.

row i  =  values[offsets[i] : offsets[i + 1]],    offsets[0] = 0,  offsets[n] = len(values)
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import DataError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
LabelArray = NDArray[np.int32]
BoolArray = NDArray[np.bool_]


def offsets_of(lengths: Iterable[int]) -> IntArray:
    """Offsets (n + 1,) of rows with the given lengths.

    >>> offsets_of([2, 0, 3]).tolist()
    [0, 2, 2, 5]
    """
    sizes = lengths if isinstance(lengths, np.ndarray) else np.fromiter(lengths, dtype=np.int64)
    offsets = np.zeros(len(sizes) + 1, dtype=np.int64)
    np.cumsum(sizes, out=offsets[1:])
    return offsets


def owners(offsets: IntArray) -> IntArray:
    """(n_values,): the row of each value.

    >>> owners(np.array([0, 2, 2, 5])).tolist()
    [0, 0, 2, 2, 2]
    """
    return np.repeat(np.arange(len(offsets) - 1, dtype=np.int64), np.diff(offsets))


def take_rows(offsets: IntArray, numbers: NDArray[np.integer[Any]]) -> tuple[IntArray, IntArray]:
    """The rows with these numbers, one after the other: their offsets, and the places of their values.

    >>> [one.tolist() for one in take_rows(np.array([0, 2, 2, 5]), np.array([2, 0]))]
    [[0, 3, 5], [2, 3, 4, 0, 1]]
    """
    first = offsets[numbers]
    lengths = offsets[numbers + 1] - first
    new = offsets_of(lengths)
    return new, np.arange(new[-1]) + np.repeat(first - new[:-1], lengths)


def check_offsets(offsets: Any, n_values: int | None = None) -> IntArray:
    """Offsets as a contiguous int64 array, or an error that says which one breaks the rule."""
    checked = np.ascontiguousarray(offsets, dtype=np.int64)
    if checked.ndim != 1 or len(checked) == 0 or checked[0] != 0:
        raise DataError(f"offsets must be one-dimensional and start with 0, got shape {checked.shape}")
    falls = np.flatnonzero(np.diff(checked) < 0)
    if len(falls):
        i = int(falls[0])
        raise DataError(f"offsets must not fall, but instance {i} runs from {checked[i]} to {checked[i + 1]}")
    if n_values is not None and checked[-1] != n_values:
        raise DataError(f"offsets end at {checked[-1]}, but there are {n_values} values")
    return checked
