"""Joint: several structures over the same instances, independent of each other until rows tie them together.

    p(y₁, y₂, ...) = Π_m p_m(y_m),      parts: those of the members one after the other

Agreement of two models is ordinary rows between their parts; word alignment in two directions is the oldest use.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import DataError
from trellis.structures.part_set import PartSet
from trellis.structures.parts import Parts, check_change, check_parts
from trellis.structures.polytope import Polytope, side_by_side
from trellis.structures.results import Argmax, JointPosterior
from trellis.structures.structure import PosteriorOptions, Structure


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
        """Members joined by +, in brackets where they are joints themselves: no joint looks like one of its members."""
        kinds = [f"({member.kind})" if isinstance(member, JointParts) else member.kind for member in self.members]
        return "+".join(kinds) if len(kinds) > 1 else f"({kinds[0]})"

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

    def shares(self, parts: IntArray) -> list[tuple[BoolArray, IntArray]]:
        """For each member, which of the parts are its own, and what it calls them."""
        found = []
        for low, high in pairwise(self.starts):
            mine: BoolArray = (parts >= low) & (parts < high)
            found.append((mine, parts[mine] - low))
        return found

    def instance_of(self, parts: IntArray) -> IntArray:
        parts = check_parts(parts, self.n_parts)
        instance = np.empty(parts.shape, dtype=np.int64)
        for member, (mine, own) in zip(self.members, self.shares(parts), strict=True):
            instance[mine] = member.instance_of(own)
        return instance

    def place_of(self, parts: IntArray) -> IntArray:
        place = np.empty(parts.shape, dtype=np.int64)
        for member, start, (mine, own) in zip(self.members, self.starts[:-1], self.shares(parts), strict=True):
            place[mine] = start + member.place_of(own)
        return place

    def of(self, outputs: Sequence[Any]) -> IntArray:
        return np.concatenate(
            [member.of(y) + start for member, y, start in zip(self.members, outputs, self.starts[:-1], strict=True)]
        )

    def split_outputs(self, outputs: Sequence[Any]) -> list[Any]:
        return list(zip(*(m.split_outputs(y) for m, y in zip(self.members, outputs, strict=True)), strict=True))

    def join_outputs(self, pieces: Sequence[Any]) -> tuple[Any, ...]:
        return tuple(m.join_outputs([piece[number] for piece in pieces]) for number, m in enumerate(self.members))

    def shard(self, first: int, last: int) -> JointParts:
        return JointParts(tuple(member.shard(first, last) for member in self.members))

    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        kept, moved = np.zeros(parts.shape, dtype=np.bool_), np.empty(parts.shape, dtype=np.int64)
        starts = self.shard(first, last).starts[:-1]
        for member, start, (mine, own) in zip(self.members, starts, self.shares(parts), strict=True):
            here, numbers = member.within(own, first, last)
            place = np.flatnonzero(mine)[here]
            kept[place], moved[place] = True, numbers + start
        return kept, moved[kept]

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        instance, local = np.empty(parts.shape, dtype=np.int64), np.empty(parts.shape, dtype=np.int64)
        before = np.zeros(self.n_instances, dtype=np.int64)
        for member, (mine, own) in zip(self.members, self.shares(parts), strict=True):
            instance[mine], inside = member.split(own)
            local[mine] = inside + before[instance[mine]]
            before += member.sizes()
        return instance, local

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        parts, low = np.empty(local.shape, dtype=np.int64), np.zeros(self.n_instances, dtype=np.int64)
        for member, start in zip(self.members, self.starts[:-1], strict=True):
            high = low + member.sizes()
            mine = (local >= low[instance]) & (local < high[instance])
            parts[mine] = start + member.join(instance[mine], local[mine] - low[instance[mine]])
            low = high
        return parts

    def sizes(self) -> IntArray:
        return np.asarray(sum(member.sizes() for member in self.members), dtype=np.int64)

    def zeros(self) -> Joint:
        return Joint(*(member.zeros() for member in self.members))

    def change(self, part: IntArray, value: FloatArray) -> tuple[Any, ...]:
        """A change of each member."""
        part, value = check_change(part, value, self.n_parts)
        shares = self.shares(part)
        return tuple(member.change(own, value[mine]) for member, (mine, own) in zip(self.members, shares, strict=True))

    def closing(self, sets: Sequence[PartSet]) -> tuple[Any, ...]:
        """A change of each member."""
        cuts = pairwise(self.starts.tolist())
        return tuple(
            member.closing([some.between(low, high) for some in sets])
            for member, (low, high) in zip(self.members, cuts, strict=True)
        )

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = np.zeros(len(start) - 1), np.zeros(len(start) - 1)
        for member, rows in zip(self.members, self._rows(start, part, coefficient), strict=True):
            least, most = member.extremes(*rows)
            low += least
            high += most
        return low, high

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        """A sum over members is least where every member's share is."""
        found, settled = [], np.ones(len(margin), dtype=np.bool_)
        for first, member, rows in zip(self.starts, self.members, self._rows(start, part, coefficient), strict=False):
            parts, done = member.never_least(*rows, margin)
            found.append(parts.moved(int(first)))
            settled &= done
        return PartSet.union(found), settled

    def _rows(
        self, start: IntArray, part: IntArray, coefficient: FloatArray
    ) -> list[tuple[IntArray, IntArray, FloatArray]]:
        """What rows say of each member."""
        return [
            (np.concatenate(([0], np.cumsum(mine)))[start].astype(np.int64), own, coefficient[mine])
            for mine, own in self.shares(part)
        ]


