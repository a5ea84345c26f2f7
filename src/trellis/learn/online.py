"""Stepwise EM: an M-step after every mini-batch, from statistics that forget slowly.

    s ← (1 − η_k) s + η_k (N / n) ŝ,      η_k = (k + 2)^−κ,  κ in (0.5, 1]

where ŝ are the expected statistics of mini-batch k (n of N free instances). Statistics of labelled instances are
added whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.errors import ConstraintError, DataError
from trellis.learn.checkpoint import Checkpoint
from trellis.learn.expectation import Expectation, ProjectedStep, Solving
from trellis.learn.training import Training
from trellis.models.model import rows_of
from trellis.models.statistics import flattened, unflattened
from trellis.projection import Duals


class StepwiseStep:
    """A pass over the mini-batches of a corpus, in an order drawn anew every time, with an M-step after each."""

    def __init__(
        self,
        training: Training,
        constraints: Sequence[Constraint | Rule],
        solving: Solving,
        *,
        size: int,
        power: float,
        likelihood: bool,
    ) -> None:
        if not 0.5 < power <= 1.0:
            raise DataError(f"step_power must lie in (0.5, 1] for stepwise EM to settle, got {power}")
        whole = rows_of(training.model, training.free_batch, constraints)
        if len(whole.canonical().coupling()) or whole.sparsity:
            raise ConstraintError("online learning sees a few instances at a time: constraints must be per instance")
        self.training, self.power = training, power
        batch = training.free_batch
        cuts = [np.arange(at, min(at + size, len(batch))) for at in range(0, len(batch), size)]
        self.steps = [
            ProjectedStep(
                Training(training.model, batch.take(cut), training.engine, use_labelled=False), constraints, solving,
                likelihood=likelihood,
            )
            for cut in cuts
        ]  # fmt: skip
        self.rows = [step.rows for step in self.steps]
        self.rng = np.random.default_rng()
        self.n_steps = 0
        self.statistics: Any = None
        self.saved: dict[str, FloatArray] | None = None

    @property
    def placed(self) -> list[Placed[Any]]:
        return [placed for step in self.steps for placed in step.placed]

    def nothing(self, gamma: float) -> Duals:
        return Duals.none()

    def restore(self, run: Checkpoint) -> None:
        """Go on with the random order and the statistics of a checkpoint, or of a new start, which has none yet."""
        self.rng.bit_generator.state = run.rng_state
        self.statistics, self.saved, self.n_steps = None, run.statistics, run.n_steps

    def snapshot(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        state = self.rng.bit_generator.state
        return {"rng_state": state, "statistics": flattened(self.statistics), "n_steps": self.n_steps}

    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        """One pass over the corpus; figures are sums over the pass."""
        training, total, n = self.training, len(self.training.free_batch), len(self.steps)
        objective, likelihood, kl, residual, evaluations = 0.0, 0.0, 0.0, 0.0, 0
        violation: dict[str, float] = {}
        for b in self.rng.permutation(n).tolist():
            found = self.steps[b].run(gamma)
            scaled = found.statistics * (total / len(self.steps[b].training.free_batch))
            if self.statistics is None and self.saved is not None:
                self.statistics = unflattened(scaled, self.saved)
            eta = (self.n_steps + 2.0) ** -self.power
            self.statistics = scaled if self.statistics is None else self.statistics * (1.0 - eta) + scaled * eta
            training.update(training.with_supervised(self.statistics), self.placed)
            self.n_steps += 1
            objective += found.objective
            likelihood += found.log_likelihood or 0.0
            kl += found.kl or 0.0
            residual = max(residual, found.kkt_residual)
            evaluations += found.evaluations
            for name, value in found.violation.items():
                violation[name] = violation.get(name, 0.0) + value / n
        # Whole tables at the end of every pass, as a checkpoint has them: sums are then taken in one order.
        self.statistics = unflattened(self.statistics, flattened(self.statistics))
        return Expectation(None, objective, likelihood, kl, violation, self.nothing(gamma), residual, evaluations)
