"""Constraints that are not explicit rows: forbidden parts, and blocks of rows too numerous to be listed.

Posterior sparsity is a price on how many labels each word (or any other key) is ever given,

    penalty  σ Σ_{w, k} max_{occurrences t of w} q(y_t = k)            (l1/linf; Graça et al. 2009, eq. 5-6)

In the form of rows: q(y_t = k) ≤ ξ_{wk} for every occurrence t of w, penalty σ ‖(ξ_wk)‖ with an L∞ norm inside each
group (w, k), whose dual variables are λ_tk ≥ 0 with Σ_{t of w} λ_tk ≤ σ. There is a row of one entry for
each occurrence and label; an occurrence is a run of ``width`` consecutive parts.

Agreement of two directions of alignment has as many rows as there are links,

    Σ_{(member, sign)} sign · Σ_{links of the unit} q_member(link)  ≤  bound   (or = bound),     one row per unit

A unit is a link, a source word or a target word. Fast paths of the projection read them as they are; everybody else
takes them written out (:meth:`trellis.constraints.rows.Rows.written_out`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from trellis.constraints.strength import Kind, Strength
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, offsets_of
from trellis.errors import ConstraintError
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


@dataclass(frozen=True)
class Sparsity:
    """One l1/linf block.

    first : (n,) the first part of each occurrence, increasing;  width : parts of an occurrence
    key : (n,) the key of each, 0..n_keys − 1
    strength : σ
    """

    name: str
    first: IntArray
    width: int
    key: IntArray
    n_keys: int
    strength: float

    def __len__(self) -> int:
        return len(self.first)

    @property
    def parts(self) -> IntArray:
        """(n, width): the parts of each occurrence."""
        return self.first[:, None] + np.arange(self.width, dtype=np.int64)

    def statistic(self, marginals: FloatArray) -> FloatArray:
        """(n_keys, width): max over the occurrences of each key of the marginals (n, width)."""
        largest = np.zeros((self.n_keys, self.width))
        np.maximum.at(largest, self.key, marginals)
        return largest

    def shard(self, parts: Parts, first: int, last: int) -> Sparsity:
        """What of it lies in instances first..last−1, in the part numbers of that shard; keys keep their numbers."""
        kept, numbers = parts.within(self.first, first, last)
        return replace(self, first=numbers, key=self.key[kept])


class Unit(IntEnum):
    """What there is a row for."""

    LINK = 0
    SOURCE = 1
    TARGET = 2


@dataclass(frozen=True)
class LinkRows:
    """Rows of one constraint; the rows of an instance are a norm group.

    constraint : its number among the names of the rows
    terms : (member of a joint structure, or None for an alignment by itself; sign)
    links : (n,) links that count, increasing, or None: all; words without any have no row
    """

    constraint: int
    terms: tuple[tuple[int | None, float], ...]
    unit: Unit
    bound: float
    equality: bool
    strength: Strength
    links: IntArray | None = None

    def excess(self, q: Any, parts: Parts) -> FloatArray:
        """(n_rows,): how far the rows are beyond their bounds under q."""
        _, links = self._links(parts)
        total = np.zeros(len(links))
        for member, sign in self.terms:
            total += sign * q.at(_member(parts, member)[1] + links)
        row, n_rows, _ = self._units(parts)
        over = np.bincount(row, total, minlength=n_rows) - self.bound
        return np.asarray(np.abs(over) if self.equality else np.maximum(over, 0.0))

    def written(self, parts: Parts) -> tuple[IntArray, IntArray, FloatArray, IntArray]:
        """As ordinary rows in compressed form: start, part, coefficient, and the instance of each row."""
        _, links = self._links(parts)
        row, n_rows, example = self._units(parts)
        rows = np.concatenate([row for _ in self.terms])
        part = np.concatenate([_member(parts, member)[1] + links for member, _ in self.terms])
        coefficient = np.repeat([sign for _, sign in self.terms], len(links))
        order = np.lexsort((part, rows))
        start = offsets_of(np.bincount(rows, minlength=n_rows))
        return start, part[order], coefficient[order], parts.instance_of(part[: len(links)][example])

    def shard(self, parts: Parts, first: int, last: int) -> LinkRows:
        """What of it concerns instances first..last−1, in the part numbers of that shard."""
        if self.links is None:
            return self
        return replace(self, links=_member(parts, self.terms[0][0])[0].within(self.links, first, last)[1])

    def _links(self, parts: Parts) -> tuple[Parts, IntArray]:
        member = _member(parts, self.terms[0][0])[0]
        return member, member.linked_words()[0] if self.links is None else self.links

    def _units(self, parts: Parts) -> tuple[IntArray, int, IntArray]:
        """The row of each link that counts, how many rows there are, and a link (by its place) of each row."""
        member, links = self._links(parts)
        if self.unit == Unit.LINK:
            every = np.arange(len(links))
            return every, len(links), every
        word = member.linked_words()[self.unit][links]
        present, example, row = np.unique(word, return_index=True, return_inverse=True)
        return row, len(present), example


@dataclass(frozen=True)
class Checks:
    """A Python function of prefixes, Σ_t f(x; y_1 … y_t) of every instance.

    constraint : its number among the names of the rows;  tokens : of each instance;  labels : their names
    """

    constraint: int
    function: Callable[[Sequence[str], Sequence[str]], float]
    strength: Strength
    tokens: tuple[tuple[str, ...], ...]
    labels: tuple[str, ...]

    @property
    def price(self) -> float:
        """Of a unit; ∞ of a hard constraint."""
        return np.inf if self.strength.kind == Kind.HARD else self.strength.amount

    def step(self, instance: int, names: Sequence[str]) -> float:
        """How much the last label of a prefix violates it."""
        found = float(self.function(self.tokens[instance], names))
        if not 0.0 <= found < np.inf:
            raise ConstraintError(
                f"{self.function!r} returned {found} for the labels {list(names)!r:.200}: expected a number from 0 on"
            )
        return found

    def at_slots(self, labels: LabelArray) -> FloatArray:
        """(n_slots,): how much each label violates it after those before."""
        names, first, found = [self.labels[k] for k in labels.tolist()], 0, list[float]()
        for instance, own in enumerate(self.tokens):
            found += [self.step(instance, tuple(names[first : first + t + 1])) for t in range(len(own))]
            first += len(own)
        return np.array(found)

    def violations(self, labels: LabelArray) -> FloatArray:
        """(n_instances,): in all."""
        owner = np.repeat(np.arange(len(self.tokens)), [len(own) for own in self.tokens])
        return np.bincount(owner, self.at_slots(labels), minlength=len(self.tokens)).astype(np.float64)

    def prices(self, labels: LabelArray) -> FloatArray:
        """(n_instances,): what they cost."""
        broken = self.violations(labels)
        return np.multiply(broken, self.price, out=np.zeros(len(broken)), where=broken > 0.0)

    def shard(self, first: int, last: int) -> Checks:
        """What of it concerns instances first..last−1."""
        return replace(self, tokens=self.tokens[first:last])


def _member(parts: Parts, number: int | None) -> tuple[Parts, int]:
    return (parts, 0) if number is None else parts.member(number)