def members_of(scores: Structure) -> tuple[Structure, ...]:
    """The structures that a joint one consists of; of any other, none."""
    return scores.members if isinstance(scores, Joint) else ()


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
        self.first, self.numbers = members[0].first, members[0].numbers
        self._parts = JointParts(tuple(member.parts for member in members))

    @property
    def parts(self) -> JointParts:
        return self._parts

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> JointPosterior:
        members = [m.infer(weights=weights, at=own) for m, own in zip(self.members, self._asked(at), strict=True)]
        return JointPosterior(members, self._parts.starts)

    def _asked(self, at: IntArray | None) -> list[IntArray | None]:
        """What each member calls parts that are asked for."""
        if at is None:
            return [None] * len(self.members)
        return [own for _, own in self._parts.shares(at)]

    def _options(self, options: PosteriorOptions) -> list[PosteriorOptions]:
        """What comes with the marginals of each member; the log-partition of all of them is a sum."""
        alike = [options, *[PosteriorOptions(weights=options.get("weights"))] * (len(self.members) - 1)]
        return [{**one, "at": at} for one, at in zip(alike, self._asked(options.get("at")), strict=True)]

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        best = [member.argmax(rng) for member in self.members]
        return Argmax(tuple(one.outputs for one in best), np.asarray(sum(one.score for one in best)))

    def score(self, outputs: Sequence[Any]) -> FloatArray:
        return np.asarray(sum(m.score(y) for m, y in zip(self.members, outputs, strict=True)))

    def apply(self, change: Sequence[Any], gamma: float = 1.0) -> Joint:
        return Joint(*(m.apply(one, gamma) for m, one in zip(self.members, change, strict=True)))

    def take(self, numbers: IntArray) -> Joint:
        return Joint(*(member.take(numbers) for member in self.members))

    def flat(self) -> Joint:
        return Joint(*(member.flat() for member in self.members))

    def posterior(self, part: IntArray, value: FloatArray, **options: Unpack[PosteriorOptions]) -> JointPosterior:
        members: list[Any] = []
        shares = self._parts.shares(part)
        for member, (mine, own), asked in zip(self.members, shares, self._options(options), strict=True):
            members.append(member.posterior(own, value[mine], **asked))
        return JointPosterior(members, self._parts.starts)

    def average(
        self, used: Sequence[IntArray], share: FloatArray, **options: Unpack[PosteriorOptions]
    ) -> JointPosterior:
        shares = [self._parts.shares(parts) for parts in used]
        members: list[Any] = []
        for number, (member, asked) in enumerate(zip(self.members, self._options(options), strict=True)):
            members.append(member.average([of_members[number][1] for of_members in shares], share, **asked))
        return JointPosterior(members, self._parts.starts)

    def certain(self, outputs: Sequence[Any], *, weights: FloatArray | None = None) -> JointPosterior:
        found = [m.certain(y, weights=weights) for m, y in zip(self.members, outputs, strict=True)]
        return JointPosterior(found, self._parts.starts)

    def expected_score(self, q: JointPosterior, weights: FloatArray) -> float:
        return sum(m.expected_score(one, weights) for m, one in zip(self.members, q.members, strict=True))

    def marginal_argmax(self, q: JointPosterior) -> tuple[Any, ...]:
        return tuple(m.marginal_argmax(one) for m, one in zip(self.members, q.members, strict=True))

    def max_marginals(self) -> FloatArray | None:
        """Of a part of one member: with the best outputs of all the others."""
        made = []
        for number, member in enumerate(self.members):
            mine = member.max_marginals()
            if mine is None:
                return None
            others = [other.argmax().score for other in (*self.members[:number], *self.members[number + 1 :])]
            instance = member.parts.instance_of(np.arange(len(mine)))
            made.append(sum((best[instance] for best in others), mine))
        return np.concatenate(made)

    def mean(self, other: Joint, share: float = 0.5) -> Joint:
        return Joint(*(one.mean(another, share) for one, another in zip(self.members, other.members, strict=True)))

    def clamp(self, known: Sequence[Any]) -> Joint:
        """Scores in which only outputs that agree with what is known of each member are possible."""
        return Joint(*(member.clamp(one) for member, one in zip(self.members, known, strict=True)))

    def polytope(self, closed: IntArray) -> Polytope:
        shares = self._parts.shares(closed)
        return side_by_side([member.polytope(own) for member, (_, own) in zip(self.members, shares, strict=True)])

    def max_shift(self) -> float:
        return max(member.max_shift() for member in self.members)
