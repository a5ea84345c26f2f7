"""The interface of an engine: it stores items and runs pure functions on them, pass after pass.

    placed = engine.place(items)                 a shard's data and what is made of it, where it will be worked on
    placed.run(work, parameters)                 work(parameters, item, state) -> (result, new state), for every item

Results come in the order of the items, whatever the order in which they ended, and callers add them up from left to
right. The items and that order depend on the corpus alone, so the bits do not depend on the workers.

Work is pure: it writes to nothing but what it returns, and it and all that it is given can be pickled, so that it can
run in another process. An item's state (where its solver ended, say) stays where the item is; a copy comes back with
the result, for checkpoints, and so that the death of a worker loses nothing.

Errors. One of our own (an InfeasibleError, a DataError) comes out as itself, with a note that names the shard and
its instances: callers tell those apart by class, and their messages are for users. Anything else is a bug
somewhere and comes out as a ShardError with the cause chained. Of several failing shards the first in shard
order is reported, for any number of workers.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import Field, dataclass, fields, replace
from itertools import pairwise
from typing import Any, Generic, Protocol, Self, TypeVar

from trellis.data.batch import Batch
from trellis.data.shards import shard_bounds
from trellis.errors import DataError, ShardError, TrellisError

T = TypeVar("T")


@dataclass(frozen=True)
class Shard:
    """Instances ``instances`` of a batch, the ``index``-th of its shards.

    first : number of the batch's first instance in the corpus, so that messages name the right ones

    >>> shard = Shard(3, range(40, 60))
    >>> print(shard)
    shard 3 (instances 40-59)
    """

    index: int
    instances: range
    first: int = 0

    @property
    def numbers(self) -> range:
        """The numbers of the instances in the corpus."""
        return range(self.first + self.instances.start, self.first + self.instances.stop)

    def of(self, batch: Batch) -> Batch:
        """The shard's part of its batch, as views."""
        return batch.instances(self.instances.start, self.instances.stop)

    def __str__(self) -> str:
        numbers = self.numbers
        if len(numbers) == 1:
            return f"shard {self.index} (instance {numbers.start})"
        return f"shard {self.index} (instances {numbers.start}-{numbers.stop - 1})"


def shards_of(batch: Batch) -> list[Shard]:
    """The shards of a batch, by the rule of ``trellis.data.shards`` that does not look at the number of workers."""
    bounds = shard_bounds(batch.offsets).tolist()
    return [Shard(index, range(start, stop), batch.first) for index, (start, stop) in enumerate(pairwise(bounds))]


@dataclass(frozen=True)
class Piece:
    """An item of an engine that holds the instances of a shard."""

    data: Any


I = TypeVar("I")  # noqa: E741
R = TypeVar("R")

Work = Callable[..., tuple[R, Any]]
"""(parameters, item, state) -> (result, new state); with ``own``, (parameters, item, state, own)."""


class Placed(ABC, Generic[I]):
    """Items where they will be worked on.

    shards : the run of instances of each item, for messages;  states : the last state known of each item
    """

    def __init__(self, shards: Sequence[Shard]) -> None:
        self.shards = [replace(shard, index=number) for number, shard in enumerate(shards)]
        self.states: list[Any] = [None] * len(self.shards)

    def __len__(self) -> int:
        return len(self.shards)

    @abstractmethod
    def run(self, work: Work[R], parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[R]:
        """The results in order, lazily: nothing runs before the first is asked for.

        own : further arguments, one per item. Only a bounded number of items is under way or waiting to be taken.
        """

    def restore(self, states: Sequence[Any]) -> None:
        """Let every item go on from this state."""
        self.states = list(states)

    def total(self, work: Work[R], parameters: Any = None, *, start: Any = None) -> R:
        """The sum of the results, added in order while they arrive; ``start`` is what it begins with."""
        total = start
        for result in self.run(work, parameters):
            total = result if total is None else total + result
        if total is None:
            raise DataError("there are no instances, so there is nothing to sum")
        found: R = total
        return found


class Engine(Protocol):
    """Somewhere shards are worked on."""

    @property
    def near(self) -> Engine:
        """An engine for work on what is in this process already, such as the tables of an M-step."""
        ...

    def place(self, items: Sequence[I], shards: Sequence[Shard] | None = None) -> Placed[I]:
        """Put items where they will be worked on; ``shards`` say which instances they are, for messages."""
        ...


def summed(results: Iterable[Any], start: Any = None) -> Any:
    """Results added from left to right."""
    total = start
    for result in results:
        total = result if total is None else total + result
    if total is None:
        raise DataError("there are no instances, so there is nothing to sum")
    return total


class Additive:
    """Of a frozen dataclass of numbers and arrays: a sum, and a product with a number, field by field."""

    def __add__(self, other: Self) -> Self:
        return type(self)(*(getattr(self, f.name) + getattr(other, f.name) for f in _fields(self)))

    def __mul__(self, factor: float) -> Self:
        return type(self)(*(getattr(self, f.name) * factor for f in _fields(self)))


def _fields(one: Any) -> tuple[Field[Any], ...]:
    return fields(one)


def run_shard(function: Callable[..., T], shard: Shard, *arguments: Any) -> T:
    """Call the function for one shard, with errors that name the shard."""
    with naming(shard):
        return function(*arguments)


@dataclass(frozen=True)
class naming:  # noqa: N801
    """A context in which errors name the shard.

    It is a class, since a context made of a generator lets StopIteration pass.
    """

    shard: Shard

    def __enter__(self) -> None: ...

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if isinstance(error, TrellisError):
            error.add_note(f"in {self.shard}")
        elif isinstance(error, Exception):
            what = f"{self.shard} failed: {type(error).__name__}: {error}"
            raise ShardError(what, instances=self.shard.numbers) from error


def numbered(n: int) -> list[Shard]:
    """Shards of one instance each, for items that are no runs of instances."""
    return [Shard(number, range(number, number + 1)) for number in range(n)]


def place_batch(engine: Engine, batch: Batch) -> Placed[Piece]:
    """The shards of a batch, each where it will be worked on."""
    shards = shards_of(batch)
    return engine.place([Piece(shard.of(batch)) for shard in shards], shards)
