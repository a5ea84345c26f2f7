"""The E-step of every learner: the nearest distribution that satisfies the constraints.

    q = argmin_q Σ γ q log q − q·score   s.t. E_q[φ] − b ≤ ξ, slack bounded or priced     (Samdani et al. 2012, eq. 8)
    q(y) ∝ exp((score(y) − λ·φ(y)) / γ)                                                    (Ganchev et al. 2010, eq. 7)
    dual:  max_λ  −b·λ − γ log Σ_y exp((score(y) − λ·φ(y))/γ) − g(λ)                       (eq. 8)

The solvers work in θ = λ/γ, where γ is gone but from the prices: a price σ is σ/γ there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import Rows, check_same_parts
from trellis.data.batch import Batch
from trellis.data.on_demand import OnDemand
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.engine import Engine, SerialEngine, Shard
from trellis.engine.compiling import compile_ahead
from trellis.errors import ConstraintError, ConvergenceWarning
from trellis.projection.corpus_dual import (
    CorpusDual,
    CoupledSolution,
    Finish,
    Finished,
    ProjectionRequest,
    evaluate,
    finish,
)
from trellis.projection.duals import CorpusProjection, Duals, put
from trellis.projection.local import GroupTable, LocalState, ScaledRows, SolverOptions
from trellis.projection.shard import PATIENT, ProjectionItem, ShardAnswer, ShardRows
from trellis.structures.structure import Structure, check_gamma

T = TypeVar("T")

SMALL = 20_000
"""Slots and rows of a corpus below which fast paths save less in all rounds than their kernels take to compile."""
OF_PRICE = 0.01
"""Share of the smallest price below which a residual is small."""


class Projector:
    """Rows compiled for a corpus, placed on an engine with its data, ready to be projected onto round after round.

    rows : over the whole corpus;  bounds : (n_shards + 1,) first instances of the shards
    data : what the scores of each shard are made of, its number where nothing is given;  weights : (n_instances,)
    tolerance : of the KKT residual, in units of expectations (relative to the bound where that exceeds 1)
    generic : leave fast paths aside
    shard_rows : rows of each shard, which are local, where ``rows`` are their heads alone and they are made on demand
    """

    def __init__(
        self,
        rows: Rows,
        bounds: IntArray | None = None,
        *,
        data: Sequence[Any] | None = None,
        weights: FloatArray | None = None,
        engine: Engine | None = None,
        tolerance: float = 1e-3,
        max_evaluations: int = 200,
        max_rounds: int = 200,
        generic: bool = False,
        shard_rows: Sequence[ShardRows] | None = None,
    ) -> None:
        for one in rows.checks:
            raise ConstraintError(
                f"{rows.names[one.constraint]!r} is a Python function, which has no expectation to project onto: learn "
                "with CoDL, CCM or a margin learner, which search for single outputs"
            )
        self.rows, self.generic = rows.canonical(), generic
        self.bounds = np.array([0, rows.parts.n_instances]) if bounds is None else bounds
        self.weights, self.tolerance = weights, tolerance
        self.max_evaluations = max_evaluations
        self.max_rounds = max_rounds
        cuts = list(zip(self.bounds[:-1].tolist(), self.bounds[1:].tolist(), strict=True))
        shards = [
            Shard(i, range(a, b), getattr(data[i], "first", a) - a if data else 0) for i, (a, b) in enumerate(cuts)
        ]

        def item(i: int) -> ProjectionItem:
            a, b = cuts[i]
            own = None if weights is None else weights[a:b]
            mine = ShardRows(self.rows.shard(a, b)) if shard_rows is None else shard_rows[i]
            return ProjectionItem(i if data is None else data[i], mine, own)

        self.items: Sequence[ProjectionItem] = OnDemand(len(cuts), item)
        if shard_rows is None and (not isinstance(data, OnDemand) or len(self.rows) or self.rows.sparsity):
            self.items = list(self.items)  # rows are taken apart once for all rounds
        self.engine = SerialEngine() if engine is None else engine
        self.placed = self.engine.place(self.items, shards)
        self.coupling = self.rows.coupling()
        self.local_start = np.searchsorted(self.rows.instance[: self.rows.n_local], self.bounds)
        self.scaled = ScaledRows.of(self.coupling)
        self.cuts = [
            np.cumsum([0, *(len(item.rows.sparsity[number]) for item in self.items)])
            for number in range(len(self.rows.sparsity))
        ]
        """Of each l1/linf block, (n_shards + 1,) the occurrences that belong to each shard."""
        self._left: Duals | None = None

    @classmethod
    def of_batches(
        cls,
        rows: Rows,
        batches: Sequence[Batch],
        engine: Engine,
        *,
        tolerance: float,
        max_evaluations: int,
        shard_rows: Sequence[ShardRows] | None = None,
    ) -> Projector:
        """Rows over a corpus whose shards are these batches, by the way that suits its size."""
        generic = not rows.implicit and max(len(rows), sum(batch.n_slots for batch in batches)) < SMALL
        if len(rows) and not generic:
            compile_ahead(f"fast-{rows.parts.kind}")
        return cls(
            rows, np.cumsum([0, *map(len, batches)]), data=batches,
            weights=np.concatenate([np.zeros(0), *(batch.weights for batch in batches)]), engine=engine,
            tolerance=tolerance, max_evaluations=max_evaluations, max_rounds=max_evaluations, generic=generic,
            shard_rows=shard_rows,
        )  # fmt: skip

    @property
    def couples(self) -> bool:
        """Whether any row or l1/linf block ties instances together."""
        return len(self.coupling) > 0 or any(len(block) for block in self.rows.sparsity)

    def no_duals(self) -> Duals:
        """λ = 0 everywhere."""
        blocks = tuple(np.zeros((len(block), block.width)) for block in self.rows.sparsity)
        return Duals(np.zeros(len(self.rows)), blocks, (None,) * len(self.items))

    def read_duals(self, arrays: Mapping[str, NDArray[Any]]) -> Duals:
        """Duals of a checkpoint, if they are of these rows and shards."""
        return Duals.read(arrays, self.no_duals())

    def run(
        self,
        scores_of: Callable[[Any], Structure],
        gamma: float = 1.0,
        *,
        then: Callable[[ProjectionItem, ShardAnswer], T],
        duals: Duals | None = None,
        at: Callable[[ProjectionItem], IntArray] | None = None,
        warn: bool = True,
        fold: Callable[[T, T], T] | None = None,
        held: bool = False,
    ) -> CorpusProjection[T]:
        """Project all shards; ``then(item, answer)`` is called on each shard's posterior at the solution.

        scores_of : scores of a shard from its data. On a cluster this, ``then`` and ``at`` go to the workers
        fold : adds results up while they arrive, in shard order, so that no more than their sum is ever held
        at : of a shard, further parts whose marginals ``then`` will ask for; those of the rows can be had anyhow
        held : keep duals of rows that couple instances as they are; what only they pay for is not in the value
        """
        self._begin(duals)
        if gamma == 0.0:
            from trellis.projection.linear import run_linear

            found = run_linear(self, scores_of, then, duals, at, fold)
            self._left = found.duals
            return found
        gamma = check_gamma(gamma)
        theta, lams = self._coupled_start(duals, gamma)
        # The coupling rows see the local solutions' errors as noise in their gradient.
        inner = self.tolerance * (0.02 if self.couples and not held else 1.0)
        ask = ProjectionRequest(
            scores_of, SolverOptions(gamma, None, inner, self.max_evaluations, None, self.generic), theta
        )
        coupled = CoupledSolution(theta, 0.0, 0, True)
        if self.couples and not held:
            dual = CorpusDual(self.rows, self.scaled, self.cuts, gamma, lambda asked, own: self._pass(ask, asked, own))
            largest = float(np.max(np.abs(self.coupling.bound), initial=0.0))
            max_shift = scores_of(self.items[0].data).max_shift() / gamma if self.items else 0.0
            start, tolerance = dual.pack(theta, lams), self.tolerance * max(1.0, largest)
            # What a row with a price lacks is measured by how far its dual variable would move, which is never more
            # than the price: beside a large bound every point would seem a solution.
            tolerance = min(tolerance, max(self.tolerance, OF_PRICE * dual.smallest_price()))
            coupled = dual.solve(start, max_shift, tolerance, self.max_rounds)
            theta, lams = dual.unpack(coupled.theta)
        results: list[T] = []
        finished: list[Finished] = []
        blocks = [self._cut(lams, number) for number in range(len(self.items))]
        for result, end in self.placed.run(finish, Finish(ask.moved(theta), then, at), blocks):
            put(results, result, fold)
            finished.append(end)
        value = sum(end.value for end in finished)
        value += 0.0 if held else float(self.coupling.bound @ theta) + self._price(theta, gamma)
        self._left = self._duals(theta * gamma, [lam * gamma for lam in lams])
        number = int(np.argmax([end.residual for end in finished])) if finished else 0
        worst, where = (finished[number].residual, finished[number].worst) if finished else (0.0, -1)
        residual = max(worst, coupled.residual)
        converged = coupled.converged and worst <= self.tolerance
        evaluations = coupled.evaluations + sum(end.evaluations for end in finished)
        culprit = None
        if not converged:
            if worst > self.tolerance and self.max_evaluations >= PATIENT:
                from trellis.projection.diagnosis import refuse_conflict

                item = self.items[number]
                scores = scores_of(item.data).instances(where, where + 1)
                refuse_conflict([scores], item.rows.rows.shard(where, where + 1).local())
            if not coupled.converged and len(self.coupling):
                from trellis.projection.diagnosis import refuse_conflict

                every = [scores_of(item.data) for item in self.items]
                refuse_conflict(every, self.rows if self.weights is None else self.rows.weighted(self.weights))
            culprit = self._culprit((number, where), worst, coupled)
            if warn:
                self._warn(residual, culprit)
        return CorpusProjection(results, self._left, -gamma * value, residual, culprit, evaluations, converged)

    def _begin(self, duals: Duals | None) -> None:
        """Let the shards' solvers start from given duals; where they are those that the last run left, they do."""
        if duals is not None and duals is self._left:
            return
        duals, cuts = self.no_duals() if duals is None else duals, self.local_start
        # Curvature is kept per shard: duals of another sharding come without it.
        alike = len(duals.memory) == len(self.items)
        self.placed.restore(
            [
                LocalState(duals.row[cuts[i] : cuts[i + 1]], duals.memory[i] if alike else None)
                for i in range(len(self.items))
            ]
        )

    def _coupled_start(self, duals: Duals | None, gamma: float) -> tuple[FloatArray, list[FloatArray]]:
        duals = self.no_duals() if duals is None else duals
        return duals.row[self.rows.n_local :] / gamma, [lam / gamma for lam in duals.sparsity]

    def _duals(self, coupling: FloatArray, lams: list[FloatArray]) -> Duals:
        """Where the run ended: λ of the local rows and curvatures are what the shards' states hold."""
        states: list[LocalState] = self.placed.states
        row = np.concatenate([*(state.theta for state in states), coupling])
        return Duals(row, tuple(lams), tuple(state.curvature for state in states))

    def _pass(self, ask: ProjectionRequest, asked: tuple[FloatArray, list[FloatArray]], curvature: bool) -> Any:
        """One evaluation of the corpus at coupling duals θ and l1/linf duals."""
        theta, lams = asked
        blocks = [self._cut(lams, number) for number in range(len(self.items))]
        return self.placed.run(evaluate, ask.moved(theta, curvature), blocks)

    def _cut(self, lams: list[FloatArray], number: int) -> tuple[FloatArray, ...]:
        """The part of each l1/linf dual that belongs to one shard."""
        return tuple(lam[at[number] : at[number + 1]] for lam, at in zip(lams, self.cuts, strict=True))

    def _price(self, theta: FloatArray, gamma: float) -> float:
        if not len(theta):
            return 0.0
        return float(GroupTable.of(self.scaled.rows, gamma).values(theta * self.scaled.scale).sum())

    def _culprit(self, worst_at: tuple[int, int], worst: float, coupled: CoupledSolution) -> str | None:
        """Name of the constraint farthest from its optimality conditions."""
        if coupled.residual >= worst:
            if coupled.worst < len(self.coupling):
                return self.rows.names[int(self.coupling.constraint[coupled.worst])]
            return self.rows.sparsity[0].name if self.rows.sparsity else None
        number, where = worst_at
        rows = self.items[number].rows.local.rows
        mine = np.flatnonzero(rows.instance == where)
        names = {self.rows.names[int(c)] for c in rows.constraint[mine]}
        names |= {self.rows.names[one.constraint] for one in rows.implicit}
        return " or ".join(sorted(names)) or None

    def _warn(self, residual: float, culprit: str | None) -> None:
        warnings.warn(
            f"projection stopped with a KKT residual of {residual:.2g} (tolerance {self.tolerance:g}); the worst "
            f"constraint is {culprit!r}. Allow more evaluations, raise the tolerance, or give the constraint slack.",
            ConvergenceWarning,
            stacklevel=3,
        )


