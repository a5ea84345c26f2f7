"""UEM: one learner for EM and all its relatives. Each is a setting of γ, constraints and strengths.

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
from trellis.data.storage import UNBOUNDED
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError, UnknownNameError
from trellis.learn.expectation import ProjectedStep, Solving
from trellis.learn.loop import EStep, Loop, Settings
from trellis.learn.online import StepwiseStep
from trellis.learn.prediction import Dev, ProjectedPrediction
from trellis.learn.schedule import Gamma, gamma_at
from trellis.learn.training import STARTS, Training
from trellis.projection.shard import PATIENT


@dataclass(eq=False, repr=False)
class UEM(ProjectedPrediction):
    """Learn a model from labelled, partly labelled and unlabelled instances and from constraints.

    model : HMM, CRF, NaiveBayes, MaxEnt, or anything with the four verbs; one like it is trained, ``model_``
    constraints : on the instances that are not fully labelled
    gamma : a number ≥ 0, a list (one a round; the last one stays), or a function of the round, such as Anneal
    alpha : weight of the projected posterior in the M-step, the model's own has 1 − α (Ganchev et al. 2010, app. A)
    beta : if given, parameters are β · supervised + (1 − β) · learned after each M-step, which then leaves labelled
        instances out (Chang 2011, algorithm 8); without unlabelled instances the result is the supervised model
    start : "random" (pseudo-counts 1 + scale · U(0, 1)), "uniform" (all outputs equally likely), "labelled" (supervised
        training), "model" (its parameters as they are); "auto": labelled if there are labels, else random
    start_scale, random_state : of the random start
    n_init : restarts from other random starts; the best objective (or development metric) is kept
    max_iter, tol : stop after so many rounds, or when the objective changes by less than tol times its size
    patience : with ``dev`` data, stop after so many rounds without a better metric; the best parameters are kept
    online, step_power : instances to a mini-batch, for stepwise EM with step (k + 2)^−step_power; None: batch
    projection_tol : KKT residual of the projection
    max_evaluations : at most so many per instance, and passes for rows that couple them
    few_dual_steps : for a single ``few_labels_per``: take so many compiled dual steps a round, from where the last
        round ended, in place of solving to ``tolerance``. The objective is then what the posterior used attains, and
        ``gap`` in the history says how far below the maximum that can be; ``duals_`` has its rows by runs of keys
    checkpoint, checkpoint_every : file to write every so many rounds; ``fit(..., resume=True)`` goes on from it
    track_likelihood : with constraints or γ ≠ 1, likelihood and KL in the history cost one more inference a round

    Learned: ``model_``, ``history_``, ``duals_``, ``pulls_`` (mean dual variable of each constraint's rows: the price
    that the last projection put on it), ``objective_``, ``n_iter_``, ``converged_``.

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
        self._check_settings(dev)
        if self.patience is not None and dev is None:
            raise DataError("patience watches a development metric: give dev=(X, y) to fit")
        compile_ahead(type(self.model).__name__ + ("+rules" if self.constraints else ""))
        training = self._training(X, y, sample_weight, learned=self.start == "model")
        score = None if dev is None else lambda: float(self.score(*dev))
        return self.train(training, score=score, resume=resume)

    def train(
        self,
        training: Training,
        step: Any = None,
        *,
        score: Callable[[], float] | None = None,
        resume: bool = False,
        keep_best: bool = True,
    ) -> Self:
        """Train the model of a training in place, for learners and tasks that prepare it themselves.

        step : an E-step over it that is compiled already, which has ``rows``;  score : the development metric
        """
        training.check(needs_labels=self.start == "labelled" or self.beta is not None)
        step = self.step_of(training) if step is None else step
        self.model_ = training.model
        known = None if self.checkpoint is None else self._known(training.batch, constraints=step.rows)
        metric = None if score is None else lambda _: score()
        settings = self._settings(keep_best, None if training.use_labelled else self.beta)
        run = Loop(training, step, settings, score=metric, known=known).run(resume=resume)
        self._take_run(run)
        self.duals_, self.objective_ = run.duals, run.history[-1].objective
        projected = isinstance(step, ProjectedStep)
        self.pulls_ = run.duals.pulls(step.projector.rows) if projected and run.duals is not None else {}
        return self

    def step_of(self, training: Training, memory: object = None) -> EStep:
        """The E-step that these settings ask for; memory : what the run may use, None: half of what is free."""
        # A checkpoint knows rows by their content, so that all of it must be at hand.
        memory = memory if self.checkpoint is None else UNBOUNDED
        constraints = tuple(self.constraints)
        solving = Solving(self.projection_tol, self.max_evaluations, self.few_dual_steps, memory)
        if self.online is not None:
            return StepwiseStep(
                training, constraints, solving, size=self.online, power=self.step_power,
                likelihood=self.track_likelihood,
            )  # fmt: skip
        return ProjectedStep(training, constraints, solving, alpha=self.alpha, likelihood=self.track_likelihood)

    def _settings(self, keep_best: bool, beta: float | None) -> Settings:
        return Settings(
            self.gamma, beta, self.start, self.start_scale, self.n_init, self.max_iter, self.tol, self.patience,
            self.random_state, self.checkpoint, self.checkpoint_every, self.verbose,
            # projections that are stopped early give a bound, which may fall
            rises=self.max_evaluations >= PATIENT, keep_best=keep_best,
            unsolved=f"KKT residual; projection_tol {self.projection_tol:g}). Allow more `max_evaluations` than "
            f"{self.max_evaluations}, raise `projection_tol`, or give the constraint slack or a penalty",
        )  # fmt: skip

    def save(self, path: FilePath) -> None:
        """Write the model with its rules into one file; of a schedule of γ its last value."""
        self._check_fitted()
        plain = UEM(**{**self.get_params(deep=False), "gamma": self._gamma(True)})
        plain.model_, plain.history_ = self.model_, self.history_
        super(UEM, plain).save(path)

    # checks

    def _check_settings(self, dev: Any = None) -> None:
        if self.start not in STARTS:
            raise UnknownNameError("start", self.start, STARTS)
        self._check_learner(dev)
        self._check_whole(n_init=1, max_iter=1, patience=1, online=1, max_evaluations=1, few_dual_steps=1)
        self._check_whole(checkpoint_every=1, random_state=0)
        self._check_within(alpha=(0.0, 1.0), beta=(0.0, 1.0), tol=(0.0, np.inf), projection_tol=(1e-15, np.inf))
        self._check_within(start_scale=(0.0, np.inf))
        gamma_at(self.gamma, 0)
        if self.online is not None and self.few_dual_steps is not None:
            raise DataError("few_dual_steps carries dual variables from round to round, which online learning has not")
        if self.online is not None and not callable(getattr(self.model, "decode", None)):
            raise DataError(f"online (stepwise) EM is not available for {type(self.model).__name__}: leave out online")
        if self.online is not None and self.model.discriminative:
            raise DataError("online (stepwise) EM is for generative models; a CRF takes stochastic steps by itself")

    def _known(self, batch: Batch, **content: Any) -> dict[str, str]:
        if self.start == "model":
            content["parameters to start from"] = self.model_.parameters()
        return super()._known(batch, gamma=[gamma_at(self.gamma, r) for r in range(MOST_COMPARED)], **content)


MOST_COMPARED = 1_000
"""Rounds whose γ two runs must have in common."""
