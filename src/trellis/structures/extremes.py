"""Least and largest values of rows over all outputs, for every structure that has an argmax.

Instances are independent, so a row is the sum of its *shares*, what it says of one instance each, and a share's extreme
value is a best score:  max_y Σ coefficient · [y uses part].  One argmax of the batch answers a question about every
instance, so as many argmaxes are needed as there are questions about the instance that is asked most.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows

if TYPE_CHECKING:
    from trellis.structures.structure import Structure


def some_rows(
    chosen: BoolArray, start: IntArray, part: IntArray, coefficient: FloatArray
) -> tuple[IntArray, IntArray, FloatArray]:
    """The rows that are chosen (n_rows,) of rows in compressed form."""
    length = np.diff(start)
    entries = np.repeat(chosen, length)
    return offsets_of(length[chosen]), part[entries], coefficient[entries]


@dataclass(frozen=True)
class RowShares:
    """What rows say of each instance.

    row, instance : (n_shares,)
    start : (n_shares + 1,) entries of each share;  part, coefficient : (n_entries,)
    """

    row: IntArray
    instance: IntArray
    start: IntArray
    part: IntArray
    coefficient: FloatArray

    @classmethod
    def of(cls, scores: Structure, start: IntArray, part: IntArray, coefficient: FloatArray) -> RowShares:
        row = owners(start)
        instance = scores.parts.instance_of(part)
        order = np.lexsort((instance, row))
        row, instance = row[order], instance[order]
        is_first = np.ones(len(order), dtype=np.bool_)
        is_first[1:] = (row[1:] != row[:-1]) | (instance[1:] != instance[:-1])
        first = np.flatnonzero(is_first)
        return cls(row[first], instance[first], np.append(first, len(order)), part[order], coefficient[order])


@dataclass(frozen=True)
class Questions:
    """What is the best value of a share, its coefficients multiplied by ``sign``, when something is added at parts?

    share : (n_questions,)
    asked, part, value : (n_added,) the question, the part and what is added there, questions in order
    """

    share: IntArray
    sign: float
    asked: IntArray
    part: IntArray
    value: FloatArray

    @classmethod
    def plain(cls, shares: RowShares, sign: float) -> Questions:
        """Nothing is added."""
        none = np.zeros(0, dtype=np.int64)
        return cls(np.arange(len(shares.row), dtype=np.int64), sign, none, none, np.zeros(0))

    def answer(self, scores: Structure, shares: RowShares) -> FloatArray:
        """(n_questions,), where ``scores`` are 0 for every output."""
        instance = shares.instance[self.share]
        by_instance = np.argsort(instance, kind="stable")
        # the n-th question about every instance is asked in the n-th argmax
        nth = np.empty(len(instance), dtype=np.int64)
        nth[by_instance] = np.arange(len(instance)) - np.searchsorted(instance[by_instance], instance[by_instance])
        turn = np.argsort(nth, kind="stable")
        cuts = np.searchsorted(nth[turn], np.arange(int(nth.max(initial=-1)) + 2))
        answers = np.zeros(len(instance))
        for a, b in pairwise(cuts.tolist()):
            asked = np.sort(turn[a:b])
            entry, added = take_rows(shares.start, self.share[asked])[1], np.isin(self.asked, asked)
            part = np.concatenate((shares.part[entry], self.part[added]))
            value = np.concatenate((self.sign * shares.coefficient[entry], self.value[added]))
            answers[asked] = scores.add(part, value).argmax().score[instance[asked]]
        return answers


def row_extremes(
    flat: Structure, start: IntArray, part: IntArray, coefficient: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n_rows,) each: the least and the largest value of every row; all scores of ``flat`` are 0."""
    shares, low, high = RowShares.of(flat, start, part, coefficient), np.zeros(len(start) - 1), np.zeros(len(start) - 1)
    np.add.at(low, shares.row, -Questions.plain(shares, -1.0).answer(flat, shares))
    np.add.at(high, shares.row, Questions.plain(shares, 1.0).answer(flat, shares))
    return low, high


def parts_never_least(
    flat: Structure, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
) -> tuple[IntArray, BoolArray]:
    """As :meth:`trellis.structures.parts.Parts.never_least`, parts listed and increasing; scores of ``flat`` are 0."""
    shares = RowShares.of(flat, start, part, coefficient)
    low = -Questions.plain(shares, -1.0).answer(flat, shares)
    share = owners(shares.start)
    # To use a part is worth more than the whole share: the best output uses it if any can.
    worth = np.ones(len(shares.row))
    np.add.at(worth, share, 2.0 * np.abs(shares.coefficient))
    candidate = np.flatnonzero(shares.coefficient > 0)
    owner, numbers = share[candidate], np.arange(len(candidate), dtype=np.int64)
    using = Questions(owner, -1.0, numbers, shares.part[candidate], worth[owner])
    least_with_it = worth[owner] - using.answer(flat, shares)
    never = least_with_it > low[owner] + margin[shares.row[owner]]
    found, of_share = shares.part[candidate[never]], owner[never]
    without = Questions(np.arange(len(shares.row)), 1.0, of_share, found, np.full(len(found), -np.inf))
    excess = np.zeros(len(margin))
    np.add.at(excess, shares.row, without.answer(flat, shares) - low)
    return np.unique(found), excess <= margin
