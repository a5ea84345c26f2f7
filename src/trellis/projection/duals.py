"""What a projection leaves behind: dual variables, and the outcome over a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray

T = TypeVar("T")


@dataclass(frozen=True)
class Duals:
    """Dual variables λ: how hard each row pulls. Feed them back to start the next round where this one ended.

    row : (n_rows,) in the order of ``rows``;  sparsity : (n, width) per block
    memory : what the solver remembers beside them, per shard: its Hessians
    """

    row: FloatArray
    sparsity: tuple[FloatArray, ...]
    memory: tuple[FloatArray | None, ...]

    @classmethod
    def none(cls) -> Duals:
        """Those of an E-step without rows."""
        return cls(np.zeros(0), (), ())

    def arrays(self) -> dict[str, FloatArray]:
        """All that there is, by name; what is not remembered is left out."""
        memory = {f"memory{i}": one for i, one in enumerate(self.memory) if one is not None}
        return {"row": self.row, **{f"sparsity{i}": one for i, one in enumerate(self.sparsity)}, **memory}

    @classmethod
    def of_arrays(cls, arrays: Mapping[str, FloatArray], n_shards: int) -> Duals:
        """What :meth:`arrays` gave, with a memory for so many shards."""
        n_blocks = sum(name.startswith("sparsity") for name in arrays)
        return cls(
            arrays["row"],
            tuple(arrays[f"sparsity{i}"] for i in range(n_blocks)),
            tuple(arrays.get(f"memory{i}") for i in range(n_shards)),
        )

    def pulls(self, rows: Rows) -> dict[str, float]:
        """The mean of |λ| over each constraint's rows."""
        if len(self.row) != len(rows):
            return {}
        total = np.bincount(rows.constraint, np.abs(self.row), minlength=len(rows.names))
        n = np.bincount(rows.constraint, minlength=len(rows.names))
        return dict(zip(rows.names, (total / np.maximum(n, 1)).tolist(), strict=True))

    def by_name(self, rows: Rows) -> dict[str, FloatArray]:
        """λ of each constraint's rows; an l1/linf block gives its (n, K) array."""
        named = {name: self.row[rows.constraint == i] for i, name in enumerate(rows.names)}
        for block, dual in zip(rows.sparsity, self.sparsity, strict=True):
            named[block.name] = dual
        return named


@dataclass(frozen=True)
class CorpusProjection(Generic[T]):
    """The outcome over all shards.

    results : what ``then`` made of each shard;  duals : λ
    value : the optimum  Σ_i weight_i (γ q log q − q·score) + prices, to the accuracy of the residual
    kkt_residual : the largest violation of the optimality conditions, in units of expectations (an upper bound of it
        after few dual steps)
    gap : by at most how much, in units of γ nats, a better q would have raised the objective
    largest : of few dual steps on an l1/linf block, (n_keys, width) maxima of the marginals
    """

    results: list[T]
    duals: Duals
    value: float
    kkt_residual: float
    worst_constraint: str | None
    evaluations: int
    converged: bool
    gap: float = 0.0
    largest: FloatArray | None = None


def put(results: list[T], result: T, fold: Callable[[T, T], T] | None) -> None:
    """One more result: to the end of the list, or added to what it holds."""
    if fold is None or not results:
        results.append(result)
    else:
        results[0] = fold(results[0], result)
