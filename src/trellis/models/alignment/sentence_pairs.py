"""A batch of sentence pairs: coded words of both sides, and the place of every two of them in the model's table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, offsets_of
from trellis.errors import DataError
from trellis.structures import AlignmentParts, JointParts


@dataclass(frozen=True)
class SentencePairs:
    """What a learner asks of a batch; its slots are *cells*, every two words of a pair, in the order of links.

    source, target : (n_words,) codes, −1 for a word without one;  source_offsets, target_offsets : (n + 1,)
    cells : (n_cells,) entry of the table, below 0 where it has none;  offsets : (n + 1,) cells of each pair
    weights : (n,);  first : number of the first pair in the corpus
    """

    source: LabelArray
    source_offsets: IntArray
    target: LabelArray
    target_offsets: IntArray
    cells: NDArray[np.int32]
    offsets: IntArray
    weights: FloatArray
    first: int = 0

    @classmethod
    def of(cls, bitext: Bitext, cells: NDArray[np.int32], weights: FloatArray | None = None) -> SentencePairs:
        """The pieces of a text as instances."""
        n = len(bitext.source_offsets) - 1
        weight = np.ones(n) if weights is None else np.asarray(weights, np.float64)
        if weight.shape != (n,) or not np.all(np.isfinite(weight)) or np.any(weight < 0):
            raise DataError(f"expected a finite weight, not negative, for each of {n} pairs, got shape {weight.shape}")
        return cls(
            bitext.source, bitext.source_offsets, bitext.target, bitext.target_offsets, cells, cell_offsets(bitext),
            weight,
        )  # fmt: skip

    def __len__(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def complete(self) -> BoolArray:
        """(n,): whether everything is known of a pair, which it never is: links that are known are a constraint."""
        return np.zeros(len(self), np.bool_)

    @property
    def known(self) -> bool:
        """Whether anything is known of any pair."""
        return False

    @property
    def is_empty(self) -> BoolArray:
        """(n,): whether a side of the pair has no words."""
        return np.asarray(np.diff(self.offsets) == 0)

    @cached_property
    def parts(self) -> JointParts:
        """Links and null links of both directions."""
        both = (AlignmentParts(self.source_offsets, self.target_offsets, forward) for forward in (True, False))
        return JointParts(tuple(both))

    def instances(self, start: int, stop: int) -> SentencePairs:
        """Pairs start..stop−1, as views."""
        low = [int(o[start]) for o in (self.source_offsets, self.target_offsets, self.offsets)]
        high = [int(o[stop]) for o in (self.source_offsets, self.target_offsets, self.offsets)]
        return SentencePairs(
            self.source[low[0] : high[0]],
            self.source_offsets[start : stop + 1] - low[0],
            self.target[low[1] : high[1]],
            self.target_offsets[start : stop + 1] - low[1],
            self.cells[low[2] : high[2]],
            self.offsets[start : stop + 1] - low[2],
            self.weights[start:stop],
            self.first + start,
        )

    def take(self, numbers: IntArray) -> SentencePairs:
        """The pairs with these numbers; itself where they are all, in order, since cells are the largest array."""
        if np.array_equal(numbers, np.arange(len(self))):
            return self
        one = [self.instances(int(n), int(n) + 1) for n in numbers]
        joined: dict[str, Any] = {
            name: np.concatenate([np.zeros(0, np.int32), *(getattr(part, name) for part in one)])
            for name in ("source", "target", "cells")
        }
        lengths: dict[str, Any] = {
            name: offsets_of(np.diff(getattr(self, name))[numbers])
            for name in ("source_offsets", "target_offsets", "offsets")
        }
        return replace(self, **joined, **lengths, weights=self.weights[numbers])


def cell_offsets(bitext: Bitext) -> IntArray:
    """(n_pieces + 1,): the first cell of each piece of a text."""
    sizes = np.diff(bitext.source_offsets) * np.diff(bitext.target_offsets)
    return np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
