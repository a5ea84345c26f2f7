"""Expected counts of both directions.

A shard hands over the counts of the word pairs it has, which are added to a table of counts one shard after the other:
a table per shard would be as large as the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.structures import JointPosterior
from trellis.structures.alignment import PlaceCounts


@dataclass
class AlignmentStatistics:
    """Sums over pairs.

    pairs : of each lexicon (n_entries, 2), expected links of each word pair, by direction; they are the largest arrays
        of a run, so in single precision, like the posteriors that shards sum up before
    null1 : (V_f,) expected null links of target words;  null2 : (V_e,) of source words
    places : expected moves of both directions; None under Model 1
    """

    pairs: tuple[NDArray[np.float32], ...]
    null1: FloatArray
    null2: FloatArray
    places: tuple[PlaceCounts, PlaceCounts] | None = None

    def __iadd__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        """Add in place; only ever done to a sum of one's own."""
        if isinstance(other, ShardCounts):
            for entries, pairs, total in zip(other.entries, other.pairs, self.pairs, strict=True):
                kernel.add_entries(entries, pairs, total)
            self.null1 += np.bincount(other.target, other.null_forward, minlength=len(self.null1))
            self.null2 += np.bincount(other.source, other.null_backward, minlength=len(self.null2))
        else:
            for pairs, total in zip(other.pairs, self.pairs, strict=True):
                total += pairs
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
        return AlignmentStatistics(
            tuple(p * np.float32(factor) for p in self.pairs), self.null1 * factor, self.null2 * factor, places
        )


@dataclass(frozen=True)
class ShardCounts:
    """Counts of the word pairs and words of a shard, weighted.

    sizes : V_f, V_e;  lengths : entries of each lexicon's table
    entries : of each lexicon (n,), the table's entries that the shard has, each once
    pairs : of each lexicon (n, 2), links by direction
    target, source : words;  null_forward, null_backward : null links of each
    """

    sizes: tuple[int, int]
    lengths: tuple[int, ...]
    entries: tuple[NDArray[np.int32], ...]
    pairs: tuple[NDArray[np.float32], ...]
    target: LabelArray
    source: LabelArray
    null_forward: NDArray[np.float32]
    null_backward: NDArray[np.float32]
    places: tuple[PlaceCounts, PlaceCounts] | None

    @classmethod
    def of(
        cls,
        batch: SentencePairs,
        q: JointPosterior,
        found: Iterable[tuple[NDArray[np.int32], NDArray[np.int32]]],
        sizes: tuple[int, int],
        lengths: tuple[int, ...],
    ) -> ShardCounts:
        """Counts under a posterior of both directions; found : of each lexicon, the entries and cells of the batch."""
        forward, backward = q.members
        # Words of a pair with an empty side have nobody to come from: they say nothing about null.
        weight = np.where(batch.is_empty, 0.0, batch.weights)
        plain = np.all(weight == 1.0)

        def weighted(values: NDArray[Any], offsets: IntArray) -> NDArray[np.float32]:
            counted = values if plain else values * np.repeat(weight, np.diff(offsets))
            return counted.astype(np.float32, copy=False)

        links = weighted(forward.link, batch.offsets), weighted(backward.link, batch.offsets)
        entries_of, pairs = [], []
        for entries, cells in found:
            added = np.zeros((len(entries), 2))
            kernel.add_cells(cells, *links, added)
            # Single precision, as the posteriors are: it is what travels from workers.
            pairs.append(added.astype(np.float32))
            entries_of.append(entries.copy())  # they are a view of an array that has the cells too
            del entries, cells, added  # before those of the next lexicon are found
        nulls = weighted(forward.null, batch.target_offsets), weighted(backward.null, batch.source_offsets)
        places = None if forward.places is None else (forward.places, backward.places)
        return cls(sizes, lengths, tuple(entries_of), tuple(pairs), batch.target, batch.source, *nulls, places)

    def total(self) -> AlignmentStatistics:
        """A table of counts of this shard alone, for others to be added to."""
        pairs = tuple(np.zeros((n, 2), np.float32) for n in self.lengths)
        total = AlignmentStatistics(pairs, np.zeros(self.sizes[0]), np.zeros(self.sizes[1]))
        total += self
        return total

    def __add__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        total = self.total()
        total += other
        return total

    __iadd__ = __add__

    def __mul__(self, factor: float) -> AlignmentStatistics:
        return self.total() * factor
