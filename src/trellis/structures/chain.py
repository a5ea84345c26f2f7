"""Chain: each instance takes a sequence of labels, one per slot; scores factor over slots and boundaries.

    score(y) = start[y_1] + Σ_t node_t[y_t] + Σ_{t>1} edge_t[y_{t−1}, y_t] + stop[y_n]

The empty sequence has one output, of score 0. Inference is forward-backward, max-product is Viterbi.
Node scores are a table and a row a slot, edge scores a small stack of matrices and one a boundary, so a plain
HMM holds its emission table and one matrix however long the corpus is.
"""

from __future__ import annotations

from typing import Any, Unpack

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, check_offsets, owners, take_rows
from trellis.errors import DataError
from trellis.structures.chain_parts import ChainChange, ChainParts, pair_up
from trellis.structures.chain_tables import ChainTables
from trellis.structures.kernels import chain_infer, chain_log, chain_max, chain_sum
from trellis.structures.kernels.lanes import with_slack
from trellis.structures.parts import check_labels
from trellis.structures.polytope import Polytope, chain_polytope
from trellis.structures.results import Argmax, KBest, LabelPosterior, Transitions, UsedTransitions
from trellis.structures.structure import (
    PosteriorOptions,
    Structure,
    check_alike,
    check_gamma,
    check_k,
    check_number_of_samples,
    check_weights,
    expect_scores,
    numbers_of,
    refuse_impossible,
)

Index = NDArray[np.int32]


