"""The E-step that every learner shares: the nearest distribution that obeys what we know.

    q = argmin_q Σ γ q log q − q·score   s.t. E_q[φ] − b ≤ ξ, slack bounded or priced     (Samdani et al. 2012, eq. 8)
    q(y) ∝ exp((score(y) − λ·φ(y)) / γ)                                                    (Ganchev et al. 2010, eq. 7)
    dual:  max_λ  −b·λ − γ log Σ_y exp((score(y) − λ·φ(y))/γ) − g(λ)                       (eq. 8)

The solvers work in θ = λ/γ, where γ is gone but from the prices: a price σ is σ/γ there.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TypeVar

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine import Engine, SerialEngine, Shard
from trellis.errors import ConvergenceWarning, InfeasibleError
from trellis.projection.corpus_dual import CorpusDual, SparsityLayout
from trellis.projection.coupling import CoupledSolution
from trellis.projection.diagnosis import explain, refuse_conflict
from trellis.projection.duals import CorpusProjection, Duals
from trellis.projection.kernels.groups import value_all
from trellis.projection.linear import run_linear
from trellis.projection.local import GroupTable, ScaledRows, most_nats
from trellis.projection.relaxation import join
from trellis.projection.shard import LocalState, ShardAnswer, ShardRows, as_chain
from trellis.structures.structure import Structure, check_gamma

T = TypeVar("T")


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
        first_slots = self.rows.parts.offsets[self.bounds]
        self._layouts = []
        for block in self.rows.sparsity:
            order = np.argsort(block.key, kind="stable")
            key_start = np.searchsorted(block.key[order], np.arange(block.n_keys + 1))
            self._layouts.append(SparsityLayout(np.searchsorted(block.slots, first_slots), order, key_start))

    @property
    def couples(self) -> bool:
        """Whether any row or l1/linf block ties instances together."""
        return len(self.coupling) > 0 or len(self.rows.sparsity) > 0

    def no_duals(self) -> Duals:
        """λ = 0 everywhere."""
        k = self.rows.parts.n_labels
        blocks = tuple(np.zeros((len(block.slots), k)) for block in self.rows.sparsity)
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
        edge_marginals: bool = False,
        warn: bool = True,
    ) -> CorpusProjection[T]:
        """Project all shards; ``then(shard number, answer)`` is called on each shard's posterior at the solution."""
        engine = SerialEngine() if engine is None else engine
        if gamma == 0.0:
            return run_linear(self, scores_of, then, weights, duals, engine, edge_marginals)
        gamma = check_gamma(gamma)
        theta, lams, states = self._start(duals, gamma)
        # The coupling rows see the local solutions' errors as noise in their gradient.
        inner = self.tolerance * (0.02 if self.couples else 1.0)

        def evaluate_shard(number: int, at: FloatArray, blocks: tuple[FloatArray, ...], last: bool) -> ShardAnswer:
            shard = self.shards[number]
            scores = scores_of(number)
            try:
                return self.shard_rows[number].evaluate(
                    scores, gamma, at, blocks, states[number],
                    weights=None if weights is None else weights[shard.instances.start : shard.instances.stop],
                    tolerance=inner, most_evaluations=self.most_evaluations, edge_marginals=edge_marginals and last,
                )  # fmt: skip
            except InfeasibleError as error:
                explain(error, as_chain(scores), self.shard_rows[number].rows)
                raise

        coupled = CoupledSolution(theta, 0.0, 0.0, 0, True)
        if self.couples:
            dual = CorpusDual(
                self.rows, self._scaled, self._layouts, self.shard_rows, self.shards, evaluate_shard,
                gamma, weights, engine,
            )  # fmt: skip
            tables = as_chain(scores_of(0)).tables
            largest = float(np.max(np.abs(self.coupling.bound), initial=0.0))
            coupled = dual.solve(
                dual.pack(theta, lams), most_nats(tables.lost()) / gamma,
                self.tolerance * max(1.0, largest), self.most_rounds,
            )  # fmt: skip
            theta, lams = dual.unpack(coupled.theta)

        def finish(shard: Shard) -> tuple[T, float, float, int, int, FloatArray]:
            number = shard.index
            answer = evaluate_shard(number, theta, self._cut(lams, number), True)
            local = answer.local
            worst, where = 0.0, -1
            if local is not None and len(local.residual):
                where = int(np.argmax(local.residual))
                worst = float(local.residual[where])
            evaluations = 0 if local is None else int(local.evaluations.sum())
            found = states[number].theta if local is None else local.theta
            return then(number, answer), answer.value, worst, where, evaluations, found

        results, value, worst, worst_at, evaluations = [], 0.0, 0.0, (-1, -1), coupled.evaluations
        local_theta = []
        for number, (result, shard_value, residual, where, n, found) in enumerate(engine.map(finish, self.shards)):
            results.append(result)
            local_theta.append(found)
            value += shard_value
            evaluations += n
            if residual > worst:
                worst, worst_at = residual, (number, where)
        value += float(self.coupling.bound @ theta) + self._price(theta, gamma)
        row = np.concatenate([*local_theta, theta]) * gamma
        out = Duals(row, tuple(lam * gamma for lam in lams), tuple(s.curvature for s in states))
        residual = max(worst, coupled.residual)
        converged = coupled.converged and worst <= self.tolerance
        culprit = None
        if not converged:
            if worst > self.tolerance:
                number, i = worst_at
                scores = as_chain(scores_of(number)).instances(i, i + 1)
                refuse_conflict(scores, self.shard_rows[number].rows.shard(i, i + 1).local())
            if not coupled.converged and len(self.coupling):
                corpus = join([as_chain(scores_of(shard.index)) for shard in self.shards])
                refuse_conflict(corpus, self.rows if weights is None else self.rows.weighted(weights))
            culprit = self._culprit(worst_at, worst, coupled)
            if warn:
                self._warn(residual, culprit)
        return CorpusProjection(results, out, -gamma * value, residual, culprit, evaluations, converged)

    def _start(self, duals: Duals | None, gamma: float) -> tuple[FloatArray, list[FloatArray], list[LocalState]]:
        duals = self.no_duals() if duals is None else duals
        row, cuts = duals.row / gamma, self.local_start
        # Curvature is kept a shard: duals of another sharding come without it.
        alike = len(duals.curvature) == len(self.shards)
        states = [
            LocalState(row[cuts[i] : cuts[i + 1]], duals.curvature[i] if alike else None)
            for i in range(len(self.shards))
        ]
        return row[self.rows.n_local :], [lam / gamma for lam in duals.sparsity], states

    def _cut(self, lams: list[FloatArray], number: int) -> tuple[FloatArray, ...]:
        """The part of each l1/linf dual that belongs to one shard."""
        return tuple(lam[at.cuts[number] : at.cuts[number + 1]] for lam, at in zip(lams, self._layouts, strict=True))

    def _price(self, theta: FloatArray, gamma: float) -> float:
        if not len(theta):
            return 0.0
        t = GroupTable.of(self.coupling, gamma)
        return float(value_all(theta, t.start, t.kind, t.norm, t.amount))

    def _culprit(self, worst_at: tuple[int, int], worst: float, coupled: CoupledSolution) -> str | None:
        """Name of the constraint farthest from its optimality conditions."""
        if coupled.residual >= worst:
            if coupled.worst < len(self.coupling):
                return self.rows.names[int(self.coupling.constraint[coupled.worst])]
            return self.rows.sparsity[0].name if self.rows.sparsity else None
        number, where = worst_at
        rows = self.shard_rows[number].local
        mine = np.flatnonzero(rows.instance == where)
        names = {self.rows.names[int(c)] for c in rows.constraint[mine]}
        return " or ".join(sorted(names)) or None

    def _warn(self, residual: float, culprit: str | None) -> None:
        warnings.warn(
            f"projection stopped with a KKT residual of {residual:.2g} (tolerance {self.tolerance:g}); the worst "
            f"constraint is {culprit!r}. Allow more evaluations, raise the tolerance, or give the constraint slack.",
            ConvergenceWarning,
            stacklevel=3,
        )
