"""Stepwise EM: an M-step after every mini-batch, from statistics with slow decay.

    s ← (1 − η_k) s + η_k (N / n) ŝ,      η_k = (k + 2)^−κ,  κ in (0.5, 1]

where ŝ are the expected statistics of mini-batch k (n of N free instances). Statistics of labelled instances are
added whole. A discriminative model makes a step of AdaGrad in place of the M-step, on the mini-batch and on as large a
share of the labelled instances:

    w ← w − rate · g / √(Σ g²),      g = E_p[f] − E_q[f] + (n / N) l2 w

Rows that couple instances keep their duals from one mini-batch to the next, and what they expect of each mini-batch
from one pass to the next (an incremental gradient; Blatt et al. 2007). After each of B mini-batches, once all are seen,

    θ_g ← prox_τg( θ_g + τ (Σ e − b)_g ),      τ = 1 / (B m L_g),      θ = λ/γ, g as in :mod:`strength`

e is the expectation of each mini-batch when it was last seen. L_g is a quarter of the largest eigenvalue of |A| |A|ᵀ
for the rows of a norm group, which bounds the curvature where tokens are independent, and m the largest number of
groups that name one part: a pass makes about one gradient step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.ragged import FloatArray
from trellis.engine import Placed, place_batch
from trellis.errors import ConstraintError, DataError
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training, TrainingStep, count_known
from trellis.loop.step import StepResult
from trellis.models.model import bare, rows_of
from trellis.models.statistics import flattened, unflattened
from trellis.projection.kernels.groups import prox_group
from trellis.projection.local import GroupTable, ScaledRows

TURNS = 20
"""Of the power iteration for the largest eigenvalue."""


@dataclass(frozen=True)
class StepwiseState:
    """What one mini-batch leaves to the next.

    statistics : by name, which forget slowly, or squared gradients; None: before the first step;  n_steps : so far
    theta : (n_coupling,) of scaled rows;  seen : what each mini-batch last gave to them, one after the other
    """

    statistics: dict[str, FloatArray] | None = None
    n_steps: int = 0
    theta: FloatArray = field(default_factory=lambda: np.zeros(0))
    seen: FloatArray = field(default_factory=lambda: np.zeros(0))

    def arrays(self) -> dict[str, NDArray[Any]]:
        kept = {f"statistics{name}": one for name, one in (self.statistics or {}).items()}
        return {"n_steps": np.array(self.n_steps), "theta": self.theta, "seen": self.seen, **kept}


class CoupledRows:
    """Rows that couple instances, and steps of their duals.

    rows : of all free instances;  pieces : the rows of each mini-batch
    """

    def __init__(self, rows: Rows, pieces: Sequence[Rows]) -> None:
        self.scaled = ScaledRows.of(rows.coupling())
        self.names, self.number = rows.names, self.scaled.rows.constraint
        some = [np.unique(piece.coupling().entry_row) for piece in pieces]
        self.ends = np.cumsum([0, *map(len, some)])
        self.row = np.concatenate([np.zeros(0, np.int64), *some])
        self.step = 1.0 / (max(len(pieces), 1) * self._curvature())

    def __len__(self) -> int:
        return len(self.number)

    def _curvature(self) -> FloatArray:
        """(n_groups,): m L_g."""
        from scipy.sparse import csr_array

        rows, t = self.scaled.rows, GroupTable.of(self.scaled.rows, 1.0)
        parts, column = np.unique(rows.part, return_inverse=True)
        matrix = csr_array((np.abs(rows.coefficient), column, rows.start), shape=(len(rows), max(len(parts), 1)))
        found, named = np.zeros(len(t.kind)), np.zeros(max(len(parts), 1), np.int64)
        for g, (low, high) in enumerate(pairwise(t.start.tolist())):
            own, vector = matrix[low:high], np.ones(high - low)
            named[np.unique(column[rows.start[low] : rows.start[high]])] += 1
            for _ in range(TURNS):
                vector = own @ (own.T @ vector)
                found[g] = float(np.linalg.norm(vector))
                vector /= max(found[g], 1e-300)
        curvature: FloatArray = np.maximum(named.max() * found / 4.0, 1e-12)
        return curvature

    def put(self, seen: FloatArray, piece: int, expected: FloatArray) -> None:
        """Take what a mini-batch gives to the rows as given, (n_coupling,)."""
        own = slice(self.ends[piece], self.ends[piece + 1])
        seen[own] = (expected / self.scaled.scale)[self.row[own]]

    def total(self, seen: FloatArray) -> FloatArray:
        """Σ e (n_coupling,)."""
        return np.bincount(self.row, seen, minlength=len(self)).astype(np.float64)

    def move(self, theta: FloatArray, seen: FloatArray, gamma: float) -> FloatArray:
        """θ after a step."""
        t, over, found = GroupTable.of(self.scaled.rows, gamma), self.total(seen) - self.scaled.rows.bound, theta.copy()
        for g, (low, high) in enumerate(pairwise(t.start.tolist())):
            own = found[low:high] + self.step[g] * over[low:high]
            prox_group(own, t.equality[low:high], self.step[g], t.kind[g], t.norm[g], t.amount[g])
            found[low:high] = own
        return found

    def value(self, theta: FloatArray, gamma: float) -> float:
        """b·λ + g(λ)."""
        table = GroupTable.of(self.scaled.rows, gamma)
        return gamma * (float(self.scaled.rows.bound @ theta) + float(table.values(theta).sum()))

    def violation(self, seen: FloatArray) -> dict[str, float]:
        """Mean excess of each constraint's rows."""
        over = self.scaled.rows.excess(self.total(seen)) * self.scaled.scale
        return {self.names[c]: float(over[self.number == c].mean()) for c in np.unique(self.number).tolist()}


