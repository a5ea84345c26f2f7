"""The parts of dependency trees: arcs from a head, or from the root, to a child.

Every word hangs on one head, another word of its sentence or the root. The arcs of a sentence of n words are numbered
child by child, n to each; a word cannot be its own head, so that place is the root's. Two sentences of 2 and 3 words:

    head        1  2            1  2  3
    child 1     0* 1     child 1   4* 5  6         * the arc from the root
    child 2     2  3*    child 2   7  8* 9
                         child 3  10 11 12*

    arc(h, c) = first arc of the sentence + (c − 1) · n + (h − 1, or c − 1 where h is the root)

An output is (n_words,) heads as CoNLL-U has them: 0 for the root, k for the k-th word of the sentence.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import IntArray, LabelArray, offsets_of
from trellis.errors import DataError
from trellis.structures.flat import FlatParts

if TYPE_CHECKING:
    from trellis.structures.arcs import Arcs

UNKNOWN = -1
"""The head of a word whose head is not known."""


@dataclass(frozen=True)
class TreeParts(FlatParts):
    """Arcs of the dependency trees of a batch.

    offsets : (n_instances + 1,) over words
    projective : whether arcs may not cross
    single_root : whether one word of a sentence hangs on the root, or many may

    >>> parts = TreeParts(np.array([0, 2, 5]))
    >>> parts.n_parts, parts.arc_within(1, 3, 1), parts.of(np.array([2, 0, 2, 0, 2])).tolist()
    (13, 6, [1, 3, 5, 8, 11])
    """

    offsets: IntArray
    projective: bool = True
    single_root: bool = True
    kind = "tree"
    outputs_are = "dependency trees"

    @cached_property
    def arc_offsets(self) -> IntArray:
        """(n_instances + 1,): the first arc of each sentence."""
        return offsets_of(np.diff(self.offsets) ** 2)

    @property
    def part_offsets(self) -> IntArray:  # type: ignore[override]
        return self.arc_offsets

    def take(self, numbers: IntArray) -> TreeParts:
        return TreeParts(offsets_of(np.diff(self.offsets)[numbers]), self.projective, self.single_root)

    @property
    def n_words(self) -> int:
        return int(self.offsets[-1])

    def arc_within(self, instance: int, head: int, child: int) -> int:
        n = int(self.offsets[instance + 1] - self.offsets[instance])
        if not (0 <= head <= n and 1 <= child <= n and head != child):
            raise DataError(f"sentence {instance + 1} has {n} words, so it has no arc from {head} to {child}")
        return int(self.arc_offsets[instance]) + (child - 1) * n + (head - 1 if head else child - 1)

    def arc_words(self) -> tuple[IntArray, IntArray]:
        child = np.repeat(np.arange(self.n_words, dtype=np.int64), self._length_of_word)
        first = np.repeat(self.offsets[:-1], np.diff(self.arc_offsets))
        of_child = np.repeat(self._first_arc_of_word, self._length_of_word)
        head = first + np.arange(self.n_parts) - of_child
        return np.where(head == child, -1, head), child

    def place_of(self, parts: IntArray) -> IntArray:
        """The child: it has one head."""
        instance, local = self.split(parts)
        return self.offsets[instance] + local // np.maximum(np.diff(self.offsets)[instance], 1)

    def of(self, outputs: Any) -> IntArray:
        heads = self.check(outputs).astype(np.int64)
        return self._first_arc_of_word + np.where(heads > 0, heads - 1, self._place_in_sentence)

    def heads_of(self, parts: IntArray) -> LabelArray:
        """The head that each arc gives its child, counted in the sentence."""
        instance, local = self.split(parts)
        n = np.maximum(np.diff(self.offsets)[instance], 1)
        return np.where(local % n == local // n, 0, local % n + 1).astype(np.int32)

    def outputs_of(self, parts: IntArray) -> LabelArray:
        """The output that uses these arcs; a word that none of them leads to hangs on the root."""
        heads = np.zeros(self.n_words, np.int32)
        heads[self.place_of(parts)] = self.heads_of(parts)
        return heads

    @property
    def output_offsets(self) -> IntArray:
        return self.offsets

    def check(self, outputs: Any, *, unknown: bool = False) -> LabelArray:
        """Heads as int32, each 0 or another word of the sentence, or −1 where ``unknown`` is allowed."""
        heads = np.ascontiguousarray(outputs, dtype=np.int32)
        if heads.shape != (self.n_words,):
            raise DataError(f"expected a head for each of {self.n_words} words but got shape {heads.shape}")
        place = self._place_in_sentence
        outside = (heads < (UNKNOWN if unknown else 0)) | (heads > self._length_of_word)
        wrong = np.flatnonzero(outside | (heads == place + 1))
        if len(wrong):
            at = int(wrong[0])
            sentence = int(np.searchsorted(self.offsets, at, side="right"))
            raise DataError(
                f"the head of word {place[at] + 1} of sentence {sentence} is {heads[at]}: it must be another of its "
                f"{self._length_of_word[at]} words, or 0 for the root"
            )
        return heads

    def zeros(self) -> Arcs:
        from trellis.structures.spanning_trees import SpanningTrees
        from trellis.structures.trees import Trees

        made: type[Arcs] = Trees if self.projective else SpanningTrees
        return made(self.offsets, np.zeros(self.n_parts), single_root=self.single_root)

    @cached_property
    def _length_of_word(self) -> IntArray:
        """(n_words,): the length of its sentence."""
        lengths = np.diff(self.offsets)
        return np.repeat(lengths, lengths)

    @cached_property
    def _place_in_sentence(self) -> IntArray:
        return np.arange(self.n_words, dtype=np.int64) - np.repeat(self.offsets[:-1], np.diff(self.offsets))

    @cached_property
    def _first_arc_of_word(self) -> IntArray:
        first = np.repeat(self.arc_offsets[:-1], np.diff(self.offsets))
        return first + self._place_in_sentence * self._length_of_word
