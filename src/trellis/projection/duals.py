"""Results of a projection: dual variables, and statistics over a corpus."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows
from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.ragged import FloatArray

T = TypeVar("T")


@dataclass(frozen=True)
class Duals:
    """Dual variables λ: one per row. Feed them back to start the next round where this one ended.

    row : (n_rows,) in the order of ``rows``;  sparsity : (n, width) per block
    memory : what the solver remembers beside them, per shard: its Hessians
    """

    row: FloatArray
    sparsity: tuple[FloatArray, ...]
    memory: tuple[FloatArray | None, ...]

    def arrays(self) -> dict[str, FloatArray]:
        """All that there is, by name; what is not remembered is left out."""
        memory = {f"memory{i}": one for i, one in enumerate(self.memory) if one is not None}
        return {"row": self.row, **{f"sparsity{i}": one for i, one in enumerate(self.sparsity)}, **memory}

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], like: Duals) -> Duals:
        """What :meth:`arrays` gave; arrays of other rows than those of ``like`` are refused.

        What solvers remember may be of any length, since a Hessian that does not fit is dropped.
        """
        memory = [f"memory{i}" for i in range(len(like.memory))]
        table = {name: ArrayOf(np.float64, one.shape) for name, one in replace(like, memory=()).arrays().items()}
        table.update({name: ArrayOf(np.float64, (f"numbers in {name}",)) for name in memory if name in arrays})
        checked = check_arrays(table, arrays)
        blocks = tuple(checked[f"sparsity{i}"] for i in range(len(like.sparsity)))
        return cls(checked["row"], blocks, tuple(checked.get(name) for name in memory))

    def size(self) -> float:
        """Σ |λ|."""
        return float(np.abs(self.row).sum()) + sum(float(np.abs(lam).sum()) for lam in self.sparsity)

    def means_by_name(self, rows: Rows) -> dict[str, float]:
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
class KeyDuals:
    """Dual variables of few dual steps on one l1/linf block, and what the steps remember.

    theta : (n_rows, width) λ/γ, in single precision where that is enough;  level : (n_keys, width) thresholds
    speed : of the steps;  gamma : at which θ was found
    """

    theta: NDArray[Any]
    level: NDArray[Any]
    speed: float
    gamma: float

    def arrays(self) -> dict[str, NDArray[Any]]:
        return {"theta": self.theta, "level": self.level, "steps": np.array([self.speed, self.gamma])}

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], like: KeyDuals) -> KeyDuals:
        """What :meth:`arrays` gave; arrays of other rows or keys than those of ``like`` are refused."""
        single = all(name in arrays and arrays[name].dtype == np.float32 for name in ("theta", "level"))
        kind = np.float32 if single else np.float64
        table = {
            "theta": ArrayOf(kind, like.theta.shape, low=0.0), "level": ArrayOf(kind, like.level.shape),
            "steps": ArrayOf(np.float64, (2,), low=1e-12, high=1e12),
        }  # fmt: skip
        checked = check_arrays(table, arrays)
        return cls(checked["theta"], checked["level"], *checked["steps"].tolist())

    def size(self) -> float:
        """Σ |λ|."""
        return float(np.abs(self.theta).sum())


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
    duals: Any
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
