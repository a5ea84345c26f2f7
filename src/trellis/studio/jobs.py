"""Training in the background: the commands of extraction, one after the other, in the project folder.

A run is a list of steps. A step is a command line of ``trellis``, the same that a person would type; what it says on
standard error is kept. Nothing of a run that failed or was cancelled is left but what it said.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from shlex import join
from typing import Any

from trellis.data.files import writing
from trellis.errors import DataError
from trellis.studio.models import next_name
from trellis.studio.project import LABELS, MODELS, RULES, TEXTS, Project
from trellis.studio.runner import ENDED

METHODS = ("pr", "uem", "codl", "hard-em", "em", "supervised")
KINDS = ("crf", "semi-crf", "hmm")
KEPT_LINES = 200
PATIENCE = 5.0
"""Seconds that a cancelled command has to end by itself."""


@dataclass(frozen=True)
class TrainingSettings:
    """What a person chooses: the same names and values as the options of ``trellis extract train``."""

    method: str | None = None
    model_kind: str | None = None
    rounds: int | None = None
    hard: bool = False
    folds: int = 0

    @classmethod
    def of(cls, given: Any) -> TrainingSettings:
        """Settings of a JSON object; anything odd is refused."""
        if not isinstance(given, dict) or (unknown := sorted(set(given) - set(cls.__dataclass_fields__))):
            raise DataError(f"unknown setting {unknown[0]!r}" if isinstance(given, dict) else "expected an object")
        made = cls(**given)
        if made.method is not None and made.method not in METHODS:
            raise DataError(f"method is one of {', '.join(METHODS)}, not {made.method!r:.50}")
        if made.model_kind is not None and made.model_kind not in KINDS:
            raise DataError(f"model_kind is one of {', '.join(KINDS)}, not {made.model_kind!r:.50}")
        for name, low, high in (("rounds", 0, 1000), ("folds", 0, 20)):
            value = getattr(made, name)
            is_whole = isinstance(value, int) and not isinstance(value, bool)
            if value is not None and not (is_whole and low <= value <= high):
                raise DataError(f"{name} is a whole number from {low} to {high}, not {value!r:.50}")
        if not isinstance(made.hard, bool):
            raise DataError("hard is true or false")
        return made

    def options(self) -> list[str]:
        """Options of the command line."""
        found: list[str] = []
        for option, value in (("--method", self.method), ("--model-kind", self.model_kind), ("--rounds", self.rounds)):
            if value is not None:
                found += [option, str(value)]
        return [*found, *["--hard"] * self.hard]


@dataclass
class CommandStep:
    """A command of a run, and what it does in a few words."""

    does: str
    words: list[str]
    needed: bool = True
    """Whether the run ends if it fails."""

    @property
    def command(self) -> str:
        return join(["trellis", *self.words])


@dataclass
class Run:
    """One training: its steps, where it is, and how it ended ("running", "done", "failed", "cancelled")."""

    name: str
    settings: TrainingSettings
    steps: list[CommandStep]
    state: str = "running"
    at: int = 0
    said: list[str] = field(default_factory=list)
    started: float = field(default_factory=time.time)
    ended: float | None = None

    def record(self) -> dict[str, Any]:
        """What is shown of it."""
        done = [line for line in self.said if re.match(r"[\w ]+: \d+(/\d+)?", line)]
        return {
            "name": self.name, "state": self.state, "at": self.at, "n": len(self.steps),
            "does": self.steps[min(self.at, len(self.steps) - 1)].does,
            "commands": [step.command for step in self.steps], "progress": done[-1] if done else "",
            "said": self.said[-KEPT_LINES:], "seconds": round((self.ended or time.time()) - self.started, 1),
        }  # fmt: skip


def steps_of(project: Project, name: str, settings: TrainingSettings) -> list[CommandStep]:
    """The commands of a training."""
    model, out = f"{MODELS}/{name}.trellis", f"{MODELS}/{name}"
    labelled = ["-l", LABELS] if project.labels else []
    texts = ["-u", TEXTS] if (project.folder / TEXTS).exists() else []
    dev = ["--dev", project.dev] if project.dev is not None else []
    train = ["extract", "train", RULES, *labelled, *texts, *dev, *settings.options()]
    steps = [CommandStep("training", [*train, "--save", model])]

    def predict(of: str, to: str) -> CommandStep:
        return CommandStep(f"predicting {of}", ["extract", "predict", "-m", model, of, "-o", to, "-q"])

    if texts:
        steps.append(predict(TEXTS, f"{out}.jsonl"))
    if labelled:
        steps.append(predict(LABELS, f"{out}.labels.jsonl"))
        explain = ["extract", "explain", "-m", model, LABELS, "--json", "-o", f"{out}.rules.jsonl", "-q"]
        steps.append(CommandStep("looking at the rules", explain, needed=False))
    if project.dev is not None:
        steps.append(predict(project.dev, f"{out}.dev.jsonl"))
        evaluate = ["evaluate", project.dev, f"{out}.dev.jsonl", "--json", "-o", f"{out}.dev-scores.json"]
        steps.append(CommandStep("measuring", evaluate, needed=False))
    return steps + _cross_validation(project, name, settings)


def _cross_validation(project: Project, name: str, settings: TrainingSettings) -> list[CommandStep]:
    """Commands that train on all folds but one and predict that one."""
    folds, folder, steps = settings.folds, f"{MODELS}/{name}.folds", []
    texts = ["-u", TEXTS] if (project.folder / TEXTS).exists() else []
    for number in range(folds):
        train, held = f"{folder}/{number}.train.jsonl", f"{folder}/{number}.held.jsonl"
        model = f"{folder}/{number}.trellis"
        words = ["extract", "train", RULES, "-l", train, *texts, *settings.options(), "--save", model, "-q"]
        steps.append(CommandStep(f"cross-validating, fold {number + 1} of {folds}", words))
        predicted = f"{folder}/{number}.found.jsonl"
        steps.append(
            CommandStep(
                f"fold {number + 1} of {folds}", ["extract", "predict", "-m", model, held, "-o", predicted, "-q"]
            )
        )
    if folds:
        out = f"{MODELS}/{name}"
        words = ["evaluate", f"{out}.cv-gold.jsonl", f"{out}.cv.jsonl", "--json", "-o", f"{out}.cv-scores.json"]
        steps.append(CommandStep("measuring", words))
    return steps


class Trainer:
    """Runs one training at a time; done : is called when a run has made a model."""

    def __init__(self, project: Project, done: Callable[[str], Awaitable[None]]) -> None:
        self.project, self.done = project, done
        self.run: Run | None = None
        self._task: asyncio.Task[None] | None = None

    @property
    def busy(self) -> bool:
        return self.run is not None and self.run.state == "running"

    def start(self, settings: TrainingSettings) -> Run:
        """Begin a training."""
        if self.busy:
            raise DataError("training is already running: wait for it, or cancel it")
        project = self.project
        project.refresh()
        if project.faults:
            name, fault = next(iter(project.faults.items()))
            raise DataError(f"{name} cannot be read: {fault}")
        if not project.label_names:
            raise DataError("there is no label yet: add labels first")
        if not project.texts:
            raise DataError("there is no text yet: add texts first")
        complete = [one for one in project.labels.values() if one.complete]
        if settings.folds and not 2 <= settings.folds <= len(complete):
            raise DataError(
                f"{settings.folds} folds need as many fully labelled texts, but the number of these is {len(complete)}"
            )
        folder = project.folder / MODELS
        folder.mkdir(exist_ok=True)
        name = next_name(folder)
        self.run = Run(name, settings, steps_of(project, name, settings))
        if settings.folds:
            self._write_folds(folder / f"{name}.folds", [one.line() for one in complete], settings.folds)
        self._task = asyncio.create_task(self._go(self.run))
        return self.run

    def _write_folds(self, folder: Path, lines: Sequence[str], n: int) -> None:
        folder.mkdir()
        for number in range(n):
            held = [line for at, line in enumerate(lines) if at % n == number]
            rest = [line for at, line in enumerate(lines) if at % n != number]
            for name, own in (("held", held), ("train", rest)):
                with writing(folder / f"{number}.{name}.jsonl") as out:
                    out.writelines(own)
        with writing(folder.with_suffix(".cv-gold.jsonl")) as out:
            out.writelines(lines)

    async def _go(self, run: Run) -> None:
        folder = self.project.folder / MODELS
        about: dict[str, Any] = {
            "settings": vars(run.settings), "time": round(run.started), "texts": len(self.project.texts),
            "labelled": len(self.project.labels), "rules": self.project.rules,
            "commands": [step.command for step in run.steps if f".folds{os.sep}" not in step.command],
        }  # fmt: skip
        process, state = None, "failed"
        try:
            process = await self._process()
            for at, step in enumerate(run.steps):
                run.at = at
                if step.words[0] == "evaluate" and ".cv-gold." in step.words[1]:
                    self._join_folds(folder, run)
                code = await self._command(process, run, step)
                if code and step.needed:
                    break
            else:
                about["scores"] = self._scores(folder, run.name)
                about["seconds"] = round(time.time() - run.started, 1)
                about["said"] = [line for line in run.said if line.startswith(("Warning", "Note"))]
                with writing(folder / f"{run.name}.json") as out:
                    out.write(json.dumps(about, ensure_ascii=False, indent=1) + "\n")
                await self.done(run.name)
                state = "done"
        except asyncio.CancelledError:
            state = "cancelled"
        except Exception as error:
            run.said.append(f"Error: {error}")
        finally:
            if process is not None:
                await _end(process)
            shutil.rmtree(folder / f"{run.name}.folds", ignore_errors=True)
            if state != "done":
                for path in folder.glob(f"{run.name}.*"):
                    with suppress(OSError):
                        path.unlink()
            run.state, run.ended = state, time.time()

    async def _command(self, process: asyncio.subprocess.Process, run: Run, step: CommandStep) -> int:
        """Let the process run one command; its exit code."""
        assert process.stdin is not None
        assert process.stderr is not None
        run.said.append(f"$ {step.command}")
        process.stdin.write(json.dumps(step.words).encode() + b"\n")
        with suppress(ConnectionError):
            await process.stdin.drain()
        while line := await process.stderr.readline():
            said = line.decode("utf-8", "replace").rstrip()
            if said.startswith(ENDED):
                return int(said[1:])
            if said:
                run.said.append(said[:2000])
                del run.said[: -2 * KEPT_LINES]
        return await process.wait() or 1  # it has been killed

    async def _process(self) -> asyncio.subprocess.Process:
        """The process that runs the commands (:mod:`trellis.studio.runner`), and imports nothing from the folder."""
        pipe = asyncio.subprocess.PIPE
        return await asyncio.create_subprocess_exec(
            sys.executable, "-P", "-m", "trellis.studio.runner", cwd=self.project.folder, stdin=pipe, stderr=pipe,
            stdout=asyncio.subprocess.DEVNULL, limit=1_000_000,
            env={**os.environ, "COLUMNS": "200", "NO_COLOR": "1"},
        )  # fmt: skip

    def _join_folds(self, folder: Path, run: Run) -> None:
        """Predictions of all folds, in the order of the labelled texts."""
        own, n = folder / f"{run.name}.folds", run.settings.folds
        found = [(own / f"{k}.found.jsonl").read_text(encoding="utf-8").splitlines(True) for k in range(n)]
        with writing(folder / f"{run.name}.cv.jsonl") as out:
            out.writelines(found[at % n][at // n] for at in range(sum(map(len, found))))

    def _scores(self, folder: Path, name: str) -> dict[str, Any]:
        found = {}
        for kind in ("dev", "cv"):
            path = folder / f"{name}.{kind}-scores.json"
            if path.exists():
                with suppress(ValueError, OSError):
                    found[kind] = json.loads(path.read_text(encoding="utf-8"))
        return found

    async def cancel(self) -> None:
        """Stop the run, and wait until it has stopped."""
        if self._task is not None and self.busy:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task


async def _end(process: asyncio.subprocess.Process) -> None:
    """Ask a process to end, and make it."""
    if process.returncode is not None:
        return
    with suppress(ProcessLookupError):
        process.send_signal(signal.SIGTERM)
        try:
            async with asyncio.timeout(PATIENCE):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()
