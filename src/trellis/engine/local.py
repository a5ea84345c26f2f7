"""Engines of this process: items are held here, and worked on in the calling thread or on a pool of threads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from trellis.data.storage import release_mapped
from trellis.engine.blas import blas_at_one_thread
from trellis.engine.engine import I, Placed, R, Work, naming, numbered, run_shard
from trellis.engine.memory import keep_freed_memory
from trellis.engine.shards import Shard

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
