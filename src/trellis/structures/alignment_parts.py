"""The parts of word alignments in one direction: links, and null links of the observed words.

A batch of sentence pairs, here of 2 source and 3 target words, and of 1 and 2; target words are observed:

    links         0 1 2        6 7       link(i, j) = first link of the pair + i · n_target + j, in either direction
                  3 4 5
    null links    8 9 10     11 12       null(t) = n_links + t, t the place of the observed word in its flat text
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, offsets_of, owners
from trellis.errors import DataError
from trellis.structures.flat import BlockParts, PlainBlock
from trellis.structures.kernels.align_work import Pairs
from trellis.structures.parts import dense_change

if TYPE_CHECKING:
    from trellis.structures.alignment import Alignment

NULL = -1
"""The place of a word that is linked to none."""


@dataclass(frozen=True)
class AlignmentParts(BlockParts):
    """Parts (source word, target word) and (observed word) of a batch of sentence pairs.

    source_offsets, target_offsets : (n_instances + 1,)
    forward : target words are observed, each linked to one source word or none; else the other way round

    >>> parts = AlignmentParts(np.array([0, 2, 3]), np.array([0, 3, 5]))
    >>> parts.n_parts, int(parts.link(2, 4)), parts.null(3)
    (13, 7, 11)
    >>> parts.of(np.array([1, -1, 0, -1, 0])).tolist()
    [2, 3, 7, 9, 11]
    """

    source_offsets: IntArray
    target_offsets: IntArray
    forward: bool = True
    kind = "alignment"
    outputs_are = "word alignments"
    has_many_links = True

    @cached_property
    def link_offsets(self) -> IntArray:
        """(n_instances + 1,): the first link of each pair."""
        return offsets_of(np.diff(self.source_offsets) * np.diff(self.target_offsets))

    @property
    def pairs(self) -> Pairs:
        """What kernels read."""
        return Pairs(self.source_offsets, self.target_offsets, self.link_offsets)

    @property
    def observed_offsets(self) -> IntArray:
        return self.target_offsets if self.forward else self.source_offsets

    @property
    def blocks(self) -> Sequence[PlainBlock]:
        """Links, and null links."""
        return [PlainBlock(self.link_offsets, 1), PlainBlock(self.observed_offsets, 1)]

    @property
    def n_links(self) -> int:
        return int(self.link_offsets[-1])

    @property
    def n_observed(self) -> int:
        return int(self.observed_offsets[-1])

    def link(self, source: Any, target: Any) -> Any:
        source, target = np.asarray(source), np.asarray(target)
        pair = np.searchsorted(self.source_offsets, source, side="right") - 1
        i, j = source - self.source_offsets[pair], target - self.target_offsets[pair]
        width = self.target_offsets[pair + 1] - self.target_offsets[pair]
        if np.any((j < 0) | (j >= width)):
            raise DataError("a link joins two words of the same sentence pair")
        return (self.link_offsets[pair] + i * width + j)[()]

    def link_within(self, instance: int, source: int, target: int) -> int:
        width = int(self.target_offsets[instance + 1] - self.target_offsets[instance])
        height = int(self.source_offsets[instance + 1] - self.source_offsets[instance])
        if not (0 <= source < height and 0 <= target < width):
            raise DataError(
                f"pair {instance + 1} has {height} and {width} words, so it has no link {source}-{target}"
            )  # fmt: skip
        return int(self.link_offsets[instance]) + source * width + target

    def null(self, observed: Any) -> Any:
        """The part "the observed word, by its place in the flat text, has no link"."""
        return self.n_links + observed

    def linked_words(self) -> tuple[IntArray, IntArray, IntArray]:
        lengths = np.diff(self.source_offsets), np.diff(self.target_offsets)
        width = np.repeat(lengths[1], lengths[0])
        source = np.repeat(np.arange(int(self.source_offsets[-1]), dtype=np.int64), width)
        pair = np.repeat(np.arange(self.n_instances), lengths[0] * lengths[1])
        within = np.arange(self.n_links) - self.link_offsets[pair]
        return np.arange(self.n_links), source, self.target_offsets[pair] + within % np.maximum(lengths[1][pair], 1)

    def place_of(self, parts: IntArray) -> IntArray:
        """The observed word: it has one link, or none."""
        instance, local = self.split(parts)
        width = np.maximum(np.diff(self.target_offsets)[instance], 1)
        word = self.observed_offsets[instance] + (local % width if self.forward else local // width)
        return np.where(parts < self.n_links, word, parts - self.n_links)

    def of(self, outputs: LabelArray) -> IntArray:
        """outputs : (n_observed,) the place of each word in the other sentence, counted in its pair, or −1."""
        places = self.check(outputs).astype(np.int64)
        pair = owners(self.observed_offsets)
        within = np.arange(self.n_observed) - self.observed_offsets[pair]
        width = np.diff(self.target_offsets)[pair]
        i, j = (places, within) if self.forward else (within, places)
        linked = places != NULL
        links = (self.link_offsets[pair] + i * width + j)[linked]
        return np.concatenate((np.sort(links), self.n_links + np.flatnonzero(~linked)))

    @property
    def output_offsets(self) -> IntArray:
        return self.observed_offsets

    def check(self, outputs: Any) -> LabelArray:
        """Outputs as int32, each a place of its pair's other sentence or −1."""
        places = np.ascontiguousarray(outputs, dtype=np.int32)
        if places.shape != (self.n_observed,):
            raise DataError(f"expected a place for each of {self.n_observed} words but got shape {places.shape}")
        other = self.source_offsets if self.forward else self.target_offsets
        most = np.repeat(np.diff(other), np.diff(self.observed_offsets))
        wrong = np.flatnonzero((places < NULL) | (places >= most))
        if len(wrong):
            word = int(wrong[0])
            raise DataError(f"word {word} is linked to place {places[word]}, but there are {most[word]} places")
        return places

    def shard(self, first: int, last: int) -> AlignmentParts:
        source, target = (o[first : last + 1] - o[first] for o in (self.source_offsets, self.target_offsets))
        return AlignmentParts(source, target, self.forward)

    def zeros(self) -> Alignment:
        from trellis.structures.alignment import Alignment

        sizes = np.diff(self.source_offsets), np.diff(self.target_offsets)
        return Alignment(*sizes, np.zeros(self.n_links), np.zeros(self.n_observed), forward=self.forward)

    def change(self, part: IntArray, value: FloatArray) -> FloatArray | None:
        return dense_change(part, value, self.n_parts)