class StepwiseStep(TrainingStep[StepwiseState]):
    """A pass over the mini-batches of a corpus, in an order drawn anew every time, with a step after each."""

    def __init__(
        self,
        training: Training,
        constraints: Sequence[Constraint | Rule],
        solving: SolverSettings,
        *,
        size: int,
        power: float,
        likelihood: bool,
    ) -> None:
        if not 0.5 < power <= 1.0:
            raise DataError(f"step_power must lie in (0.5, 1] for stepwise EM to converge, got {power}")
        super().__init__(training)
        whole = rows_of(training.model, training.free_batch, constraints).canonical()
        if whole.sparsity:
            raise ConstraintError(
                f"{whole.sparsity[0].name!r} penalises labels of all occurrences of a word, but online learning sees "
                "a few instances at a time: leave out online"
            )
        self.power, batch = power, training.free_batch
        ends = [*range(0, len(batch), size), len(batch)]
        pieces = [whole.shard(low, high) for low, high in pairwise(ends)]
        self.coupled = CoupledRows(whole, pieces)
        self.steps = [
            ProjectedStep(
                Training(training.model, batch.instances(low, high), training.engine, use_labelled=False), (), solving,
                likelihood=likelihood, rows=piece,
            )
            for (low, high), piece in zip(pairwise(ends), pieces, strict=True)
        ]  # fmt: skip
        self.rows = [step.rows for step in self.steps]
        self.known = self._known_pieces() if training.model.discriminative else []

    def _known_pieces(self) -> list[Placed[Any]]:
        """Labelled instances in as many pieces as there are mini-batches."""
        known, n = self.training.labelled_batch, len(self.steps)
        ends = np.linspace(0, len(known), n + 1).astype(int)
        return [place_batch(self.training.engine, known.instances(a, b)) for a, b in pairwise(ends.tolist())]

    @property
    def placed(self) -> list[Placed[Any]]:
        return [placed for step in self.steps for placed in step.placed]

    def initial_state(self, gamma: float, rng: np.random.Generator) -> StepwiseState:
        return StepwiseState(theta=np.zeros(len(self.coupled)), seen=np.zeros(len(self.coupled.row)))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> StepwiseState:
        kept = {name.removeprefix("statistics"): one for name, one in arrays.items() if name.startswith("statistics")}
        table = {f"statistics{name}": ArrayOf(np.float64, one.shape, low=0.0) for name, one in kept.items()}
        sizes = {"theta": len(self.coupled), "seen": len(self.coupled.row)}
        couples = {name: ArrayOf(np.float64, (size,)) for name, size in sizes.items()}
        checked = check_arrays({"n_steps": ArrayOf(np.int64, (), low=0), **couples, **table}, arrays)
        # that these are the statistics of the model is seen in the first round, where some are at hand
        return StepwiseState(
            {name: checked[f"statistics{name}"] for name in kept} or None, int(checked["n_steps"]),
            checked["theta"], checked["seen"],
        )  # fmt: skip

    def run(self, gamma: float, state: StepwiseState, rng: np.random.Generator) -> StepResult:
        """One pass over the corpus; figures are sums over the pass."""
        if gamma <= 0.0 and len(self.coupled):
            raise DataError("online learning under constraints over the corpus needs γ > 0")
        theta, seen, n_steps = state.theta, state.seen.copy(), state.n_steps
        step = self._stochastic if self.training.model.discriminative else self._slow
        kept: Any = state.statistics
        total, n = len(self.training.free_batch), len(self.steps)
        objective, likelihood, kl, residual, evaluations = 0.0, 0.0, 0.0, 0.0, 0
        violation: dict[str, float] = {}
        for b in rng.permutation(n).tolist():
            inner, eta = self.steps[b], (n_steps + 2.0) ** -self.power
            found = inner.run(gamma, self._duals(inner, theta * gamma))
            scale = total / len(inner.training.free_batch)
            kept = step(b, found.statistics, kept, eta, scale)
            if len(self.coupled):
                self.coupled.put(seen, b, inner.expected)
                theta = self.coupled.move(theta, seen, gamma) if n_steps >= n - 1 else theta
            n_steps += 1
            objective += found.objective
            likelihood += found.log_likelihood or 0.0
            kl += found.kl or 0.0
            residual = max(residual, found.kkt_residual)
            evaluations += found.evaluations
            for name, value in found.violation.items():
                violation[name] = violation.get(name, 0.0) + value / n
        left = StepwiseState(kept if not n or isinstance(kept, dict) else flattened(kept), n_steps, theta, seen)
        if len(self.coupled):
            objective += self.coupled.value(theta, gamma)
            violation |= self.coupled.violation(seen)
        return StepResult(None, objective, left, likelihood, kl, violation, residual, evaluations)

    def _duals(self, step: ProjectedStep, coupling: FloatArray) -> Any:
        """λ of the rows that couple instances, and 0 for others; none where there are no such rows."""
        if not len(self.coupled):
            return None
        none = step.projector.no_duals()
        row = none.row.copy()
        row[step.rows.n_local :] = coupling / self.coupled.scaled.scale
        return replace(none, row=row)

    def _slow(self, b: int, statistics: Any, kept: Any, eta: float, scale: float) -> Any:
        """An M-step on statistics that forget slowly, which it returns."""
        scaled = statistics * scale
        before = unflattened(scaled, kept) if isinstance(kept, dict) else kept
        now = scaled if before is None else before * (1.0 - eta) + scaled * eta
        self.training.update(self.training.with_supervised(now), self.placed)
        return now

    def _stochastic(self, b: int, statistics: Any, kept: Any, eta: float, scale: float) -> dict[str, FloatArray]:
        """A step of AdaGrad; its sums of squared gradients."""
        model: Any = self.training.model
        shards, counts = list(self.steps[b].placed), statistics
        if len(self.known[b]):
            shards, counts = [*shards, self.known[b]], counts + self.known[b].total(count_known, bare(model))
        squares = np.zeros(len(model.weights_)) if kept is None else kept["squares"]
        _, squares = model.stochastic_step(model.vector(counts), shards, squares, 1.0 / len(self.steps))
        return {"squares": squares}
