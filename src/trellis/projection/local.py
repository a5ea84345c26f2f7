"""Rows that name parts of one instance: each instance's own small dual problem, all of a shard solved together.

    value_i = min_θ  log Z_i(θ) + b·θ + g(θ),      q_i(y) ∝ p_i(y) exp(−θ·φ(y)),   θ = λ / γ

(p here is already raised to the power 1/γ.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import ConstraintError
from trellis.projection.kernels import solver
from trellis.projection.kernels.solver import FULL_HESSIAN_ROWS

PRICED = (Kind.PENALTY, Kind.SQUARED, Kind.KL)


@dataclass(frozen=True)
class GroupTable:
    """Norm groups in the order of rows, amounts in the units of θ = λ / γ.

    start : (n_groups + 1,) rows of each group
    """

    start: IntArray
    kind: NDArray[np.int8]
    norm: NDArray[np.int8]
    amount: FloatArray
    equality: BoolArray

    @classmethod
    def of(cls, rows: Rows, gamma: float) -> GroupTable:
        """The groups of rows that stand together by group."""
        changes = np.flatnonzero(np.diff(rows.group)) + 1
        start = np.concatenate(([0], changes, [len(rows)])).astype(np.int64) if len(rows) else np.zeros(1, np.int64)
        numbers = rows.group[start[:-1]]
        kind, norm, amount = rows.groups.kind[numbers], rows.groups.norm[numbers], rows.groups.amount[numbers]
        if np.any(kind == Kind.LEARNED):
            row = int(start[np.flatnonzero(kind == Kind.LEARNED)[0]])
            raise ConstraintError(
                f"constraint {rows.names[rows.constraint[row]]!r} has a penalty still to be learned: "
                "train it on labelled data first, or give it a strength"
            )
        return cls(start, kind, norm, np.where(np.isin(kind, PRICED), amount / gamma, amount), rows.equality)

    def values(self, theta: FloatArray) -> FloatArray:
        """(n_groups,): g(θ) of each group, of scaled rows."""
        if not len(self.kind):
            return np.zeros(0)
        size = np.abs(theta)
        one = np.add.reduceat(size, self.start[:-1])
        two = np.sqrt(np.add.reduceat(size**2, self.start[:-1]))
        largest = np.maximum.reduceat(size, self.start[:-1])
        dual = np.select([self.norm == Norm.L1, self.norm == Norm.L2], [largest, two], one)
        square = two**2 / (2 * np.where(self.amount > 0, self.amount, 1.0))
        found: FloatArray = np.select(
            [self.kind == Kind.SLACK, self.kind == Kind.SQUARED], [self.amount * dual, square], 0.0
        )
        if np.any(kl := self.kind == Kind.KL):
            most, own = self.amount[kl], theta[self.start[:-1][kl]]
            with np.errstate(divide="ignore"):
                found[kl] = -most * np.log(np.maximum(1.0 - own / most, 0.0)) - own
        return found


@dataclass(frozen=True)
class ScaledRows:
    """Rows divided by the largest coefficient of their norm group, so that solvers see coefficients of about 1.

    With φ' = φ/s and b' = b/s, θ' = s·θ: a slack ε is ε/s, a price σ is σ·s, a squared one σ·s². A row with a
    divergence is divided by its target, so that the price σ·s says all of it.
    scale : (n_rows,) s of each row
    """

    rows: Rows
    scale: FloatArray

    @classmethod
    def of(cls, rows: Rows) -> ScaledRows:
        largest = np.zeros(len(rows.groups))
        kind, amount = rows.groups.kind, rows.groups.amount
        np.maximum.at(largest, rows.group, np.where(kind[rows.group] == Kind.KL, rows.bound, rows.largest))
        kind = np.where((kind == Kind.KL) & (largest <= 0.0), np.int8(Kind.PENALTY), kind)  # D(0 ‖ E) = E
        s = np.where(largest > 0, largest, 1.0)
        power = np.select([kind == Kind.SLACK, kind == Kind.SQUARED, np.isin(kind, PRICED)], [-1.0, 2.0, 1.0], 0.0)
        scale = s[rows.group]
        plain = bool(np.all(scale == 1.0))
        scaled = replace(
            rows,
            coefficient=rows.coefficient if plain else rows.coefficient / np.repeat(scale, np.diff(rows.start)),
            bound=rows.bound / scale,
            groups=Groups(kind, rows.groups.norm, amount * s**power),
        )
        return cls(scaled, scale)

    @cached_property
    def instance_rows(self) -> IntArray:
        """(n_instances + 1,): rows of each instance."""
        return np.searchsorted(self.rows.instance, np.arange(self.rows.parts.n_instances + 1)).astype(np.int64)

    @cached_property
    def curvature_start(self) -> IntArray:
        """(n_instances + 1,): where the Hessian of each instance is kept; too large ones are not."""
        n_rows = np.diff(self.instance_rows)
        return offsets_of(np.where(n_rows <= FULL_HESSIAN_ROWS, n_rows**2, 0))

    def instance_groups(self, table: GroupTable) -> IntArray:
        """(n_instances + 1,): groups of each instance."""
        firsts = self.rows.instance[table.start[:-1]]
        return np.searchsorted(firsts, np.arange(self.rows.parts.n_instances + 1)).astype(np.int64)

    def values(self, log_partition: FloatArray, theta: FloatArray, table: GroupTable) -> FloatArray:
        """(n_instances,): log Z + b·θ + g(θ), for θ of the scaled rows."""
        n, rows = len(log_partition), self.rows
        value = log_partition + np.bincount(rows.instance, rows.bound * theta, minlength=n)
        return np.asarray(value + np.bincount(rows.instance[table.start[:-1]], table.values(theta), minlength=n))


@dataclass(frozen=True)
class Entries:
    """Where the entries of rows lie, inside their instances.

    start : (n_instances + 1,) entries of each instance
    instance, local : (n_entries,) of each entry's part
    part_rank, place_rank : (n_entries,) numbers of part and place among those that the instance's rows name
    n_ranks : (n_instances, 2) how many parts and places that are
    """

    start: IntArray
    instance: IntArray
    local: IntArray
    part_rank: IntArray
    place_rank: IntArray
    n_ranks: IntArray

    @classmethod
    def of(cls, scaled: ScaledRows) -> Entries:
        rows = scaled.rows
        instance, local = rows.parts.split(rows.part)
        n, ranks, sizes = rows.parts.n_instances, [], []
        for numbers in (rows.part, rows.parts.place_of(rows.part)):
            largest = int(numbers.max(initial=0)) + 1
            seen, rank = np.unique(instance * np.int64(largest) + numbers, return_inverse=True)
            first = np.searchsorted(seen, np.arange(n + 1) * np.int64(largest))
            ranks.append(rank - first[instance])
            sizes.append(np.diff(first))
        start = rows.start[scaled.instance_rows]
        return cls(start, instance, local, ranks[0], ranks[1], np.stack(sizes, axis=1).astype(np.int64))


class LocalRows:
    """The rows of instances, taken apart once for all rounds.

    layout : what a fast path has made of them, for it to find again
    """

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.scaled = ScaledRows.of(rows)
        self.layout: Any = None

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def entries(self) -> Entries:
        return Entries.of(self.scaled)


@dataclass(frozen=True)
class SolverOptions:
    """What is asked of every evaluation of a shard.

    weights : (n_instances,) or None;  at : parts whose marginals will be asked of the posterior
    generic : whether fast paths are left aside
    """

    gamma: float
    weights: FloatArray | None
    tolerance: float
    most_evaluations: int
    at: IntArray | None = None
    generic: bool = False


@dataclass(frozen=True)
class LocalState:
    """Where the solver of a shard's local rows starts: its last answer.

    theta : (n_rows,) of the rows as given;  curvature : Hessians, None: estimate them
    """

    theta: FloatArray
    curvature: FloatArray | None = None


@dataclass(frozen=True)
class LocalSolution:
    """What a solver found for each instance.

    theta : (n_rows,) of the rows as given, not as scaled
    curvature : the solver's Hessians, to start from when the model has changed a little
    residual, evaluations, ending, value : (n_instances,)
    value = min_θ f + g, so that −γ · value is the E-step's optimum
    pull : gives the change of scores that the rows make, where θ does not tell because rows were implicit
    """

    posterior: Any
    theta: FloatArray
    curvature: FloatArray
    residual: FloatArray
    evaluations: IntArray
    ending: IntArray
    value: FloatArray
    pull: Callable[[], Any] | None = None

    def reliable_start(self, rows: Rows) -> LocalState:
        """Where to start next time: at nothing for instances whose solver ended somewhere else."""
        lost = self.ending != solver.CONVERGED
        if not np.any(lost) or not len(rows):
            return LocalState(self.theta, self.curvature)
        n_rows = np.bincount(rows.instance, minlength=len(lost))
        kept = np.where(n_rows <= FULL_HESSIAN_ROWS, n_rows**2, 0)
        return LocalState(
            np.where(lost[rows.instance], 0.0, self.theta), np.where(np.repeat(lost, kept), 0.0, self.curvature)
        )
