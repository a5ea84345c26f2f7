"""What discriminative models share: a vector of weights, a Gaussian prior, and supervised training in the one loop, by
rounds of L-BFGS or by passes of stochastic steps.
"""

from __future__ import annotations

import copy
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, as_parameters
from trellis.data.batch import Batch
from trellis.data.checks import check_dev
from trellis.data.files import FilePath, check_writable
from trellis.data.fingerprint import fingerprint
from trellis.data.ragged import FloatArray
from trellis.engine import Engine, Piece, Placed, engine_for, place_batch, threads_for
from trellis.errors import ConvergenceWarning, DataError
from trellis.loop import ArrayState, Loop, Settings, Step, StepResult
from trellis.loop.checkpoint import Checkpoint
from trellis.models.lbfgs import AdaGrad, Descent, GaussianPrior, Objective, check_l2, descend, minimise
from trellis.models.saving import SavedEstimator

SOLVERS = ("lbfgs", "adagrad")


class LogLinearModel(SavedEstimator):
    """p(y | x) ∝ exp(w · counts of features): the M-step, stochastic steps, and the weights themselves.

    Subclasses say how many weights there are, which of them the prior leaves alone, what f(w) and its gradient
    are over shards, and what the posterior of given labels is.

    Parameters
    ----------
    solver : str
        Optimiser: "lbfgs", or "adagrad" for stochastic steps.
    max_iter : int
        Rounds of L-BFGS, or passes of AdaGrad over the data.
    tol : float
        L-BFGS stops when the objective improves by less than this fraction.
    batch_size : int
        Number of instances per stochastic step.
    patience : int or None
        With ``dev`` data, stop after this many rounds without a better score.
    random_state : int or None
        Seed of the order of sentences in stochastic steps.

    Attributes
    ----------
    history_ : History
        Objective and development score of each round.
    n_iter_ : int
        Number of rounds.
    converged_ : bool
        Whether training stopped before ``max_iter``.
    """

    l2: float
    solver: str
    max_iter: int
    tol: float
    learning_rate: float
    batch_size: int
    random_state: int | None
    n_jobs: int | None
    engine: Any

    patience: int | None
    checkpoint: FilePath | None
    checkpoint_every: int
    verbose: bool

    score: Any
    title = "learning weights"
    weights_: FloatArray
    not_saved = (*SavedEstimator.not_saved, "patience")

    discriminative = True
    ARRAYS: ClassVar[dict[str, ArrayOf]] = {"weights": ArrayOf(np.float64, ("weights",))}

    def _n_weights(self) -> int:
        raise NotImplementedError

    def _free(self) -> slice:
        """Weights without a prior."""
        return slice(0, 0)

    def phi(self, batch: Batch, outputs: Any) -> Any:
        """The feature map: a sparse row (n_weights,) per instance, so that score(outputs) = phi · w."""
        raise NotImplementedError

    def given_counts(self, batch: Batch) -> FloatArray:
        """Σ_i weight_i phi(x_i, y_i) of labels that are all known (n_weights,)."""
        return np.asarray(self.phi(batch, batch.labels).T @ batch.weights)

    def scores(self, batch: Batch) -> Any:
        raise NotImplementedError

    def _objective(self, counts: FloatArray, shards: Sequence[Placed[Any]]) -> Objective:
        """w -> Σ_i weight_i log Z_i(w) − counts · w, and its gradient."""

        def value_and_gradient(weights: FloatArray) -> tuple[float, FloatArray]:
            model, total = self.at(weights), None
            for placed in shards:
                for found in placed.run(_expectations, model):
                    total = found if total is None else total + found
            if total is None:
                return -float(counts @ weights), -counts
            return total.log_partition - float(counts @ weights), self._vector(total) - counts

        return value_and_gradient

    def _vector(self, statistics: Any) -> FloatArray:
        """Expected counts in the order of the weights."""
        raise NotImplementedError

    def collect(self, batch: Batch, q: Any) -> Any:
        raise NotImplementedError

    def bare(self) -> Self:
        """The model as it travels to a worker."""
        made = copy.copy(self)
        made.engine = None
        return made

    def update(
        self, statistics: Any, *, shards: Sequence[Placed[Any]] | None = None, engine: Engine | None = None
    ) -> Descent:
        """M-step by L-BFGS from the present weights; ``shards`` are those that the statistics came from."""
        if shards is None:
            raise DataError(
                f"the M-step of a {type(self).__name__} looks at the data again: give the shards that the statistics "
                "came from"
            )
        objective = self._objective(self._vector(statistics), shards)
        found = minimise(objective, self.weights_, max_iter=self.max_iter, tol=self.tol, prior=self._prior)
        self.weights_ = found.weights
        return found

    @property
    def _prior(self) -> GaussianPrior:
        return GaussianPrior(self.l2, self._free())

    # for objectives that are not likelihoods alone

    def at(self, weights: FloatArray) -> Self:
        """The model as it travels to a worker, at other weights."""
        made = self.bare()
        made.weights_ = weights
        return made

    def vector(self, statistics: Any) -> FloatArray:
        """Statistics in the order of the weights (n_weights,)."""
        return self._vector(statistics)

    def loss(self, statistics: Any, shards: Sequence[Placed[Any]]) -> Objective:
        """w -> −log-likelihood of what the statistics were counted from, and its gradient."""
        return self._objective(self._vector(statistics), shards)

    def lower(self, objective: Objective, *, max_iter: int) -> Descent:
        """Lower an objective of the weights, with the prior, by L-BFGS from the present ones."""
        found = minimise(objective, self.weights_, max_iter=max_iter, tol=self.tol, prior=self._prior)
        self.weights_ = found.weights
        return found

    def stochastic_step(
        self, counts: FloatArray, shards: Sequence[Placed[Any]], squares: FloatArray, share: float
    ) -> tuple[float, FloatArray]:
        """One step of AdaGrad on instances that are ``share`` of all: their loss, and new sums of squared gradients.

        counts : of their outputs, in the order of the weights
        """
        value, gradient = self._objective(counts, shards)(self.weights_)
        pull = share * self.l2 * self.weights_
        pull[self._free()] = 0.0
        steps = AdaGrad(squares, self.learning_rate)
        self.weights_ = steps.step(self.weights_, gradient + pull)
        return value, steps.squares

    def log_prior(self) -> float:
        """−(l2 / 2) ‖w‖² over the weights that have a prior."""
        squares = self.weights_ * self.weights_
        return -0.5 * self.l2 * float(squares.sum() - squares[self._free()].sum())

    def reset(self) -> None:
        """All weights 0: every output is equally likely."""
        self._set_weights(np.zeros(self._n_weights()))

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """Weights drawn from N(0, scale²)."""
        self._set_weights(scale * rng.standard_normal(self._n_weights()))

    def parameters(self) -> dict[str, FloatArray]:
        """The vector of all weights."""
        self._check_fitted()
        return {"weights": self.weights_}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take weights of the form that :meth:`parameters` gives."""
        self._set_weights(as_parameters(LogLinearModel.ARRAYS, parameters, weights=self._n_weights())["weights"])

    def _set_weights(self, weights: FloatArray) -> None:
        self.weights_ = weights

    def _loop(self, batch: Batch, dev: Dev) -> Loop:
        """Training on a batch whose labels are all known, with the solver that was chosen."""
        return loop_of(self, self._step(batch), batch, dev)

    def _trained(self, run: Checkpoint) -> Self:
        """Itself, with what a run of :meth:`_loop` tells beside the weights."""
        self.history_, self.n_iter_, self.converged_ = run.history, len(run.history), run.converged
        if isinstance(run.state, Descent):
            self.n_iter_, self.objective_ = max(run.state.rounds, 1), run.state.objective
            if not run.converged:
                warnings.warn(
                    f"L-BFGS stopped after {run.state.rounds} rounds before it converged; raise max_iter or tol",
                    ConvergenceWarning,
                    stacklevel=3,
                )
        return self

    def _step(self, batch: Batch) -> Step[Any]:
        """A round of the solver that was chosen."""
        if self.solver == "adagrad":
            return AdaGradStep(self, batch)
        shards = place_batch(engine_for(self.n_jobs, self.engine), batch)
        loss = self._objective(shards.total(_count_given, self.bare()), [shards])
        return DescentStep(self, loss, self.tol, self._prior)

    def _check_training(self) -> None:
        check_l2(self.l2)
        self._check_names(solver=SOLVERS)
        self._check_whole(max_iter=1, batch_size=1, random_state=0, patience=1, checkpoint_every=1)
        self._check_within(tol=(0.0, np.inf), learning_rate=(1e-300, np.inf))


def _expectations(model: LogLinearModel, item: Piece, state: Any) -> tuple[Any, Any]:
    """Expected counts of a shard under the model itself."""
    return model.collect(item.data, model.scores(item.data).infer(weights=item.data.weights)), state


def _count_given(model: LogLinearModel, item: Piece, state: Any) -> tuple[FloatArray, Any]:
    return model.given_counts(item.data), state


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
        model, squares, lost = self.model, state.squares, 0.0
        for i in rng.permutation(len(self.parts)).tolist():
            part = self.parts[i]
            shards: list[Placed[Any]] = [threads_for(1).place([Piece(part)])]
            value, squares = model.stochastic_step(model.given_counts(part), shards, squares, len(part) / self.n)
            lost += value
        return StepResult(None, -lost, Squares(squares), evaluations=len(self.parts))

    def log_prior(self) -> float:
        return float(self.model.log_prior())
