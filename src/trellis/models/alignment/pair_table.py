"""The sparse table of word pairs: rows of distinct target words by source word, and the places of cells in it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext
from trellis.data.ragged import IntArray, LabelArray
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.sentence_pairs import SentencePairs, cell_offsets

Places = NDArray[np.int32]


@dataclass(frozen=True)
class PairTable:
    """Pairs (e, f) that can have a translation probability of their own.

    row_offsets : (V_e + 1,);  row_targets : (n_pairs,) target words of each source word's row
    n_targets : V_f

    >>> from trellis.data.bitext import WordCodes, code_pairs
    >>> bitext = code_pairs([(["a", "b"], ["x", "y"]), (["a"], ["y"])], WordCodes(None), WordCodes(None))
    >>> table, pairs = PairTable.build(bitext, 2, 2)
    >>> table.row_offsets.tolist(), table.row_targets.tolist(), pairs.cells.tolist()
    ([0, 2, 4], [0, 1, 0, 1], [0, 1, 2, 3, 1])
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
    def build(cls, bitext: Bitext, n_sources: int, n_targets: int) -> tuple[PairTable, SentencePairs]:
        """The table of all pairs of a text, and the text with the place of each of its cells."""
        offsets = cell_offsets(bitext)
        starts, order, sentence = _tokens_by_word(bitext, n_sources)
        stamp, place = np.full(n_targets, -1, np.int32), np.zeros(n_targets, np.int32)
        sizes = np.zeros(n_sources, np.int64)
        kernel.count_row_sizes(starts, order, sentence, bitext.target, bitext.target_offsets, stamp, sizes)
        row_offsets = np.concatenate(([0], np.cumsum(sizes))).astype(np.int64)
        row_targets = np.empty(row_offsets[-1], np.int32)
        cells = np.empty(offsets[-1], np.int32)
        stamp[:] = -1
        kernel.fill_rows(
            starts, order, sentence, bitext.source_offsets, bitext.target, bitext.target_offsets, offsets,
            row_offsets, stamp, place, row_targets, cells,
        )  # fmt: skip
        return cls(row_offsets, row_targets, n_targets), SentencePairs.of(bitext, cells)

    def look_up(self, bitext: Bitext) -> SentencePairs:
        """Another text with the places of its cells, −1 where the table has no such pair."""
        offsets = cell_offsets(bitext)
        starts, order, sentence = _tokens_by_word(bitext, self.n_sources)
        stamp, place = np.full(self.n_targets, -1, np.int32), np.zeros(self.n_targets, np.int32)
        cells = np.empty(offsets[-1], np.int32)
        kernel.look_up_cells(
            starts, order, sentence, bitext.source, bitext.source_offsets, bitext.target, bitext.target_offsets,
            offsets, self.row_offsets, self.row_targets, np.int32(-1), stamp, place, cells,
        )  # fmt: skip
        return SentencePairs.of(bitext, cells)

    def kept(self, keep: NDArray[np.bool_]) -> tuple[PairTable, Places]:
        """The table of some of the pairs, and the new place of each old one, −1 where it is dropped."""
        running = np.concatenate(([0], np.cumsum(keep))).astype(np.int64)
        moved = np.where(keep, running[:-1], -1).astype(np.int32)
        return PairTable(running[self.row_offsets], self.row_targets[keep], self.n_targets), moved

    def place(self, source: int, target: int) -> int:
        """The place of a pair, −1 if the table does not have it or a word is unknown (below 0)."""
        if min(source, target) < 0:
            return -1
        start, stop = self.row_offsets[source], self.row_offsets[source + 1]
        found = np.flatnonzero(self.row_targets[start:stop] == target)
        return int(start + found[0]) if len(found) else -1

    def sources(self) -> LabelArray:
        """(n_pairs,) the source word of each pair."""
        return np.repeat(np.arange(self.n_sources, dtype=np.int32), np.diff(self.row_offsets))


def _tokens_by_word(bitext: Bitext, n_words: int) -> tuple[IntArray, LabelArray, LabelArray]:
    sentence = np.empty(len(bitext.source), np.int32)
    kernel.sentence_numbers(bitext.source_offsets, sentence)
    starts = np.zeros(n_words + 1, np.int64)
    order = np.empty(len(bitext.source), np.int32)
    kernel.sort_tokens(bitext.source, n_words, starts, order)
    return starts, order, sentence
