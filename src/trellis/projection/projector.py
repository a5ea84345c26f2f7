"""The E-step that every learner shares: the nearest distribution that obeys what we know.

    q = argmin_q Σ γ q log q − q·score   s.t. E_q[φ] − b ≤ ξ, slack bounded or priced     (Samdani et al. 2012, eq. 8)
    q(y) ∝ exp((score(y) − λ·φ(y)) / γ)                                                    (Ganchev et al. 2010, eq. 7)
    dual:  max_λ  −b·λ − γ log Σ_y exp((score(y) − λ·φ(y))/γ) − g(λ)                       (eq. 8)

The solvers work in θ = λ/γ, where γ is gone but from the prices: a price σ is σ/γ there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.engine import Engine, SerialEngine, Shard
from trellis.errors import ConvergenceWarning, InfeasibleError
from trellis.projection.corpus_dual import CorpusDual, CoupledSolution
from trellis.projection.diagnosis import explain, refuse_conflict
from trellis.projection.duals import CorpusProjection, Duals, put
from trellis.projection.linear import run_linear
from trellis.projection.local import GroupTable, LocalState, ScaledRows
from trellis.projection.shard import PATIENT, Asked, ShardAnswer, ShardRows
from trellis.structures.structure import Structure, check_gamma

T = TypeVar("T")


@dataclass(frozen=True)
class _Finished:
    """What the corpus keeps of a shard's last evaluation; worst : the instance with the largest residual."""

    value: float
    residual: float
    worst: int
    evaluations: int
    theta: FloatArray
    state: LocalState

    @classmethod
    def of(cls, answer: ShardAnswer) -> _Finished:
        local = answer.local
        if local is None or not len(local.residual):
            return cls(answer.value, 0.0, -1, 0, answer.state.theta, answer.state)
        worst = int(np.argmax(local.residual))
        evaluations = int(local.evaluations.sum())
        return cls(answer.value, float(local.residual[worst]), worst, evaluations, local.theta, answer.state)


