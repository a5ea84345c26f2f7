"""The dual of everything that couples instances, as a function of one vector, and how it is minimised.

    minimise  F(θ) = b·θ + Σ_shards value(θ) + Σ_groups g(θ_group)      θ = λ/γ; value is minimal in the local duals

The vector holds θ of the coupling rows (divided by their scale, see :class:`ScaledRows`) and then the dual variables of
the l1/linf blocks. An evaluation is one pass over the shards; local rows are solved inside it. The solver is the one
that instances use: quasi-Newton while its matrix is small, else spectral proximal steps.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.projection.kernels import solver
from trellis.projection.kernels.groups import LINF, PENALTY, natural_residual
from trellis.projection.local import GroupTable, ScaledRows
from trellis.projection.work import Evaluated

Pass = Callable[[tuple[FloatArray, list[FloatArray]], bool], Iterable[Evaluated]]
"""(θ, l1/linf duals), and whether covariances are wanted -> what each shard gives, in order."""


@dataclass(frozen=True)
class CoupledSolution:
    """The dual point found, the natural residual ‖θ − prox(θ − ∇f)‖∞ there and the row where it is largest."""

    theta: FloatArray
    residual: float
    evaluations: int
    converged: bool
    worst: int = 0


class CorpusDual:
    """The coupling dual of one E-step at one γ.

    cuts : of each l1/linf block, (n_shards + 1,) the occurrences that belong to each shard
    """

    def __init__(
        self, rows: Rows, coupling: ScaledRows, cuts: list[IntArray], gamma: float, evaluate_shards: Pass
    ) -> None:
        self.blocks, self.coupling, self.cuts = rows.sparsity, coupling, cuts
        self.evaluate_shards = evaluate_shards
        self.n = len(coupling.rows)
        self.ends = np.cumsum([self.n, *(len(block) * block.width for block in self.blocks)])
        self.scale = np.ones(int(self.ends[-1]))
        self.scale[: self.n] = coupling.scale
        self.order, self.table = self._by_group(gamma)

    def smallest_price(self) -> float:
        """Of the rows and blocks that have one, in the units of the dual variables; ∞ where none has."""
        prices = self.table.amount[(self.table.kind == PENALTY) & (self.table.amount > 0.0)]
        return float(np.min(prices, initial=np.inf))

    def pack(self, theta: FloatArray, lams: list[FloatArray]) -> FloatArray:
        return np.concatenate([theta * self.coupling.scale, *(lam.reshape(-1) for lam in lams)])

    def unpack(self, point: FloatArray) -> tuple[FloatArray, list[FloatArray]]:
        """θ of the rows as given, and the (n, width) arrays of the blocks (views)."""
        return point[: self.n] / self.coupling.scale, self._block_views(point)

    def _block_views(self, point: FloatArray) -> list[FloatArray]:
        cut = zip(self.blocks, self.ends[:-1], self.ends[1:], strict=True)
        return [point[a:b].reshape(-1, block.width) for block, a, b in cut]

    def evaluate(self, point: FloatArray, curvature: bool = False) -> tuple[float, FloatArray, FloatArray]:
        """f, ∇f, and with ``curvature`` the covariance of the coupling rows."""
        value, expected = float(self.coupling.rows.bound @ point[: self.n]), np.zeros(self.n)
        gradient, covariance = np.empty_like(point), np.zeros((self.n, self.n) if curvature else (0, 0))
        targets = self._block_views(gradient)
        for number, answer in enumerate(self.evaluate_shards(self.unpack(point), curvature)):
            value += answer.value
            expected += answer.coupling
            if answer.covariance is not None:
                covariance += answer.covariance
            for target, at, marginals in zip(targets, self.cuts, answer.sparsity, strict=True):
                np.negative(marginals, out=target[at[number] : at[number + 1]])
        gradient[: self.n] = self.coupling.rows.bound - expected / self.coupling.scale
        return value, gradient, covariance

    def solve(self, start: FloatArray, limit: float, tolerance: float, most_evaluations: int) -> CoupledSolution:
        """Reverse communication with the compiled solver, in an order in which groups stand together."""
        order, t, n = self.order, self.table, len(start)
        dense = n <= solver.MOST_ROWS_WITH_HESSIAN
        trial = start[order]
        integers, floats = np.zeros(solver.N_INTEGERS, np.int64), np.zeros(solver.N_FLOATS)
        vectors, recent = np.zeros((solver.N_VECTORS, n)), np.zeros(solver.MEMORY)
        vectors[solver.REACH], vectors[solver.SCALE] = 1.0, self.scale[order]
        hessian = np.zeros((n, n) if dense else (0, 0))
        groups = (t.equality, t.start, t.kind, t.norm, t.amount)
        solver.begin(trial, *groups, integers, floats, vectors, recent)
        floats[solver.LIMIT] = limit
        if not dense:
            integers[solver.METHOD], floats[solver.SPECTRAL] = solver.SPECTRAL_STEP, self._first_step()
        point, slope = np.empty(n), np.empty(n)
        best, best_point, best_slope = np.inf, trial.copy(), np.zeros(n)
        action = solver.EVALUATE
        while action == solver.EVALUATE:
            point[order] = trial
            anew = bool(dense and integers[solver.N_EVALUATIONS] % solver.PATIENCE == 0)
            value, gradient, covariance = self.evaluate(point, anew)
            if anew:
                hessian[:] = self._curvature(covariance)[np.ix_(order, order)]
                hessian[np.diag_indices(n)] = np.maximum(np.diag(hessian), 1e-12)
            np.take(gradient, order, out=slope, mode="clip")
            action = solver.advance(
                trial, value, slope, *groups, hessian, integers, floats, vectors, recent, tolerance,
                most_evaluations,
            )  # fmt: skip
            if floats[solver.VALUE] < best:
                best, best_point[:], best_slope[:] = (
                    float(floats[solver.VALUE]),
                    vectors[solver.X],
                    vectors[solver.GRADIENT],
                )
        found, slope = vectors[solver.X], vectors[solver.GRADIENT]
        if action != solver.CONVERGED and best < floats[solver.VALUE]:  # spectral steps may rise for a while
            found, slope = best_point, best_slope
        work = np.empty(n)
        residual = float(natural_residual(found, slope, vectors[solver.SCALE], *groups, work))
        worst = int(order[int(np.argmax(np.abs(found - work)))]) if n else 0
        point[order] = found
        evaluations = int(integers[solver.N_EVALUATIONS])
        return CoupledSolution(point, residual, evaluations, residual <= tolerance, worst)

    def _first_step(self) -> float:
        """A row over many places varies by about the sum of its squared coefficients, shared among alternatives."""
        rows = self.coupling.rows
        squares = np.bincount(rows.entry_row, rows.coefficient**2, minlength=len(rows))
        return 1.0 / max(1.0, float(np.max(squares, initial=0.0)) / 2.0)

    def _by_group(self, gamma: float) -> tuple[IntArray, GroupTable]:
        """An order of the variables in which groups stand together, and all groups in it."""
        t = GroupTable.of(self.coupling.rows, gamma)
        order, sizes, amounts = [np.arange(self.n)], [np.diff(t.start)], [t.amount]
        for block, first in zip(self.blocks, self.ends[:-1], strict=True):
            group = (block.key[:, None] * block.width + np.arange(block.width)).reshape(-1)
            order.append(first + np.argsort(group, kind="stable"))
            counts = np.bincount(group, minlength=block.n_keys * block.width)
            sizes.append(counts[counts > 0])
            amounts.append(np.full(int(np.count_nonzero(counts)), block.strength / gamma))
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

    def _curvature(self, covariance: FloatArray) -> FloatArray:
        """The Hessian as if places were independent, blocks and rows too: a start for quasi-Newton updates."""
        total = np.diag(np.full(len(self.scale), 0.2))
        total[: self.n, : self.n] = covariance / np.outer(self.coupling.scale, self.coupling.scale)
        return total
