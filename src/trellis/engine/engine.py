"""What an engine promises, and sums over shards.

    map      f(shard_0), f(shard_1), ...            in shard order, whatever the order in which they ended
    map_sum  (f(shard_0) + f(shard_1)) + ...        from left to right

The shards and the order of the sum depend on the corpus alone, so the bits do not depend on the workers.

Errors. One of our own (an InfeasibleError, a DataError) comes out as itself, with a note that names the shard and
its instances: callers tell those apart by class, and their messages are for users. Anything else is a bug
somewhere and comes out as a ShardError with the cause chained. Of several failing shards the first in shard
order is reported, for any number of workers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Protocol, Self, TypeVar

from trellis.engine.shards import Shard
from trellis.errors import DataError, ShardError, TrellisError


class Statistics(Protocol):
    """Anything that adds to its like: an array, a number, a model's expected counts."""

    def __add__(self, other: Any, /) -> Self: ...


T = TypeVar("T")
S = TypeVar("S", bound=Statistics)


class Engine(Protocol):
    """Somewhere shards run."""

    def map(self, function: Callable[[Shard], T], shards: Iterable[Shard]) -> Iterator[T]:
        """The function's results in shard order, lazily: nothing runs before the first is asked for.

        Only a bounded number of shards is under way or waiting to be taken, so memory stays flat. The function must
        leave the outside world alone: what it returns is all that counts. BLAS is held at one thread from the first
        result asked for to the last one, or until the iterator is closed.
        """
        ...


def map_sum(engine: Engine, function: Callable[[Shard], S], shards: Iterable[Shard], *, start: S | None = None) -> S:
    """Sum of the function over shards, added in shard order while they arrive.

    ``start`` is what the sum begins with; needed only where there may be no shards.

    >>> from trellis.engine.serial import SerialEngine
    >>> map_sum(SerialEngine(), lambda shard: len(shard.instances), [Shard(0, range(3)), Shard(1, range(3, 5))])
    5
    """
    total = start
    for statistics in engine.map(function, shards):
        total = statistics if total is None else total + statistics
    if total is None:
        raise DataError("there are no instances, so there is nothing to sum")
    return total


def run_shard(function: Callable[[Shard], T], shard: Shard) -> T:
    """Call the function on one shard, with errors that name the shard."""
    try:
        return function(shard)
    except TrellisError as error:
        error.add_note(f"in {shard}")
        raise
    except Exception as error:
        raise ShardError(f"{shard} failed: {type(error).__name__}: {error}", instances=shard.numbers) from error
