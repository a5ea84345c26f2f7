"""Expected counts of both directions.

A shard hands over the posteriors of its cells, which are added to a table of counts one shard after the other: a table
per shard would be as large as the model.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.pair_table import PairTable
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.structures.alignment import PlaceCounts


@dataclass
class AlignmentStatistics:
    """Sums over pairs.

    pairs : (n_entries, 2) expected links of each word pair, by direction
    null1 : (V_f,) expected null links of target words;  null2 : (V_e,) of source words
    places : expected moves of both directions; None under Model 1
    """

    pairs: FloatArray
    null1: FloatArray
    null2: FloatArray
    places: tuple[PlaceCounts, PlaceCounts] | None = None

    @classmethod
    def zeros(cls, table: PairTable) -> AlignmentStatistics:
        return cls(np.zeros((len(table), 2)), np.zeros(table.n_targets), np.zeros(table.n_sources))

    def __iadd__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        """Add in place; only ever done to a sum of one's own."""
        if isinstance(other, ShardCounts):
            pairs = other.pairs
            kernel.add_cells(pairs.cells, other.forward, other.backward, self.pairs)
            self.null1 += np.bincount(pairs.target, other.null_forward, minlength=len(self.null1))
            self.null2 += np.bincount(pairs.source, other.null_backward, minlength=len(self.null2))
        else:
            self.pairs += other.pairs
            self.null1 += other.null1
            self.null2 += other.null2
        if other.places is not None:
            mine = tuple(p * 0.0 for p in other.places) if self.places is None else self.places
            self.places = mine[0] + other.places[0], mine[1] + other.places[1]
        return self

    def __add__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        total = self * 1.0
        total += other
        return total

    def __mul__(self, factor: float) -> AlignmentStatistics:
        places = None if self.places is None else (self.places[0] * factor, self.places[1] * factor)
        return AlignmentStatistics(self.pairs * factor, self.null1 * factor, self.null2 * factor, places)


@dataclass(frozen=True)
class ShardCounts:
    """Posteriors of the cells and words of a shard, weighted.

    forward, backward : (n_cells,);  null_forward : (n_target_words,), null_backward : (n_source_words,)
    """

    table: PairTable
    pairs: SentencePairs
    forward: NDArray[np.float32]
    backward: NDArray[np.float32]
    null_forward: NDArray[np.float32]
    null_backward: NDArray[np.float32]
    places: tuple[PlaceCounts, PlaceCounts] | None

    def total(self) -> AlignmentStatistics:
        """A table of counts of this shard alone, for others to be added to."""
        total = AlignmentStatistics.zeros(self.table)
        total += self
        return total

    def __add__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        total = self.total()
        total += other
        return total

    __iadd__ = __add__

    def __mul__(self, factor: float) -> AlignmentStatistics:
        return self.total() * factor
