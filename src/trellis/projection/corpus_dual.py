"""The dual of everything that couples instances, as a function of one vector, and how it is minimised.

    minimise  F(θ) = b·θ + Σ_shards value(θ) + Σ_groups g(θ_group)      θ = λ/γ; value is minimal in the local duals

The vector holds θ of the coupling rows (divided by their scale, see :class:`ScaledRows`) and then the dual variables of
the l1/linf blocks. An evaluation is one pass over the shards; local rows are solved inside it. The solver is the one
that instances use: quasi-Newton while its matrix is small, else spectral proximal steps.

A pass over the shards is pure work, which any process can do:  work(parameters, item, state) -> (result, new state).
The state is where the solver of the shard's local rows ended, λ and curvature; λ = γθ, so that it serves any γ.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import InfeasibleError
from trellis.projection.kernels import solver
from trellis.projection.kernels.groups import KL, LINF, PENALTY, natural_residual
from trellis.projection.local import GroupTable, LocalState, ScaledRows, SolverOptions
from trellis.projection.shard import ProjectionItem, ShardAnswer
from trellis.structures.structure import Structure

MOST_WITH_TARGETS = 600
"""Rows up to which the Hessian is a matrix where some have divergences: curvatures differ too much for plain steps."""


@dataclass(frozen=True)
class ProjectionRequest:
    """What one pass asks of every shard.

    scores_of : scores from a shard's data;  theta : (n_coupling,) duals of the coupling rows
    curvature : whether the covariance of the coupling rows is wanted
    """

    scores_of: Callable[[Any], Structure]
    asked: SolverOptions
    theta: FloatArray
    curvature: bool = False

    def of(
        self, item: ProjectionItem, state: LocalState, at: IntArray | None = None
    ) -> tuple[Structure, LocalState, SolverOptions]:
        """A shard's scores, where its solver starts, and what it is asked."""
        start = LocalState(state.theta / self.asked.gamma, state.curvature)
        return self.scores_of(item.data), start, replace(self.asked, weights=item.weights, at=at)

    def moved(self, theta: FloatArray, curvature: bool = False) -> ProjectionRequest:
        return replace(self, theta=theta, curvature=curvature)


@dataclass(frozen=True)
class Finish:
    """The last pass: ``then`` makes of each shard's posterior what the caller wants; ``at`` says of which parts."""

    ask: ProjectionRequest
    then: Callable[[ProjectionItem, ShardAnswer], Any]
    at: Callable[[ProjectionItem], IntArray] | None


@dataclass(frozen=True)
class Evaluated:
    """What the corpus dual needs of a shard; see :class:`ShardAnswer`."""

    value: float
    coupling: FloatArray
    sparsity: tuple[FloatArray, ...]
    covariance: FloatArray | None


@dataclass(frozen=True)
class Finished:
    """What the corpus keeps of a shard's last evaluation; worst : the instance with the largest residual."""

    value: float
    residual: float
    worst: int
    evaluations: int


@contextmanager
def explaining(scores: Structure, rows: Rows) -> Iterator[None]:
    """Raise a better error if constraints, and not the model alone, leave an instance of the shard without output."""
    try:
        yield
    except InfeasibleError as error:
        from trellis.projection.diagnosis import refuse_conflict  # scipy.sparse with it: 10 MB, seldom needed

        for number in error.instances:
            i = number - scores.first
            if 0 <= i < len(scores):
                refuse_conflict([scores.instances(i, i + 1)], rows.shard(i, i + 1).local())
        raise


def evaluate(
    ask: ProjectionRequest, item: ProjectionItem, state: LocalState, blocks: tuple[FloatArray, ...]
) -> tuple[Evaluated, LocalState]:
    """Value and gradient of a shard at coupling and l1/linf duals, the local rows solved."""
    scores, start, own = ask.of(item, state)
    with explaining(scores, item.rows.rows):
        answer = item.rows.evaluate(scores, ask.theta, blocks, start, own)
    wanted = ask.curvature and len(item.rows.coupling)
    covariance = item.rows.coupling_covariance(answer, item.weights) if wanted else None
    return Evaluated(answer.value, answer.coupling, answer.sparsity, covariance), _kept(answer.state, ask.asked.gamma)


def finish(
    asked: Finish, item: ProjectionItem, state: LocalState, blocks: tuple[FloatArray, ...]
) -> tuple[tuple[Any, Finished], LocalState]:
    """The shard's posterior at the solution, handed on."""
    gamma = asked.ask.asked.gamma
    scores, start, own = asked.ask.of(item, state, None if asked.at is None else asked.at(item))
    with explaining(scores, item.rows.rows):
        answer = item.rows.evaluate(scores, asked.ask.theta, blocks, start, own)
    local, end = answer.local, Finished(answer.value, 0.0, -1, 0)
    kept = answer.state
    if local is not None and len(local.residual):
        worst = int(np.argmax(local.residual))
        end = Finished(answer.value, float(local.residual[worst]), worst, int(local.evaluations.sum()))
        kept = LocalState(local.theta, kept.curvature)
    return (asked.then(item, answer), end), _kept(kept, gamma)


def _kept(state: LocalState, gamma: float) -> LocalState:
    return LocalState(state.theta * gamma, state.curvature)


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
        self.reach = np.ones(len(self.scale))
        kl = np.flatnonzero(coupling.rows.groups.kind[coupling.rows.group] == KL)
        self.reach[kl] = coupling.rows.largest[kl]  # divided by their targets, not by their largest coefficients
        self.order, self.table = self._by_group(gamma)

    def smallest_price(self) -> float:
        """Of the rows and blocks that have one, in the units of the dual variables; ∞ where none has."""
        prices = self.table.amount[np.isin(self.table.kind, (PENALTY, KL)) & (self.table.amount > 0.0)]
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
        dense = n <= (MOST_WITH_TARGETS if np.any(t.kind == KL) else solver.MOST_ROWS_WITH_HESSIAN)
        trial = start[order]
        integers, floats = np.zeros(solver.N_INTEGERS, np.int64), np.zeros(solver.N_FLOATS)
        vectors, recent = np.zeros((solver.N_VECTORS, n)), np.zeros(solver.MEMORY)
        vectors[solver.REACH], vectors[solver.SCALE] = self.reach[order], self.scale[order]
        hessian = np.zeros((n, n) if dense else (0, 0))
        groups = (t.equality, t.start, t.kind, t.norm, t.amount)
        solver.begin(trial, *groups, integers, floats, vectors, recent)
        floats[solver.LIMIT] = limit
        if dense:
            integers[solver.LIMITED] = 0
        else:
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
