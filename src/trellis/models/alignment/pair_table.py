"""The sparse table of word pairs: rows of distinct target words by source word, and cells looked up in it."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext
from trellis.data.ragged import BoolArray, IntArray, LabelArray, offsets_of
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.structures.kernels.align_work import ALIKE

Numbers = NDArray[np.int32]
Opposite = tuple[IntArray, IntArray]
AT_ONCE = 65_536


@dataclass(frozen=True)
class PairTable:
    """Pairs (e, f) that can have a translation probability of their own.

    row_offsets : (V_e + 1,);  row_targets : (n_pairs,) target words of each source word's row, rising
    n_targets : V_f

    >>> from trellis.data.bitext import WordCodes, code_pairs
    >>> bitext = code_pairs([(["a", "b"], ["x", "y"]), (["a"], ["y"])], WordCodes(None), WordCodes(None))
    >>> table, _ = PairTable.build(bitext, 2, 2)
    >>> table.row_offsets.tolist(), table.row_targets.tolist()
    ([0, 2, 4], [0, 1, 0, 1])
    >>> entries, cells = table.number(SentencePairs.of(bitext).instances(1, 2))
    >>> entries.tolist(), cells.tolist()
    ([1], [0])
    """

    row_offsets: IntArray
    row_targets: LabelArray
    n_targets: int

    @property
    def n_sources(self) -> int:
        return len(self.row_offsets) - 1

    def __len__(self) -> int:
        return len(self.row_targets)

    @classmethod
    def build(
        cls,
        text: Bitext | SentencePairs,
        n_sources: int,
        n_targets: int,
        of: tuple[LabelArray, LabelArray] | None = None,
        within: tuple[PairTable, LabelArray, LabelArray] | None = None,
    ) -> tuple[PairTable, Opposite]:
        """The table of the pairs of a text, and how many words each word meets there.

        of : words of the text's codes, where these are not the words themselves
        within : a table of coarser words, and these of source and target words; other pairs are left out
        """
        source_of, target_of = _same(n_sources, n_targets) if of is None else of
        starts, order, sentence = _tokens_by_word(text, source_of, n_sources)
        stamp, sizes = np.full(n_targets, -1, np.int32), np.zeros(n_sources, np.int64)
        opposite = np.zeros(n_sources, np.int64), np.zeros(n_targets, np.int64)
        given = text.target, target_of, text.target_offsets
        bounds = _within(within)
        kernel.count_row_sizes(starts, order, sentence, *given, bounds, stamp, sizes, *opposite)
        row_offsets = offsets_of(sizes)
        row_targets = np.empty(row_offsets[-1], np.int32)
        stamp[:] = -1
        bounds.stamp[:] = -1
        kernel.fill_rows(starts, order, sentence, *given, bounds, row_offsets, stamp, row_targets)
        return cls(row_offsets, row_targets, n_targets), opposite

    def opposite(self) -> Opposite:
        """How many words each word meets in the table."""
        return np.diff(self.row_offsets), np.bincount(self.row_targets, minlength=self.n_targets)

    def number(self, pairs: SentencePairs) -> tuple[Numbers, Numbers]:
        """Entries (n,) of the table that sentence pairs have, and the number among these of each cell (n_cells,).

        A cell below 0 has no entry: NOT_IN_TABLE or, where its words are spelled alike, ALIKE.
        """
        found = pairs.cells_in(self)
        if found is None:
            found = self._numbered(pairs)
            pairs.remember_cells(self, found)
        return found.base[len(found) :], found  # type: ignore[index]

    def _numbered(self, pairs: SentencePairs) -> Numbers:
        """The cells, as the front of an array that goes on with the entries."""
        sentence, n_cells = np.empty(len(pairs.source), np.int32), pairs.n_slots
        kernel.sentence_numbers(pairs.source_offsets, sentence)
        found = np.empty(2 * n_cells, np.int32)
        n = kernel.number_cells(
            pairs.source, pairs.source_offsets, sentence, pairs.target, pairs.target_offsets, pairs.offsets,
            self.row_offsets, self.row_targets, np.full(self.n_sources, -1, np.int32), np.empty_like(sentence),
            np.empty(self.n_targets, np.int32), np.full(self.n_targets, -1, np.int32),
            np.empty(self.n_targets, np.int32), found[:n_cells], found[n_cells:],
        )  # fmt: skip
        found.resize(n_cells + n, refcheck=False)  # in place: nobody has it yet
        cells = found[:n_cells]
        if len(pairs.alike):
            cells[pairs.alike] = np.where(cells[pairs.alike] < 0, ALIKE, cells[pairs.alike])
        return cells

    def kept(self, keep: BoolArray) -> PairTable:
        """The table of some of the pairs."""
        ends = self.row_offsets.tolist()
        sizes = np.array([np.count_nonzero(keep[low:high]) for low, high in pairwise(ends)], np.int64)
        return PairTable(offsets_of(sizes), rows_kept(self.row_targets, keep), self.n_targets)

    def place(self, source: int, target: int) -> int:
        """The place of a pair, −1 if the table does not have it or a word is unknown (below 0)."""
        if min(source, target) < 0:
            return -1
        start, stop = self.row_offsets[source], self.row_offsets[source + 1]
        found = start + int(np.searchsorted(self.row_targets[start:stop], target))
        return int(found) if found < stop and self.row_targets[found] == target else -1

    def sources(self) -> LabelArray:
        """(n_pairs,) the source word of each pair."""
        return np.repeat(np.arange(self.n_sources, dtype=np.int32), np.diff(self.row_offsets))


def rows_kept(values: NDArray[Any], keep: BoolArray) -> NDArray[Any]:
    """``values[keep]``, piece by piece: NumPy would number all that is kept, in eight bytes each."""
    kept, done = np.empty((np.count_nonzero(keep), *values.shape[1:]), values.dtype), 0
    for start in range(0, len(keep), AT_ONCE):
        some = values[start : start + AT_ONCE][keep[start : start + AT_ONCE]]
        kept[done : done + len(some)] = some
        done += len(some)
    return kept


def _tokens_by_word(
    bitext: Bitext | SentencePairs, of: LabelArray, n_words: int
) -> tuple[IntArray, LabelArray, LabelArray]:
    sentence = np.empty(len(bitext.source), np.int32)
    kernel.sentence_numbers(bitext.source_offsets, sentence)
    starts = np.zeros(n_words + 1, np.int64)
    order = np.empty(len(bitext.source), np.int32)
    kernel.sort_tokens(bitext.source, of, n_words, starts, order)
    return starts, order, sentence


def _same(*sizes: int) -> tuple[LabelArray, ...]:
    return tuple(np.arange(size, dtype=np.int32) for size in sizes)


def _within(given: tuple[PairTable, LabelArray, LabelArray] | None) -> kernel.Within:
    if given is None:
        none = np.zeros(0, np.int32)
        return kernel.Within(none, none, np.zeros(1, np.int64), none, none)
    table, source, target = given
    return kernel.Within(source, target, table.row_offsets, table.row_targets, np.full(table.n_targets, -1, np.int32))
