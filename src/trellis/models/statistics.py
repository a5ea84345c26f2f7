"""Expected sufficient statistics of a model: they add, and can be kept as arrays."""

from __future__ import annotations

from dataclasses import fields, is_dataclass, replace
from typing import Any, Protocol, Self

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.errors import ModelFileError
from trellis.models.row_counts import RowCounts


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
