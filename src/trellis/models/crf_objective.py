"""Log-likelihood of a CRF and its gradient, shard by shard.

    score(y) = Σ_t Σ_f value(t, f) w[f, y_t] + Σ_{t>1} edge_t[y_{t−1}, y_t] + start[y_1] + stop[y_n]
    edge_t   = edge + Σ_f value(t, f) v[f]                                with features of label pairs; else edge alone
    f(w)     = Σ_i weight_i log Z_i(w) − c · w,      c = expected counts under the posterior q (soft labels)
    ∇f(w)    = expected counts under p_w − c

The counts c are fixed during an M-step, so a round looks at features and at log Z alone.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.engine import Additive
from trellis.errors import DataError
from trellis.models.kernels import log_linear
from trellis.models.statistics import RowCounts
from trellis.structures import Chain, ChainTables, LabelPosterior


@dataclass(frozen=True)
class WeightLayout:
    """Where each weight stands: the pairs (feature, label) that have one, then edges, then start and stop, and last the
    edges of each feature.

    first_pair : (n_features + 1,);  pair_label : (n_pairs,)
    edge_features : (n_edge_features,) the features that have edges, in ascending order
    """

    first_pair: IntArray
    pair_label: LabelArray
    n_labels: int
    ends: bool
    transitions: bool
    edge_features: IntArray

    @cached_property
    def key(self) -> int:
        """What tells layouts apart, in any process."""
        kind = crc32(self.edge_features.tobytes(), 4 * self.n_labels + 2 * self.transitions + self.ends)
        return crc32(self.pair_label.tobytes(), crc32(self.first_pair.tobytes(), kind))

    @property
    def n_features(self) -> int:
        return len(self.first_pair) - 1

    @property
    def n_pairs(self) -> int:
        return len(self.pair_label)

    @property
    def n_plain(self) -> int:
        """How many weights come before the edges of features."""
        return self.n_pairs + self.n_edges + (2 * self.n_labels if self.ends else 0)

    @property
    def n_edges(self) -> int:
        """How many weights pairs of neighbouring labels have."""
        return self.n_labels**2 if self.transitions else 0

    @property
    def n_weights(self) -> int:
        return self.n_plain + len(self.edge_features) * self.n_labels**2

    def split(self, weights: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """Weights of pairs (n_pairs,), edges (K, K), start (K,) and stop (K,), as views."""
        n, k, after = self.n_pairs, self.n_labels, self.n_pairs + self.n_edges
        edge = weights[n:after].reshape(k, k) if self.transitions else np.zeros((k, k))
        if not self.ends:
            return weights[:n], edge, np.zeros(k), np.zeros(k)
        return weights[:n], edge, weights[after : after + k], weights[after + k : self.n_plain]

    def of_features(self, weights: FloatArray) -> FloatArray:
        """Weights of the edges of features (n_edge_features, K²), as a view."""
        return weights[self.n_plain :].reshape(-1, self.n_labels**2)

    def prepared(self, batch: Batch) -> Any:
        """A shard with its features, from which scores and expected counts are had."""
        return ShardFeatures(batch, self)

    def phi(self, batch: Batch, outputs: LabelArray) -> Any:
        """(n_instances, n_weights): how often each sentence, so labelled, has what each weight is for."""
        k, offsets, y = self.n_labels, batch.offsets, np.asarray(outputs, np.int64)
        sentence = np.repeat(np.arange(len(batch)), batch.lengths)
        token = owners(batch.features.indptr)
        place = log_linear.find_pairs(batch.features.indices, y[token], self.first_pair, self.pair_label)
        has = place >= 0
        inner = np.flatnonzero(np.diff(sentence) == 0) if self.transitions else np.zeros(0, np.int64)
        row = [sentence[token[has]], sentence[inner]]
        column = [place[has], self.n_pairs + y[inner] * k + y[inner + 1]]
        value = [batch.features.data[has], np.ones(len(inner))]
        if self.ends:
            some = np.flatnonzero(batch.lengths)
            for first, at in (
                (self.n_pairs + self.n_edges, offsets[:-1][some]),
                (self.n_plain - k, offsets[1:][some] - 1),
            ):
                row.append(some)
                column.append(first + y[at])
                value.append(np.ones(len(some)))
        if len(self.edge_features):
            number = np.full(self.n_features, -1, dtype=np.int64)
            number[self.edge_features] = np.arange(len(self.edge_features))
            f = number[batch.features.indices]
            behind = np.flatnonzero((np.diff(sentence, prepend=-1)[token] == 0) & (f >= 0))
            f, here = f[behind], token[behind]
            row.append(sentence[here])
            column.append(self.n_plain + (f * k + y[here - 1]) * k + y[here])
            value.append(batch.features.data[behind])
        entries = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
        return sparse.csr_matrix(entries, shape=(len(batch), self.n_weights))


@dataclass(frozen=True)
class CRFStatistics(Additive):
    """Expected counts, entry by entry those of the weights, and the log-partitions they came with.

    pairs : (n_pairs, 1);  edge : (K, K);  start, stop : (K,)
    of_features : (n_edge_features, K²)
    log_partition : Σ_i weight_i log Z_i
    """

    pairs: RowCounts
    edge: FloatArray
    start: FloatArray
    stop: FloatArray
    of_features: RowCounts
    log_partition: float

    def vector(self, layout: WeightLayout) -> FloatArray:
        """The counts in the order of the weights (n_weights,)."""
        ends = [self.start, self.stop] if layout.ends else []
        edges = [self.edge.ravel()] if layout.transitions else []
        return np.concatenate([self.pairs.table()[:, 0], *edges, *ends, self.of_features.table().ravel()])


class RowFeatures:
    """Rows of features, renumbered: a round over them touches a small part of the weights, all close together.

    matrix : scipy CSR (n_rows, n_features)
    """

    def __init__(self, matrix: Any, layout: WeightLayout) -> None:
        self.layout = layout
        self.indptr, self.values = matrix.indptr, matrix.data
        self.local, self.n_dense, row_pair, self.place, self.first_local, pair = log_linear.localise(
            matrix.indices, layout.first_pair, layout.pair_label, layout.n_labels
        )
        self.pair = np.concatenate([row_pair, pair])
        self.pair_label = layout.pair_label[pair]

    def scores(self, pairs: FloatArray) -> FloatArray:
        """(n_rows, K): what the weights of pairs give each row with each label."""
        k, n = self.layout.n_labels, len(self.place)
        own, dense, found = pairs[self.pair], np.zeros(self.n_dense * k), np.zeros((len(self.indptr) - 1, k))
        dense[self.place] = own[:n]
        log_linear.add_scores(
            self.indptr, self.local, self.values, dense.reshape(-1, k), self.first_local, self.pair_label, own[n:],
            found,
        )  # fmt: skip
        return found

    def counts(self, offsets: IntArray, weights: FloatArray, marginal: FloatArray) -> RowCounts:
        """Expected counts of pairs, where rows (n_rows, K) have these marginals; weights are of runs of rows."""
        dense, others = np.zeros((self.n_dense, self.layout.n_labels)), np.zeros(len(self.pair_label))
        log_linear.add_expectations(
            offsets, weights, self.indptr, self.local, self.values, self.first_local, self.pair_label, marginal,
            dense, others,
        )  # fmt: skip
        counts = np.concatenate([dense.ravel()[self.place], others])
        return RowCounts.of_rows(self.layout.n_pairs, self.pair, counts[:, None])


class ShardFeatures:
    """A shard with its features prepared."""

    def __init__(self, batch: Batch, layout: WeightLayout) -> None:
        self.batch, self.layout = batch, layout
        features = checked_features(batch, layout)
        self.tokens = RowFeatures(features, layout)
        if len(layout.edge_features):
            inner = np.ones(batch.n_slots, dtype=np.bool_)
            inner[batch.offsets[:-1][batch.lengths > 0]] = False
            self.seen = np.flatnonzero(np.isin(layout.edge_features, features.indices))
            behind = sparse.csr_matrix(features)[inner][:, layout.edge_features[self.seen]]
            kind = np.arange(behind.shape[0])
            if len(layout.edge_features) < layout.n_features:  # few sets of features: boundaries share matrices
                behind, kind = _distinct_rows(behind)
            self.behind, self.edge_index = behind, np.zeros(batch.n_slots, dtype=np.int64)
            self.edge_index[inner] = 1 + kind

    def stack(self, edge: FloatArray, change: FloatArray | None = None) -> tuple[FloatArray, IntArray | None]:
        """Edge matrices and which one each slot has: ``edge``, and one more for each set of features with edges.

        change : (n_seen, K²) by the features of a boundary's second token; None: nothing
        """
        if not len(self.layout.edge_features):
            return edge[None], None
        n, k = self.behind.shape[0], self.layout.n_labels
        more = np.zeros((n, k, k)) if change is None else (self.behind @ change).reshape(n, k, k)
        return np.concatenate([edge[None], edge + more]), self.edge_index

    def scores(self, weights: FloatArray) -> Chain:
        """The chain of the shard under the given weights."""
        pairs, edge, start, stop = self.layout.split(weights)
        change = self.layout.of_features(weights)[self.seen] if len(self.layout.edge_features) else None
        edges, index = self.stack(edge, change)
        tables = ChainTables(self.tokens.scores(pairs), edges, start, stop)
        return Chain.over(tables, self.batch.offsets, edge_index=index, first=self.batch.first)

    def collect(self, q: LabelPosterior) -> CRFStatistics:
        """Expected counts under a posterior whose edge counts are weighted already."""
        if q.edge_counts is None:
            raise DataError("the posterior of a chain must come with edge counts")
        batch, k = self.batch, self.layout.n_labels
        pairs = self.tokens.counts(batch.offsets, batch.weights, q.node)
        start, stop = np.zeros(k), np.zeros(k)
        log_linear.add_ends(batch.offsets, batch.weights, q.node, start, stop)
        counts = q.edge_counts
        of_features = RowCounts.of_table(np.zeros((0, k * k)))
        if len(self.layout.edge_features):
            own = counts[1:].reshape(-1, k * k)
            if len(own) != self.behind.shape[0]:
                raise DataError(f"expected {self.behind.shape[0]} matrices of edges but the posterior has {len(own)}")
            table = np.asarray(self.behind.T @ own)
            of_features = RowCounts.of_rows(len(self.layout.edge_features), self.seen, table)
        total = float(batch.weights @ q.log_partition)
        return CRFStatistics(pairs, counts.sum(axis=0), start, stop, of_features, total)


def _distinct_rows(matrix: Any) -> tuple[Any, IntArray]:
    """The distinct rows of a sparse matrix, in order of appearance, and which of them each row is."""
    numbers: dict[tuple[bytes, bytes], int] = {}
    ends, first = matrix.indptr.tolist(), list[int]()
    which = np.zeros(matrix.shape[0], dtype=np.int64)
    for row, (low, high) in enumerate(pairwise(ends)):
        own = matrix.indices[low:high].tobytes(), matrix.data[low:high].tobytes()
        which[row] = numbers.setdefault(own, len(numbers))
        if which[row] == len(first):
            first.append(row)
    return matrix[first], which


def checked_features(batch: Batch, layout: WeightLayout) -> Any:
    """The feature matrix of a batch, which must be this model's."""
    features = batch.features
    if features is None or features.shape[1] != layout.n_features:
        found = "none" if features is None else f"{features.shape[1]} columns"
        raise DataError(
            f"the batch must have a feature matrix with this model's {layout.n_features} columns, but has {found}: "
            "make it with the model's encode"
        )
    return features


def features_of(batch: Batch, layout: WeightLayout) -> Any:
    """The batch's features under a layout, prepared once."""
    return batch.remembered(("features", layout.key), lambda: layout.prepared(batch))
