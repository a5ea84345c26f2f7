"""Categorical: each instance takes one of K labels.

    p(y_i = k) = exp node[i, k] / Σ_j exp node[i, j]

Parts are (instance, label), numbered  label(i, k) = i·K + k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray
from trellis.errors import DataError
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables
from trellis.structures.part_set import PartSet
from trellis.structures.parts import Parts, check_labels, check_parts, dense_change
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, KBest, LabelPosterior
from trellis.structures.structure import (
    Structure,
    check_alike,
    check_gamma,
    check_k,
    check_number_of_samples,
    check_scores,
    expect_scores,
    numbers_of,
    refuse_impossible,
)


@dataclass(frozen=True)
class CategoricalParts(Parts):
    """Parts (instance, label) of a batch of instances with one label each.

    >>> CategoricalParts(n_slots=3, n_labels=4).label(2, 1)
    9
    """

    n_slots: int
    n_labels: int
    kind = "categorical"
    outputs_are = "labels"
    has_labels = True

    @property
    def n_instances(self) -> int:
        return self.n_slots

    @property
    def n_parts(self) -> int:
        return self.n_slots * self.n_labels

    @property
    def label_shape(self) -> tuple[int, int]:
        return self.n_slots, self.n_labels

    def label(self, slot: Any, label: Any) -> Any:
        return slot * self.n_labels + label

    def instance_of(self, parts: IntArray) -> IntArray:
        return check_parts(parts, self.n_parts) // self.n_labels

    place_of = instance_of

    def grid(self) -> IntArray:
        return np.arange(self.n_parts, dtype=np.int64).reshape(-1, self.n_labels)

    def transition_grid(self) -> IntArray:
        return np.zeros((0, self.n_labels, self.n_labels), np.int64)

    def sizes(self) -> IntArray:
        return np.full(self.n_slots, self.n_labels, dtype=np.int64)

    def of(self, outputs: LabelArray) -> IntArray:
        y = check_labels(outputs, self.n_slots, self.n_labels)
        return np.arange(self.n_slots, dtype=np.int64) * self.n_labels + y

    @property
    def output_offsets(self) -> IntArray:
        return np.arange(self.n_slots + 1)

    def shard(self, first: int, last: int) -> CategoricalParts:
        return CategoricalParts(last - first, self.n_labels)

    def within(self, parts: IntArray, first: int, last: int) -> tuple[BoolArray, IntArray]:
        kept = (parts >= first * self.n_labels) & (parts < last * self.n_labels)
        return kept, parts[kept] - first * self.n_labels

    def split(self, parts: IntArray) -> tuple[IntArray, IntArray]:
        return parts // self.n_labels, parts % self.n_labels

    def join(self, instance: IntArray, local: IntArray) -> IntArray:
        return instance * self.n_labels + local

    def zeros(self) -> Categorical:
        return Categorical(np.zeros((self.n_slots, self.n_labels)))

    def change(self, part: IntArray, value: FloatArray) -> FloatArray | None:
        """(n_instances, n_labels), or None for nothing."""
        added = dense_change(part, value, self.n_parts)
        return None if added is None else added.reshape(self.n_slots, self.n_labels)

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Sums of the extremes of each slot; labels that a row does not name count 0."""
        by_slot = self._by_slot(start, part, coefficient)
        found = [
            np.bincount(by_slot.row, weights=by_slot.extreme(kind), minlength=len(start) - 1).astype(np.float64)
            for kind in (np.minimum, np.maximum)
        ]
        return found[0], found[1]

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        """A row is at its least exactly if every slot that it names is."""
        by_slot = self._by_slot(start, part, coefficient)
        limit = by_slot.extreme(np.minimum) + margin[by_slot.row]
        named = by_slot.part[by_slot.coefficient > np.repeat(limit, by_slot.n_named)]
        # labels that a row does not name, where those count too much
        above = (limit < 0.0) & (by_slot.n_named < self.n_labels)
        others = np.ones((int(np.count_nonzero(above)), self.n_labels), dtype=np.bool_)
        entry = np.repeat(above, by_slot.n_named)
        others[np.repeat(np.arange(len(others)), by_slot.n_named[above]), by_slot.part[entry] % self.n_labels] = False
        number, label = np.nonzero(others)
        never = np.concatenate((named, by_slot.slot[above][number] * self.n_labels + label))
        return PartSet.of(never), np.ones(len(margin), dtype=np.bool_)

    def _by_slot(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> _BySlot:
        row, slot = np.repeat(np.arange(len(start) - 1), np.diff(start)), part // self.n_labels
        order = np.lexsort((slot, row))
        row, slot = row[order], slot[order]
        first = np.flatnonzero((np.diff(row, prepend=-1) != 0) | (np.diff(slot, prepend=-1) != 0))
        n_named = np.diff(first, append=len(row))
        return _BySlot(row[first], slot[first], first, n_named, part[order], coefficient[order], self.n_labels)


@dataclass(frozen=True)
class _BySlot:
    """What each row says of each slot that it names.

    row, slot, first, n_named : (n_pairs,) of a row and a slot; its first entry, and the number of labels named
    part, coefficient : (n_entries,)
    """

    row: IntArray
    slot: IntArray
    first: IntArray
    n_named: IntArray
    part: IntArray
    coefficient: FloatArray
    n_labels: int

    def extreme(self, kind: np.ufunc) -> FloatArray:
        """(n_pairs,): the least or the largest coefficient; labels that are not named have 0."""
        value = kind.reduceat(self.coefficient, self.first) if len(self.first) else np.zeros(0)
        return np.asarray(np.where(self.n_named < self.n_labels, kind(value, 0.0), value))


@dataclass(frozen=True)
class Categorical(Structure):
    """Log-potentials of labels, with one slot per instance.

    Parameters
    ----------
    node : array of shape (n_instances, n_labels)
        Scores, −inf for forbidden labels.
    first : int, default=0
        Number of the first instance in the corpus, for messages.
    numbers : array or None, default=None
        Numbers of the instances in the corpus, if they are not consecutive.

    Examples
    --------
    >>> scores = Categorical(np.log([[0.5, 0.25, 0.25]]))
    >>> scores.infer().node.round(2).tolist(), scores.argmax().outputs.tolist()
    ([[0.5, 0.25, 0.25]], [0])
    """

    node: FloatArray
    first: int = 0
    numbers: IntArray | None = None

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

    def as_chain(self) -> Chain:
        """The same as sequences of one slot each, so that kernels over chains serve too."""
        n, k = self.node.shape
        tables = ChainTables(self.node, np.zeros((1, k, k)), np.zeros(k), np.zeros(k))
        chain = Chain.over(tables, np.arange(n + 1, dtype=np.int64), first=self.first)
        chain.numbers = self.numbers
        return chain

    def take(self, numbers: IntArray) -> Categorical:
        return Categorical(self.node[numbers], self.first, numbers_of(numbers, self.first, self.numbers))

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> LabelPosterior:
        """Marginals and log-partitions."""
        top, total, exponentials = self._exponentials()
        return LabelPosterior(node=exponentials / total[:, None], log_partition=top + np.log(total))

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best label of each instance: the smallest of equals, or with ``rng`` a random one of them."""
        best = self.node.max(axis=1)
        refuse_impossible(best, self.first, self.numbers)
        if rng is None:
            labels = self.node.argmax(axis=1)
        else:
            labels = np.where(self.node == best[:, None], rng.random(self.node.shape), -1.0).argmax(axis=1)
        return Argmax(labels.astype(np.int32), best)

    def kbest(self, k: int) -> KBest:
        """The k best labels of each instance, best first."""
        check_k(k)
        refuse_impossible(self.node.max(axis=1), self.first, self.numbers)
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

    def expected_score(self, q: LabelPosterior, weights: FloatArray) -> float:
        return float(weights @ expect_scores(q.node, self.node).sum(axis=1))

    def marginal_argmax(self, q: LabelPosterior) -> LabelArray:
        return np.asarray(q.node.argmax(axis=1), dtype=np.int32)

    def _of_marginals(self, marginal: FloatArray, log_partition: FloatArray) -> LabelPosterior:
        return LabelPosterior(marginal.reshape(self.node.shape), log_partition)

    def max_marginals(self) -> FloatArray:
        return self.node.reshape(-1)

    def polytope(self, closed: IntArray) -> Polytope:
        return self.as_chain().polytope(closed, n_parts=self.node.size)

    def apply(self, change: FloatArray | None, gamma: float = 1.0) -> Categorical:
        return replace(self, node=(self.node if change is None else self.node + change) / check_gamma(gamma))

    def mean(self, other: Categorical, share: float = 0.5) -> Categorical:
        check_alike(self.node.shape, other.node.shape, ("instances", "labels"))
        return replace(self, node=share * self.node + (1.0 - share) * other.node)

    def agreeing(self, others: Sequence[Categorical], classes: Sequence[IntArray]) -> list[Categorical]:
        """q_i(y) = p_i(y | z) q(z),  q(z) ∝ Π_i p_i(z)^{1/n}                      (Ganchev et al. 2010, prop. 6.3)

        All have the log-partition log Σ_z exp( mean_i log Σ_{y of z} exp score_i(y) ).
        """
        members, n = (self, *others), 1 + max(int(np.max(given, initial=0)) for given in classes)
        coarse = []
        for member, given in zip(members, classes, strict=True):
            check_alike((len(self),), (len(member),), ("instances",))
            top = member.node.max(axis=1, keepdims=True)
            refuse_impossible(top[:, 0], member.first, member.numbers)
            sums = np.exp(member.node - top) @ (np.asarray(given)[:, None] == np.arange(n))
            with np.errstate(divide="ignore"):
                coarse.append(np.log(sums) + top)
        mean = np.mean(coarse, axis=0)
        tilted = []
        for member, own, given in zip(members, coarse, classes, strict=True):
            change = np.full_like(mean, -np.inf)
            np.subtract(mean, own, out=change, where=mean > -np.inf)
            tilted.append(replace(member, node=member.node + change[:, given]))
        return tilted

    def flat(self) -> Categorical:
        return replace(self, node=np.where(self.node > -np.inf, 0.0, -np.inf))

    def clamp(self, labels: LabelArray) -> Categorical:
        """Scores in which only the given label is possible where it is known (≥ 0)."""
        y = check_labels(labels, *self.node.shape, unknown=True)
        forbidden = (y[:, None] >= 0) & (np.arange(self.n_labels) != y[:, None])
        return replace(self, node=np.where(forbidden, -np.inf, self.node))

    def _exponentials(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Row maxima, sums of exp(score − maximum), and these exponentials."""
        top = self.node.max(axis=1)
        refuse_impossible(top, self.first, self.numbers)
        exponentials = np.exp(self.node - top[:, None])
        return top, exponentials.sum(axis=1), exponentials
