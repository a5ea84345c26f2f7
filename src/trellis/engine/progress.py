"""Progress of long work: a bar on a terminal, plain lines elsewhere, and never the reason why a run fails."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Self, TypeVar

Item = TypeVar("Item")


class Progress:
    """Rounds of learning, or other steps, as they end, with a line of figures.

    total : number of steps; None if it is not known
    show : True: a bar if standard error is a terminal, else a line now and then, and one at the end; False: silence
    unit : what is counted, such as "texts"
    """

    SECONDS_BETWEEN_LINES = 5.0
    ITEMS_BETWEEN_UPDATES = 100

    def __init__(self, title: str, total: int | None, show: bool = True, unit: str = "") -> None:
        self.title, self.total, self.show, self.unit = title, total, show, unit
        self._bar: Any = None
        self._task: Any = None
        self._last_line = 0.0
        self._pending = ""

    def __enter__(self) -> Self:
        self._last_line = time.monotonic()
        if self.show and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
                from rich.progress import Progress as Bar

                self._bar = Bar(
                    TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                    TextColumn(self.unit, markup=False), TimeElapsedColumn(),
                    TextColumn("{task.fields[figures]}", markup=False),
                    console=Console(stderr=True), redirect_stdout=False,
                )  # fmt: skip
                self._bar.start()
                self._task = self._bar.add_task(self.title, total=self.total, figures="")
            except Exception:  # a broken terminal must not stop the work
                self._bar = None
        return self

    def advance(self, done: int, figures: str = "") -> None:
        """Report the number of finished steps, and figures or the name of the step that begins."""
        if not self.show:
            return
        try:
            if self._bar is not None:
                self._bar.update(self._task, completed=done, figures=figures)
            else:
                count = str(done) if self.total is None else f"{done}/{self.total}"
                self._pending = f"{self.title}: {count} {self.unit}".rstrip() + f"  {figures}".rstrip() + "\n"
                if time.monotonic() - self._last_line >= self.SECONDS_BETWEEN_LINES:
                    self._write_line()
        except Exception:
            self.show = False

    def _write_line(self) -> None:
        """The last line that was reported, unless it is written already."""
        line, self._pending, self._last_line = self._pending, "", time.monotonic()
        if line:
            sys.stderr.write(line)
            sys.stderr.flush()

    def over(self, items: Iterable[Item]) -> Iterator[Item]:
        """The items, counted as they are used."""
        done = 0
        for done, item in enumerate(items, 1):
            yield item
            if done % self.ITEMS_BETWEEN_UPDATES == 0 and done != self.total:
                self.advance(done)
        self.advance(done)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if self._bar is not None:
                self._bar.stop()
            elif kind is None:
                self._write_line()
        except Exception:
            self.show = False