class Chain(Structure):
    """Log-potentials of label sequences, for a ragged batch.

    Parameters
    ----------
    offsets : array of shape (n_instances + 1,)
        First slot of each instance.
    node : array of shape (n_slots, n_labels)
        Scores of labels; of shape (n_rows, n_labels) with ``node_index``.
    edge : array of shape (n_labels, n_labels)
        Scores of transitions; of shape (n_matrices, n_labels, n_labels) with ``edge_index``.
    start : array of shape (n_labels,) or None, default=None
        Scores of first labels.
    stop : array of shape (n_labels,) or None, default=None
        Scores of last labels.
    node_index : array of shape (n_slots,) or None, default=None
        Row of ``node`` of each slot.
    edge_index : array of shape (n_slots,) or None, default=None
        Matrix of the boundary before each slot.
    first : int, default=0
        Number of the first instance in the corpus, for messages.

    Examples
    --------
    >>> chain = Chain([0, 2], node=np.zeros((2, 2)), edge=np.log([[0.9, 0.1], [0.5, 0.5]]), start=np.log([0.5, 0.5]))
    >>> chain.infer().node.round(3).tolist(), chain.argmax().outputs.tolist()
    ([[0.5, 0.5], [0.7, 0.3]], [0, 0])
    """

    def __init__(
        self,
        offsets: Any,
        node: Any,
        edge: Any,
        *,
        start: Any = None,
        stop: Any = None,
        node_index: Any = None,
        edge_index: Any = None,
        first: int = 0,
    ) -> None:
        tables = ChainTables.of(node, edge, start, stop)
        self._set(tables, check_offsets(offsets), node_index, edge_index, first)

    @classmethod
    def over(
        cls,
        tables: ChainTables,
        offsets: IntArray,
        *,
        node_index: Any = None,
        edge_index: Any = None,
        first: int = 0,
        owner: tuple[IntArray, int] | None = None,
    ) -> Chain:
        """A chain over tables that are already checked, and exponentiated once for all chains that share them.

        owner : the matrix of the model's own stack that each one (n_matrices,) is a change of, and the size of that
            stack; None: they are the model's own
        """
        chain = cls.__new__(cls)
        chain._set(tables, offsets, node_index, edge_index, first)
        chain.owner = owner
        return chain

    def _set(self, tables: ChainTables, offsets: IntArray, node_index: Any, edge_index: Any, first: int) -> None:
        n_slots = int(offsets[-1])
        self.tables = tables
        self.offsets = offsets
        self.first = first
        self.owner: tuple[IntArray, int] | None = None
        self.node_index = _index("node", node_index, tables.n_rows, n_slots)
        if edge_index is None:
            if tables.n_matrices != 1:
                raise DataError(
                    f"{tables.n_matrices} edge matrices: give edge_index, which says the matrix of a boundary"
                )
            self.edge_index = np.zeros(n_slots, dtype=np.int32)
        else:
            self.edge_index = _index("edge", edge_index, tables.n_matrices, n_slots, used=self.parts.has_boundary())

    @property
    def n_labels(self) -> int:
        return self.tables.n_labels

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def parts(self) -> ChainParts:
        return ChainParts(self.offsets, self.n_labels)

    @property
    def node(self) -> FloatArray:
        """Node scores (n_slots, n_labels), start and stop not included."""
        return self.tables.node[self.node_index]

    def node_with_ends(self) -> FloatArray:
        """Node scores, start and stop included."""
        node, filled = self.node.copy(), np.diff(self.offsets) > 0
        node[self.offsets[:-1][filled]] += self.tables.start
        node[self.offsets[1:][filled] - 1] += self.tables.stop
        return node

    def as_chain(self) -> Chain:
        """Itself: what kernels over chains take."""
        return self

    def take(self, numbers: IntArray) -> Chain:
        offsets, slots = take_rows(self.offsets, numbers)
        some = type(self).over(
            self.tables, offsets, node_index=self.node_index[slots], edge_index=self.edge_index[slots],
            first=self.first, owner=self.owner,
        )  # fmt: skip
        some.numbers = numbers_of(numbers, self.first, self.numbers)
        return some

    def _scored(
        self,
        tables: ChainTables,
        node_index: Index | None = None,
        edge_index: Index | None = None,
        owner: tuple[IntArray, int] | None = None,
    ) -> Chain:
        """The same instances with other scores."""
        chain = type(self).over(
            tables, self.offsets, node_index=node_index, edge_index=edge_index, first=self.first, owner=owner
        )
        chain.numbers = self.numbers
        return chain

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> LabelPosterior:
        """Marginals of labels, expected counts of transitions, and marginals of transitions where ``at`` names one."""
        p, k, n = self.tables.potentials, self.n_labels, len(self)
        weights, wanted = check_weights(weights, n), self.names_transition(at)
        posterior = with_slack((self.n_slots, k))
        counts_t = with_slack(p.edge.shape, zeros=True)
        before, after = np.zeros((2, self.n_slots if wanted else 0, k))
        log_partition, status = np.empty(n), np.empty(n, dtype=np.int8)
        chain_infer.infer_scaled(
            self.offsets, p.node, self.node_index, p.edge, p.edge_t, self.edge_index, p.start, p.stop, weights,
            posterior, counts_t, before, after, log_partition, status,
        )  # fmt: skip
        chain_sum.add_shifts(
            self.offsets, p.node_shift, self.node_index, p.edge_shift, self.edge_index, p.ends_shift, log_partition
        )
        counts = counts_t.transpose(0, 2, 1) * p.edge
        flagged = status == chain_sum.FLAGGED
        if np.any(flagged):
            chain_log.infer_log(
                *self._arrays(), weights, posterior, counts, before, after, log_partition, np.empty(n), status
            )
            refuse_impossible(log_partition, self.first, self.numbers)
        found = self.transitions(before, after, p.edge, self.edge_index, flagged) if wanted else None
        return LabelPosterior(posterior, log_partition, self.own_counts(counts), found)

    def transitions(
        self, before: FloatArray, after: FloatArray, matrix: FloatArray, index: Any, flagged: BoolArray
    ) -> Transitions:
        """Marginals of transitions from their factors: those of flagged instances are logs, beside the scores."""
        logs = np.repeat(flagged, np.diff(self.offsets)) & self.parts.has_boundary()
        if np.any(logs):
            matrix, index = np.concatenate((matrix, self.tables.edge)), np.where(logs, len(matrix) + index, index)
        return Transitions(before, after, matrix, index, logs)

    def names_transition(self, at: IntArray | None) -> bool:
        """Whether any of the parts is a transition."""
        return at is not None and at.size > 0 and int(at.max()) >= self.n_slots * self.n_labels

    def own_counts(self, counts: FloatArray) -> FloatArray:
        """Expected transitions by the matrices of the model's own stack, from those by the matrices of this chain."""
        if self.owner is None:
            return counts
        return folded(counts, *self.owner)

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best labels. Of equals the one with the smallest last label, then the smallest before it, and so on;
        with ``rng``, one drawn uniformly from all that are best."""
        labels, score = np.empty(self.n_slots, dtype=np.int32), np.empty(len(self))
        if rng is None:
            chain_max.viterbi(*self._arrays(), labels, score)
        else:
            chain_max.viterbi_random(*self._arrays(), rng.random(self.n_slots), labels, score)
        refuse_impossible(score, self.first, self.numbers)
        return Argmax(labels, score)

    def kbest(self, k: int) -> KBest:
        """The k best outputs of each instance, best first."""
        check_k(k)
        labels, score = np.empty((k, self.n_slots), dtype=np.int32), np.empty((k, len(self)))
        chain_max.kbest(*self._arrays(), labels, score)
        refuse_impossible(score[0], self.first, self.numbers)
        return KBest(labels, score)

    def sample(self, n: int, rng: np.random.Generator) -> LabelArray:
        """Independent exact samples (n, n_slots)."""
        check_number_of_samples(n)
        labels, log_partition = np.empty((n, self.n_slots), dtype=np.int32), np.empty(len(self))
        chain_log.sample_outputs(*self._arrays(), rng.random((n, self.n_slots)), labels, log_partition)
        refuse_impossible(log_partition, self.first, self.numbers)
        return labels

    def entropy(self) -> FloatArray:
        """−Σ_y p(y) log p(y) of each instance, in nats: H(y_1) + Σ_t H(y_{t−1}, y_t) − H(y_{t−1}), from the factors of
        the marginals of transitions, which are near 1 however large scores are."""
        from scipy.special import xlogy

        q = self.infer(at=np.array([self.n_slots * self.n_labels]))
        found: Any = q.transitions
        of_slot, of_edges = xlogy(q.node, q.node).sum(axis=1), xlogy(*2 * (self.tables.potentials.edge,))
        inner = self.parts.has_boundary()
        total = np.where(inner, 0.0, -of_slot)
        for number, matrix in enumerate(of_edges):
            here = np.flatnonzero(inner & ~found.logs & (self.edge_index == number))
            before, after = found.before[here], found.after[here]
            total[here] = of_slot[here - 1] - ((before @ matrix) * after).sum(axis=1)
            total[here] -= xlogy(q.node[here - 1], before).sum(axis=1) + xlogy(q.node[here], after).sum(axis=1)
        owner, n = owners(self.offsets), len(self)
        entropy = np.maximum(np.bincount(owner, total, minlength=n), 0.0)
        if np.any(found.logs):
            status, counts = np.bincount(owner, found.logs, minlength=n) > 0, np.zeros(self.tables.edge.shape)
            chain_log.infer_log(
                *self._arrays(), np.zeros(n), np.empty(q.node.shape), counts, *np.zeros((2, 0, self.n_labels)),
                np.zeros(n), entropy, np.where(status, chain_sum.FLAGGED, chain_sum.DONE).astype(np.int8),
            )  # fmt: skip
        return entropy

    def score(self, labels: LabelArray) -> FloatArray:
        """score(y) of each instance, −inf for a forbidden output."""
        y = check_labels(labels, self.n_slots, self.n_labels)
        scores = np.empty(len(self))
        chain_max.score_outputs(*self._arrays(), y, scores)
        return scores

    def expected_score(self, q: LabelPosterior, weights: FloatArray) -> float:
        t, lengths = self.tables, np.diff(self.offsets)
        if q.edge_counts is None or self.owner is not None:
            raise DataError("expected scores are those of the model's own chain, from a posterior with edge counts")
        filled = lengths > 0
        first, last = self.offsets[:-1][filled], self.offsets[1:][filled] - 1
        ends = expect_scores(q.node[first], t.start).sum(axis=1) + expect_scores(q.node[last], t.stop).sum(axis=1)
        return float(
            np.repeat(weights, lengths) @ expect_scores(q.node, self.node).sum(axis=1)
            + expect_scores(q.edge_counts, t.edge).sum()
            + weights[filled] @ ends
        )

    def marginal_argmax(self, q: LabelPosterior) -> LabelArray:
        return np.asarray(q.node.argmax(axis=1), dtype=np.int32)

    def posterior(self, part: IntArray, value: FloatArray, **options: Unpack[PosteriorOptions]) -> LabelPosterior:
        k, n_node = self.n_labels, self.n_slots * self.n_labels
        weight = np.repeat(check_weights(options.get("weights"), len(self)), np.diff(self.offsets))
        here = part < n_node
        node = np.bincount(part[here], value[here], minlength=n_node).astype(np.float64, copy=False)
        cell, share = part[~here] - n_node, value[~here]
        slot = cell // (k * k)
        counts = np.zeros(self.tables.edge.shape)
        np.add.at(counts, (self.edge_index[slot], cell // k % k, cell % k), share * weight[slot])
        used = UsedTransitions.of(self.n_slots, k, cell, share) if self.names_transition(options.get("at")) else None
        return LabelPosterior(node.reshape(-1, k), self._top(options), self.own_counts(counts), used)

    def max_marginals(self) -> FloatArray:
        k, n = self.n_labels, self.n_slots
        best = np.empty(n * k * (1 + k))
        of_node, of_edge = best[: n * k].reshape(n, k), best[n * k :].reshape(n, k, k)
        chain_max.max_marginals(*self._arrays(), of_node, of_edge)
        return best

    def polytope(self, closed: IntArray, n_parts: int | None = None) -> Polytope:
        edge, n_parts = self.tables.edge[self.edge_index], self.parts.n_parts if n_parts is None else n_parts
        return chain_polytope(self.parts, self.node_with_ends(), edge, closed, n_parts)

    def max_shift(self) -> float:
        """Potentials that are all there lie within 670 nats of each other, in nodes and in edges; twenty times that and
        some more is beyond every corner. What underflow took may be much farther away."""
        return 4e6 if any(flags.any() for flags in self.tables.lost()) else 4e4

    def apply(self, change: ChainChange, gamma: float = 1.0) -> Chain:
        if change.node is None and change.pattern is None and gamma == 1.0:
            return self
        t, g = self.tables, check_gamma(gamma)
        node, node_index = t.node, self.node_index
        if change.node is not None:
            node, node_index = self.node + change.node, np.arange(self.n_slots, dtype=np.int32)
        edge, edge_index, owner = t.edge, self.edge_index, self.owner
        if change.pattern is not None:
            matrix, added, index = pair_up(edge_index, change.pattern, len(change.patterns))
            edge, edge_index = t.edge[matrix] + change.patterns[added], index.astype(np.int32)
            own, n_own = (np.arange(len(t.edge)), len(t.edge)) if owner is None else owner
            owner = own[matrix], n_own
        if g == 1.0:
            tables = ChainTables(node, edge, t.start, t.stop)
        else:
            tables = ChainTables(node / g, edge / g, t.start / g, t.stop / g)
        return self._scored(tables, node_index, edge_index, owner)

    def mean(self, other: Chain, share: float = 0.5) -> Chain:
        if not np.array_equal(self.offsets, other.offsets):
            raise DataError("models agree over the same instances, but the lengths of these differ")
        check_alike((self.n_labels,), (other.n_labels,), ("labels",))
        a, b = self.tables, other.tables
        own, theirs, index = pair_up(self.edge_index, other.edge_index, len(b.edge))
        rest = 1.0 - share
        tables = ChainTables(
            node=share * self.node + rest * other.node,
            edge=share * a.edge[own] + rest * b.edge[theirs],
            start=share * a.start + rest * b.start,
            stop=share * a.stop + rest * b.stop,
        )
        return self._scored(tables, edge_index=index.astype(np.int32))

    def flat(self) -> Chain:
        t = self.tables
        tables = ChainTables(*(np.where(table > -np.inf, 0.0, -np.inf) for table in (t.node, t.edge, t.start, t.stop)))
        return self._scored(tables, self.node_index, self.edge_index, self.owner)

    def clamp(self, labels: LabelArray) -> Chain:
        """Scores in which only the given label is possible at the slots where it is known (≥ 0)."""
        y = check_labels(labels, self.n_slots, self.n_labels, unknown=True)
        if np.all(y < 0):
            return self
        forbidden = (y[:, None] >= 0) & (np.arange(self.n_labels) != y[:, None])
        t = self.tables
        tables = ChainTables(np.where(forbidden, -np.inf, self.node), t.edge, t.start, t.stop)
        return self._scored(tables, None, self.edge_index, self.owner)

    def _arrays(self) -> tuple[Any, ...]:
        t = self.tables
        return self.offsets, t.node, self.node_index, t.edge, self.edge_index, t.start, t.stop


def folded(counts: FloatArray, own: IntArray, n_own: int) -> FloatArray:
    """Counts by matrix (n, K, K) added up to those of the ``n_own`` matrices that they are changes of."""
    folded = np.zeros((n_own, *counts.shape[1:]))
    if n_own == 1:
        folded[0] = counts.sum(axis=0)
        return folded
    np.add.at(folded, own, counts)
    return folded


def _index(name: str, index: Any, n_rows: int, n_slots: int, used: Any = None) -> Index:
    if index is None:
        if n_rows != n_slots:
            raise DataError(f"{n_rows} {name} rows for {n_slots} slots: give {name}_index, or one row a slot")
        return np.arange(n_slots, dtype=np.int32)
    checked = np.ascontiguousarray(index, dtype=np.int32)
    if checked.shape != (n_slots,):
        raise DataError(f"{name}_index must have one entry for each of {n_slots} slots, got shape {checked.shape}")
    if used is not None:
        checked = np.where(used, checked, np.int32(0))
    if len(checked) and not (checked.min() >= 0 and checked.max() < n_rows):
        raise DataError(f"{name}_index must lie in 0..{n_rows - 1}, got {checked.min()}..{checked.max()}")
    return checked
