"""Expected sufficient statistics of a model: they add, and can be kept as arrays.

Counts over a large table of rows, of which a shard touches a few, are the rows it touched. Adding keeps the parts in
order and folds them into a full table only when they hold eight times as many rows as it: a table of 10,000 words is
not written once for every shard of 4,000 tokens. Entry by entry the sum is taken from left to right either way, so
folding sooner or later gives the same bits.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.errors import ModelFileError
from trellis.models.kernels import counting


@dataclass(frozen=True)
class RowCounts:
    """Σ of parts, each some rows of a table (n_rows, n_columns).

    parts : (rows (m,), values (m, n_columns)) each; rows None: values is the whole table

    >>> few = RowCounts.of_rows(4, np.array([2], np.int32), np.array([[1.0, 2.0]]))
    >>> (few + few).table().tolist()
    [[0.0, 0.0], [0.0, 0.0], [2.0, 4.0], [0.0, 0.0]]
    """

    n_rows: int
    n_columns: int
    parts: tuple[tuple[LabelArray | IntArray | None, FloatArray], ...]

    @classmethod
    def of_table(cls, table: FloatArray) -> RowCounts:
        return cls(table.shape[0], table.shape[1], ((None, table),))

    @classmethod
    def of_rows(cls, n_rows: int, rows: LabelArray | IntArray, values: FloatArray) -> RowCounts:
        return cls(n_rows, values.shape[1], ((rows, values),))

    def __add__(self, other: RowCounts) -> RowCounts:
        joined = RowCounts(self.n_rows, self.n_columns, self.parts + other.parts)
        if sum(len(values) for _, values in joined.parts[1:]) > 8 * self.n_rows:
            return RowCounts.of_table(joined.table())
        return joined

    def __mul__(self, factor: float) -> RowCounts:
        return RowCounts(self.n_rows, self.n_columns, tuple((rows, values * factor) for rows, values in self.parts))

    def table(self) -> FloatArray:
        """The whole table (n_rows, n_columns); not to be written to."""
        if len(self.parts) == 1 and self.parts[0][0] is None:
            return self.parts[0][1]
        first, rest = self.parts[0], self.parts
        if first[0] is None:
            table, rest = first[1].copy(), self.parts[1:]
        else:
            table = np.zeros((self.n_rows, self.n_columns))
        for rows, values in rest:
            if rows is None:
                table += values
            else:
                counting.add_rows(rows, values, table)
        return table

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, RowCounts) and np.array_equal(self.table(), other.table())

    __hash__ = None  # type: ignore[assignment]


class Statistics(Protocol):
    """Expected sufficient statistics: sums over shards, and scaled ones for stepwise updates."""

    def __add__(self, other: Any, /) -> Self: ...
    def __mul__(self, factor: float, /) -> Self: ...


def flattened(statistics: Any, name: str = "") -> dict[str, FloatArray]:
    """The arrays of a model's statistics by the names of their fields."""
    if isinstance(statistics, RowCounts):
        return {name: statistics.table()}
    if not is_dataclass(statistics):
        return {name: np.asarray(statistics, dtype=np.float64)}
    found: dict[str, FloatArray] = {}
    for one in fields(statistics):
        found.update(flattened(getattr(statistics, one.name), f"{name}.{one.name}"))
    return found


def unflattened(like: Any, arrays: dict[str, FloatArray], name: str = "") -> Any:
    """Statistics of the same class as ``like``, from their arrays."""
    if isinstance(like, RowCounts):
        return RowCounts.of_table(unflattened(like.table(), arrays, name))
    if not is_dataclass(like):
        if name not in arrays or arrays[name].shape != np.shape(like):
            raise ModelFileError(f"its statistics{name} must have shape {np.shape(like)}: they are of another run")
        return arrays[name] if isinstance(like, np.ndarray) else float(arrays[name])
    values = {f.name: unflattened(getattr(like, f.name), arrays, f"{name}.{f.name}") for f in fields(like)}
    return replace(like, **values)  # type: ignore[type-var]