@dataclass(frozen=True)
class Projection:
    """q of one batch and how it came about; see :class:`CorpusProjection`.

    kkt_residual : for γ = 0 the duality gap;  integral : for γ = 0, which instances are a single output
    """

    posterior: Any
    rows: Rows
    duals: Duals
    value: float
    kkt_residual: float
    evaluations: int
    converged: bool
    integral: BoolArray | None = None

    def duals_by_name(self) -> dict[str, FloatArray]:
        """Dual variables by the name of their constraint."""
        return self.duals.by_name(self.rows)


def project(
    scores: Structure,
    rows: Rows,
    gamma: float = 1.0,
    *,
    weights: FloatArray | None = None,
    duals: Duals | None = None,
    tolerance: float = 1e-3,
    max_evaluations: int = 200,
    max_rounds: int = 200,
    at: IntArray | None = None,
    generic: bool = False,
) -> Projection:
    """Project the scores of a batch onto compiled constraints.

    Computes the closest distribution that satisfies the constraints (Ganchev et al. 2010, eq. 6-8; Samdani et al. 2012,
    eq. 7-8).

    Parameters
    ----------
    scores : Structure
        Log-potentials of the parts.
    rows : Rows
        Constraints from :func:`compile_constraints`.
    gamma : float, default=1.0
        Temperature γ of the posteriors.
    weights : ndarray of shape (n_instances,) or None, default=None
        Weights of the instances.
    duals : Duals or None, default=None
        Dual variables to start from.
    tolerance : float, default=0.001
        KKT residual at which the solver stops.
    max_evaluations : int, default=200
        Maximum number of dual evaluations per instance.
    max_rounds : int, default=200
        Maximum number of rounds for rows that couple instances.
    at : ndarray or None, default=None
        Further parts whose marginals will be needed.
    generic : bool, default=False
        Do not use the compiled fast paths.

    Returns
    -------
    Projection
        ``posterior``, ``duals``, residuals and objective.
    """
    check_same_parts(scores, rows)
    projector = Projector(
        rows, weights=weights, tolerance=tolerance, max_evaluations=max_evaluations, max_rounds=max_rounds,
        generic=generic,
    )  # fmt: skip
    outcome = projector.run(
        lambda _: scores, gamma, then=lambda _, answer: answer, duals=duals,
        at=None if at is None else lambda _: at,
    )  # fmt: skip
    answer = outcome.results[0]
    return Projection(
        posterior=answer.posterior,
        rows=projector.rows,
        duals=outcome.duals,
        value=outcome.value,
        kkt_residual=outcome.kkt_residual,
        evaluations=outcome.evaluations,
        converged=outcome.converged,
        integral=answer.integral,
    )
