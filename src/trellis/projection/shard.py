"""One shard's side of the E-step: from scores and dual variables to posteriors and expectations.

Dual variables that couple instances are given; those of rows inside one instance are solved for here, so what a shard
reports of the coupling ones is the value and gradient of the dual with the local ones already optimal:

    value = Σ_i weight_i · min_{θ_i} [ log Z_i(θ_i, θ_coupling) + b·θ_i + g(θ_i) ]
    expected = Σ_i weight_i E_{q_i}[φ_coupling]
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.engine import Piece
from trellis.projection import lock_step
from trellis.projection.kernels import fast_path, solver
from trellis.projection.local import LocalRows, LocalSolution, LocalState, SolverOptions
from trellis.structures.structure import Structure

ANNEALING_FACTOR = 4.0
ANNEALING = tuple(ANNEALING_FACTOR**power for power in range(6, -1, -1))
"""Multiples of γ through which an instance that does not converge is solved."""
PATIENT = 50
"""Who allows fewer evaluations than this does not want every instance to converge, and gets no annealing."""
MORE_WITH_MANY_ROWS = 5
"""Times as many evaluations for instances that do not converge and have too many rows for a Hessian matrix: what stands
in its place learns curvature more slowly."""
MOST_RESCUED = 100
"""More instances than this that do not converge are not a hard corner or two but something wrong: they are left."""


@dataclass(frozen=True)
class ShardAnswer:
    """What one evaluation of a shard gives.

    posterior : q;  tilted : q without the tilt of the local rows, as scores
    state : where the local solver starts next time
    value : Σ_i weight_i (...), see above
    coupling : (n_coupling,) expectations;  sparsity : one (n, width) array of marginals per block
    integral : for γ = 0, which instances are a single output
    """

    posterior: Any
    tilted: Any
    local: LocalSolution | None
    state: LocalState
    value: float
    coupling: FloatArray
    sparsity: tuple[FloatArray, ...]
    integral: BoolArray | None = None


@dataclass(frozen=True)
class ProjectionItem(Piece):
    """A shard as it is placed on an engine: what its scores are made of, its rows, and its instances' weights."""

    rows: Any
    weights: FloatArray | None


