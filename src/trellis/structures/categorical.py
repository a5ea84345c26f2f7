"""Categorical: each instance takes one of K labels.

    p(y_i = k) = exp node[i, k] / Σ_j exp node[i, j]

Parts are (instance, label); see :mod:`trellis.structures.parts`.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray, LabelArray
from trellis.errors import DataError
from trellis.structures.parts import CategoricalParts, check_labels
from trellis.structures.results import Argmax, KBest, Posterior
from trellis.structures.structure import (
    check_gamma,
    check_number_of_samples,
    check_scores,
    refuse_impossible,
)


@dataclass(frozen=True)
class Categorical:
    """Log-scores of labels, one slot an instance.

    node : (n_instances, n_labels), −inf where a label is forbidden
    first : number of the first instance in the corpus, for messages

    >>> scores = Categorical(np.log([[0.5, 0.25, 0.25]]))
    >>> scores.infer().node.round(2).tolist(), scores.argmax().labels.tolist()
    ([[0.5, 0.25, 0.25]], [0])
    """

    node: FloatArray
    first: int = 0

    def __post_init__(self) -> None:
        object.__setattr__(self, "node", check_scores("node", self.node, (None, None)))
        if self.node.shape[1] == 0:
            raise DataError("a categorical needs at least one label")

    @property
    def n_labels(self) -> int:
        return int(self.node.shape[1])

    @property
    def parts(self) -> CategoricalParts:
        return CategoricalParts(*self.node.shape)

    def infer(self, *, weights: FloatArray | None = None, edge_marginals: bool = False) -> Posterior:
        """Marginals and log-partitions. Weights and edges are for chains; a categorical has no edges to count."""
        top, total, exponentials = self._exponentials()
        return Posterior(node=exponentials / total[:, None], log_partition=top + np.log(total))

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best label of each instance: the smallest of equals, or with ``rng`` a random one of them."""
        best = self.node.max(axis=1)
        refuse_impossible(best, self.first)
        if rng is None:
            labels = self.node.argmax(axis=1)
        else:
            labels = np.where(self.node == best[:, None], rng.random(self.node.shape), -1.0).argmax(axis=1)
        return Argmax(labels.astype(np.int32), best)

    def kbest(self, k: int) -> KBest:
        """The k best labels of each instance, best first."""
        if k < 1:
            raise DataError(f"k must be at least 1, got {k}")
        refuse_impossible(self.node.max(axis=1), self.first)
        order = np.argsort(-self.node, axis=1, kind="stable")[:, :k]
        values = np.take_along_axis(self.node, order, axis=1)
        labels = np.full((k, len(self.node)), -1, dtype=np.int32)
        score = np.full((k, len(self.node)), -np.inf)
        labels[: order.shape[1]] = np.where(values > -np.inf, order, -1).T
        score[: order.shape[1]] = values.T
        return KBest(labels, score)

    def sample(self, n: int, rng: np.random.Generator) -> LabelArray:
        """Independent samples (n, n_instances)."""
        check_number_of_samples(n)
        _, total, exponentials = self._exponentials()
        cumulative = np.cumsum(exponentials, axis=1)
        drawn = rng.random((n, len(self.node))) * total
        labels = (drawn[:, :, None] >= cumulative[None, :, :]).sum(axis=2)
        # Rounding may leave a draw at the very end: the last label that has any probability takes it.
        last = self.n_labels - 1 - np.argmax(exponentials[:, ::-1] > 0, axis=1)
        drawn_labels: LabelArray = np.minimum(labels, last[None, :]).astype(np.int32)
        return drawn_labels

    def entropy(self) -> FloatArray:
        """−Σ_k p log p of each instance, in nats."""
        top, total, exponentials = self._exponentials()
        shifted = np.where(exponentials > 0, self.node - top[:, None], 0.0)
        return np.asarray(np.log(total) - (exponentials * shifted).sum(axis=1) / total)

    def score(self, labels: LabelArray) -> FloatArray:
        y = check_labels(labels, *self.node.shape)
        return self.node[np.arange(len(y)), y]

    def log_prob(self, labels: LabelArray) -> FloatArray:
        return np.minimum(self.score(labels) - self.infer().log_partition, 0.0)

    def tilt(self, node: FloatArray | None = None, edge: FloatArray | None = None, gamma: float = 1.0) -> Categorical:
        """(scores + node) / gamma."""
        if edge is not None:
            raise DataError("a categorical has no edges to tilt")
        added = self.node if node is None else self.node + check_scores("tilting", node, self.node.shape)
        return Categorical(added / check_gamma(gamma), self.first)

    def clamp(self, labels: LabelArray) -> Categorical:
        """Scores in which only the given label is possible where it is known (≥ 0)."""
        y = check_labels(labels, *self.node.shape, unknown=True)
        known = y[:, None] >= 0
        return Categorical(np.where(known & (np.arange(self.n_labels) != y[:, None]), -np.inf, self.node), self.first)

    def _exponentials(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Row maxima, sums of exp(score − maximum), and these exponentials."""
        top = self.node.max(axis=1)
        refuse_impossible(top, self.first)
        exponentials = np.exp(self.node - top[:, None])
        return top, exponentials.sum(axis=1), exponentials
