"""The gradient of the objective itself in place of M-steps (Berg-Kirkpatrick et al. 2010, algorithm 2).

    ∇_w max_q T(q, w) = E_q*[∇_w log p_w(x, y)] + ∇_w log prior(w)

for the best q* at w, whether it is free (then it is the posterior, and this is Fisher's identity for ∇ log p_w(x)) or
obeys constraints: q moves with w, but at the best one that changes nothing to first order. So an E-step gives
value and gradient, and L-BFGS climbs on all weights at once. EM climbs on the same surface, but each of its rounds goes
only as far as the posterior of the round before allows.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.engine.blas import blas_at_one_thread
from trellis.errors import DataError
from trellis.learn.checkpoint import Checkpoint
from trellis.learn.expectation import Expectation, ProjectedStep
from trellis.models.lbfgs import Minimum, descend
from trellis.projection import Duals


class DirectStep:
    """A round of L-BFGS on the objective of an E-step: an E-step that makes its own M-steps.

    inner : whose posteriors are those of the objective; its model has ``vector``, ``set_vector`` and ``gradient``

    The curvature that L-BFGS remembers is in no checkpoint: a run that is resumed goes on from its weights alone.
    """

    def __init__(self, inner: ProjectedStep) -> None:
        if not hasattr(inner.training.model, "gradient"):
            raise DataError(f"a {type(inner.training.model).__name__} has no gradient to climb by: train it by EM")
        self.inner, self.training, self.rows = inner, inner.training, inner.rows
        self.descent: Iterator[Minimum] | None = None
        self.at: FloatArray
        """Where the objective was looked at last, and ``last`` what was found there."""
        self.last: Expectation

    @property
    def placed(self) -> list[Placed[Any]]:
        return self.inner.placed

    def nothing(self, gamma: float) -> Duals:
        return self.inner.nothing(gamma)

    def restore(self, run: Checkpoint) -> None:
        """Begin at the model's parameters."""
        self.descent = None

    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        model: Any = self.training.model
        with blas_at_one_thread():
            found = None
            if self.descent is None:
                self.duals, self.gamma = duals, gamma
                self.descent = descend(self._objective, model.vector(), tol=0.0)
                found = next(self.descent)
            if gamma != self.gamma:
                raise DataError("a climb by gradients is one at one γ: give a number in place of a schedule")
            if found is None or not found.converged:  # nothing leads up from where it begins
                found = next(self.descent)
        if found.weights is not self.at:  # the search ended at another point than the one it tried last
            model.set_vector(found.weights)
            self.at = found.weights
        return replace(
            self.last, statistics=None, objective=-found.objective - self.training.log_prior(),
            evaluations=found.evaluations, settled=found.converged,
        )  # fmt: skip

    def _objective(self, vector: FloatArray) -> tuple[float, FloatArray]:
        model: Any = self.training.model
        model.set_vector(vector)
        self.at = vector
        self.last = self.inner.run(self.gamma, self.duals)
        self.duals = self.last.duals
        return -self.last.objective - self.training.log_prior(), -model.gradient(self.last.statistics)
