"""What the tasks of the panel share: their options, their scores, running a command, and the table."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from _kept import Kept

ROOT = Path(__file__).resolve().parent.parent.parent
RULES = ROOT / "benchmarks" / "panel"
DATA = Path(os.environ.get("TRELLIS_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True)
class Score:
    """One score of one system.

    column : what stands above it in the table, such as the number of labels
    draw : number of the random draw; scores with the same number have seen the same data
    other : a second score, shown in brackets
    """

    corpus: str
    column: str
    system: str
    value: float
    draw: int = 0
    other: float | None = None


@dataclass(frozen=True)
class Options:
    """What is run.

    test : read test sets; else development sets
    small : run on generated data, in seconds
    draws, corpora, columns : restrict the run; None or empty: all of them
    kept : scores of earlier runs
    """

    test: bool = False
    small: bool = False
    draws: int | None = None
    corpora: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kept: Kept = field(default_factory=lambda: Kept(None))

    def wants(self, corpus: str, column: str = "") -> bool:
        return not (self.corpora and corpus not in self.corpora) and not (
            self.columns and column and column not in self.columns
        )

    def score(
        self, task: str, corpus: str, column: str, system: str, draw: int, make: Callable[[], Sequence[float]]
    ) -> Score:
        """The score, or the pair of scores, that ``make`` returns, unless an earlier run has kept it."""
        which = "small" if self.small else "test" if self.test else "dev"
        name = f"{task}, {which}, {corpus}, {column}, {system}, {draw}"
        values: Any = self.kept.get(name, lambda: {"scores": list(make())})["scores"]
        return Score(corpus, column, system, values[0], draw, values[1] if len(values) > 1 else None)


class Task(Protocol):
    """A module of the panel."""

    TITLE: str
    """What is measured, for the heading of the table."""
    OURS: str
    """The system that is compared with the baselines: the documented command with default settings."""
    BASELINES: tuple[str, ...]
    LOWER_IS_BETTER: bool

    def scores(self, options: Options) -> Iterator[Score]:
        """The scores, one by one as they are computed."""


def run(*arguments: str | Path) -> None:
    """Run one ``trellis`` command in this process."""
    from trellis.cli import main

    given = [str(argument) for argument in arguments]
    try:
        main(given)
    except SystemExit as end:
        if end.code:
            raise RuntimeError(f"trellis {' '.join(given)}: exit code {end.code}") from None


@contextmanager
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as path:
        yield Path(path)


def table(task: Any, scores: Iterable[Score]) -> str:
    """One row per system and corpus, the mean over corpora, and the worst difference to the best baseline."""
    scores = list(scores)
    columns = list(dict.fromkeys(s.column for s in scores))
    systems = list(dict.fromkeys(s.system for s in scores))
    corpora = list(dict.fromkeys(s.corpus for s in scores))
    cells = {
        (system, corpus, column): [s for s in scores if (s.system, s.corpus, s.column) == (system, corpus, column)]
        for system in systems
        for corpus in corpora
        for column in columns
    }
    lines = [f"| {task.TITLE} | corpus | " + " | ".join(columns) + " |", "| --- " * (len(columns) + 2) + "|"]
    for system in systems:
        for corpus in corpora:
            if any(cells[system, corpus, column] for column in columns):
                shown = [_shown(cells[system, corpus, column]) for column in columns]
                lines.append(f"| {system} | {corpus} | " + " | ".join(shown) + " |")
    for system in systems:
        lines.append(f"| {system} | **mean** | " + " | ".join(_mean(cells, system, corpora, c) for c in columns) + " |")
    worst = [_worst(task, cells, corpora, column) for column in columns]
    lines.append("| worst difference to the best baseline | | " + " | ".join(worst) + " |")
    return "\n".join(lines)


def _error(values: Sequence[float]) -> float:
    """Standard error of a mean over draws."""
    return float(np.std(values, ddof=1) / len(values) ** 0.5) if len(values) > 1 else 0.0


def _shown(scores: Sequence[Score]) -> str:
    if not scores:
        return "-"
    values = [s.value for s in scores]
    others = [s.other for s in scores if s.other is not None]
    spread = f" ±{_error(values):.1f}" if len(values) > 1 else ""
    return f"{np.mean(values):.1f}{spread}" + (f" ({np.mean(others):.1f})" if others else "")


def _mean(cells: dict[tuple[str, str, str], list[Score]], system: str, corpora: Sequence[str], column: str) -> str:
    """Mean over the corpora of the column; "-" where the system lacks one that another system has."""
    known = [corpus for corpus in corpora if any(cells[s, c, k] for s, c, k in cells if (c, k) == (corpus, column))]
    own = [cells[system, corpus, column] for corpus in known]
    if not own or not all(own):
        return "-"
    means = [float(np.mean([s.value for s in scores])) for scores in own]
    error = float(np.sum([_error([s.value for s in scores]) ** 2 for scores in own]) ** 0.5 / len(own))
    others = [[s.other for s in scores if s.other is not None] for scores in own]
    other = f" ({np.mean([np.mean(one) for one in others]):.1f})" if all(others) else ""
    return f"**{np.mean(means):.1f}**" + (f" ±{error:.1f}" if error else "") + other


def _worst(task: Any, cells: dict[tuple[str, str, str], list[Score]], corpora: Sequence[str], column: str) -> str:
    """The least of ours less the best baseline over corpora, with the standard error of that difference."""
    sign = -1.0 if task.LOWER_IS_BETTER else 1.0
    found = []
    for corpus in corpora:
        ours = cells.get((task.OURS, corpus, column))
        baselines = [cells[name, corpus, column] for name in task.BASELINES if cells.get((name, corpus, column))]
        if not ours or not baselines:
            continue
        best = max(baselines, key=lambda own: sign * float(np.mean([s.value for s in own])))
        differences = [sign * (a.value - b.value) for a, b in zip(ours, best, strict=True)]
        found.append((float(np.mean(differences)), _error(differences), corpus))
    if not found:
        return "-"
    least, error, corpus = min(found)
    return f"{sign * least:+.1f}" + (f" ±{error:.1f}" if error else "") + f" {corpus}"
