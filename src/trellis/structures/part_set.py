"""Sets of parts in which one pattern stands at many places: "no label changes here" at every boundary but a few.

    parts = { at[i] + offset  for every piece i and every offset of its pattern }

A chain has K² parts at a boundary, so what a rule forbids at all of them would be the largest array in the house if it
were listed; as pieces it is a number per boundary and one pattern. The parts of a piece are numbered one way in every
batch that has its instance, as those of a boundary are: a piece moves as a whole when a batch is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import BoolArray, IntArray, offsets_of, owners, take_rows

if TYPE_CHECKING:
    from trellis.structures.parts import Parts


@dataclass(frozen=True)
class PartSet:
    """A set of parts.

    at : (n_pieces,) increasing; a piece ends before the next one begins
    which : (n_pieces,) the pattern of each
    start : (n_patterns + 1,) offsets of each pattern;  offset : (n_offsets,) increasing inside a pattern, not negative

    >>> some = PartSet(np.array([4, 10]), np.array([0, 0], np.int32), np.array([0, 2]), np.array([0, 3]))
    >>> len(some), some.listed().tolist(), some.contains(np.array([7, 11])).tolist()
    (4, [4, 7, 10, 13], [True, False])
    """

    at: IntArray
    which: NDArray[np.int32]
    start: IntArray
    offset: IntArray

    @classmethod
    def of(cls, parts: IntArray) -> PartSet:
        """Listed parts, in any order."""
        parts = np.asarray(parts, dtype=np.int64)
        if np.any(parts[1:] <= parts[:-1]):
            parts = np.unique(parts)
        return cls(parts, np.zeros(len(parts), np.int32), np.array([0, 1]), np.zeros(1, np.int64))

    @classmethod
    def union(cls, sets: Sequence[PartSet]) -> PartSet:
        """The parts of any of them. Pieces that share parts, or stand in each other's way, are listed."""
        sets = [one for one in sets if len(one.at)]
        if len(sets) <= 1:
            return sets[0] if sets else cls.of(np.zeros(0, np.int64))
        before = np.cumsum([0, *(len(one.start) - 1 for one in sets)])
        return cls.of_pieces(
            np.concatenate([one.at for one in sets]),
            np.concatenate([one.which + first for one, first in zip(sets, before, strict=False)]),
            offsets_of(np.concatenate([np.diff(one.start) for one in sets])),
            np.concatenate([one.offset for one in sets]),
        )

    @classmethod
    def of_pieces(cls, at: IntArray, which: IntArray, start: IntArray, offset: IntArray) -> PartSet:
        """Pieces in any order, some of which may overlap."""
        order = np.lexsort((which, at))
        at, which = at[order], which[order]
        new = np.ones(len(at), dtype=np.bool_)
        new[1:] = (at[1:] != at[:-1]) | (which[1:] != which[:-1])
        pieces = cls(at[new], which[new].astype(np.int32), start, offset)
        end = np.maximum.accumulate(pieces.at + pieces.offset[pieces.start[1:] - 1][pieces.which])
        crowd = np.cumsum(np.concatenate(([True], pieces.at[1:] > end[:-1]))) - 1 if len(end) else end
        alone = np.bincount(crowd)[crowd] == 1 if len(end) else new
        if np.all(alone):
            return pieces
        return cls.union([pieces.some(alone), cls.of(pieces.some(~alone).listed())])

    def __len__(self) -> int:
        """How many parts it has."""
        return int(np.diff(self.start)[self.which].sum())

    def listed(self) -> IntArray:
        """(n,): its parts, increasing where its pieces are."""
        first, entry = take_rows(self.start, self.which)
        return np.asarray(np.repeat(self.at, np.diff(first)) + self.offset[entry], dtype=np.int64)

    def contains(self, parts: IntArray) -> BoolArray:
        """Which of the parts are in it."""
        asked = np.ravel(parts)
        found = np.zeros(len(asked), dtype=np.bool_)
        if len(self.at):
            piece = np.searchsorted(self.at, asked, side="right") - 1
            offset, width = asked - self.at[piece], int(self.offset.max()) + 1
            near = np.flatnonzero((piece >= 0) & (offset < width))
            known = owners(self.start) * width + self.offset
            cell = self.which[piece[near]] * np.int64(width) + offset[near]
            found[near] = known[np.minimum(np.searchsorted(known, cell), len(known) - 1)] == cell
        return found.reshape(np.shape(parts))

    def within(self, parts: Parts, first: int, last: int) -> PartSet:
        """What of it belongs to instances first..last−1, in the numbers of ``parts.shard(first, last)``."""
        kept, at = parts.within(self.at, first, last)
        return replace(self, at=at, which=self.which[kept])

    def between(self, low: int, high: int) -> PartSet:
        """Its parts low..high−1, counted from low, where no piece reaches over the ends."""
        some = self.some((self.at >= low) & (self.at < high))
        return replace(some, at=some.at - low)

    def moved(self, by: int) -> PartSet:
        """The parts with numbers larger by this."""
        return replace(self, at=self.at + by)

    def some(self, keep: BoolArray) -> PartSet:
        """The pieces where ``keep`` holds."""
        return replace(self, at=self.at[keep], which=self.which[keep])
