"""Translations of whole words: how often each word pair is expected to be linked in a text.

    t(f | e) = Σ q₁(link of e and f) / Σ_f' Σ q₁(link of e and f')        q₁, q₂: posteriors of the two directions

An alignment model tells words apart by their first letters. What it says about links holds for whole words, and this
counts them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray, IntArray

Pair = tuple[Sequence[str], Sequence[str]]
Grids = Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]
MOST_PARTS = 64


@dataclass
class WordLinks:
    """Expected links of word pairs.

    source, target : words and their numbers;  parts : (numbers of word pairs (n, 2), expected links (n, 2)) each
    """

    source: dict[str, int] = field(default_factory=dict)
    target: dict[str, int] = field(default_factory=dict)
    parts: list[tuple[IntArray, FloatArray]] = field(default_factory=list)

    def add(self, pairs: Sequence[Pair], grids: Grids, least: float) -> None:
        """Count the links of some pairs of sentences, given the posteriors (I, J) of both directions."""
        places, counts = [np.zeros((0, 2), np.int64)], [np.zeros((0, 2))]
        for (left, right), (ahead, back) in zip(pairs, grids, strict=True):
            rows, columns = np.nonzero(np.maximum(ahead, back) >= least)
            i = np.array([self.source.setdefault(word, len(self.source)) for word in left], np.int64)
            j = np.array([self.target.setdefault(word, len(self.target)) for word in right], np.int64)
            places.append(np.column_stack([i[rows], j[columns]]))
            counts.append(np.column_stack([ahead[rows, columns], back[rows, columns]]).astype(np.float64))
        self.parts.append(_summed(np.concatenate(places), np.concatenate(counts)))
        if len(self.parts) > MOST_PARTS:
            self.parts = [self.total()]

    def total(self) -> tuple[IntArray, FloatArray]:
        """Distinct word pairs and their expected links."""
        empty = np.zeros((0, 2), np.int64), np.zeros((0, 2))
        places, counts = zip(empty, *self.parts, strict=True)
        return _summed(np.concatenate(places), np.concatenate(counts))

    def translations(self, least: float) -> Iterator[tuple[str, str, float, float]]:
        """(source, target, t(target | source), t(source | target)) of pairs with either at least ``least``."""
        places, counts = self.total()
        of_source = np.bincount(places[:, 0], counts[:, 0], minlength=len(self.source))
        of_target = np.bincount(places[:, 1], counts[:, 1], minlength=len(self.target))
        with np.errstate(invalid="ignore"):
            ahead, back = counts[:, 0] / of_source[places[:, 0]], counts[:, 1] / of_target[places[:, 1]]
        source, target = list(self.source), list(self.target)
        for k in np.flatnonzero((ahead >= least) | (back >= least)).tolist():
            i, j = places[k].tolist()
            yield source[i], target[j], float(np.nan_to_num(ahead[k])), float(np.nan_to_num(back[k]))


def _summed(places: IntArray, counts: FloatArray) -> tuple[IntArray, FloatArray]:
    """Rows that are equal as one, in order."""
    distinct, number = np.unique(places, axis=0, return_inverse=True)
    found = np.zeros((len(distinct), 2))
    np.add.at(found, number.ravel(), counts)
    return distinct, found


def count_word_links(
    chunks: Iterable[Sequence[Pair]], posteriors: Callable[[Sequence[Pair]], Grids], least: float
) -> WordLinks:
    """Expected links of all pairs, a chunk of them at a time; less likely links than ``least`` are left out."""
    counted = WordLinks()
    for chunk in chunks:
        counted.add(chunk, posteriors(chunk), least)
    return counted
