"""Gradient ascent on the objective instead of M-steps (Berg-Kirkpatrick et al. 2010, algorithm 2).

    ∇_w max_q T(q, w) = E_q*[∇_w log p_w(x, y)] + ∇_w log prior(w)

for the best q* at w, whether it is free (then it is the posterior, and this is Fisher's identity for ∇ log p_w(x)) or
obeys constraints: q moves with w, but at the best one that changes nothing to first order. So an E-step gives
value and gradient, and L-BFGS climbs on all weights at once. EM climbs on the same surface, but each of its rounds goes
only as far as the posterior of the round before allows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import split_arrays
from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.errors import DataError
from trellis.learn.expectation import ProjectedStep
from trellis.learn.training import TrainingStep
from trellis.loop.step import StepResult
from trellis.models.lbfgs import Descent, descend
from trellis.projection import Duals, KeyDuals


@dataclass(frozen=True)
class ClimbState:
    """descent : of L-BFGS;  duals : of the last projection."""

    descent: Descent
    duals: Duals | KeyDuals

    def arrays(self) -> dict[str, NDArray[Any]]:
        named = {"descent": self.descent.arrays(), "duals": self.duals.arrays()}
        return {f"{name}.{key}": value for name, own in named.items() for key, value in own.items()}


class DirectStep(TrainingStep[ClimbState]):
    """A round of L-BFGS on the objective of an E-step: an E-step that makes its own M-steps.

    inner : whose posteriors are those of the objective; its model has ``vector``, ``set_vector`` and ``gradient``
    """

    def __init__(self, inner: ProjectedStep) -> None:
        super().__init__(inner.training)
        if not hasattr(self.model, "gradient"):
            raise DataError(f"a {type(self.model).__name__} cannot be trained by gradient ascent: train it by EM")
        self.inner, self.rows = inner, inner.rows
        self.gamma: float | None = None

    @property
    def placed(self) -> list[Placed[Any]]:
        return self.inner.placed

    def initial_state(self, gamma: float, rng: np.random.Generator) -> ClimbState:
        self.gamma = None
        return ClimbState(Descent.begin(self.model.vector()), self.inner.initial_state(gamma))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> ClimbState:
        own = split_arrays(arrays, ["descent.", "duals."])
        n_weights = len(self.model.vector())
        return ClimbState(Descent.read(own["descent."], n_weights), self.inner.read_state(own["duals."]))

    def run(self, gamma: float, state: ClimbState, rng: Any = None) -> StepResult:
        model: Any = self.model
        if self.gamma is not None and gamma != self.gamma:
            raise DataError("gradient ascent needs a fixed γ: give a number instead of a schedule")
        self.gamma, duals = gamma, state.duals
        at: FloatArray | None = None
        last: StepResult | None = None

        def objective(vector: FloatArray) -> tuple[float, FloatArray]:
            nonlocal at, last, duals
            model.set_vector(vector)
            last = self.inner.run(gamma, duals)
            at, duals = vector, last.state
            return -last.objective - self.training.log_prior(), -model.gradient(last.statistics)

        found = descend(objective, state.descent, tol=0.0)
        assert last is not None
        if found.weights is not at:  # the search ended at another point than the one it tried last
            model.set_vector(found.weights)
        return replace(
            last, statistics=None, objective=-found.objective - self.training.log_prior(),
            state=ClimbState(found, duals), evaluations=found.evaluations, settled=found.converged,
        )  # fmt: skip
