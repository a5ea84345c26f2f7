"""Kernels compiled ahead of a first run, on every core.

A kernel takes Numba half a second, and a first run needs some eighty; what was compiled is kept on disk. Before a run,
:func:`compile_ahead` looks which kernels of its use are not there, and lets child processes
compile them: callees first, so that a caller finds them on disk, and of those that could be next the one with the most
work waiting behind it.

Nothing here is a reason why a run fails. A kernel that has moved, a child that dies, a list that is out of date cost
time only: what was not compiled ahead is compiled when it is called. ``TRELLIS_COMPILE_AHEAD=0`` turns this off.

The list is ``kernels.json``:

    {"uses": {"align": [41, 7, ...]}, "kernels": [{"name": ..., "types": [...], "seconds": 0.5, "calls": [3, 4]}]}

A use lists the numbers of the kernels that Python calls in it; ``calls`` are those that a kernel calls itself, all of
them earlier in the list; ``seconds`` is what one took without them when the list was made (``make kernels``). A type is

    "int64", "float64[:,::1]"                     a number, an array (C-contiguous: Numba's notation)
    ["int64", "int64"]                            a tuple
    {"trellis...align_work.Direction": [...]}     a named one
    {"readonly": "int64[:]"}, null                an array that must not be written to; None
    {"literal": 0}, {"omitted": 0}                a constant that Numba has seen through; a default
"""

from __future__ import annotations

import json
import multiprocessing
import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from trellis.engine.progress import Progress
from trellis.engine.threads import usable_cores

FILE = Path(__file__).with_name("kernels.json")


@dataclass(frozen=True)
class Kernel:
    """A kernel for arguments of certain types; ``calls`` are numbers of others."""

    name: str
    types: list[Any]
    seconds: float
    calls: list[int]

    def function(self) -> Any:
        """What Numba made of it; an AttributeError or ImportError if it has moved since the list was made."""
        return _named(self.name)

    def signature(self) -> tuple[Any, ...]:
        return tuple(map(numba_type, self.types))

    def is_compiled(self) -> bool:
        """Whether this process or the cache on disk has it: known without loading it, in a fifth of a millisecond."""
        function, signature = self.function(), self.signature()
        if signature in function.overloads:
            return True
        cache = function._cache
        return cache._index_key(signature, function.targetctx.codegen()) in cache._cache_file._load_index()


@dataclass(frozen=True)
class KernelList:
    """All kernels, and the numbers of those that Python calls in each use."""

    kernels: list[Kernel]
    uses: dict[str, list[int]]

    def missing(self, uses: Iterable[str]) -> list[int]:
        """Kernels that these uses need and nobody has compiled, in the order of the list; those that moved are not."""
        found: dict[int, bool] = {}
        open_ = [number for use in uses for number in self.uses.get(use, ())]
        while open_:
            number = open_.pop()
            if number not in found:
                found[number] = _is_missing(self.kernels[number])
                open_ += self.kernels[number].calls if found[number] else ()
        return sorted(number for number, missing in found.items() if missing)


def _is_missing(kernel: Kernel) -> bool:
    try:
        return not kernel.is_compiled()
    except Exception:  # moved, or a Numba that keeps its cache in another way: compiled when it is called
        return False


@cache
def read_kernels(path: Path = FILE) -> KernelList:
    """The list that comes with the package."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return KernelList([Kernel(**kernel) for kernel in content["kernels"]], content["uses"])


def numba_type(text: Any) -> Any:
    """The type that the list means.

    >>> numba_type(["int64", "float64[:,::1]"])
    Tuple((int64, Array(float64, 2, 'C', False, aligned=True)))
    """
    import numpy as np
    from numba import from_dtype, types

    if isinstance(text, list):
        return types.BaseTuple.from_types(tuple(map(numba_type, text)))
    if isinstance(text, dict):
        ((key, value),) = text.items()
        if key in ("literal", "omitted"):
            return types.literal(value) if key == "literal" else types.Omitted(value)
        if key == "readonly":
            return numba_type(value).copy(readonly=True)
        return types.BaseTuple.from_types(tuple(map(numba_type, value)), _named(key))
    if text is None:
        return types.none
    name, _, slices = text.partition("[")
    kind = from_dtype(np.dtype(name))
    if not slices:
        return kind
    layout = "C" if slices.endswith("::1]") else "F" if slices.startswith("::1") else "A"
    return types.Array(kind, slices.count(",") + 1, layout)


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)


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
