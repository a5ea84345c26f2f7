"""Parts numbered block by block: a block slot by slot, the parts of a slot together, the slots of an instance in a run.

    part = first part of the block + slot · size + code,        0 ≤ code < size

Labels and transitions of sequences are two blocks over the same slots, links and null links two over others.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
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

    def place_of(self, parts: IntArray) -> IntArray:
        """The slot, by its first part."""
        place = np.empty(parts.shape, dtype=np.int64)
        for block, start, (mine, slot, _) in zip(self.blocks, self.starts, self.by_block(parts), strict=False):
            place[mine] = start + slot * block.size
        return place

    @cached_property
    def _runs(self) -> tuple[IntArray, IntArray]:
        """(n_blocks · n_instances,) each, of every instance in every block: its first part, and that part's number
        among those of the instance alone."""
        first = [start + b.offsets[:-1] * b.size for b, start in zip(self.blocks, self.starts, strict=False)]
        sizes = np.array([np.diff(b.offsets) * b.size for b in self.blocks])
        return np.concatenate(first), (np.cumsum(sizes, axis=0) - sizes).reshape(-1)

    def instance_of(self, parts: IntArray) -> IntArray:
        return self._run_of(check_parts(parts, self.n_parts))[1]

    def _run_of(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        """The run of each part among all of them, and its instance."""
        at = np.searchsorted(self._runs[0], parts, side="right") - 1  # of runs that begin together, the last has parts
        return at, at % max(self.n_instances, 1) if len(self.blocks) > 1 else at

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        (first, before), (at, instance) = self._runs, self._run_of(parts)
        return instance, parts - first[at] + before[at]

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        first, before = self._runs
        at = np.array(instance, dtype=np.int64)
        for begin in before.reshape(len(self.blocks), -1)[1:]:
            at += (local >= begin[instance]) * self.n_instances
        return first[at] + local - before[at]

    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        kept, moved, begin = np.zeros(parts.shape, np.bool_), np.empty(parts.shape, np.int64), 0
        for block, start in zip(self.blocks, self.starts.tolist(), strict=False):
            low, high = (start + int(block.offsets[i]) * block.size for i in (first, last))
            mine = (parts >= low) & (parts < high)
            kept |= mine
            moved[mine] = parts[mine] - low + begin
            begin += high - low
        return kept, moved[kept]
