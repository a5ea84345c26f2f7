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

import time
import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.batch import Batch
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.engine import engine_for
from trellis.engine.compiling import compile_ahead
from trellis.errors import ConvergenceWarning, DataError, UnknownNameError
from trellis.learn.checkpoint import Checkpoint, flattened, read_checkpoint, write_checkpoint
from trellis.learn.expectation import Expectation, ExpectationStep
from trellis.learn.fingerprint import fingerprint
from trellis.learn.history import History, Round
from trellis.learn.online import OnlineSteps
from trellis.learn.prediction import ConstrainedPrediction
from trellis.learn.progress import Progress
from trellis.learn.schedule import Gamma, gamma_at, is_constant_from
from trellis.models.model import Model
from trellis.projection.shard import PATIENT

STARTS = ("auto", "random", "uniform", "labelled", "model")


class UEM(ConstrainedPrediction):
    """Learn a model from labelled, partly labelled and unlabelled instances and from constraints.

    model : HMM, CRF, NaiveBayes, MaxEnt, or anything with the four verbs; it is trained in place
    constraints : on the instances that are not fully labelled
    gamma : a number ≥ 0, a list (one a round; the last one stays), or a function of the round, such as Anneal
    alpha : weight of the projected posterior in the M-step, the model's own has 1 − α (Ganchev et al. 2010, app. A)
    beta : if given, parameters are β · supervised + (1 − β) · learned after each M-step, which then leaves labelled
        instances out (Chang 2011, algorithm 8)
    start : "random" (pseudo-counts 1 + scale · U(0, 1)), "uniform" (all outputs equally likely), "labelled" (supervised
        training), "model" (its parameters as they are); "auto": labelled if there are labels, else random
    n_init : restarts from other random starts; the best objective (or development metric) is kept
    max_rounds, tol : stop after so many rounds, or when the objective changes by less than tol times its size
    patience : with ``dev`` data, stop after so many rounds without a better metric; the best parameters are kept
    online : number of instances a mini-batch, for stepwise EM with step (k + 2)^−step_power; None: batch
    tolerance : KKT residual of the projection;  evaluations : at most so many an instance, and passes for coupling rows
    few_dual_steps : for a single ``few_labels_per``: take so many compiled dual steps a round, from where the last
        round ended, in place of solving to ``tolerance``. The objective is then what the posterior used attains, and
        ``gap`` in the history says how far below the maximum that can be; ``duals_`` has its rows by key
    checkpoint : file to write every ``checkpoint_every`` rounds; ``fit(..., resume=True)`` goes on from it
    track_likelihood : with constraints or γ ≠ 1, likelihood and KL in the history cost one more inference a round

    Learned: ``model`` itself, ``history_``, ``duals_``, ``objective_``, ``n_rounds_``, ``converged_``.

    >>> from trellis.models import HMM
    >>> from trellis.constraints import count
    >>> text = [["the", "dog", "barks"], ["a", "dog", "sleeps"], ["the", "cat", "sleeps"]]
    >>> learner = UEM(
    ...     HMM(["N", "V"], min_count=1, unknown=None), [count("V") >= 1], max_rounds=5, tol=0, random_state=0
    ... )
    >>> _ = learner.fit(text)
    >>> learner.history_.objective == sorted(learner.history_.objective)
    True
    """

    def __init__(
        self,
        model: Any,
        constraints: Sequence[Constraint | Rule] = (),
        *,
        gamma: Gamma = 1.0,
        alpha: float = 1.0,
        beta: float | None = None,
        start: str = "auto",
        start_scale: float = 1.0,
        n_init: int = 1,
        max_rounds: int = 100,
        tol: float = 1e-6,
        patience: int | None = None,
        online: int | None = None,
        step_power: float = 0.7,
        tolerance: float = 1e-3,
        evaluations: int = 200,
        few_dual_steps: int | None = None,
        threads: int | None = 1,
        random_state: int | None = None,
        checkpoint: FilePath | None = None,
        checkpoint_every: int = 10,
        track_likelihood: bool = True,
        show_progress: bool = False,
    ) -> None:
        self.model = model
        self.constraints = constraints
        self.gamma = gamma
        self.alpha = alpha
        self.beta = beta
        self.start = start
        self.start_scale = start_scale
        self.n_init = n_init
        self.max_rounds = max_rounds
        self.tol = tol
        self.patience = patience
        self.online = online
        self.step_power = step_power
        self.tolerance = tolerance
        self.evaluations = evaluations
        self.few_dual_steps = few_dual_steps
        self.threads = threads
        self.random_state = random_state
        self.checkpoint = checkpoint
        self.checkpoint_every = checkpoint_every
        self.track_likelihood = track_likelihood
        self.show_progress = show_progress

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "history_")

    # training

    def fit(
        self, X: Any, y: Any = None, *, weights: Any = None, dev: tuple[Any, Any] | None = None, resume: bool = False
    ) -> Self:
        """Train the model; ``dev`` is (X, y) whose score decides when to stop and which round is kept."""
        self._check_settings(dev)
        compile_ahead(type(self.model).__name__ + ("+rules" if self.constraints else ""))
        model: Model = self.model
        batch = model.encode(X, y, weights, fit=self.start != "model")
        step = ExpectationStep(
            model, batch, tuple(self.constraints), engine_for(self.threads),
            tolerance=self.tolerance, most_evaluations=self.evaluations, most_rounds=self.evaluations,
            use_labelled=self.beta is None, few_dual_steps=self.few_dual_steps,
        )  # fmt: skip
        online = None if self.online is None else OnlineSteps(step, tuple(self.constraints), self.online, self)
        self._check_data(step)
        if resume and self.checkpoint is None:
            raise DataError("resume goes on from a checkpoint: name its file, UEM(..., checkpoint=path)")
        known = self._fingerprint(batch, step) if self.checkpoint is not None else {}
        state = None
        if resume and self.checkpoint is not None:
            state = read_checkpoint(self.checkpoint, known, model, step.no_duals(gamma_at(self.gamma, 0)))
        # Copies of parameters to come back to are held only where something may come back to them.
        self._keeps = dev is not None or self.n_init > 1 or self.checkpoint is not None
        best = None if state is None else state.best
        first = 0 if state is None else state.restart
        for restart in range(first, self.n_init):
            run = self._begin(step, batch, restart) if state is None else state
            state = None
            run = self._run(step, online, run, restart, best, dev, known)
            if best is None or run.criterion > best.criterion:
                best = run
        if best is None:
            raise DataError(f"n_init must be at least 1, got {self.n_init}")
        if self._keeps:
            model.set_parameters(best.kept)
        self.history_, self.duals_ = best.history, best.duals
        self.objective_ = best.history[-1].objective
        self.n_rounds_, self.converged_ = len(best.history), best.converged
        return self

    def _begin(self, step: ExpectationStep, batch: Batch, restart: int) -> Checkpoint:
        """Parameters to start from, in the model; and the state of a run of no rounds."""
        model: Model = self.model
        rng = np.random.default_rng(None if self.random_state is None else [self.random_state, restart])
        start = self.start
        if start == "auto":
            start = "labelled" if step.supervised is not None else "random"
        if start == "random":
            model.reset()
            model.randomize(rng, self.start_scale)
        elif start == "uniform":
            model.reset()
            total = step.supervised if step.use_labelled else None
            for part in step.free_parts:
                uniform = model.uniform(part).clamp(part.labels)
                found = model.collect(part, uniform.infer(weights=part.weights))
                total = found if total is None else total + found
            model.update(total, shards=step.parts, engine=step.engine)
        elif start == "labelled":
            model.reset()
            model.update(step.supervised, shards=step.labelled_parts, engine=step.engine)
        supervised = None
        if self.beta is not None:
            saved = model.parameters()
            model.reset()
            model.update(step.supervised, shards=step.labelled_parts, engine=step.engine)
            supervised = model.parameters()
            model.set_parameters(saved)
        parameters = model.parameters() if self._keeps else {}
        return Checkpoint(restart, parameters, parameters, supervised, rng.bit_generator.state, History())

    def _run(
        self,
        step: ExpectationStep,
        online: OnlineSteps | None,
        run: Checkpoint,
        restart: int,
        best: Checkpoint | None,
        dev: tuple[Any, Any] | None,
        known: dict[str, str],
    ) -> Checkpoint:
        """Rounds until one of the stopping rules holds."""
        model: Model = self.model
        if self._keeps:
            model.set_parameters(run.parameters)
        if online is not None:
            online.restore(run.rng_state, run.statistics)
        unsolved: list[tuple[float, str]] = []
        title = "learning" if self.n_init == 1 else f"learning, start {restart + 1} of {self.n_init}"
        with Progress(title, self.max_rounds, self.show_progress) as progress:
            while len(run.history) < self.max_rounds and not run.converged:
                begin = time.perf_counter()
                number = len(run.history)
                gamma = gamma_at(self.gamma, number)
                if online is not None:
                    expectation = online.run_pass(gamma, run.n_steps)
                    run.n_steps += online.n_batches
                else:
                    expectation = step.run(
                        gamma, run.duals, alpha=self.alpha, likelihood=self.track_likelihood, warn=False
                    )
                    objective = expectation.objective + model.log_prior()
                    self._check_rise(run, objective, expectation, number)
                    model.update(expectation.statistics, shards=step.parts, engine=step.engine)
                    # They may be larger than the model: the next round's must not find them still there.
                    expectation = replace(expectation, statistics=None)
                if self.beta is not None and run.supervised is not None:
                    model.set_parameters(_mix(run.supervised, model.parameters(), self.beta))
                if online is not None:
                    objective = expectation.objective + model.log_prior()
                if expectation.unsolved is not None:
                    unsolved.append((expectation.kkt_residual, expectation.unsolved))
                run.duals = expectation.duals
                metric = None if dev is None else float(self.score(*dev))
                run.history.append(
                    Round(
                        number, gamma, objective, expectation.log_likelihood, expectation.kl, expectation.violation,
                        expectation.kkt_residual, expectation.evaluations, time.perf_counter() - begin, metric,
                        expectation.gap,
                    )
                )  # fmt: skip
                run.parameters = model.parameters() if self._keeps else {}
                ended = self._judge(run, number, metric)
                progress.advance(number + 1, _figures(run.history[-1]))
                last = ended or number + 1 == self.max_rounds
                if self.checkpoint is not None and (last or (number + 1) % self.checkpoint_every == 0):
                    if online is not None:
                        run.rng_state, run.statistics = online.rng_state, flattened(online.statistics)
                    write_checkpoint(self.checkpoint, run, best, known)
        if unsolved:
            self._warn_unsolved(unsolved, len(run.history))
        if not run.converged and self.tol > 0 and self.patience is None:
            self._warn_not_converged(run)
        return run

    def _judge(self, run: Checkpoint, number: int, metric: float | None) -> bool:
        """Keep the best parameters, and see whether a stopping rule holds."""
        history = run.history
        if metric is None:
            run.kept, run.criterion = run.parameters, history[-1].objective
        elif metric > run.criterion:
            run.kept, run.criterion, run.best_round = run.parameters, metric, number
        if metric is not None and self.patience is not None and number - run.best_round >= self.patience:
            run.converged = True
        if len(history) >= 2 and is_constant_from(self.gamma, number - 1):
            change = abs(history[-1].objective - history[-2].objective)
            if change <= self.tol * max(1.0, abs(history[-1].objective)):
                run.converged = True
        return run.converged

    def _check_rise(self, run: Checkpoint, objective: float, expectation: Expectation, number: int) -> None:
        """Warn if the objective fell by more than the projection's accuracy explains."""
        if self.beta is not None or number == 0 or not is_constant_from(self.gamma, number - 1):
            return
        if self.evaluations < PATIENT:
            return  # projections that are stopped early give a bound, which may fall
        fall = run.history[-1].objective - objective
        rounding = 1e-9 * (1.0 + abs(objective))
        if fall <= expectation.gap + rounding:
            return
        duals = expectation.duals
        pull = float(np.abs(duals.row).sum()) + sum(float(np.abs(lam).sum()) for lam in duals.sparsity)
        explained = (run.history[-1].kkt_residual + expectation.kkt_residual) * (1.0 + pull)
        if fall > explained + expectation.gap + rounding:
            warnings.warn(
                f"the objective fell by {fall:.3g} in round {number}, more than the projection's accuracy explains "
                f"({explained + expectation.gap:.2g}): lower `tolerance`, or allow more `evaluations`",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _warn_unsolved(self, unsolved: list[tuple[float, str]], n_rounds: int) -> None:
        residual, name = max(unsolved)
        warnings.warn(
            f"the projection was not solved in {len(unsolved)} of {n_rounds} rounds: constraint {name!r} is off by "
            f"{residual:.2g} (KKT residual; tolerance {self.tolerance:g}). Allow more `evaluations` than "
            f"{self.evaluations}, raise `tolerance`, or give the constraint slack or a penalty",
            ConvergenceWarning,
            stacklevel=4,
        )

    def _warn_not_converged(self, run: Checkpoint) -> None:
        if len(run.history) < 2:
            return
        change = abs(run.history[-1].objective - run.history[-2].objective)
        warnings.warn(
            f"stopped after max_rounds={self.max_rounds} rounds with the objective still changing by {change:.3g}: "
            "raise max_rounds or tol, or set tol=0 if a fixed number of rounds is wanted",
            ConvergenceWarning,
            stacklevel=4,
        )

    # checks

    def _check_settings(self, dev: tuple[Any, Any] | None) -> None:
        if self.start not in STARTS:
            raise UnknownNameError("start", self.start, STARTS)
        self._check_whole(n_init=1, max_rounds=1, patience=1, online=1, evaluations=1, few_dual_steps=1)
        self._check_whole(checkpoint_every=1, random_state=0)
        self._check_within(alpha=(0.0, 1.0), beta=(0.0, 1.0), tol=(0.0, np.inf), tolerance=(1e-15, np.inf))
        self._check_within(start_scale=(0.0, np.inf))
        if self.patience is not None and dev is None:
            raise DataError("patience watches a development metric: give dev=(X, y) to fit")
        if self.online is not None and self.few_dual_steps is not None:
            raise DataError("few_dual_steps carries dual variables from round to round, which online learning has not")
        if self.online is not None and self.model.discriminative:
            raise DataError("online (stepwise) EM is for generative models; a CRF takes stochastic steps by itself")

    def _check_data(self, step: ExpectationStep) -> None:
        needs = self.start == "labelled" or self.beta is not None
        if needs and step.supervised is None:
            raise DataError("start='labelled' and beta need fully labelled instances, but there are none in y")
        if not step.free_parts and step.supervised is None:
            raise DataError("there are no instances to learn from")

    def _fingerprint(self, batch: Batch, step: ExpectationStep) -> dict[str, str]:
        """What must be the same for a checkpoint to be gone on from, each by its content."""
        settings = {k: fingerprint(v) for k, v in self.get_params(deep=False).items() if k not in _MAY_CHANGE}
        data = {"data": fingerprint(batch, self.model.label_names_), "constraints": fingerprint(step.rows)}
        return {**settings, **data, "gamma": fingerprint([gamma_at(self.gamma, r) for r in range(MOST_COMPARED)])}


MOST_COMPARED = 1_000
"""Rounds whose γ two runs must have in common."""
_MAY_CHANGE = {"max_rounds", "threads", "checkpoint", "checkpoint_every", "show_progress", "constraints", "gamma"}


def _mix(one: dict[str, FloatArray], other: dict[str, FloatArray], share: float) -> dict[str, FloatArray]:
    return {name: share * one[name] + (1.0 - share) * other[name] for name in other}


def _figures(entry: Round) -> str:
    worst = max(entry.violation.values(), default=0.0)
    shown = f"objective {entry.objective:.6g}"
    if entry.violation:
        shown += f"  violation {worst:.2g}"
    return shown if entry.dev is None else f"{shown}  dev {entry.dev:.4f}"
