"""SpanningTrees: dependency trees whose arcs may cross.

    score(y) = Σ_{(h, c) in y} arc(h, c)
    Z = det L,   L[h, c] = −exp arc(h, c) off the diagonal, and columns of L sum to exp arc(root, c)

(Matrix-tree theorem: Koo et al. 2007; McDonald & Satta 2007; Smith & Smith 2007.) With a single root the first row of L
gives way to the root's weights, and the sums leave them out. Determinants and inverses are LAPACK's, in stacks of
sentences of one length. Where a matrix is so near to singular that they would lose digits (words that almost surely
hang on each other in a circle), sums without subtraction take over (:mod:`kernels.spanning`).
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.structures import tree_polytope
from trellis.structures.arcs import Arcs, TreePosterior
from trellis.structures.kernels import spanning
from trellis.structures.results import Argmax
from trellis.structures.structure import refuse_impossible
from trellis.structures.tree_polytope import Sentence, TreeProgram

WORST = 1e5
"""Condition number times the largest entry of an inverse: beyond it marginals would have fewer than ten digits."""


class SpanningTrees(Arcs):
    """Log-potentials of all spanning trees; arcs may cross.

    Parameters
    ----------
    offsets : array of shape (n_instances + 1,)
        First word of each sentence.
    arc : array of shape (n_arcs,)
        Scores of arcs, sentence by sentence: a square arc[child, head] whose diagonal is the root.
    single_root : bool, default=True
        Exactly one word is attached to the root.
    first : int, default=0
        Number of the first instance in the corpus, for messages.

    Examples
    --------
    >>> two_words = SpanningTrees([0, 2], np.log([1.0, 2.0, 3.0, 4.0]))
    >>> two_words.argmax().outputs.tolist(), two_words.infer().marginal.round(3).tolist()
    ([2, 0], [0.273, 0.727, 0.273, 0.727])
    """

    projective = False

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> TreePosterior:
        p = self._parts
        marginal, log_partition = np.zeros(p.n_parts), np.zeros(len(self))
        lengths, left = np.diff(p.offsets), []
        for n in np.unique(lengths[lengths > 0]).tolist():
            numbers = np.flatnonzero(lengths == n)
            arcs = p.arc_offsets[:-1][numbers][:, None] + np.arange(n * n)
            found, logs, good = _stack(self.arc[arcs].reshape(-1, n, n), p.single_root)
            marginal[arcs[good]] = found.reshape(-1, n * n)
            log_partition[numbers[good]] = logs
            left.append(numbers[~good])
        flagged = np.sort(np.concatenate([np.zeros(0, np.int64), *left]))
        if len(flagged):
            spanning.infer_spanning(flagged, p.offsets, p.arc_offsets, self.arc, p.single_root, marginal, log_partition)
        refuse_impossible(log_partition, self.first, self.numbers)
        return TreePosterior(marginal, log_partition)

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best heads (n_words,). Of several best trees always the same; with ``rng`` any, though not all alike."""
        p = self._parts
        heads, best = np.zeros(p.n_words, np.int32), np.zeros(len(self))
        noise = np.zeros(0) if rng is None else rng.random(p.n_parts)
        spanning.best_spanning(p.offsets, p.arc_offsets, self.arc, p.single_root, noise, heads, best)
        refuse_impossible(best, self.first, self.numbers)
        return Argmax(heads, best)

    def _write(self, program: TreeProgram, sentence: Sentence, arcs: slice) -> None:
        tree_polytope.spanning(program, sentence)

    def _draw(self, n: int, rng: np.random.Generator) -> LabelArray:
        """One word of every sentence after the other, each under the marginals that the heads before it leave."""
        p = self._parts
        longest = int(np.diff(p.offsets).max(initial=0))
        drawn = np.full((n, p.n_words), -1, np.int32)
        self.infer()  # refuses what is impossible, also for n = 0
        for heads in drawn:
            for place in range(longest):
                sentences = np.flatnonzero(np.diff(p.offsets) > place)
                q = self.clamp(heads).infer().marginal
                for s in sentences.tolist():
                    size = int(p.offsets[s + 1] - p.offsets[s])
                    at = int(p.arc_offsets[s]) + place * size
                    running = np.cumsum(q[at : at + size])
                    h = int(np.searchsorted(running, rng.random() * running[-1], side="right"))
                    h = min(h, int(np.flatnonzero(q[at : at + size])[-1]))
                    heads[p.offsets[s] + place] = 0 if h == place else h + 1
        return drawn


def _stack(arc: FloatArray, single_root: bool) -> tuple[FloatArray, FloatArray, BoolArray]:
    """Marginals and log-partitions of those sentences of one length that LAPACK serves, and which they are.

    arc : (s, n, n) by child and head, the diagonal is the root
    """
    n = arc.shape[1]
    top = arc.max(axis=2)
    possible = np.all(top > -np.inf, axis=1)
    weight = np.exp(arc - np.where(top > -np.inf, top, 0.0)[:, :, None])
    scale = weight.sum(axis=2)
    weight = weight / np.where(scale > 0, scale, 1.0)[:, :, None]
    logs = (top + np.log(np.where(scale > 0, scale, 1.0))).sum(axis=1)
    diagonal = np.arange(n)
    root = weight[:, diagonal, diagonal]
    between = weight.transpose(0, 2, 1).copy()  # by head and child
    between[:, diagonal, diagonal] = 0.0
    matrix = -between
    matrix[:, diagonal, diagonal] = between.sum(axis=1) + (0.0 if single_root else root)
    if single_root:
        matrix[:, 0] = root
    matrix[~possible] = np.eye(n)
    with np.errstate(all="ignore"):
        sign, log_det = np.linalg.slogdet(matrix)
        sound = possible & (sign > 0) & (log_det > -200.0)
        matrix[~sound] = np.eye(n)
        inverse = np.linalg.inv(matrix)
        largest = np.abs(inverse).max(axis=(1, 2))
        condition = np.abs(matrix).sum(axis=1).max(axis=1) * np.abs(inverse).sum(axis=1).max(axis=1)
        good: BoolArray = sound & (condition * np.maximum(largest, 1.0) < WORST)
    inverse, between, root = inverse[good], between[good], root[good]
    of_child = inverse[:, diagonal, diagonal].copy()  # [c, c]
    of_head = inverse.transpose(0, 2, 1).copy()  # [h, c] = inverse[c, h]
    root_marginal = root * (inverse[:, :, 0] if single_root else of_child)
    if single_root:
        of_child[:, 0] = 0.0
        of_head[:, 0, :] = 0.0
    found = between * (of_child[:, None, :] - of_head)
    found = np.clip(found.transpose(0, 2, 1), 0.0, 1.0)
    found[:, diagonal, diagonal] = np.clip(root_marginal, 0.0, 1.0)
    return found, (logs + log_det)[good], good
