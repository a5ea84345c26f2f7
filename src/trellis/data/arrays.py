"""Specification of a model's arrays: declared once per class as a table, and checked before a kernel sees them.

A kernel trusts its arrays, so that one whose offsets are wrong reads memory that is not its own. Each class has a
table "array: type, shape in named sizes, range, order"; sizes are given by vocabularies, or else by the first array
that has them.

>>> table = {
...     "first_pair": ArrayOf(np.int64, ("features + 1",), offsets_of="pairs"),
...     "pair_label": ArrayOf(np.int32, ("pairs",), below="labels", rises_in="first_pair"),
... }
>>> arrays = {"first_pair": np.array([0, 2, 3]), "pair_label": np.array([0, 2, 1], np.int32)}
>>> list(check_arrays(table, arrays, features=2, labels=3))
['first_pair', 'pair_label']
>>> check_arrays(table, arrays, features=2, labels=2)
Traceback (most recent call last):
    ...
trellis.errors.DataError: pair_label must hold numbers from 0 to 1, but has 2
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.errors import DataError, check_name

LARGEST = 1e100
"""Numbers beyond it are no parameters: sums and products of a few of them would overflow."""


@dataclass(frozen=True)
class ArrayOf:
    """What one array must be.

    shape : numbers, or names of sizes, "pairs + 1" for one more than a size
    low, high : bounds of its entries, all of which are finite
    below : its entries are numbers of things, of which there are so many
    offsets_of : it cuts so many things into rows: it begins with 0, never falls and ends with that size
    rises_in : name of such offsets, in whose rows its entries rise strictly
    """

    dtype: Any
    shape: tuple[str | int, ...]
    low: float = -LARGEST
    high: float = LARGEST
    below: str | None = None
    offsets_of: str | None = None
    rises_in: str | None = None

    def check(self, name: str, array: NDArray[Any], sizes: dict[str, int]) -> NDArray[Any]:
        """The array as kernels want it; a DataError says what is wrong with it. Sizes first met here are noted."""
        if array.dtype.newbyteorder("=") != self.dtype:
            raise DataError(f"{name} must be of type {np.dtype(self.dtype)} but is of type {array.dtype}")
        for size, length in zip(self.shape, array.shape, strict=False):
            if isinstance(size, str) and "+" not in size:
                sizes.setdefault(size, length)
        shape = tuple(_size(size, sizes) for size in self.shape)
        if array.shape != shape:
            raise DataError(f"{name} must have shape {shape} but has {array.shape}")
        low, high = (0, _size(self.below, sizes) - 1) if self.below is not None else (self.low, self.high)
        if array.dtype.kind == "f":  # compared with more than its type can hold, infinity would pass
            low, high = max(low, float(np.finfo(array.dtype).min)), min(high, float(np.finfo(array.dtype).max))
        inside = (array >= low) & (array <= high)  # false of nan
        if not np.all(inside):
            raise DataError(f"{name} must hold numbers from {low:g} to {high:g}, but has {array[~inside].flat[0]:g}")
        if self.offsets_of is not None:
            end = sizes.setdefault(self.offsets_of, int(array[-1]))
            if array[0] != 0 or array[-1] != end or np.any(array[1:] < array[:-1]):
                raise DataError(f"{name} must rise from 0 to {end}, the number of {self.offsets_of}")
        return np.ascontiguousarray(array, dtype=self.dtype).reshape(shape)


def check_arrays(
    table: Mapping[str, ArrayOf], arrays: Mapping[str, NDArray[Any]], **sizes: int
) -> dict[str, NDArray[Any]]:
    """The arrays of a file, all that the table names and no other."""
    if set(arrays) != set(table):
        raise DataError(f"expected the arrays {sorted(table)} but found {sorted(arrays)}")
    checked = {name: of.check(name, arrays[name], sizes) for name, of in table.items()}
    for name, of in table.items():
        if of.rises_in is not None:
            starts = np.zeros(len(checked[name]) + 1, np.bool_)
            starts[checked[of.rises_in]] = True
            if np.any(np.diff(checked[name])[~starts[1:-1]] <= 0):
                raise DataError(f"{name} must rise inside each row of {of.rises_in}")
    return checked


def as_parameters(table: Mapping[str, ArrayOf], given: Mapping[str, Any], **sizes: int) -> dict[str, NDArray[Any]]:
    """Copies of those of the given numbers that the table names, converted to its types and checked."""
    for name in table:
        check_name("parameter", name, given)
    return check_arrays(table, {name: np.array(given[name], dtype=of.dtype) for name, of in table.items()}, **sizes)


def split_arrays(arrays: Mapping[str, NDArray[Any]], prefixes: Sequence[str]) -> dict[str, dict[str, NDArray[Any]]]:
    """The arrays of each prefix, without it; an array with none of the prefixes is refused."""
    found: dict[str, dict[str, NDArray[Any]]] = {prefix: {} for prefix in prefixes}
    for name, array in arrays.items():
        prefix = next((one for one in prefixes if name.startswith(one)), None)
        if prefix is None:
            raise DataError(f"it has an array {name!r}, which belongs to nothing in it")
        found[prefix][name.removeprefix(prefix)] = array
    return found


def _size(size: str | int, sizes: Mapping[str, int]) -> int:
    if isinstance(size, int):
        return size
    name, plus, more = size.partition(" + ")
    return sizes[name] + (int(more) if plus else 0)
