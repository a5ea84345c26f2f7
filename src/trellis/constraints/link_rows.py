"""Rows about links of words that stay implicit: agreement of two directions has as many as there are links.

    Σ_{(member, sign)} sign · Σ_{links of the unit} q_member(link)  ≤  bound   (or = bound),     one row per unit

A unit is a link, a source word or a target word. Fast paths of the projection read them as they are; everybody else
takes them written out (:meth:`trellis.constraints.rows.Rows.written_out`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from trellis.constraints.strength import Strength
from trellis.data.ragged import FloatArray, IntArray, offsets_of
from trellis.structures.parts import Parts


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
        every = member.linked_words()[0] if self.links is None else self.links
        return member, np.arange(len(every)) if self.links is None else self.links

    def _units(self, parts: Parts) -> tuple[IntArray, int, IntArray]:
        """The row of each link that counts, how many rows there are, and a link (by its place) of each row."""
        member, links = self._links(parts)
        if self.unit == Unit.LINK:
            every = np.arange(len(links))
            return every, len(links), every
        word = member.linked_words()[self.unit - 1][links]
        present, example, row = np.unique(word, return_index=True, return_inverse=True)
        return row, len(present), example


def _member(parts: Parts, number: int | None) -> tuple[Parts, int]:
    return (parts, 0) if number is None else parts.member(number)
