"""The one loop: rounds, restarts, schedules, stopping rules, checkpoints, history, progress and interruption.

    repeat:   E-step at the model's parameters and the round's γ      (whatever the learner gave: see :class:`EStep`)
              M-step of the model;  with β, parameters ← β · supervised + (1 − β) · learned   (Chang 2011, algorithm 8)

until the objective settles, the development metric stops rising, or the rounds are over. What differs between learners
is the E-step and nothing else.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from trellis.data.checks import check_flag
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.engine.progress import Progress
from trellis.errors import ConvergenceWarning, DataError, ModelFileError
from trellis.learn.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from trellis.learn.expectation import Expectation
from trellis.learn.history import Round
from trellis.learn.schedule import Gamma, gamma_at, is_constant_from
from trellis.models.saving import reading
from trellis.projection import Duals


class Trained(Protocol):
    """What is trained, and where it starts: see :class:`~trellis.learn.training.Training`."""

    @property
    def model(self) -> Any:
        """Whose ``parameters`` and ``set_parameters`` are kept and come back."""
        ...

    @property
    def supervised_parameters(self) -> dict[str, FloatArray]: ...

    def begin(self, start: str, rng: np.random.Generator, scale: float, free: Any) -> None: ...
    def update(self, statistics: Any, free: Any) -> None: ...
    def log_prior(self) -> float:
        """What belongs to the objective beside what the E-step says."""
        ...


class EStep(Protocol):
    """What a learner does to the free instances in a round."""

    @property
    def placed(self) -> list[Placed[Any]]:
        """The shards of the free instances, for M-steps that look at them again."""
        ...

    def nothing(self, gamma: float) -> Duals:
        """What the first round starts from."""
        ...

    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        """One E-step at the model's current parameters, from what the round before left."""
        ...


