"""Shards one after the other in the calling thread."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from trellis.engine.blas import blas_at_one_thread
from trellis.engine.engine import run_shard
from trellis.engine.held import Local
from trellis.engine.memory import keep_freed_memory
from trellis.engine.shards import Shard

T = TypeVar("T")


@dataclass(frozen=True)
class SerialEngine(Local):
    """Runs each shard when its result is asked for.

    >>> list(SerialEngine().map(lambda shard: shard.instances.stop, [Shard(0, range(2)), Shard(1, range(2, 5))]))
    [2, 5]
    """

    def map(self, function: Callable[[Shard], T], shards: Iterable[Shard]) -> Iterator[T]:
        keep_freed_memory()
        with blas_at_one_thread():
            for shard in shards:
                yield run_shard(function, shard, shard)

    n_workers = 1