class Projector:
    """Rows compiled for a corpus, ready to be projected onto round after round.

    rows : over the whole corpus;  bounds : (n_shards + 1,) first instances of the shards
    tolerance : of the KKT residual, in units of expectations (relative to the bound where that exceeds 1)
    """

    def __init__(
        self,
        rows: Rows,
        bounds: IntArray | None = None,
        *,
        tolerance: float = 1e-3,
        most_evaluations: int = 200,
        most_rounds: int = 200,
    ) -> None:
        self.rows = rows.canonical()
        self.bounds = np.array([0, rows.parts.n_instances]) if bounds is None else bounds
        self.tolerance = tolerance
        self.most_evaluations = most_evaluations
        self.most_rounds = most_rounds
        self.shards = [
            Shard(i, range(int(a), int(b)))
            for i, (a, b) in enumerate(zip(self.bounds[:-1], self.bounds[1:], strict=True))
        ]
        self.shard_rows = [
            ShardRows(self.rows.shard(int(s.instances.start), int(s.instances.stop))) for s in self.shards
        ]
        self.coupling = self.rows.coupling()
        self.local_start = np.searchsorted(self.rows.instance[: self.rows.n_local], self.bounds)
        self._scaled = ScaledRows.of(self.coupling)
        self._cuts = [
            np.cumsum([0, *(len(mine.sparsity[number]) for mine in self.shard_rows)])
            for number in range(len(self.rows.sparsity))
        ]

    @property
    def couples(self) -> bool:
        """Whether any row or l1/linf block ties instances together."""
        return len(self.coupling) > 0 or any(len(block) for block in self.rows.sparsity)

    def no_duals(self) -> Duals:
        """λ = 0 everywhere."""
        blocks = tuple(np.zeros((len(block), block.width)) for block in self.rows.sparsity)
        return Duals(np.zeros(len(self.rows)), blocks, tuple(None for _ in self.shards))

    def run(
        self,
        scores_of: Callable[[int], Structure],
        gamma: float = 1.0,
        *,
        then: Callable[[int, ShardAnswer], T],
        weights: FloatArray | None = None,
        duals: Duals | None = None,
        engine: Engine | None = None,
        at: Callable[[int], IntArray] | None = None,
        warn: bool = True,
        generic: bool = False,
        fold: Callable[[T, T], T] | None = None,
    ) -> CorpusProjection[T]:
        """Project all shards; ``then(shard number, answer)`` is called on each shard's posterior at the solution.

        fold : adds results up while they arrive, in shard order, so that no more than their sum is ever held

        at : of a shard, further parts whose marginals ``then`` will ask for; those of the rows can be had anyhow
        generic : leave fast paths aside
        """
        engine = SerialEngine() if engine is None else engine
        if gamma == 0.0:
            return run_linear(self, scores_of, then, weights, duals, engine, fold)
        gamma = check_gamma(gamma)
        theta, lams, states = self._start(duals, gamma)
        # The coupling rows see the local solutions' errors as noise in their gradient.
        inner = self.tolerance * (0.02 if self.couples else 1.0)

        def evaluate(
            number: int, at_theta: FloatArray, blocks: tuple[FloatArray, ...], state: LocalState, last: bool = False
        ) -> ShardAnswer:
            shard, scores = self.shards[number], scores_of(number)
            mine = None if weights is None else weights[shard.instances.start : shard.instances.stop]
            further = at(number) if last and at is not None else None
            asked = Asked(gamma, mine, inner, self.most_evaluations, further, generic)
            try:
                return self.shard_rows[number].evaluate(scores, at_theta, blocks, state, asked)
            except InfeasibleError as error:
                explain(error, scores, self.shard_rows[number].rows)
                raise

        coupled = CoupledSolution(theta, 0.0, 0, True)
        if self.couples:
            dual = CorpusDual(
                self.rows, self._scaled, self._cuts, self.shard_rows, self.shards, evaluate, states, gamma, weights,
                engine,
            )  # fmt: skip
            largest = float(np.max(np.abs(self.coupling.bound), initial=0.0))
            farthest = scores_of(0).farthest() / gamma if self.shards else 0.0
            start, tolerance = dual.pack(theta, lams), self.tolerance * max(1.0, largest)
            coupled = dual.solve(start, farthest, tolerance, self.most_rounds)
            theta, lams = dual.unpack(coupled.theta)
            states = dual.states

        def finish(shard: Shard) -> tuple[T, _Finished]:
            number = shard.index
            answer = evaluate(number, theta, self._cut(lams, number), states[number], last=True)
            return then(number, answer), _Finished.of(answer)

        results: list[T] = []
        finished = []
        for result, end in engine.map(finish, self.shards):
            put(results, result, fold)
            finished.append(end)
        value = sum(end.value for end in finished) + float(self.coupling.bound @ theta) + self._price(theta, gamma)
        row = np.concatenate([*(end.theta for end in finished), theta]) * gamma
        curvature = tuple(end.state.curvature for end in finished)
        out = Duals(row, tuple(lam * gamma for lam in lams), curvature)
        number = int(np.argmax([end.residual for end in finished])) if finished else 0
        worst, where = (finished[number].residual, finished[number].worst) if finished else (0.0, -1)
        residual = max(worst, coupled.residual)
        converged = coupled.converged and worst <= self.tolerance
        evaluations = coupled.evaluations + sum(end.evaluations for end in finished)
        culprit = None
        if not converged:
            if worst > self.tolerance and self.most_evaluations >= PATIENT:
                scores = scores_of(number).instances(where, where + 1)
                refuse_conflict([scores], self.shard_rows[number].rows.shard(where, where + 1).local())
            if not coupled.converged and len(self.coupling):
                every = [scores_of(shard.index) for shard in self.shards]
                refuse_conflict(every, self.rows if weights is None else self.rows.weighted(weights))
            culprit = self._culprit((number, where), worst, coupled)
            if warn:
                self._warn(residual, culprit)
        return CorpusProjection(results, out, -gamma * value, residual, culprit, evaluations, converged)

    def _start(self, duals: Duals | None, gamma: float) -> tuple[FloatArray, list[FloatArray], list[LocalState]]:
        duals = self.no_duals() if duals is None else duals
        row, cuts = duals.row / gamma, self.local_start
        # Curvature is kept per shard: duals of another sharding come without it.
        alike = len(duals.curvature) == len(self.shards)
        states = [
            LocalState(row[cuts[i] : cuts[i + 1]], duals.curvature[i] if alike else None)
            for i in range(len(self.shards))
        ]
        return row[self.rows.n_local :], [lam / gamma for lam in duals.sparsity], states

    def _cut(self, lams: list[FloatArray], number: int) -> tuple[FloatArray, ...]:
        """The part of each l1/linf dual that belongs to one shard."""
        return tuple(lam[at[number] : at[number + 1]] for lam, at in zip(lams, self._cuts, strict=True))

    def _price(self, theta: FloatArray, gamma: float) -> float:
        if not len(theta):
            return 0.0
        return float(GroupTable.of(self.coupling, gamma).values(theta).sum())

    def _culprit(self, worst_at: tuple[int, int], worst: float, coupled: CoupledSolution) -> str | None:
        """Name of the constraint farthest from its optimality conditions."""
        if coupled.residual >= worst:
            if coupled.worst < len(self.coupling):
                return self.rows.names[int(self.coupling.constraint[coupled.worst])]
            return self.rows.sparsity[0].name if self.rows.sparsity else None
        number, where = worst_at
        rows = self.shard_rows[number].local.rows
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

    def pulls(self) -> dict[str, FloatArray]:
        """Dual variables by the name of their constraint: how hard each one pulls."""
        return self.duals.by_name(self.rows)


def project(
    scores: Structure,
    rows: Rows,
    gamma: float = 1.0,
    *,
    weights: FloatArray | None = None,
    duals: Duals | None = None,
    tolerance: float = 1e-3,
    most_evaluations: int = 200,
    most_rounds: int = 200,
    at: IntArray | None = None,
    generic: bool = False,
) -> Projection:
    """Project the scores of one batch onto compiled rows.

    Rows inside instances are solved together, rows that couple instances around that. ``at`` are further parts whose
    marginals will be asked of the posterior; ``generic`` leaves fast paths aside.
    """
    projector = Projector(
        rows, tolerance=tolerance, most_evaluations=most_evaluations, most_rounds=most_rounds
    )  # fmt: skip
    outcome = projector.run(
        lambda _: scores, gamma, then=lambda _, answer: answer, weights=weights, duals=duals,
        at=None if at is None else lambda _: at, generic=generic,
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
