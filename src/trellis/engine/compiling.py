"""Kernels compiled ahead of a first run, on every core.

A kernel takes Numba half a second, and a first run needs some eighty; what was compiled is kept on disk. Before a run,
:func:`compile_ahead` looks which kernels of its use (:mod:`kernel_list`) are not there, and lets child processes
compile them: callees first, so that a caller finds them on disk, and of those that could be next the one with the most
work waiting behind it.

Nothing here is a reason why a run fails. A kernel that has moved, a child that dies, a list that is out of date cost
time only: what was not compiled ahead is compiled when it is called. ``TRELLIS_COMPILE_AHEAD=0`` turns this off.
"""

from __future__ import annotations

import multiprocessing
import os
import subprocess
import sys
import threading
import time
from contextlib import suppress
from typing import Any

from trellis.engine.kernel_list import Kernel, KernelList, read_kernels
from trellis.engine.progress import Progress
from trellis.engine.threads import usable_cores

WORTH_IT = 2.0
"""Seconds: what takes less is compiled on the way, in less time than children take to start."""
CHILD = "from trellis.engine.compiling import serve; serve()"

_done: set[str] = set()
_silent = False


def silence() -> None:
    """Say nothing about compiling from now on (``--quiet``)."""
    global _silent
    _silent = True


def compile_ahead(*uses: str) -> int:
    """Compile what these uses need and nobody has compiled yet; returns how many kernels that was.

    Once looked at, a use costs nothing; where all of it is on disk, a few milliseconds.
    """
    new = [use for use in uses if use not in _done]
    _done.update(new)
    if not new or os.environ.get("TRELLIS_COMPILE_AHEAD") == "0" or multiprocessing.parent_process() is not None:
        return 0
    try:
        kernels = read_kernels()
        missing = kernels.missing(new)
        if sum(kernels.kernels[number].seconds for number in missing) < WORTH_IT:
            return 0
        return compile_in_children(CompilePlan(kernels, missing))
    except Exception:  # see above
        return 0


def compile_everything() -> str:
    """Compile all that is listed and that nobody has compiled yet; says what that was."""
    began, kernels = time.monotonic(), read_kernels()
    missing = kernels.missing(kernels.uses)
    if missing:
        compile_in_children(CompilePlan(kernels, missing))
    left = len(kernels.missing(kernels.uses))
    failed = f", {left} could not be" if left else ""
    return f"{len(missing) - left} kernels in {time.monotonic() - began:.0f} s{failed}"


class CompilePlan:
    """Hands out kernels to be compiled, each after those that it calls, and never two forms of one at a time.

    (Of two processes that add to one kernel's index at the same time, one would overwrite what the other wrote.)
    """

    def __init__(self, kernels: KernelList, numbers: list[int]) -> None:
        self.kernels: list[Kernel] = kernels.kernels
        self.waiting, self.running = set(numbers), set[int]()
        self.total = len(numbers)
        # The longest way from a kernel up to one that Python calls: what cannot be done before it is.
        self.ahead = [kernel.seconds for kernel in self.kernels]
        for number in sorted(numbers, reverse=True):
            for callee in self.kernels[number].calls:
                self.ahead[callee] = max(self.ahead[callee], self.kernels[callee].seconds + self.ahead[number])
        self._change = threading.Condition()

    @property
    def n_done(self) -> int:
        return self.total - len(self.waiting) - len(self.running)

    def take(self) -> int | None:
        """The next kernel, as soon as there is one; None if none is left."""
        with self._change:
            while self.waiting:
                ready = [number for number in self.waiting if self._is_ready(number)]
                if ready:
                    chosen = max(ready, key=lambda number: (self.ahead[number], -number))
                    self.waiting.remove(chosen)
                    self.running.add(chosen)
                    return chosen
                self._change.wait()
            return None

    def finish(self, number: int) -> None:
        """Compiled, or given up: its callers compile it on the way."""
        with self._change:
            self.running.remove(number)
            self._change.notify_all()

    def _is_ready(self, number: int) -> bool:
        kernel = self.kernels[number]
        started = {self.kernels[other].name for other in self.running}
        return kernel.name not in started and not any(c in self.waiting or c in self.running for c in kernel.calls)


def compile_in_children(plan: CompilePlan) -> int:
    """Carry out a plan with a process for each core, and show how far it is; returns how many kernels were compiled."""
    n_children = min(usable_cores(), plan.total)
    children: list[subprocess.Popen[str]] = []
    threads: list[threading.Thread] = []
    with announced(plan.total, n_children) as shown:
        try:
            for _ in range(n_children):
                children.append(start_child())
                threads.append(threading.Thread(target=_drive, args=(children[-1], plan), daemon=True))
                threads[-1].start()
            for thread in threads:
                while thread.is_alive():
                    thread.join(0.1)
                    shown.advance(plan.n_done)
        finally:  # after Ctrl-C too
            for child in children:
                child.kill()
            for thread in threads:
                thread.join()
            for child in children:
                with suppress(OSError), child:  # closes what leads to it
                    pass
        shown.advance(plan.n_done)
    return plan.n_done


def start_child() -> subprocess.Popen[str]:
    """A process that finds modules where this one does, and compiles what it is told."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    pipe = subprocess.PIPE
    return subprocess.Popen(
        [sys.executable, "-P", "-c", CHILD],
        stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, text=True, env=environment,
    )  # fmt: skip


def serve() -> None:
    """What a child does: compile the kernels whose numbers it reads, and answer each with a line."""
    kernels = read_kernels().kernels
    for line in sys.stdin:
        kernel = kernels[int(line)]
        with suppress(Exception):  # the parent meets it when it calls the kernel, and says what is wrong
            kernel.function().compile(kernel.signature())
        sys.stdout.write("\n")
        sys.stdout.flush()


def _drive(child: subprocess.Popen[str], plan: CompilePlan) -> None:
    """Give a child one kernel after the other until none is left, or the child has died."""
    commands: Any = child.stdin
    answers: Any = child.stdout
    alive = True
    while alive and (number := plan.take()) is not None:
        try:
            commands.write(f"{number}\n")
            commands.flush()
            alive = bool(answers.readline())
        except (OSError, ValueError):
            alive = False
        plan.finish(number)


def announced(total: int, n_children: int) -> Progress:
    """How many kernels are done: on a terminal a bar, elsewhere one line at the beginning."""
    terminal = sys.stderr.isatty()
    if not _silent and not terminal:
        cores = "1 core" if n_children == 1 else f"{n_children} cores"
        with suppress(OSError, ValueError):  # nobody listens
            sys.stderr.write(f"Compiling {total} numerical kernels on {cores}; this happens once.\n")
            sys.stderr.flush()
    return Progress("Compiling numerical kernels (this happens once)", total, terminal and not _silent)
