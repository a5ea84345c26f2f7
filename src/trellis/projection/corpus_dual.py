"""The dual of everything that couples instances, as a function of one vector, and how it is minimised.

The vector holds θ of the coupling rows (divided by their scale, see :class:`ScaledRows`) and then the dual variables of
the l1/linf blocks. An evaluation is one pass over the shards; local rows are solved inside it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine import Engine, Shard
from trellis.projection.coupling import CoupledSolution, solve_bfgs, solve_spectral
from trellis.projection.kernels.groups import LINF, PENALTY, prox_all, value_all
from trellis.projection.kernels.simplex import project_groups
from trellis.projection.kernels.solver import MOST_ROWS_WITH_HESSIAN
from trellis.projection.local import GroupTable, ScaledRows
from trellis.projection.shard import ShardAnswer, ShardRows

EvaluateShard = Callable[[int, FloatArray, tuple[FloatArray, ...], bool], ShardAnswer]


@dataclass(frozen=True)
class SparsityLayout:
    """Where the dual variables of one l1/linf block go.

    cuts : (n_shards + 1,) rows of the (n, K) array that belong to each shard
    order, key_start : rows by key, and the first of each key, for the projection onto simplices
    """

    cuts: IntArray
    order: IntArray
    key_start: IntArray


class CorpusDual:
    """The coupling dual of one E-step at one γ."""

    def __init__(
        self,
        rows: Rows,
        coupling: ScaledRows,
        layouts: list[SparsityLayout],
        shard_rows: list[ShardRows],
        shards: list[Shard],
        evaluate_shard: EvaluateShard,
        gamma: float,
        weights: FloatArray | None,
        engine: Engine,
    ) -> None:
        self.blocks, self.coupling, self.layouts = rows.sparsity, coupling, layouts
        self.shard_rows, self.shards, self.evaluate_shard = shard_rows, shards, evaluate_shard
        self.gamma, self.weights, self.engine = gamma, weights, engine
        self.n, self.n_labels = len(coupling.rows), rows.parts.n_labels
        self.table = GroupTable.of(coupling.rows, gamma)
        self.ends = np.cumsum([self.n, *(len(block.slots) * self.n_labels for block in self.blocks)])
        self.scale = np.ones(int(self.ends[-1]))
        self.scale[: self.n] = coupling.scale
        self._answers: dict[int, ShardAnswer] = {}

    def pack(self, theta: FloatArray, lams: list[FloatArray]) -> FloatArray:
        return np.concatenate([theta * self.coupling.scale, *(lam.reshape(-1) for lam in lams)])

    def unpack(self, point: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """θ of the rows as given, and the (n, K) arrays of the blocks (views)."""
        return point[: self.n] / self.coupling.scale, self._block_views(point)

    def _block_views(self, point: FloatArray) -> list[FloatArray]:
        cut = zip(self.ends[:-1], self.ends[1:], strict=True)
        return [point[a:b].reshape(-1, self.n_labels) for a, b in cut]

    def cut(self, lams: list[FloatArray], number: int) -> tuple[FloatArray, ...]:
        """The part of each block that belongs to one shard."""
        return tuple(lam[at.cuts[number] : at.cuts[number + 1]] for lam, at in zip(lams, self.layouts, strict=True))

    def evaluate(self, point: FloatArray) -> tuple[float, FloatArray]:
        """f and ∇f."""
        theta, lams = self.unpack(point)
        value, expected = float(self.coupling.rows.bound @ point[: self.n]), np.zeros(self.n)
        gradient = np.empty_like(point)
        targets = self._block_views(gradient)

        def one(shard: Shard) -> ShardAnswer:
            return self.evaluate_shard(shard.index, theta, self.cut(lams, shard.index), False)

        for number, answer in enumerate(self.engine.map(one, self.shards)):
            if self.n:
                self._answers[number] = answer
            value += answer.value
            expected += answer.coupling
            for target, at, marginals in zip(targets, self.layouts, answer.sparsity, strict=True):
                np.negative(marginals, out=target[at.cuts[number] : at.cuts[number + 1]])
        gradient[: self.n] = self.coupling.rows.bound - expected / self.coupling.scale
        return value, gradient

    def prox(self, point: FloatArray, step: float) -> FloatArray:
        """argmin_θ step · g(θ) + ½ ‖θ − point‖²."""
        moved = np.array(point)
        t = self.table
        prox_all(moved[: self.n], t.equality, t.start, t.kind, t.norm, t.amount, step)
        for block, lam, at in zip(self.blocks, self._block_views(moved), self.layouts, strict=True):
            project_groups(lam, at.order, at.key_start, block.strength / self.gamma)
        return moved

    def penalty(self, point: FloatArray) -> float:
        """g where it is finite."""
        t = self.table
        return float(value_all(point[: self.n], t.start, t.kind, t.norm, t.amount))

    def solve(self, start: FloatArray, limit: float, tolerance: float, most_rounds: int) -> CoupledSolution:
        """Quasi-Newton while its matrix is small, else spectral proximal gradient."""
        if len(start) > MOST_ROWS_WITH_HESSIAN:
            squares = np.concatenate(([0.0], np.cumsum(self.coupling.rows.coefficient**2)))
            # A row over many slots varies by about the sum of its squared coefficients, shared among the labels.
            spread = np.diff(squares[self.coupling.rows.start]) / max(self.n_labels, 2)
            first_step = 1.0 / max(1.0, float(np.max(spread, initial=0.0)))
            return solve_spectral(
                self.evaluate, start, self.prox, self.penalty, self.scale, tolerance, most_rounds, first_step
            )
        order, table = self._by_group()
        back = np.argsort(order)

        def evaluate(point: FloatArray) -> tuple[float, FloatArray]:
            value, gradient = self.evaluate(point[back])
            return value, gradient[order]

        def curvature() -> FloatArray:
            return self._curvature()[np.ix_(order, order)]

        found = solve_bfgs(evaluate, start[order], table, self.scale[order], limit, curvature, tolerance, most_rounds)
        return CoupledSolution(
            found.theta[back], found.value, found.residual, found.evaluations, found.converged, int(order[found.worst])
        )

    def _by_group(self) -> tuple[IntArray, GroupTable]:
        """An order of the variables in which groups stand together, and all groups in it."""
        t, k = self.table, self.n_labels
        order, sizes, amounts = [np.arange(self.n)], [np.diff(t.start)], [t.amount]
        for block, first in zip(self.blocks, self.ends[:-1], strict=True):
            group = (block.key[:, None] * k + np.arange(k)).reshape(-1)
            order.append(first + np.argsort(group, kind="stable"))
            counts = np.bincount(group, minlength=block.n_keys * k)
            sizes.append(counts[counts > 0])
            amounts.append(np.full(int(np.count_nonzero(counts)), block.strength / self.gamma))
        n_groups = sum(len(a) for a in amounts[1:])
        n_more = len(self.scale) - self.n
        table = GroupTable(
            start=np.concatenate(([0], np.cumsum(np.concatenate(sizes)))).astype(np.int64),
            kind=np.concatenate([t.kind, np.full(n_groups, PENALTY, np.int8)]),
            norm=np.concatenate([t.norm, np.full(n_groups, LINF, np.int8)]),
            amount=np.concatenate(amounts),
            equality=np.concatenate([t.equality, np.zeros(n_more, np.bool_)]),
        )
        return np.concatenate(order).astype(np.int64), table

    def _curvature(self) -> FloatArray:
        """The Hessian as if slots were independent, blocks and rows too: a start for quasi-Newton updates."""
        total = np.zeros((len(self.scale), len(self.scale)))
        if self.n:
            for shard in self.shards:
                mine = None
                if self.weights is not None:
                    mine = self.weights[shard.instances.start : shard.instances.stop]
                answer = self._answers[shard.index]
                total[: self.n, : self.n] += self.shard_rows[shard.index].coupling_covariance(answer, mine)
            total[: self.n, : self.n] /= np.outer(self.coupling.scale, self.coupling.scale)
        for at in range(self.n, len(self.scale)):
            total[at, at] = 0.2
        return total
