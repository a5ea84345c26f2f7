"""A batch of sentence pairs: coded words of both sides.

The entries of a model's table that every two words have are not kept: there are many more cells than words, and a
shard's are found again (:meth:`~trellis.models.alignment.PairTable.number`) in about a seventh of the time of its
E-step.
"""

from __future__ import annotations

import weakref
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext
from trellis.data.checks import check_sample_weight
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, offsets_of, take_rows
from trellis.structures import AlignmentParts, JointParts


@dataclass(frozen=True)
class SentencePairs:
    """What a learner asks of a batch; its slots are *cells*, every two words of a pair, in the order of links.

    source, target : (n_words,) codes, below 0 for a word without one;  source_offsets, target_offsets : (n + 1,)
    offsets : (n + 1,) cells of each pair;  weights : (n,);  first : number of the first pair in the corpus
    alike : rising numbers of cells whose words are equal, where the table may not have them
    """

    source: LabelArray
    source_offsets: IntArray
    target: LabelArray
    target_offsets: IntArray
    offsets: IntArray
    weights: FloatArray
    first: int = 0
    alike: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    shards_on_demand: ClassVar[bool] = True
    """Shards are views and arithmetic, and there are many: nobody keeps them between rounds."""

    @classmethod
    def of(cls, bitext: Bitext, weights: FloatArray | None = None) -> SentencePairs:
        """The pieces of a text as instances."""
        n = len(bitext.source_offsets) - 1
        weight = check_sample_weight(weights, n)
        return cls(
            bitext.source, bitext.source_offsets, bitext.target, bitext.target_offsets, cell_offsets(bitext), weight
        )

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

    def remember_cells(self, table: object, cells: NDArray[np.int32]) -> None:
        """Remember cells for as long as somebody else, scores say, holds them."""
        object.__setattr__(self, "_cells", (weakref.ref(table), weakref.ref(cells)))

    def hold_cells(self, cells: NDArray[np.int32]) -> None:
        """Hold cells for as long as these pairs are there, where nobody else does."""
        object.__setattr__(self, "_held", cells)

    def cells_in(self, table: object) -> NDArray[np.int32] | None:
        """The remembered cells, if they are of this table."""
        of, cells = self.__dict__.get("_cells", (None, None))
        return cells() if of is not None and cells is not None and of() is table else None

    def stems(self, of: tuple[LabelArray, LabelArray]) -> SentencePairs:
        """The same pairs with stems in place of words, by the stems of all words of both sides; it is remembered."""
        if self.__dict__.get("_stems", (None, None))[0] is not of:
            codes = (stems_of(own, stems) for own, stems in zip((self.source, self.target), of, strict=True))
            source, target = codes
            object.__setattr__(self, "_stems", (of, replace(self, source=source, target=target)))
        made: SentencePairs = self.__dict__["_stems"][1]
        return made

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name not in ("_cells", "_held", "_stems")}

    def instances(self, start: int, stop: int) -> SentencePairs:
        """Pairs start..stop−1, as views of the same words."""
        low = [int(o[start]) for o in (self.source_offsets, self.target_offsets, self.offsets)]
        high = [int(o[stop]) for o in (self.source_offsets, self.target_offsets, self.offsets)]
        alike = self.alike[slice(*np.searchsorted(self.alike, (low[2], high[2])).tolist())]
        return SentencePairs(
            self.source[low[0] : high[0]],
            self.source_offsets[start : stop + 1] - low[0],
            self.target[low[1] : high[1]],
            self.target_offsets[start : stop + 1] - low[1],
            self.offsets[start : stop + 1] - low[2],
            self.weights[start:stop],
            self.first + start,
            alike - low[2],
        )

    def take(self, numbers: IntArray) -> SentencePairs:
        """The pairs with these numbers; itself where they are all, in order."""
        if np.array_equal(numbers, np.arange(len(self))):
            return self
        source_offsets, source = take_rows(self.source_offsets, numbers)
        target_offsets, target = take_rows(self.target_offsets, numbers)
        offsets = offsets_of(np.diff(self.offsets)[numbers])
        first, alike = take_rows(np.searchsorted(self.alike, self.offsets), numbers)
        moved = np.repeat(offsets[:-1] - self.offsets[numbers], np.diff(first))
        return replace(
            self, source=self.source[source], source_offsets=source_offsets, target=self.target[target],
            target_offsets=target_offsets, offsets=offsets, weights=self.weights[numbers],
            alike=self.alike[alike] + moved,
        )  # fmt: skip


def stems_of(codes: LabelArray, of: LabelArray) -> LabelArray:
    """Stems of coded words; of : (V + 1,) that of each word, −1 at the end. A code −2 − s is a new word of stem s."""
    stems: LabelArray = np.where(codes < -1, -2 - codes, of[np.maximum(codes, -1)]).astype(np.int32, copy=False)
    return stems


def cell_offsets(bitext: Bitext) -> IntArray:
    """(n_pieces + 1,): the first cell of each piece of a text."""
    return offsets_of(np.diff(bitext.source_offsets) * np.diff(bitext.target_offsets))
