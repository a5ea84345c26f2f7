"""A shard: a run of instances of a batch that is worked on by one worker."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from trellis.data.batch import Batch
from trellis.data.shards import shard_bounds

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
