"""Supervised training of a model by itself, in the one loop: rounds of L-BFGS, or passes of stochastic steps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf
from trellis.data.batch import Batch
from trellis.data.checks import check_dev
from trellis.data.files import check_writable
from trellis.data.fingerprint import fingerprint
from trellis.data.ragged import FloatArray
from trellis.engine import Piece, threads_for
from trellis.errors import DataError
from trellis.loop import ArrayState, Loop, Settings, Step, StepResult
from trellis.models.gaussian import AdaGrad
from trellis.models.lbfgs import Descent, GaussianPrior, Objective, descend

if TYPE_CHECKING:
    from trellis.models.log_linear import LogLinearModel

MAY_CHANGE = ("max_iter", "patience", "n_jobs", "engine", "checkpoint", "checkpoint_every", "verbose")
"""Settings that a run may be resumed with others of."""

Dev = tuple[Any, Any] | None
"""Instances and their labels that a run is judged on, (X, y)."""


def loop_of(model: Any, step: Step[Any], batch: Any, dev: Dev) -> Loop:
    """The loop with a model's own settings.

    batch : what is learned from; a checkpoint is resumed with the same alone
    """
    check_dev(dev)
    if model.patience is not None and dev is None:
        raise DataError("patience watches a development metric: give dev=(X, y) to fit")
    known = None
    if model.checkpoint is not None:
        check_writable(model.checkpoint)
        same = {name: value for name, value in model.get_params(deep=False).items() if name not in MAY_CHANGE}
        known = {name: fingerprint(value) for name, value in {**same, "data": batch}.items()}
    settings = Settings(
        max_iter=model.max_iter, patience=model.patience, random_state=model.random_state,
        checkpoint=model.checkpoint, checkpoint_every=model.checkpoint_every, verbose=model.verbose,
        title=model.title,
    )  # fmt: skip
    return Loop(step, settings, score=None if dev is None else lambda _: float(model.score(*dev)), known=known)


class DescentStep(Step[Descent]):
    """A round of L-BFGS.

    objective : of the model's weights, without the prior;  tol : of convergence, a share of the objective
    """

    def __init__(self, model: LogLinearModel, objective: Objective, tol: float, prior: GaussianPrior) -> None:
        self.model, self.objective, self.tol, self.prior = model, objective, tol, prior

    def initial_state(self, gamma: float, rng: np.random.Generator) -> Descent:
        return Descent.begin(self.model.weights_)

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> Descent:
        return Descent.read(arrays, len(self.model.weights_))

    def run(self, gamma: float, state: Descent, rng: np.random.Generator) -> StepResult:
        found = descend(self.objective, state, tol=self.tol, prior=self.prior)
        self.model.weights_ = found.weights
        return StepResult(None, -found.objective, found, evaluations=found.evaluations, settled=found.converged)


@dataclass(frozen=True)
class Squares(ArrayState):
    """squares : (n_weights,) sums of squared gradients."""

    squares: FloatArray

    ARRAYS: ClassVar = {"squares": ArrayOf(np.float64, ("weights",), low=0.0)}


class AdaGradStep(Step[Squares]):
    """A pass of AdaGrad over mini-batches whose labels are all known, in another order each time."""

    def __init__(self, model: LogLinearModel, batch: Batch) -> None:
        self.model, self.n = model, len(batch)
        firsts = range(0, len(batch), model.batch_size)
        self.parts = [batch.instances(first, min(first + model.batch_size, len(batch))) for first in firsts]

    def initial_state(self, gamma: float, rng: np.random.Generator) -> Squares:
        return Squares(np.zeros(len(self.model.weights_)))

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> Squares:
        return Squares.read(arrays, weights=len(self.model.weights_))

    def run(self, gamma: float, state: Squares, rng: np.random.Generator) -> StepResult:
        """The objective is that of each mini-batch as it was met."""
        model, steps, lost = self.model, AdaGrad(state.squares, self.model.learning_rate), 0.0
        for i in rng.permutation(len(self.parts)).tolist():
            part = self.parts[i]
            objective = model._objective(model.given_counts(part), [threads_for(1).place([Piece(part)])])
            value, gradient = objective(model.weights_)
            pull = len(part) / self.n * model.l2 * model.weights_
            pull[model._free()] = 0.0
            model.weights_ = steps.step(model.weights_, gradient + pull)
            lost += value
        return StepResult(None, -lost, Squares(steps.squares), evaluations=len(self.parts))

    def log_prior(self) -> float:
        return float(self.model.log_prior())
