"""Parts numbered block by block: a block slot by slot, the parts of a slot together, the slots of an instance in a run.

    part = first part of the block + slot · size + code,        0 ≤ code < size

Labels and transitions of sequences are two blocks over the same slots, links and null links two over others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import NamedTuple, Protocol

import numpy as np

from trellis.data.ragged import BoolArray, IntArray
from trellis.structures.parts import Parts, check_parts


class Block(Protocol):
    """offsets : (n_instances + 1,) of slots;  size : parts of a slot."""

    @property
    def offsets(self) -> IntArray: ...
    @property
    def size(self) -> int: ...


class PlainBlock(NamedTuple):
    """A block that is no more than that."""

    offsets: IntArray
    size: int


class BlockParts(Parts):
    """What follows from the blocks."""

    @property
    @abstractmethod
    def blocks(self) -> Sequence[Block]: ...

    @cached_property
    def starts(self) -> IntArray:
        """(n_blocks + 1,): the first part of each block, and the number of all parts."""
        return np.cumsum([0, *(int(b.offsets[-1]) * b.size for b in self.blocks)]).astype(np.int64)

    @property
    def n_instances(self) -> int:
        return len(self.blocks[0].offsets) - 1

    @property
    def n_parts(self) -> int:
        return int(self.starts[-1])

    def sizes(self) -> IntArray:
        return np.asarray(sum(np.diff(block.offsets) * block.size for block in self.blocks), dtype=np.int64)

    def by_block(self, parts: IntArray) -> list[tuple[BoolArray, IntArray, IntArray]]:
        """Of each block which parts are its own, their slots, and their codes."""
        found = []
        for number, block in enumerate(self.blocks):
            low, high = self.starts[number], self.starts[number + 1]
            mine: BoolArray = (parts >= low) & (parts < high)
            own = parts[mine] - low
            found.append((mine, own // block.size, own % block.size))
        return found

    def instance_of(self, parts: IntArray) -> IntArray:
        parts = check_parts(parts, self.n_parts)
        instance = np.empty(parts.shape, np.int64)
        for edges in self._edges():
            mine = (parts >= edges[0]) & (parts < edges[-1])
            instance[mine] = np.searchsorted(edges, parts[mine], side="right") - 1
        return instance

    def place_of(self, parts: IntArray) -> IntArray:
        """The slot, by its first part."""
        place = np.empty(parts.shape, dtype=np.int64)
        for block, start, (mine, slot, _) in zip(self.blocks, self.starts, self.by_block(parts), strict=False):
            place[mine] = start + slot * block.size
        return place

    def _edges(self) -> Iterator[IntArray]:
        """(n_instances + 1,) of each block: the first part of every instance in it, and where the block ends."""
        for block, start in zip(self.blocks, self.starts, strict=False):
            yield start + block.offsets * block.size

    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        kept, moved, start = np.zeros(parts.shape, np.bool_), np.empty(parts.shape, np.int64), 0
        for edges in self._edges():
            low, high = int(edges[first]), int(edges[last])
            mine = (parts >= low) & (parts < high)
            kept |= mine
            moved[mine] = parts[mine] - low + start
            start += high - low
        return kept, moved[kept]

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        instance, local = np.empty(parts.shape, np.int64), np.empty(parts.shape, np.int64)
        before = np.zeros(self.n_instances, np.int64)
        for edges in self._edges():
            mine = (parts >= edges[0]) & (parts < edges[-1])
            own = parts[mine]
            owner = np.searchsorted(edges, own, side="right") - 1
            instance[mine], local[mine] = owner, own - edges[owner] + before[owner]
            before += np.diff(edges)
        return instance, local

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        parts, low = np.empty(local.shape, np.int64), np.zeros(self.n_instances, np.int64)
        for edges in self._edges():
            high = low + np.diff(edges)
            mine = (local >= low[instance]) & (local < high[instance])
            parts[mine] = (local + (edges[:-1] - low)[instance])[mine]
            low = high
        return parts
