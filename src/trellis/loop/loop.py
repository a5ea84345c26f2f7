"""The one loop: rounds, restarts, schedules, stopping rules, checkpoints, history, progress and interruption.

    repeat:   the step's work at the model's parameters and the round's γ       (an E-step, a pass, a round of L-BFGS)
              M-step of the model;  with β, parameters ← β · supervised + (1 − β) · learned   (Chang 2011, algorithm 8)

until the objective settles, the development metric stops rising, or the rounds are over. What differs between learners
is the step and nothing else (:class:`~trellis.loop.step.Step`).
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.data.checks import check_flag
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.engine.progress import Progress
from trellis.errors import ConvergenceWarning, DataError, ModelFileError
from trellis.loop.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from trellis.loop.history import Round
from trellis.loop.schedule import Gamma, gamma_at, is_constant_from
from trellis.loop.step import Step, StepResult


@dataclass(frozen=True)
class Settings:
    """How a run goes; see the learners for what each means.

    gamma : −∞ where the step has no temperature;  rises : whether the objective must rise from round to round
    keep_best : whether the development metric decides which round's parameters are kept
    unsolved : what to say where projections were not solved
    """

    gamma: Gamma = -np.inf
    beta: float | None = None
    start: str = "auto"
    start_scale: float = 1.0
    n_init: int = 1
    max_iter: int = 100
    tol: float = 0.0
    patience: int | None = None
    random_state: int | None = None
    checkpoint: FilePath | None = None
    checkpoint_every: int = 10
    verbose: bool = False
    title: str = "learning"
    rises: bool = True
    keep_best: bool = True
    unsolved: str = ""

    def gamma_at(self, number: int) -> float:
        return -np.inf if isinstance(self.gamma, float) and self.gamma == -np.inf else gamma_at(self.gamma, number)


class Loop:
    """A run of rounds.

    score : the development metric at the model's parameters and a state of the step, None: there is none
    known : fingerprints that a checkpoint must share
    """

    def __init__(
        self,
        step: Step[Any],
        settings: Settings,
        *,
        score: Callable[[Any], float] | None = None,
        known: dict[str, str] | None = None,
    ) -> None:
        self.step, self.settings, self.score, self.known = step, settings, score, known or {}
        # Copies of parameters to come back to are held only where something may come back to them.
        self.keeps = score is not None or settings.n_init > 1 or settings.checkpoint is not None
        self.rng = np.random.default_rng()

    def run(self, *, resume: bool = False) -> Checkpoint:
        """All restarts; the best one's parameters are the model's in the end."""
        settings, step, rng = self.settings, self.step, self.rng
        run, restart = self._resumed() if check_flag("resume", resume) else None, 0
        best = None if run is None else run.best
        while True:
            if run is None:
                self._seed(restart)
                step.begin(settings.start, rng, settings.start_scale)
                run = self._new_run(restart)
            if run.state is None:
                run = replace(run, state=step.initial_state(settings.gamma_at(0), rng))
            unsolved: list[tuple[float, str]] = []
            of = "" if settings.n_init == 1 else f", start {run.restart + 1} of {settings.n_init}"
            with Progress(settings.title + of, settings.max_iter, settings.verbose, "rounds") as progress:
                try:
                    while len(run.history) < settings.max_iter and not run.converged:
                        begin = time.perf_counter()
                        number = len(run.history)
                        gamma = settings.gamma_at(number)
                        try:
                            found = step.run(gamma, run.state, rng)
                        except ModelFileError as error:  # what a checkpoint says may be used here for the first time
                            raise ModelFileError(f"{settings.checkpoint}: {error}") from error
                        objective = self._update(run, found, number)
                        # Statistics may be larger than the model: the next round's must not find them still there.
                        found = replace(found, statistics=None)
                        if found.unsolved is not None:
                            unsolved.append((found.kkt_residual, found.unsolved))
                        metric = None if self.score is None else self.score(found.state)
                        entry = Round(
                            number, gamma, objective, found.log_likelihood, found.kl, found.violation,
                            found.kkt_residual, found.evaluations, time.perf_counter() - begin, metric, found.gap,
                        )  # fmt: skip
                        run = self._judged(run, entry, found)
                        progress.advance(number + 1, _figures(entry, run.converged))
                        last = run.converged or number + 1 == settings.max_iter
                        if settings.checkpoint is not None and (last or (number + 1) % settings.checkpoint_every == 0):
                            write_checkpoint(settings.checkpoint, run, best, self.known)
                except KeyboardInterrupt:
                    if settings.checkpoint is not None and len(run.history):
                        write_checkpoint(settings.checkpoint, run, best, self.known)
                    raise
            self._warn(run, unsolved)
            best = run if best is None or run.criterion > best.criterion else best
            restart, run = run.restart + 1, None
            if restart >= settings.n_init:
                break
        if self.keeps:
            step.model.set_parameters(best.kept)
        return best

    def _resumed(self) -> Checkpoint | None:
        if self.settings.checkpoint is None:
            raise DataError("resume continues from a checkpoint: name its file, such as UEM(..., checkpoint=path)")
        run = read_checkpoint(self.settings.checkpoint, self.known, self.step)
        if run is not None:
            self.step.model.set_parameters(run.parameters)
            self.rng.bit_generator.state = run.rng_state
        return run

    def _seed(self, restart: int) -> None:
        """Let random numbers be those of a restart."""
        seed = self.settings.random_state
        first = np.random.default_rng(None if seed is None else [seed, restart])
        self.rng.bit_generator.state = first.bit_generator.state

    def _new_run(self, restart: int) -> Checkpoint:
        """A run of no rounds from the model's parameters; its step has no state yet."""
        settings, step = self.settings, self.step
        supervised = None if settings.beta is None else step.supervised_parameters()
        parameters = step.model.parameters() if self.keeps else {}
        return Checkpoint(restart, parameters, parameters, supervised, self.rng.bit_generator.state, None)

    def _update(self, run: Checkpoint, found: StepResult, number: int) -> float:
        """M-step; the objective is that of the parameters which the step saw, or which it left behind."""
        step, settings, model = self.step, self.settings, self.step.model
        objective = found.objective
        if found.statistics is not None:
            objective += step.log_prior()
            self._check_rise(run, objective, found, number)
            step.update(found.statistics)
        if settings.beta is not None and run.supervised is not None:
            model.set_parameters(mix(run.supervised, model.parameters(), settings.beta))
        return objective if found.statistics is not None else objective + step.log_prior()

    def _judged(self, run: Checkpoint, entry: Round, found: StepResult) -> Checkpoint:
        """The run with one round more: the best parameters are kept, and it has ended if a stopping rule holds."""
        settings, number, metric, model = self.settings, entry.number, entry.dev, self.step.model
        parameters = model.parameters() if self.keeps else {}
        made = replace(
            run, parameters=parameters, state=found.state, history=run.history.with_round(entry),
            rng_state=self.rng.bit_generator.state,
        )  # fmt: skip
        if metric is None or not settings.keep_best:
            made = replace(made, kept=parameters, criterion=entry.objective if metric is None else metric)
        elif metric > run.criterion:
            made = replace(made, kept=parameters, criterion=metric, best_round=number)
        ended = found.settled
        if metric is not None and settings.patience is not None and number - made.best_round >= settings.patience:
            ended = True
        if number >= 1 and settings.gamma != -np.inf and is_constant_from(settings.gamma, number - 1):
            change = abs(entry.objective - run.history[-1].objective)
            ended = ended or change <= settings.tol * max(1.0, abs(entry.objective))
        return replace(made, converged=ended)

    def _check_rise(self, run: Checkpoint, objective: float, found: StepResult, number: int) -> None:
        """Warn if the objective fell by more than the projection's accuracy explains."""
        settings = self.settings
        if not settings.rises or settings.beta is not None or number == 0:
            return
        if not is_constant_from(settings.gamma, number - 1):
            return
        fall = run.history[-1].objective - objective
        rounding = 1e-9 * (1.0 + abs(objective))
        if fall <= found.gap + rounding:
            return
        explained = (run.history[-1].kkt_residual + found.kkt_residual) * (1.0 + self.step.sum_of_duals(found.state))
        if fall > explained + found.gap + rounding:
            warnings.warn(
                f"the objective fell by {fall:.3g} in round {number}, more than the projection's accuracy explains "
                f"({explained + found.gap:.2g}): lower `projection_tol`, or allow more `max_evaluations`",
                ConvergenceWarning,
                stacklevel=6,
            )

    def _warn(self, run: Checkpoint, unsolved: list[tuple[float, str]]) -> None:
        """One warning per run about projections, and one about an objective that still moves."""
        settings, history = self.settings, run.history
        if unsolved:
            residual, name = max(unsolved)
            warnings.warn(
                f"the projection was not solved in {len(unsolved)} of {len(history)} rounds: constraint {name!r} is "
                f"off by {residual:.2g} ({settings.unsolved})",
                ConvergenceWarning,
                stacklevel=5,
            )
        if not run.converged and settings.tol > 0 and settings.patience is None and len(history) >= 2:
            change = abs(history[-1].objective - history[-2].objective)
            warnings.warn(
                f"stopped after max_iter={settings.max_iter} rounds with the objective still changing by "
                f"{change:.3g}: raise max_iter or tol, or set tol=0 if a fixed number of rounds is wanted",
                ConvergenceWarning,
                stacklevel=5,
            )


def mix(one: dict[str, FloatArray], other: dict[str, FloatArray], share: float) -> dict[str, FloatArray]:
    """share · one + (1 − share) · other, table by table."""
    return {name: share * one[name] + (1.0 - share) * other[name] for name in other}


def _figures(entry: Round, converged: bool) -> str:
    """What a round did, for the progress line."""
    worst = max(entry.violation.values(), default=0.0)
    shown = f"objective {entry.objective:.6g}" + (f"  violation {worst:.2g}" if entry.violation else "")
    shown += "" if entry.dev is None else f"  dev {entry.dev:.4f}"
    return f"{shown}  converged" if converged else shown
