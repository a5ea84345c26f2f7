"""Trees: projective dependency trees, in which every word has one head and no arcs cross.

    score(y) = base + Σ_{(h, c) in y} arc(h, c) + Σ_{c the nearest dependent of h on its side} nearest(h, c)

Sums and maxima over all trees of n words take O(n³) steps (Eisner 1996). ``nearest`` is what a grammar with valence
needs (Klein & Manning 2004; Ganchev et al. 2010, eq. 57); an edge-factored parser has none (eq. 56).
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from typing import Any, Self, Unpack

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, offsets_of
from trellis.errors import DataError
from trellis.structures import tree_polytope
from trellis.structures.arcs import Arcs, TreePosterior
from trellis.structures.flat import chosen, kbest_by_forbidding
from trellis.structures.kernels import tree_check, tree_log, tree_sum
from trellis.structures.results import Argmax, KBest
from trellis.structures.structure import PosteriorOptions, check_gamma, check_scores, expect_scores, refuse_impossible
from trellis.structures.tree_polytope import Sentence, TreeProgram

_NONE = np.zeros(0)


class Trees(Arcs):
    """Log-potentials of projective dependency trees.

    Parameters
    ----------
    offsets : array of shape (n_instances + 1,)
        First word of each sentence.
    arc : array of shape (n_arcs,)
        Scores of arcs, sentence by sentence: a square arc[child, head] whose diagonal is the root.
    nearest : array of shape (n_arcs,) or None, default=None
        Additional score of an arc to the nearest dependent of its head on that side.
    base : array of shape (n_instances,) or None, default=None
        Additional score of every tree of a sentence.
    single_root : bool, default=True
        Exactly one word is attached to the root.
    first : int, default=0
        Number of the first instance in the corpus, for messages.

    Examples
    --------
    >>> two_words = Trees([0, 2], np.log([1.0, 2.0, 3.0, 4.0]))  # root → 1, 2 → 1, 1 → 2, root → 2
    >>> two_words.argmax().outputs.tolist(), two_words.infer().marginal.round(3).tolist()
    ([2, 0], [0.273, 0.727, 0.273, 0.727])
    """

    projective = True
    nearest: FloatArray | None
    base: FloatArray | None

    def __init__(
        self, offsets: Any, arc: Any, *, nearest: Any = None, base: Any = None, single_root: bool = True, first: int = 0
    ) -> None:
        super().__init__(offsets, arc, single_root=single_root, first=first)
        self.nearest = None if nearest is None else _finite("nearest", nearest, self._parts.n_parts)
        self.base = None if base is None else _finite("base", base, len(self))

    def take(self, numbers: IntArray) -> Self:
        made = super().take(numbers)
        if self.nearest is not None:
            made.nearest = self.nearest[chosen(self._parts.arc_offsets, numbers)]
        made.base = None if self.base is None else self.base[numbers]
        return made

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> TreePosterior:
        p = self._parts
        nearest = self._of_kernels
        marginal, near, log_partition = np.zeros(p.n_parts), np.zeros(len(nearest)), np.zeros(len(self))
        order = np.argsort(np.diff(p.offsets), kind="stable")
        tree_sum.infer_trees(
            order, p.offsets, p.arc_offsets, self.arc, nearest, p.single_root, marginal, near, log_partition
        )
        left = np.flatnonzero(np.isnan(log_partition))
        if len(left):
            tree_log.infer_logs(
                left, p.offsets, p.arc_offsets, self.arc, nearest, p.single_root, marginal, near, log_partition
            )
        refuse_impossible(log_partition, self.first, self.numbers)
        return TreePosterior(marginal, self._based(log_partition), None if self.nearest is None else near)

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best heads (n_words,); of several best trees always the same, or with ``rng`` any, all alike."""
        how = tree_log.BEST if rng is None else tree_log.DRAWN_BEST
        heads, best = self._read(how, 1, rng)
        return Argmax(heads[0], best)

    def _draw(self, n: int, rng: np.random.Generator) -> LabelArray:
        return self._read(tree_log.DRAWN, n, rng)[0]

    def _read(self, how: int, n: int, rng: np.random.Generator | None) -> tuple[LabelArray, FloatArray]:
        p = self._parts
        heads, best = np.zeros((n, p.n_words), np.int32), np.zeros(len(self))
        uniform = np.zeros((1, 1)) if rng is None else rng.random((n, 2 * p.n_words + len(self)))
        tree_log.read_trees(
            p.offsets, p.arc_offsets, self.arc, self._of_kernels, p.single_root, how, n, uniform, heads, best
        )
        refuse_impossible(best, self.first, self.numbers)
        return heads, self._based(best)

    def kbest(self, k: int) -> KBest:
        """The k best trees of each sentence, best first."""
        return kbest_by_forbidding(self, k)

    def score(self, outputs: Any) -> FloatArray:
        total = super().score(outputs)
        if self.nearest is not None:
            total = total + self._by_instance(self._near(self._parts.check(outputs)) * self.nearest)
        return self._based(total)

    def _expected_scores(self, q: TreePosterior) -> FloatArray:
        total = super()._expected_scores(q)
        if self.nearest is not None:
            if q.near is None:
                raise DataError("the expected score needs the marginals of nearest dependents, which are not known")
            total = total + self._by_instance(expect_scores(q.near, self.nearest))
        return self._based(total)

    def apply(self, change: FloatArray | None, gamma: float = 1.0) -> Self:
        made, g = super().apply(change, gamma), check_gamma(gamma)
        if g != 1.0:
            made.nearest = None if self.nearest is None else self.nearest / g
            made.base = None if self.base is None else self.base / g
        return made

    def flat(self) -> Self:
        made = super().flat()
        made.nearest, made.base = None, None
        return made

    def mean(self, other: Self, share: float = 0.5) -> Self:
        made, rest, n = super().mean(other, share), 1.0 - share, len(self.value)
        if self.nearest is not None or other.nearest is not None:
            made.nearest = share * _or_zeros(self.nearest, n) + rest * _or_zeros(other.nearest, n)
        if self.base is not None or other.base is not None:
            made.base = share * _or_zeros(self.base, len(self)) + rest * _or_zeros(other.base, len(self))
        return made

    def marginal_argmax(self, q: TreePosterior) -> LabelArray:
        plain = copy(self)
        plain.nearest, plain.base = None, None
        return super(Trees, plain).marginal_argmax(q)

    def average(
        self, used: Sequence[IntArray], share: FloatArray, **options: Unpack[PosteriorOptions]
    ) -> TreePosterior:
        plain: TreePosterior = super().average(used, share, **options)
        if self.nearest is None:
            return plain
        filled = [parts for parts in used if len(parts)]
        part = np.concatenate([np.zeros(0, np.int64), *filled])
        start = offsets_of([len(parts) for parts in filled])
        near = np.zeros(self._parts.n_parts)
        instance, kept = self._parts.instance_of(part)[start[:-1]], share[[len(parts) > 0 for parts in used]]
        tree_check.mark_nearest(
            self._parts.offsets, self._parts.arc_offsets, instance, start, self._parts.heads_of(part), kept, near
        )
        return TreePosterior(plain.marginal, plain.log_partition, near)

    def certain(self, outputs: Any, *, weights: FloatArray | None = None) -> TreePosterior:
        heads = self._parts.check(outputs)
        used = self._parts.of(heads)
        plain = self.posterior(used, np.ones(len(used)), log_partition=self.score(heads))
        return TreePosterior(plain.marginal, plain.log_partition, None if self.nearest is None else self._near(heads))

    def _write(self, program: TreeProgram, sentence: Sentence, arcs: slice) -> None:
        if sentence.n:
            own = None if self.nearest is None else self.nearest[arcs].reshape(sentence.n, -1)
            tree_polytope.projective(program, sentence, own)
        if self.base is not None:
            tree_polytope.constant(program, sentence.number, float(self.base[sentence.number]))

    def _near(self, heads: LabelArray) -> FloatArray:
        """(n_arcs,): 1 at arcs of these trees that lead to nearest dependents."""
        near, every = np.zeros(self._parts.n_parts), np.arange(len(self))
        tree_check.mark_nearest(
            self._parts.offsets, self._parts.arc_offsets, every, self._parts.offsets, heads, np.ones(len(self)), near
        )
        return near

    @property
    def _of_kernels(self) -> FloatArray:
        """Scores of nearest dependents in the form that kernels take: empty for none."""
        return _NONE if self.nearest is None else self.nearest

    def _based(self, total: FloatArray) -> FloatArray:
        return total if self.base is None else total + self.base


def _finite(name: str, values: Any, n: int) -> FloatArray:
    checked = np.ascontiguousarray(values, dtype=np.float64)
    check_scores(name, checked, (n,))
    if not np.all(np.isfinite(checked)):
        raise DataError(f"{name} scores must be finite, but entry {int(np.argmin(np.isfinite(checked)))} is −inf")
    return checked


def _or_zeros(values: FloatArray | None, n: int) -> FloatArray:
    return np.zeros(n) if values is None else values
