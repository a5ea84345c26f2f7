"""What the tasks of the panel share: their options, their scores, running a command, and their tables."""

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
    value : the score; nan: it is not known
    other : a second score, shown in brackets
    seconds : what it took
    """

    corpus: str
    column: str
    system: str
    value: float
    draw: int = 0
    other: float | None = None
    seconds: float = 0.0


@dataclass(frozen=True)
class Options:
    """What is run.

    test : read test sets; else development sets
    small : run on generated data, in seconds
    draws, corpora, columns : restrict the run; None or empty: all of them
    kept : scores of earlier runs
    compute : compute scores that are not kept; else they are left out
    """

    test: bool = False
    small: bool = False
    draws: int | None = None
    corpora: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kept: Kept = field(default_factory=lambda: Kept(None))
    compute: bool = True

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
        if not self.compute and name not in self.kept.known:
            return Score(corpus, column, system, float("nan"), draw)
        values: Any = self.kept.get(name, lambda: {"scores": list(make())})["scores"]
        other, seconds = values[1] if len(values) > 1 else None, float(self.kept.known[name]["seconds"])  # type: ignore[arg-type]
        return Score(corpus, column, system, values[0], draw, other, seconds)


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
    """Systems by corpora where there is one column; else one row per system and corpus, and means over corpora."""
    cells = Cells(scores)
    lines = _by_corpus(task, cells) if len(cells.columns) == 1 else _by_column(task, cells)
    width = lines[0].count("|") - 1
    return "\n".join([lines[0], "| --- " * width + "|", *lines[1:]])


class Cells:
    """Scores by system, corpus and column, each in the order in which they came."""

    def __init__(self, scores: Iterable[Score]) -> None:
        self.by_place: dict[tuple[str, str, str], list[Score]] = {}
        for score in scores:
            self.by_place.setdefault((score.system, score.corpus, score.column), []).append(score)
        self.systems, self.corpora, self.columns = (
            list(dict.fromkeys(place[at] for place in self.by_place)) for at in range(3)
        )

    def get(self, system: str, corpus: str, column: str) -> list[Score]:
        return self.by_place.get((system, corpus, column), [])

    def known(self, column: str) -> list[str]:
        """The corpora that have the column."""
        return [corpus for corpus in self.corpora if any(self.get(s, corpus, column) for s in self.systems)]


def _by_corpus(task: Any, cells: Cells) -> list[str]:
    [column] = cells.columns
    lines = [_line(task.TITLE, *cells.corpora, "mean")]
    for system in cells.systems:
        shown = [_shown(cells.get(system, corpus, column)) for corpus in cells.corpora]
        lines.append(_line(system, *shown, _mean(cells, system, column)))
    differences = [_difference(task, cells, corpus, column) for corpus in cells.corpora]
    worst = _worst(task, cells, column)
    return [*lines, _line("difference to the best baseline", *map(_signed, differences), f"worst {worst}")]


def _by_column(task: Any, cells: Cells) -> list[str]:
    lines = [_line(task.TITLE, "corpus", *cells.columns)]
    for system in cells.systems:
        for corpus in cells.corpora:
            own = [cells.get(system, corpus, column) for column in cells.columns]
            if any(own):
                lines.append(_line(system, corpus, *map(_shown, own)))
    for system in cells.systems:
        lines.append(_line(system, "**mean**", *(_mean(cells, system, column) for column in cells.columns)))
    worst = [_worst(task, cells, column) for column in cells.columns]
    return [*lines, _line("worst difference to the best baseline", "", *worst)]


def summary(task: Any, scores: Iterable[Score]) -> list[str]:
    """Rows of the summary: what is measured, means of ours and of the best baseline, and the worst difference."""
    cells = Cells(scores)
    rows = []
    for column in cells.columns:
        sign = -1.0 if task.LOWER_IS_BETTER else 1.0
        means = {name: _mean_value(cells, name, column) for name in (task.OURS, *task.BASELINES)}
        known = [name for name in task.BASELINES if means[name] is not None]
        best = max(known, key=lambda name: sign * float(means[name] or 0.0), default=None)
        what = task.TITLE if len(cells.columns) == 1 else f"{task.TITLE}, {column}"
        baseline = "-" if best is None else f"{means[best]:.1f} ({best})"
        ours = "-" if means[task.OURS] is None else f"**{means[task.OURS]:.1f}**"
        rows.append(_line(what, str(len(cells.known(column))), ours, baseline, _worst(task, cells, column)))
    return rows


SUMMARY = ("mean over corpora", "corpora", "Trellis", "best baseline", "worst difference to the best baseline")


def summary_table(rows: Sequence[str]) -> str:
    return "\n".join([_line(*SUMMARY), "| --- " * len(SUMMARY) + "|", *rows])


def _line(*cells: str) -> str:
    return "| " + " | ".join(cells) + " |"


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


def _mean_value(cells: Cells, system: str, column: str) -> float | None:
    """Mean over the corpora of the column; None where the system lacks one that another system has."""
    own = [cells.get(system, corpus, column) for corpus in cells.known(column)]
    if not own or not all(own):
        return None
    return float(np.mean([np.mean([s.value for s in scores]) for scores in own]))


def _mean(cells: Cells, system: str, column: str) -> str:
    mean = _mean_value(cells, system, column)
    if mean is None:
        return "-"
    own = [cells.get(system, corpus, column) for corpus in cells.known(column)]
    error = float(np.sum([_error([s.value for s in scores]) ** 2 for scores in own]) ** 0.5 / len(own))
    others = [[s.other for s in scores if s.other is not None] for scores in own]
    other = f" ({np.mean([np.mean(one) for one in others]):.1f})" if all(others) else ""
    return f"**{mean:.1f}**" + (f" ±{error:.1f}" if error else "") + other


def _difference(task: Any, cells: Cells, corpus: str, column: str) -> tuple[float, float] | None:
    """Ours less the best baseline, and the standard error of that difference over draws."""
    sign = -1.0 if task.LOWER_IS_BETTER else 1.0
    ours = cells.get(task.OURS, corpus, column)
    baselines = [own for name in task.BASELINES if (own := cells.get(name, corpus, column))]
    if not ours or not baselines:
        return None
    best = max(baselines, key=lambda own: sign * float(np.mean([s.value for s in own])))
    differences = [a.value - b.value for a, b in zip(ours, best, strict=True)]
    return float(np.mean(differences)), _error(differences)


def _signed(difference: tuple[float, float] | None) -> str:
    if difference is None:
        return "-"
    return f"{difference[0]:+.1f}" + (f" ±{difference[1]:.1f}" if difference[1] else "")


def _worst(task: Any, cells: Cells, column: str) -> str:
    """The worst difference over corpora, and where it is."""
    sign = -1.0 if task.LOWER_IS_BETTER else 1.0
    found = [(own, corpus) for corpus in cells.corpora if (own := _difference(task, cells, corpus, column))]
    if not found:
        return "-"
    least, corpus = min(found, key=lambda one: sign * one[0][0])
    return f"{_signed(least)} {corpus}"
