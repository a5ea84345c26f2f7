"""UEM: one learner for EM and its variants, which differ in γ, constraints and strengths.

E-step   q = argmin_{q obeys the constraints} Σ γ q log q − q log p_θ          (Samdani et al. 2012, eq. 7, algorithm 1)
M-step   θ = argmax E_q[log p_θ] + log prior(θ)

γ = 1                 EM; with constraints posterior regularization (Ganchev et al. 2010)
0 < γ < 1             unified EM
γ = 0                 hard EM; with constraints LP-EM
γ from ∞ to 1         deterministic annealing
model.variational     variational Bayes EM (Graça et al. 2009, sec. 4)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.batch import Batch
from trellis.data.files import FilePath
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.learner import Dev, ProjectedLearner
from trellis.learn.online import StepwiseStep
from trellis.learn.training import STARTS, Training
from trellis.loop.checkpoint import Checkpoint
from trellis.loop.loop import Loop
from trellis.loop.schedule import Gamma, gamma_at
from trellis.models.documentation import documented
from trellis.projection import Duals


@documented
@dataclass(eq=False, repr=False)
class UEM(ProjectedLearner):
    """Train a model by EM, posterior regularization or unified EM.

    The E-step projects the posterior of unlabelled and partly labelled instances onto the constraints; the M-step
    re-estimates the model from expected counts. ``gamma=1`` without constraints is EM, with constraints posterior
    regularization; ``gamma=0`` is hard EM or LP-EM, and values in between are unified EM.

    Parameters
    ----------
    model : estimator
        Model to train, such as :class:`HMM` or :class:`CRF`. A copy is trained and stored as ``model_``.
    constraints : list of Constraint, default=()
        Constraints on the instances that are not fully labelled.
    gamma : float, list or callable, default=1.0
        Temperature γ of the posteriors, at least 0. A list gives one value per round; a function such as
        :class:`Anneal` maps the round to a value.
    alpha : float, default=1.0
        Weight of the projected posterior in the M-step; the model's own posterior has 1 − α (Ganchev et al. 2010,
        appendix A).
    beta : float or None, default=None
        If given, parameters are interpolated with those of the labelled instances after each M-step: β · supervised +
        (1 − β) · learned (Chang 2011, algorithm 8).
    start : {"auto", "random", "uniform", "labelled", "model"}, default="auto"
        Initial parameters: random counts, uniform posteriors, supervised training, or those of the model. "auto" is
        "labelled" if there are labels and "random" otherwise.
    start_scale : float, default=1.0
        Scale s of random counts, 1 + s · U(0, 1).
    n_init : int, default=1
        Number of random restarts; the run with the best objective (or development score) is kept.
    max_iter : int, default=100
        Rounds of training. Training may stop earlier.
    patience : int or None, default=None
        With development data, stop after this many rounds without improvement and keep the best parameters.
    online : int or None, default=None
        Number of instances per mini-batch of stepwise EM, or of stochastic gradient steps for discriminative models. By
        default, batch EM.
    step_power : float, default=0.7
        Exponent of the step size (k + 2)^−step_power of stepwise EM.
    few_dual_steps : int or None, default=None
        For a single ``few_labels_per`` constraint: number of compiled dual steps per round, warm-started, in place of
        solving to ``projection_tol``. The history then contains the duality gap.
    random_state : int or None, default=None
        Seed of random starts.
    track_likelihood : bool, default=True
        Record likelihood and KL divergence in the history, at the cost of one more inference per round.

    Attributes
    ----------
    history_ : History
        Objective, likelihood, KL divergence and violations of every round.
    duals_ : object
        Dual variables of the last projection.
    mean_duals_ : dict
        Mean dual variable of each constraint.
    objective_ : float
        Final objective.

    Examples
    --------
    >>> from trellis.models import HMM
    >>> from trellis.constraints import count
    >>> text = [["the", "dog", "barks"], ["a", "dog", "sleeps"], ["the", "cat", "sleeps"]]
    >>> learner = UEM(HMM(["N", "V"], min_count=1, unknown=None), [count("V") >= 1], max_iter=5, tol=0, random_state=0)
    >>> _ = learner.fit(text)
    >>> learner.history_.objective == sorted(learner.history_.objective)
    True
    """

    model: Any
    constraints: Sequence[Constraint | Rule] = ()
    _: KW_ONLY
    gamma: Gamma = 1.0
    alpha: float = 1.0
    unlabelled_weight: float = 1.0
    beta: float | None = None
    start: str = "auto"
    start_scale: float = 1.0
    n_init: int = 1
    max_iter: int = 100
    tol: float = 1e-6
    patience: int | None = None
    online: int | None = None
    step_power: float = 0.7
    projection_tol: float = 1e-3
    max_evaluations: int = 200
    few_dual_steps: int | None = None
    n_jobs: int | None = None
    engine: Any = None
    random_state: int | None = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 10
    track_likelihood: bool = True
    verbose: bool = False

    def fit(self, X: Any, y: Any = None, *, sample_weight: Any = None, dev: Dev = None, resume: bool = False) -> Self:
        """Train a model like the one given; ``dev`` is (X, y) whose score decides when to stop and what is kept."""
        self._check_types()
        self._check_settings(dev)
        if self.patience is not None and dev is None:
            raise DataError("patience watches a development metric: give dev=(X, y) to fit")
        compile_ahead(type(self.model).__name__ + ("+rules" if self.constraints else ""))
        training = self._training(X, y, sample_weight, learned=self.start == "model")
        loop = self.loop_over(training, score=None if dev is None else lambda: float(self.score(*dev)))
        return self.trained(loop, loop.run(resume=resume))

    def train(self, training: Training, step: Any = None) -> Self:
        """Train the model of a training in place, for tasks that prepare it themselves; ``step`` as in
        :meth:`loop_over`."""
        loop = self.loop_over(training, step)
        return self.trained(loop, loop.run())

    def loop_over(self, training: Training, step: Any = None, *, score: Callable[[], float] | None = None) -> Loop:
        """The rounds that train the model of a training in place; :meth:`trained` takes what they end with.

        step : an E-step over it that is compiled already, which has ``rows``;  score : the development metric
        """
        training.check(needs_labels=self.start == "labelled" or self.beta is not None)
        step = self.step_of(training) if step is None else step
        return self._projection_loop(training, step, score=score, gamma=self.gamma)

    def trained(self, loop: Loop, run: Checkpoint) -> Self:
        """Itself, with what a run of :meth:`loop_over` tells beside the model."""
        self._take_run(run)
        self.duals_, self.objective_ = run.state, run.history[-1].objective
        step: Any = loop.step
        self.mean_duals_ = run.state.means_by_name(step.projector.rows) if isinstance(run.state, Duals) else {}
        return self

    def step_of(self, training: Training) -> ProjectedStep | StepwiseStep:
        """The E-step that these settings ask for."""
        constraints = tuple(self.constraints)
        solving = SolverSettings(self.projection_tol, self.max_evaluations, self.few_dual_steps, self._memory)
        if self.online is not None:
            return StepwiseStep(
                training, constraints, solving, size=self.online, power=self.step_power,
                likelihood=self.track_likelihood,
            )  # fmt: skip
        return ProjectedStep(training, constraints, solving, alpha=self.alpha, likelihood=self.track_likelihood)

    def save(self, path: FilePath) -> None:
        """Write the model with its rules into one file; of a schedule of γ its last value."""
        self._check_fitted()
        plain = UEM(**{**self.get_params(deep=False), "gamma": self._gamma(True)})
        plain.model_, plain.history_ = self.model_, self.history_
        super(UEM, plain).save(path)

    # checks

    def _check_settings(self, dev: Any = None) -> None:
        self._check_names(start=STARTS)
        self._check_learner(dev)
        self._check_whole(n_init=1, max_iter=1, patience=1, online=1, max_evaluations=1, few_dual_steps=1)
        self._check_whole(checkpoint_every=1, random_state=0)
        self._check_within(alpha=(0.0, 1.0), beta=(0.0, 1.0), tol=(0.0, np.inf), projection_tol=(1e-15, np.inf))
        self._check_within(start_scale=(0.0, np.inf))
        gamma_at(self.gamma, 0)
        if self.online is not None and self.few_dual_steps is not None:
            raise DataError(
                "few_dual_steps carries dual variables from round to round, which online learning does not support"
            )
        if self.online is not None and not callable(getattr(self.model, "decode", None)):
            raise DataError(f"online (stepwise) EM is not available for {type(self.model).__name__}: leave out online")
        if self.online is not None and self.model.discriminative and not hasattr(self.model, "stochastic_step"):
            raise DataError(f"online (stepwise) EM is not available for {type(self.model).__name__}: leave out online")

    def _known(self, batch: Batch, **content: Any) -> dict[str, str]:
        if self.start == "model":
            content["parameters to start from"] = self.model_.parameters()
        return super()._known(batch, gamma=[gamma_at(self.gamma, r) for r in range(MOST_COMPARED)], **content)


MOST_COMPARED = 1_000
"""Rounds whose γ two runs must have in common."""
