"""Arcs of dependency trees from a head, or from the root, to a child: their parts, and what all scores of them share.

    score(y) = Σ_{arcs (h, c) of y} arc(h, c),      p(y) ∝ exp score(y)

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
from itertools import pairwise
from typing import Any, Self

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, check_offsets, offsets_of
from trellis.errors import DataError
from trellis.structures.flat import FlatParts, FlatScores
from trellis.structures.kernels import tree_check
from trellis.structures.polytope import Polytope
from trellis.structures.results import PartPosterior
from trellis.structures.structure import check_number_of_samples, check_scores
from trellis.structures.tree_polytope import Sentence, TreeProgram

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


@dataclass(frozen=True)
class TreePosterior(PartPosterior):
    """Marginals of arcs: (n_parts,) and log_partition : (n_instances,).

    near : (n_parts,) P(the arc is used, and its child is the nearest dependent of its head on that side); None where
        the model does not look at that, or it is not known
    """

    near: FloatArray | None = None


class Arcs(FlatScores):
    """Log-scores of arcs, (n_parts,), −inf where an arc is forbidden; subclasses bring the trees over them."""

    _parts: TreeParts
    projective: bool

    def __init__(self, offsets: Any, arc: Any, *, single_root: bool = True, first: int = 0) -> None:
        self._parts = TreeParts(check_offsets(offsets), self.projective, bool(single_root))
        self.value = check_scores("arc", arc, (self._parts.n_parts,))
        self.first = first

    @property
    def arc(self) -> FloatArray:
        """The scores, (n_parts,)."""
        return self.value

    def score(self, outputs: Any) -> FloatArray:
        p, heads = self._parts, self._parts.check(outputs)
        is_tree = np.zeros(len(self), dtype=np.bool_)
        tree_check.check_trees(p.offsets, heads, p.single_root, p.projective, is_tree)
        return np.where(is_tree, self._sums(p.of(heads)), -np.inf)

    def expected_score(self, q: TreePosterior, weights: FloatArray) -> float:
        return float(weights @ self._expected_scores(q))

    def clamp(self, heads: Any) -> Self:
        """Scores in which a word whose head is known (not −1) has no other."""
        known = self._parts.check(heads, unknown=True)
        given = np.repeat(known >= 0, self._parts._length_of_word)
        given[self._parts.of(np.where(known >= 0, known, 0))] = False
        return self._over(np.where(given, -np.inf, self.arc))

    def marginal_argmax(self, q: TreePosterior) -> LabelArray:
        """The trees with the largest expected number of correct arcs under q."""
        best = self._over(np.where(self.arc > -np.inf, q.marginal, -np.inf))
        return np.asarray(best.argmax().outputs, dtype=np.int32)

    def _of_marginals(self, marginal: FloatArray, log_partition: FloatArray) -> TreePosterior:
        return TreePosterior(marginal, log_partition)

    def sample(self, n: int, rng: np.random.Generator) -> LabelArray:
        """Independent samples (n, n_words)."""
        check_number_of_samples(n)
        return self._draw(n, rng)

    def polytope(self, closed: IntArray) -> Polytope:
        p, program = self._parts, TreeProgram()
        is_open = self.arc > -np.inf
        is_open[closed] = False
        for i, (low, high) in enumerate(pairwise(p.arc_offsets.tolist())):
            n = int(p.offsets[i + 1] - p.offsets[i])
            arc, may = self.arc[low:high].reshape(n, n), is_open[low:high].reshape(n, n)
            self._write(program, Sentence(i, low, arc, may, p.single_root), slice(low, high))
        return program.polytope(p.n_parts, p.outputs_of)

    def _write(self, program: TreeProgram, sentence: Sentence, arcs: slice) -> None:
        """The 0/1 program of one sentence."""
        raise NotImplementedError

    def _draw(self, n: int, rng: np.random.Generator) -> LabelArray:
        raise NotImplementedError
