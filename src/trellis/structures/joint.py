"""Joint: several structures over the same instances, independent of each other until rows tie them together.

    p(y₁, y₂, ...) = Π_m p_m(y_m),      parts: those of the members one after the other

Agreement of two models is ordinary rows between their parts; word alignment in two directions is the oldest use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import DataError
from trellis.structures.parts import Parts
from trellis.structures.polytope import Polytope, side_by_side
from trellis.structures.results import Argmax, JointPosterior
from trellis.structures.structure import Structure


@dataclass(frozen=True)
class JointParts(Parts):
    """Parts of several members over equally many instances."""

    members: tuple[Parts, ...]

    def __post_init__(self) -> None:
        sizes = {member.n_instances for member in self.members}
        if len(sizes) != 1:
            raise DataError(
                f"the members of a joint structure must have the same instances, got {sorted(sizes)} of them"
            )

    @property
    def kind(self) -> str:  # type: ignore[override]
        return "+".join(member.kind for member in self.members)

    @cached_property
    def starts(self) -> IntArray:
        """(n_members + 1,): first part of each member, and the number of all parts."""
        return np.cumsum([0, *(member.n_parts for member in self.members)]).astype(np.int64)

    @property
    def n_instances(self) -> int:
        return self.members[0].n_instances

    @property
    def n_parts(self) -> int:
        return int(self.starts[-1])

    def member(self, number: int) -> tuple[Parts, int]:
        return self.members[number], int(self.starts[number])

    def instance_of(self, parts: IntArray) -> IntArray:
        return self._each(parts, lambda member, mine: member.instance_of(mine))

    def place_of(self, parts: IntArray) -> IntArray:
        # A member has no more places than twice its parts (a chain counts boundaries behind slots).
        out = np.empty(parts.shape, dtype=np.int64)
        for number, member in enumerate(self.members):
            mine = self._mine(parts, number)
            out[mine] = 2 * self.starts[number] + member.place_of(parts[mine] - self.starts[number])
        return out

    def of(self, outputs: Sequence[Any]) -> IntArray:
        return np.concatenate(
            [m.of(y) + s for m, y, s in zip(self.members, outputs, self.starts[:-1], strict=True)]
        ).astype(np.int64, copy=False)

    def split_outputs(self, outputs: Sequence[Any]) -> list[Any]:
        return list(zip(*(m.split_outputs(y) for m, y in zip(self.members, outputs, strict=True)), strict=True))

    def join_outputs(self, pieces: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(m.join_outputs([piece[number] for piece in pieces]) for number, m in enumerate(self.members))

    def shard(self, first: int, last: int) -> JointParts:
        return JointParts(tuple(member.shard(first, last) for member in self.members))

    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        kept, moved = np.zeros(parts.shape, dtype=np.bool_), np.empty(parts.shape, dtype=np.int64)
        start = 0
        for number, member in enumerate(self.members):
            mine = np.flatnonzero(self._mine(parts, number))
            here, numbers = member.within(parts[mine] - self.starts[number], first, last)
            kept[mine[here]] = True
            moved[mine[here]] = numbers + start
            start += member.shard(first, last).n_parts
        return kept, moved[kept]

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        instance, local = np.empty(parts.shape, dtype=np.int64), np.empty(parts.shape, dtype=np.int64)
        before = np.zeros(self.n_instances, dtype=np.int64)
        for number, member in enumerate(self.members):
            mine = self._mine(parts, number)
            instance[mine], inside = member.split(parts[mine] - self.starts[number])
            local[mine] = inside + before[instance[mine]]
            before += member.sizes()
        return instance, local

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        parts, low = np.empty(local.shape, dtype=np.int64), np.zeros(self.n_instances, dtype=np.int64)
        for number, member in enumerate(self.members):
            high = low + member.sizes()
            mine = (local >= low[instance]) & (local < high[instance])
            parts[mine] = member.join(instance[mine], local[mine] - low[instance[mine]]) + self.starts[number]
            low = high
        return parts

    def sizes(self) -> IntArray:
        return np.asarray(sum(member.sizes() for member in self.members))

    def zeros(self) -> Joint:
        return Joint(*(member.zeros() for member in self.members))

    def change(self, part: IntArray, value: FloatArray) -> tuple[Any, ...]:
        changes = []
        for number, member in enumerate(self.members):
            mine = self._mine(part, number)
            changes.append(member.change(part[mine] - self.starts[number], value[mine]))
        return tuple(changes)

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = np.zeros(len(start) - 1), np.zeros(len(start) - 1)
        for number, member in enumerate(self.members):
            least, most = member.extremes(*self._rows_of(number, start, part, coefficient))
            low += least
            high += most
        return low, high

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[IntArray, BoolArray]:
        """A sum over members is least where every member's share is."""
        found, settled = [], np.ones(len(margin), dtype=np.bool_)
        for number, member in enumerate(self.members):
            parts, done = member.never_least(*self._rows_of(number, start, part, coefficient), margin)
            found.append(parts + self.starts[number])
            settled &= done
        return np.concatenate(found), settled

    def _mine(self, parts: IntArray, number: int) -> BoolArray:
        mine: BoolArray = (parts >= self.starts[number]) & (parts < self.starts[number + 1])
        return mine

    def _each(self, parts: IntArray, function: Any) -> IntArray:
        out = np.empty(parts.shape, dtype=np.int64)
        for number, member in enumerate(self.members):
            mine = self._mine(parts, number)
            out[mine] = function(member, parts[mine] - self.starts[number])
        return out

    def _rows_of(
        self, number: int, start: IntArray, part: IntArray, coefficient: FloatArray
    ) -> tuple[IntArray, IntArray, FloatArray]:
        mine = self._mine(part, number)
        cuts = np.concatenate(([0], np.cumsum(mine)))[start]
        return cuts.astype(np.int64), part[mine] - self.starts[number], coefficient[mine]


