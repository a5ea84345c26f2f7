"""Stepwise EM: an M-step after every mini-batch, from statistics with slow decay.

    s ← (1 − η_k) s + η_k (N / n) ŝ,      η_k = (k + 2)^−κ,  κ in (0.5, 1]

where ŝ are the expected statistics of mini-batch k (n of N free instances). Statistics of labelled instances are
added whole.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints import Constraint, Rule
from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.errors import ConstraintError, DataError
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training, TrainingStep
from trellis.loop.step import StepResult
from trellis.models.model import rows_of
from trellis.models.statistics import flattened, unflattened


@dataclass(frozen=True)
class StepwiseState:
    """statistics : by name, which forget slowly; None: before the first step;  n_steps : so far."""

    statistics: dict[str, FloatArray] | None = None
    n_steps: int = 0

    def arrays(self) -> dict[str, NDArray[Any]]:
        kept = {f"statistics{name}": one for name, one in (self.statistics or {}).items()}
        return {"n_steps": np.array(self.n_steps), **kept}


class StepwiseStep(TrainingStep[StepwiseState]):
    """A pass over the mini-batches of a corpus, in an order drawn anew every time, with an M-step after each."""

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
        whole = rows_of(training.model, training.free_batch, constraints)
        if len(whole.canonical().coupling()) or whole.sparsity:
            raise ConstraintError("online learning sees a few instances at a time: constraints must be per instance")
        super().__init__(training)
        self.power = power
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

    @property
    def placed(self) -> list[Placed[Any]]:
        return [placed for step in self.steps for placed in step.placed]

    def initial_state(self, gamma: float, rng: np.random.Generator) -> StepwiseState:
        return StepwiseState()

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> StepwiseState:
        kept = {name.removeprefix("statistics"): one for name, one in arrays.items() if name.startswith("statistics")}
        table = {f"statistics{name}": ArrayOf(np.float64, one.shape, low=0.0) for name, one in kept.items()}
        checked = check_arrays({"n_steps": ArrayOf(np.int64, (), low=0), **table}, arrays)
        # that these are the statistics of the model is seen in the first round, where some are at hand
        return StepwiseState({name: checked[f"statistics{name}"] for name in kept}, int(checked["n_steps"]))

    def run(self, gamma: float, state: StepwiseState, rng: np.random.Generator) -> StepResult:
        """One pass over the corpus; figures are sums over the pass."""
        statistics: Any = None
        n_steps = state.n_steps
        training, total, n = self.training, len(self.training.free_batch), len(self.steps)
        objective, likelihood, kl, residual, evaluations = 0.0, 0.0, 0.0, 0.0, 0
        violation: dict[str, float] = {}
        for b in rng.permutation(n).tolist():
            found = self.steps[b].run(gamma)
            scaled = found.statistics * (total / len(self.steps[b].training.free_batch))
            if statistics is None and state.statistics is not None:
                statistics = unflattened(scaled, state.statistics)
            eta = (n_steps + 2.0) ** -self.power
            statistics = scaled if statistics is None else statistics * (1.0 - eta) + scaled * eta
            training.update(training.with_supervised(statistics), self.placed)
            n_steps += 1
            objective += found.objective
            likelihood += found.log_likelihood or 0.0
            kl += found.kl or 0.0
            residual = max(residual, found.kkt_residual)
            evaluations += found.evaluations
            for name, value in found.violation.items():
                violation[name] = violation.get(name, 0.0) + value / n
        left = StepwiseState(flattened(statistics) if self.steps else state.statistics, n_steps)
        return StepResult(None, objective, left, likelihood, kl, violation, residual, evaluations)