@dataclass(frozen=True)
class Settings:
    """How a run goes; see the learners for what each means.

    gamma : −∞ where the E-step has no temperature;  rises : whether the objective must rise from round to round
    keep_best : whether the development metric decides which round's parameters are kept
    unsolved : what to say where projections were not solved
    """

    gamma: Gamma
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
    """A run of rounds over the instances of a training.

    score : the development metric at the model's parameters and given duals, None: there is none
    known : fingerprints that a checkpoint must share
    """

    def __init__(
        self,
        training: Trained,
        step: EStep,
        settings: Settings,
        *,
        score: Callable[[Duals], float] | None = None,
        known: dict[str, str] | None = None,
    ) -> None:
        self.training, self.step, self.settings, self.score = training, step, settings, score
        self.known = known or {}
        # Copies of parameters to come back to are held only where something may come back to them.
        self.keeps = score is not None or settings.n_init > 1 or settings.checkpoint is not None

    def run(self, *, resume: bool = False) -> Checkpoint:
        """All restarts; the best one's parameters are the model's in the end."""
        settings, model = self.settings, self.training.model
        run = self._resumed() if check_flag("resume", resume) else None
        run = self._begin(0) if run is None else run
        best = run.best
        while True:
            run = self._rounds(run, best)
            best = run if best is None or run.criterion > best.criterion else best
            if run.restart + 1 >= settings.n_init:
                break
            run = self._begin(run.restart + 1)
        if self.keeps:
            model.set_parameters(best.kept)
        return best

    def _resumed(self) -> Checkpoint | None:
        if self.settings.checkpoint is None:
            raise DataError("resume goes on from a checkpoint: name its file, UEM(..., checkpoint=path)")
        like = self.step.nothing(self.settings.gamma_at(0))
        return read_checkpoint(self.settings.checkpoint, self.known, self.training.model, like)

    def _begin(self, restart: int) -> Checkpoint:
        """Parameters to start from, in the model; and the state of a run of no rounds."""
        settings, training = self.settings, self.training
        seed = settings.random_state
        rng = np.random.default_rng(None if seed is None else [seed, restart])
        training.begin(settings.start, rng, settings.start_scale, self.step.placed)
        supervised = None if settings.beta is None else training.supervised_parameters
        parameters = training.model.parameters() if self.keeps else {}
        return Checkpoint(restart, parameters, parameters, supervised, rng.bit_generator.state)

    def _rounds(self, run: Checkpoint, best: Checkpoint | None) -> Checkpoint:
        """Rounds until one of the stopping rules holds."""
        settings, model = self.settings, self.training.model
        if self.keeps:
            model.set_parameters(run.parameters)
        restore = getattr(self.step, "restore", None)
        if restore is not None:
            # what a checkpoint says of the solver is looked at here for the first time
            with nullcontext() if settings.checkpoint is None or not len(run.history) else reading(settings.checkpoint):
                restore(run)
        unsolved: list[tuple[float, str]] = []
        of = "" if settings.n_init == 1 else f", start {run.restart + 1} of {settings.n_init}"
        with Progress(settings.title + of, settings.max_iter, settings.verbose) as progress:
            try:
                while len(run.history) < settings.max_iter and not run.converged:
                    begin = time.perf_counter()
                    number = len(run.history)
                    try:
                        found, objective = self._round(run, number)
                    except ModelFileError as error:  # statistics of a checkpoint are used in the first round
                        raise ModelFileError(f"{settings.checkpoint}: {error}") from error
                    if found.unsolved is not None:
                        unsolved.append((found.kkt_residual, found.unsolved))
                    metric = None if self.score is None else self.score(found.duals)
                    entry = Round(
                        number, settings.gamma_at(number), objective, found.log_likelihood, found.kl, found.violation,
                        found.kkt_residual, found.evaluations, time.perf_counter() - begin, metric, found.gap,
                    )  # fmt: skip
                    run = self._judged(run, entry, found)
                    progress.advance(number + 1, _figures(entry))
                    last = run.converged or number + 1 == settings.max_iter
                    if settings.checkpoint is not None and (last or (number + 1) % settings.checkpoint_every == 0):
                        write_checkpoint(settings.checkpoint, run, best, self.known)
            except KeyboardInterrupt:
                if settings.checkpoint is not None and len(run.history):
                    write_checkpoint(settings.checkpoint, run, best, self.known)
                raise
        self._warn(run, unsolved)
        return run

    def _round(self, run: Checkpoint, number: int) -> tuple[Expectation, float]:
        """E-step and M-step; the objective is that of the parameters which the E-step saw."""
        training, settings, model = self.training, self.settings, self.training.model
        found = self.step.run(settings.gamma_at(number), run.duals)
        stepwise = found.statistics is None
        objective = found.objective + (0.0 if stepwise else training.log_prior())
        if not stepwise:
            self._check_rise(run, objective, found, number)
            training.update(found.statistics, self.step.placed)
        if settings.beta is not None and run.supervised is not None:
            model.set_parameters(mix(run.supervised, model.parameters(), settings.beta))
        if stepwise:
            objective += training.log_prior()
        # Statistics may be larger than the model: the next round's must not find them still there.
        return replace(found, statistics=None), objective

    def _judged(self, run: Checkpoint, entry: Round, found: Expectation) -> Checkpoint:
        """The run with one round more: the best parameters are kept, and it has ended if a stopping rule holds."""
        settings, number, metric, model = self.settings, entry.number, entry.dev, self.training.model
        parameters = model.parameters() if self.keeps else {}
        made = replace(run, parameters=parameters, duals=found.duals, history=run.history.with_round(entry))
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
        snapshot = getattr(self.step, "snapshot", None)
        return replace(made, converged=ended, **({} if snapshot is None else snapshot()))

    def _check_rise(self, run: Checkpoint, objective: float, found: Expectation, number: int) -> None:
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
        pull = float(np.abs(found.duals.row).sum()) + sum(float(np.abs(lam).sum()) for lam in found.duals.sparsity)
        explained = (run.history[-1].kkt_residual + found.kkt_residual) * (1.0 + pull)
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


def _figures(entry: Round) -> str:
    """What a round did, for the progress line."""
    worst = max(entry.violation.values(), default=0.0)
    shown = f"objective {entry.objective:.6g}" + (f"  violation {worst:.2g}" if entry.violation else "")
    return shown if entry.dev is None else f"{shown}  dev {entry.dev:.4f}"