class Joint(Structure):
    """Scores of several structures over the same instances.

    >>> from trellis.structures import Categorical
    >>> both = Joint(Categorical(np.log([[0.9, 0.1]])), Categorical(np.log([[0.5, 0.5]])))
    >>> agree = both.add(np.array([0, 2]), np.array([-1.0, 1.0]))
    >>> both.infer().at(np.arange(4)).round(2).tolist(), both.argmax().outputs[0].tolist()
    ([0.9, 0.1, 0.5, 0.5], [0])
    """

    def __init__(self, *members: Structure) -> None:
        if not members:
            raise DataError("a joint structure needs at least one member")
        self.members = members
        self.first = members[0].first
        self._parts = JointParts(tuple(member.parts for member in members))

    @property
    def parts(self) -> JointParts:
        return self._parts

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> JointPosterior:
        asked: list[IntArray | None] = [None] * len(self.members)
        if at is not None:
            starts = self._parts.starts
            asked = [at[(at >= a) & (at < b)] - a for a, b in pairwise(starts)]
        members = [m.infer(weights=weights, at=wanted) for m, wanted in zip(self.members, asked, strict=True)]
        return JointPosterior(members, self._parts.starts)

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        best = [member.argmax(rng) for member in self.members]
        return Argmax(tuple(one.outputs for one in best), np.asarray(sum(one.score for one in best)))

    def score(self, outputs: Sequence[Any]) -> FloatArray:
        return np.asarray(sum(m.score(y) for m, y in zip(self.members, outputs, strict=True)))

    def apply(self, change: Sequence[Any], gamma: float = 1.0) -> Joint:
        return Joint(*(m.apply(one, gamma) for m, one in zip(self.members, change, strict=True)))

    def take(self, numbers: IntArray) -> Joint:
        return Joint(*(member.take(numbers) for member in self.members))

    def instances(self, start: int, stop: int) -> Joint:
        return Joint(*(member.instances(start, stop) for member in self.members))

    def flat(self) -> Joint:
        return Joint(*(member.flat() for member in self.members))

    def posterior(
        self,
        part: IntArray,
        value: FloatArray,
        *,
        log_partition: FloatArray | None = None,
        weights: FloatArray | None = None,
        at: IntArray | None = None,
    ) -> JointPosterior:
        starts = self._parts.starts
        members: list[Any] = []
        for member, a, b in zip(self.members, starts[:-1], starts[1:], strict=True):
            mine = (part >= a) & (part < b)
            asked = None if at is None else at[(at >= a) & (at < b)] - a
            top = None if members else log_partition  # the log-partition of all of them is a sum
            members.append(member.posterior(part[mine] - a, value[mine], log_partition=top, weights=weights, at=asked))
        return JointPosterior(members, starts)

    def average(
        self,
        used: Sequence[IntArray],
        share: FloatArray,
        *,
        log_partition: FloatArray | None = None,
        weights: FloatArray | None = None,
        at: IntArray | None = None,
    ) -> JointPosterior:
        starts, members = self._parts.starts, []
        for member, a, b in zip(self.members, starts[:-1], starts[1:], strict=True):
            mine = [parts[(parts >= a) & (parts < b)] - a for parts in used]
            asked = None if at is None else at[(at >= a) & (at < b)] - a
            top = None if members else log_partition
            members.append(member.average(mine, share, log_partition=top, weights=weights, at=asked))
        return JointPosterior(members, starts)

    def certain(self, outputs: Sequence[Any], *, weights: FloatArray | None = None) -> JointPosterior:
        found = [m.certain(y, weights=weights) for m, y in zip(self.members, outputs, strict=True)]
        return JointPosterior(found, self._parts.starts)

    def expected_score(self, q: JointPosterior, weights: FloatArray) -> float:
        return sum(m.expected_score(one, weights) for m, one in zip(self.members, q.members, strict=True))

    def likeliest(self, q: JointPosterior) -> tuple[Any, ...]:
        return tuple(m.likeliest(one) for m, one in zip(self.members, q.members, strict=True))

    def max_marginals(self) -> FloatArray | None:
        """Of a part of one member: with the best outputs of all the others."""
        of_members = [member.max_marginals() for member in self.members]
        best = [member.argmax().score for member in self.members]
        together, made = np.asarray(sum(best)), []
        for member, mine, own in zip(self.members, of_members, best, strict=True):
            if mine is None:
                return None
            others = (together - own)[member.parts.instance_of(np.arange(len(mine)))]
            made.append(mine + others)
        return np.concatenate(made)

    def polytope(self, closed: IntArray) -> Polytope:
        starts = self._parts.starts
        return side_by_side(
            [
                m.polytope(closed[(closed >= a) & (closed < b)] - a)
                for m, a, b in zip(self.members, starts[:-1], starts[1:], strict=True)
            ]
        )

    def farthest(self) -> float:
        return max(member.farthest() for member in self.members)
