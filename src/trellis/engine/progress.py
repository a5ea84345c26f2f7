"""Progress of long work: a bar on a terminal, plain lines elsewhere, and never the reason why a run fails."""

from __future__ import annotations

import sys
import time
from types import TracebackType
from typing import Any, Self


class Progress:
    """Rounds of learning, or other steps, as they end, with a line of figures.

    show : True: a bar if standard error is a terminal, else a line now and then; False: silence
    """

    SECONDS_BETWEEN_LINES = 5.0

    def __init__(self, title: str, total: int, show: bool = True) -> None:
        self.title, self.total, self.show = title, total, show
        self._bar: Any = None
        self._task: Any = None
        self._last_line = 0.0

    def __enter__(self) -> Self:
        if self.show and sys.stderr.isatty():
            try:
                from rich.console import Console
                from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
                from rich.progress import Progress as Bar

                self._bar = Bar(
                    TextColumn("{task.description}", markup=False), BarColumn(), MofNCompleteColumn(),
                    TimeElapsedColumn(), TextColumn("{task.fields[figures]}", markup=False),
                    console=Console(stderr=True),
                )  # fmt: skip
                self._bar.start()
                self._task = self._bar.add_task(self.title, total=self.total, figures="")
            except Exception:  # a broken terminal must not stop the work
                self._bar = None
        return self

    def advance(self, done: int, figures: str = "") -> None:
        """Say that so many are over."""
        if not self.show:
            return
        try:
            if self._bar is not None:
                self._bar.update(self._task, completed=done, figures=figures)
            elif time.monotonic() - self._last_line >= self.SECONDS_BETWEEN_LINES or done == self.total:
                self._last_line = time.monotonic()
                sys.stderr.write(f"{self.title}: {done}/{self.total}  {figures}\n")
                sys.stderr.flush()
        except Exception:
            self.show = False

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            try:
                self._bar.stop()
            except Exception:
                self.show = False
