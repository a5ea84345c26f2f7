"""Forbidden parts: what is left of hard rows that can only hold if some parts are never used."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, IntArray
from trellis.structures.part_set import PartSet
from trellis.structures.parts import Parts


@dataclass(frozen=True)
class Forbidden:
    """Parts that no output may use: a set for each constraint that forbids any.

    by : numbers of these constraints, increasing;  sets : what each forbids
    """

    by: tuple[int, ...] = ()
    sets: tuple[PartSet, ...] = ()

    @classmethod
    def of(cls, part: IntArray, by: IntArray) -> Forbidden:
        """Listed parts, and the constraint that forbids each.

        >>> Forbidden.of(np.array([1, 1, 3]), np.array([0, 3, 3])).listed()[0].tolist()
        [1, 1, 3]
        """
        numbers = tuple(np.unique(by).tolist())
        return cls(numbers, tuple(PartSet.of(part[by == number]) for number in numbers))

    def __len__(self) -> int:
        """How many parts that is, one that several constraints forbid counted for each."""
        return sum(len(some) for some in self.sets)

    def only(self, constraints: Collection[int]) -> Forbidden:
        """What these constraints forbid."""
        kept = [(number, some) for number, some in zip(self.by, self.sets, strict=True) if number in constraints]
        return Forbidden(tuple(number for number, _ in kept), tuple(some for _, some in kept))

    def without(self, constraints: Collection[int]) -> Forbidden:
        """What the other constraints forbid."""
        return self.only([number for number in self.by if number not in constraints])

    def shard(self, parts: Parts, first: int, last: int) -> Forbidden:
        """What concerns instances first..last−1, in the part numbers of that shard."""
        made = [(number, some.within(parts, first, last)) for number, some in zip(self.by, self.sets, strict=True)]
        kept = [(number, some) for number, some in made if len(some.at)]
        return Forbidden(tuple(number for number, _ in kept), tuple(some for _, some in kept))

    def contains(self, part: IntArray) -> BoolArray:
        """Which of the parts are forbidden."""
        found = np.zeros(np.shape(part), dtype=np.bool_)
        for some in self.sets:
            found |= some.contains(part)
        return found

    def mask(self, parts: Parts) -> Any:
        """The change of scores that forbids them."""
        return parts.closing(self.sets)

    def listed(self) -> tuple[IntArray, IntArray]:
        """(n,) each: the parts, increasing, and who forbids each; for small problems."""
        lists = [some.listed() for some in self.sets]
        part = np.concatenate([np.zeros(0, np.int64), *lists])
        by = np.repeat(np.asarray(self.by, dtype=np.int64), [len(one) for one in lists])
        order = np.argsort(part, kind="stable")
        return part[order], by[order]