class ShardRows:
    """The rows of one shard, taken apart once for all rounds."""

    def __init__(self, rows: Rows) -> None:
        self.rows = rows
        self.local = LocalRows(rows.local())
        self.coupling = rows.coupling()
        self.sparsity = rows.sparsity
        self.coupled = np.concatenate(
            [self.coupling.part, *(block.parts.reshape(-1) for block in self.sparsity)]
        )  # fmt: skip
        """Parts whose marginals every evaluation is asked for; those of local rows can be had anyhow."""
        ends = np.cumsum([len(self.coupling.part), *(len(block) * block.width for block in self.sparsity)])
        cut = zip(self.sparsity, ends[:-1], ends[1:], strict=True)
        self.sparse = [self.coupled[a:b].reshape(-1, block.width) for block, a, b in cut]
        """Of each l1/linf block, the parts of its occurrences."""

    def prepared(self) -> ShardRows:
        """Itself, with all that is made of local rows once: so that copies need not make it again."""
        fast = fast_path(self.rows.parts.kind)
        if fast is not None and hasattr(fast, "prepare"):
            fast.prepare(self.local)
        return self

    def evaluate(
        self,
        scores: Structure,
        theta: FloatArray,
        sparsity: tuple[FloatArray, ...],
        state: LocalState,
        asked: SolverOptions,
    ) -> ShardAnswer:
        """Posteriors at given coupling duals θ (n_coupling,) and l1/linf duals, the local ones solved."""
        gamma, weights = asked.gamma, asked.weights
        tilted = self._tilt(scores.apply(self.rows.mask), gamma, theta, sparsity, weights)
        local = None
        if len(self.local) or self.rows.implicit:
            rows, start = self._rows_for(tilted, state, asked)
            project_rows, own = self._solver(tilted, rows, asked)
            local = self._settled(tilted, rows, project_rows(tilted, rows, start, own), state, asked)
            state = state if self.rows.implicit else local.reliable_start(self.local.rows)
            q, values = local.posterior, local.value
        else:
            q = tilted.infer(weights=weights, at=self._wanted(asked))
            values = q.log_partition
        return ShardAnswer(
            posterior=q,
            tilted=tilted,
            local=local,
            state=state,
            value=float(values.sum() if weights is None else np.dot(weights, values)),
            coupling=self.coupling.expect(q, weights),
            sparsity=tuple(q.at(parts) for parts in self.sparse),
        )

    def _rows_for(self, tilted: Structure, state: LocalState, asked: SolverOptions) -> tuple[LocalRows, LocalState]:
        """The local rows, and where to start; implicit ones are written out where no fast path reads them."""
        if not self.rows.implicit or self._fast(self.local, tilted, asked) is not None:
            return self.local, state
        rows = LocalRows(self.local.rows.written_out())
        return rows, LocalState(np.zeros(len(rows)))

    def _settled(
        self, tilted: Structure, rows: LocalRows, local: LocalSolution, state: LocalState, asked: SolverOptions
    ) -> LocalSolution:
        """The solution, with what did not converge solved again."""
        rescue = asked.most_evaluations >= PATIENT and bool(np.any(local.ending != solver.CONVERGED))
        if rescue and rows.rows.implicit and len(tilted) <= MOST_RESCUED:
            asked = replace(asked, generic=True)
            rows, start = self._rows_for(tilted, state, asked)
            return self._settled(tilted, rows, self._solve(tilted, rows, start, asked), state, asked)
        if rescue and not rows.rows.implicit:
            local = self._rescue(tilted, rows, local, asked)
            lost = np.flatnonzero(local.ending != solver.CONVERGED)
            if len(self.coupled) and len(lost):
                from trellis.projection.diagnosis import refuse_conflict

                # Coupling rows would ask hundreds of times more: say at once if no q can satisfy these rows.
                i = int(lost[0])
                refuse_conflict([tilted.instances(i, i + 1)], rows.rows.shard(i, i + 1).local())
        if rows is not self.local:
            part, value = rows.rows.part, rows.rows.pull(local.theta)
            local = replace(local, theta=state.theta, pull=lambda: self.rows.parts.change(part, value))
        return local

    def _rescue(self, tilted: Structure, rows: LocalRows, local: LocalSolution, asked: SolverOptions) -> LocalSolution:
        """Solve again what did not converge: with more evaluations where rows are many, then through other γ."""
        n_rows = np.bincount(rows.rows.instance, minlength=len(tilted))
        if np.any(n_rows[local.ending != solver.CONVERGED] > solver.MOST_ROWS_WITH_HESSIAN):
            more = replace(asked, most_evaluations=MORE_WITH_MANY_ROWS * asked.most_evaluations)
            local = self._solve(tilted, rows, LocalState(local.theta), more)
            if np.all(local.ending == solver.CONVERGED):
                return local
        return self._solve(tilted, rows, self._anneal(tilted, rows, local, asked), asked)

    def _fast(self, rows: LocalRows, tilted: Structure, asked: SolverOptions) -> Any:
        """The module that solves these rows fast, if there is one."""
        fast = None if asked.generic else fast_path(tilted.kind)
        return fast if fast is not None and fast.takes(rows.rows) else None

    def _solver(self, tilted: Structure, rows: LocalRows, asked: SolverOptions) -> tuple[Any, SolverOptions]:
        """The function that solves these rows, and what it is asked."""
        fast = self._fast(rows, tilted, asked)
        at = self._wanted(asked) if len(tilted) == self.rows.parts.n_instances else None
        return lock_step.project_rows if fast is None else fast.project_rows, replace(asked, at=at)

    def _solve(self, tilted: Structure, rows: LocalRows, state: LocalState, asked: SolverOptions) -> LocalSolution:
        project_rows, own = self._solver(tilted, rows, asked)
        found: LocalSolution = project_rows(tilted, rows, state, own)
        return found

    def _wanted(self, asked: SolverOptions) -> IntArray:
        return self.coupled if asked.at is None else np.concatenate((self.coupled, asked.at))

    def _anneal(self, tilted: Structure, mine: LocalRows, local: LocalSolution, asked: SolverOptions) -> LocalState:
        """Another start for the instances that did not converge: their solution at a high γ, followed down to γ.

        A problem of strong preferences against strong constraints is all corners at a low temperature; at a high one it
        is round, and from each γ' to the next the multipliers λ = γ'·θ change little.
        """
        state = local.reliable_start(mine.rows)
        theta = np.array(state.theta)
        for i in np.flatnonzero(local.ending != solver.CONVERGED)[:MOST_RESCUED].tolist():
            rows = LocalRows(mine.rows.shard(i, i + 1).local())
            scores, found = tilted.instances(i, i + 1), np.zeros(len(rows))
            for ratio in ANNEALING:
                alone = replace(asked, gamma=asked.gamma * ratio, weights=None, at=None)
                step = self._solve(scores.temper(ratio), rows, LocalState(found), alone)
                if not np.all(np.isfinite(step.theta)):
                    break
                found = step.theta * ANNEALING_FACTOR
            theta[mine.rows.instance == i] = found / ANNEALING_FACTOR
        return LocalState(theta, state.curvature)

    def coupling_covariance(self, answer: ShardAnswer, weights: FloatArray | None) -> FloatArray:
        """Cov_q[φ] of the coupling rows as if places were independent: a Hessian to start from.

        Σ_places w [ Σ_parts c_r c_s μ − (Σ_parts c_r μ)(Σ_parts c_s μ) ]
        """
        from scipy.sparse import csr_matrix

        rows = self.coupling
        mu = answer.posterior.at(rows.part)
        root = 1.0 if weights is None else np.sqrt(weights)[rows.entry_instance]

        def matrix(numbers: IntArray, values: FloatArray) -> Any:
            _, column = np.unique(numbers, return_inverse=True)
            entries = (rows.coefficient * values * root, (rows.entry_row, column))
            return csr_matrix(entries, shape=(len(rows), int(column.max(initial=-1)) + 1))

        spread, means = matrix(rows.part, np.sqrt(mu)), matrix(rows.parts.place_of(rows.part), mu)
        return np.asarray((spread @ spread.T - means @ means.T).todense())

    def q_scores(self, answer: ShardAnswer) -> Any:
        """q itself as scores, the tilt of the local rows included."""
        if answer.local is None:
            return answer.tilted
        if answer.local.pull is not None:
            return answer.tilted.apply(answer.local.pull())
        rows = self.local.rows
        return answer.tilted.add(rows.part, rows.pull(answer.local.theta))

    def _tilt(
        self,
        masked: Structure,
        gamma: float,
        theta: FloatArray,
        sparsity: tuple[FloatArray, ...],
        weights: FloatArray | None,
    ) -> Structure:
        """p^{1/γ} exp(−θ·φ) for the coupling rows and l1/linf blocks, as scores.

        An l1/linf block looks at the largest of q itself and not at sums, so an instance that counts w times shares
        its dual variables among its copies: the tilt is λ/w.
        """
        part, value = [], []
        if len(theta) and np.any(theta):
            part.append(self.coupling.part)
            value.append(self.coupling.pull(theta))
        for block, parts, dual in zip(self.sparsity, self.sparse, sparsity, strict=True):
            if not len(block) or not np.any(dual):
                continue
            share = dual
            if weights is not None:
                weight = weights[self.rows.parts.instance_of(block.first)]
                share = dual / np.where(weight > 0, weight, np.inf)[:, None]
            part.append(parts.reshape(-1))
            value.append(-share.reshape(-1))
        # θ = λ/γ is added after scores are divided by γ.
        scaled = masked.temper(gamma)
        return scaled.add(np.concatenate(part), np.concatenate(value)) if part else scaled
