"""What scores of arcs share, whether trees over them are projective or not.

    score(y) = Σ_{arcs (h, c) of y} arc(h, c),      p(y) ∝ exp score(y)

The parts, their numbers and the form of outputs stand in :mod:`tree_parts`.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Self

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, check_offsets
from trellis.structures.flat import FlatScores
from trellis.structures.kernels import tree_check
from trellis.structures.polytope import Polytope
from trellis.structures.results import PartPosterior
from trellis.structures.structure import check_number_of_samples, check_scores
from trellis.structures.tree_parts import TreeParts
from trellis.structures.tree_polytope import Sentence, TreeProgram


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
        """The trees with the most arcs that are right, in expectation under q."""
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
