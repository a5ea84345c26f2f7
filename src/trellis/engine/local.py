"""Engines of this process: items are held here, and worked on in the calling thread or on a pool of threads.

Freed memory is kept for the next shard, where the C library can be told so: a shard's posteriors are a few megabytes,
which glibc by default takes from the kernel and gives back every time. The pages then arrive one fault at a time, and
threads wait for each other in the kernel. Measured on two cores, a round of EM with 45 labels: 30 ms on one thread and
21 ms on two; with freed memory kept, 27 ms and 15 ms. The price is bounded: at most KEPT bytes stay with the process
after they are freed, and all threads take from one heap, so that each does not keep its own. ``TRELLIS_KEEP_MEMORY=0``
in the environment leaves the C library alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from trellis.data.storage import release_mapped
from trellis.engine.blas import blas_at_one_thread
from trellis.engine.engine import I, Placed, R, Shard, Work, naming, numbered, run_shard

LARGEST_ON_HEAP = 64 * 2**20
KEPT = 128 * 2**20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD, _M_ARENA_MAX = -1, -3, -8
_asked = False


def keep_freed_memory() -> None:
    """Ask glibc, once a process; elsewhere nothing happens."""
    global _asked
    if _asked:
        return
    _asked = True
    if not sys.platform.startswith("linux") or os.environ.get("TRELLIS_KEEP_MEMORY") == "0":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # another C library than glibc
    mallopt(_M_MMAP_THRESHOLD, LARGEST_ON_HEAP)
    mallopt(_M_TRIM_THRESHOLD, KEPT)
    mallopt(_M_ARENA_MAX, 1)


def give_back_memory() -> None:
    """Return to the system what is free after large arrays went, and would else lie between those that stayed."""
    if sys.platform.startswith("linux"):
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)


T = TypeVar("T")

BETWEEN = 64
"""Shards after which the pages of a corpus on disk are let go of."""


class Local(ABC):
    """An engine of this process."""

    @abstractmethod
    def map(self, function: Callable[[Shard], T], shards: Iterable[Shard]) -> Iterator[T]:
        """The function's results in shard order, lazily: nothing runs before the first is asked for.

        Only a bounded number of shards is under way or waiting to be taken, so memory stays flat. BLAS is held at one
        thread from the first result asked for to the last one, or until the iterator is closed.
        """

    @property
    def near(self) -> Self:
        return self

    def place(self, items: Sequence[I], shards: Sequence[Shard] | None = None) -> Held[I]:
        return Held(self, items, numbered(len(items)) if shards is None else shards)


class Held(Placed[I]):
    """Items of an engine of this process; nothing is copied."""

    def __init__(self, engine: Local, items: Sequence[I], shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self.engine, self.items = engine, items

    def run(self, work: Work[R], parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[R]:
        def one(shard: Shard) -> tuple[R, Any]:
            number = shard.index
            more = () if own is None else (own[number],)
            return work(parameters, self.items[number], self.states[number], *more)

        for number, (result, state) in enumerate(self.engine.map(one, self.shards)):
            self.states[number] = state
            if number % BETWEEN == 0:
                release_mapped()
            yield result


class HeldHere(Held[I]):
    """Items that are worked on in the calling thread."""

    def run(self, work: Work[R], parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[R]:
        keep_freed_memory()
        with blas_at_one_thread():
            for number, shard in enumerate(self.shards):
                with naming(shard):
                    more = () if own is None else (own[number],)
                    result, state = work(parameters, self.items[number], self.states[number], *more)
                self.states[number] = state
                if number % BETWEEN == 0:
                    release_mapped()
                yield result


@dataclass(frozen=True)
class SerialEngine(Local):
    """Runs each shard in the calling thread, when its result is asked for.

    >>> list(SerialEngine().map(lambda shard: shard.instances.stop, [Shard(0, range(2)), Shard(1, range(2, 5))]))
    [2, 5]
    """

    def map(self, function: Callable[[Shard], T], shards: Iterable[Shard]) -> Iterator[T]:
        keep_freed_memory()
        with blas_at_one_thread():
            for shard in shards:
                yield run_shard(function, shard, shard)

    def place(self, items: Sequence[I], shards: Sequence[Shard] | None = None) -> HeldHere[I]:
        return HeldHere(self, items, numbered(len(items)) if shards is None else shards)

    n_workers = 1
