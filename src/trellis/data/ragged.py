"""Ragged arrays: the rows of many instances in one flat array, cut by offsets.

row i  =  values[offsets[i] : offsets[i + 1]],    offsets[0] = 0,  offsets[n] = len(values)
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Ragged:
    """Rows of unequal length over one flat array.

    values : (n_values, ...)
    offsets : (n_rows + 1,)

    >>> rows = Ragged.from_rows([[1, 2], [], [3]])
    >>> len(rows), rows[0].tolist(), rows.lengths.tolist()
    (3, [1, 2], [2, 0, 1])
    """

    values: NDArray[Any]
    offsets: IntArray

    def __post_init__(self) -> None:
        object.__setattr__(self, "offsets", check_offsets(self.offsets, len(self.values)))

    @classmethod
    def from_rows(cls, rows: Sequence[Sequence[Any] | NDArray[Any]], dtype: Any = np.int64) -> Ragged:
        """Pack rows; an empty list of rows is a ragged array of no rows."""
        parts = [np.asarray(row, dtype=dtype) for row in rows]
        values = np.concatenate(parts) if parts else np.empty(0, dtype=dtype)
        return cls(values, offsets_of(map(len, parts)))

    @property
    def lengths(self) -> IntArray:
        return np.diff(self.offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __iter__(self) -> Iterator[NDArray[Any]]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, i: int) -> NDArray[Any]:
        if not -len(self) <= i < len(self):
            raise IndexError(f"row {i} of a ragged array of {len(self)} rows")
        i %= len(self)
        return self.values[self.offsets[i] : self.offsets[i + 1]]

    def rows(self, start: int, stop: int) -> Ragged:
        """Rows start..stop-1 as views of the same values."""
        low, high = self.offsets[start], self.offsets[stop]
        return Ragged(self.values[low:high], self.offsets[start : stop + 1] - low)

    def to_lists(self) -> list[list[Any]]:
        return [row.tolist() for row in self]
