"""Features of segments beside those of tokens, and the log-likelihood of a semi-Markov CRF from both.

A segment's features stand in the rows of its tokens, under names that tell what they are of:

    "begins: .."     of a segment that begins with this token
    "ends: .."       of a segment that ends with it
    "3 tokens: .."   of a segment of three tokens that ends with it

    score(y) = Σ_t w·tokens(t, y_t) + Σ_{segments s..t of label k} w·begins(s, k) + w·ends(t, k) + w·whole(s, t, k)
                                     + length[t − s + 1, k] + Σ_{neighbours a, b} edge[a, b], again[k] where a = b = k
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any
from zlib import crc32

import numpy as np
from scipy import sparse

from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.engine import Additive
from trellis.models.crf_objective import Layout, RowFeatures, checked_features
from trellis.models.kernels import log_linear
from trellis.models.row_counts import RowCounts
from trellis.structures import SegmentParts, SegmentPosterior, Segments

BEGINS, ENDS, WHOLE = "begins: ", "ends: ", " tokens: "
_ROLE = re.compile(r"(begins: |ends: )|([0-9]+) tokens: ")
TOKEN, BEGIN, END = 0, -1, -2
"""Roles of features; a number above 0 is that of tokens of a whole segment."""


def role_of(name: str) -> int:
    """What a feature is of.

    >>> role_of("word=a"), role_of("begins: word=a"), role_of("ends: x"), role_of("3 tokens: in cities")
    (0, -1, -2, 3)
    """
    found = _ROLE.match(name)
    if found is None:
        return TOKEN
    return int(found[2]) if found[2] else (BEGIN if found[1] == BEGINS else END)


@dataclass(frozen=True)
class SegmentLayout(Layout):
    """Where each weight stands: those of a CRF, then again (K,) and length (L, K).

    role : (n_features,) what each feature is of;  longest : L
    """

    role: IntArray
    longest: int

    @cached_property
    def key(self) -> int:
        return crc32(self.role.tobytes(), super().key + self.longest)

    @property
    def n_weights(self) -> int:
        return self.n_plain + self.n_labels * (1 + self.longest)

    def own(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of what is again (K,), and of lengths (L, K), as views."""
        n, k = self.n_plain, self.n_labels
        return weights[n : n + k], weights[n + k :].reshape(self.longest, k)

    def prepared(self, batch: Batch) -> Any:
        return SegmentFeatures(batch, self)

    def rows(self, features: Any) -> tuple[Any, Any, Any, IntArray, Any]:
        """Features of tokens, of beginnings and of ends (n, n_features); cells (slot · L + length − 1), and theirs."""
        n = features.shape[0]
        row = owners(features.indptr)
        role = self.role[features.indices]

        def chosen(mine: Any, at: IntArray, n_rows: int) -> Any:
            entries = (features.data[mine], features.indices[mine], np.searchsorted(at, np.arange(n_rows + 1)))
            return sparse.csr_array(entries, shape=(n_rows, features.shape[1]))

        tokens, begins, ends = (chosen(role == one, row[role == one], n) for one in (TOKEN, BEGIN, END))
        whole = np.flatnonzero((role > 0) & (role < self.longest))
        cell = row[whole] * self.longest + role[whole] - 1
        order = np.argsort(cell, kind="stable")
        cells, at = np.unique(cell[order], return_inverse=True)
        return tokens, begins, ends, cells, chosen(whole[order], at, len(cells))

    def phi(self, batch: Batch, outputs: LabelArray) -> Any:
        k, n = self.n_labels, batch.n_slots
        parts = SegmentParts(batch.offsets, k, self.longest)
        y = parts.check(outputs).astype(np.int64)
        label, start = y % k, np.flatnonzero(parts.begins(y))
        length = np.diff(np.append(start, n))
        last = start + length - 1
        sentence = np.repeat(np.arange(len(batch)), batch.lengths)
        tokens, begins, ends, cells, whole = self.rows(checked_features(batch, self))
        used = np.full(n, -1, dtype=np.int64)
        used[last] = np.minimum(length, self.longest) - 1
        mine = np.flatnonzero(used[cells // self.longest] == cells % self.longest)
        row, column, value = [], [], []
        for matrix, rows, slots in (
            (tokens, np.arange(n), np.arange(n)), (begins, start, start), (ends, last, last),
            (whole, mine, cells[mine] // self.longest),
        ):  # fmt: skip
            some = matrix[rows]
            slot = np.repeat(slots, np.diff(some.indptr))
            place = log_linear.find_pairs(some.indices, label[slot], self.first_pair, self.pair_label)
            row.append(sentence[slot[place >= 0]])
            column.append(place[place >= 0])
            value.append(some.data[place >= 0])
        inner = np.flatnonzero(parts.has_boundary())
        beside = y[inner] < k
        filled = np.flatnonzero(batch.lengths)
        at, pairs, plain = self.n_pairs, k * k, self.n_plain
        others = [
            (sentence[inner[beside]], at + label[inner[beside] - 1] * k + label[inner[beside]]),
            (sentence[inner[~beside]], plain + label[inner[~beside]]),
            (sentence[last], plain + k + used[last] * k + label[last]),
        ]
        if self.ends:
            others += [
                (filled, at + pairs + label[batch.offsets[:-1][filled]]),
                (filled, at + pairs + k + label[batch.offsets[1:][filled] - 1]),
            ]
        for one, where in others:
            row.append(one)
            column.append(where)
            value.append(np.ones(len(one)))
        entries = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
        return sparse.csr_matrix(entries, shape=(len(batch), self.n_weights))


@dataclass(frozen=True)
class SegmentStatistics(Additive):
    """Expected counts: of pairs (n_pairs, 1), of the other weights in their order, and the log-partitions with them."""

    pairs: RowCounts
    others: FloatArray
    log_partition: float

    def vector(self, layout: Layout) -> FloatArray:
        """The counts in the order of the weights (n_weights,)."""
        return np.concatenate([self.pairs.table()[:, 0], self.others])


class SegmentFeatures:
    """A shard with the features of its tokens and segments prepared."""

    def __init__(self, batch: Batch, layout: SegmentLayout) -> None:
        self.batch, self.layout = batch, layout
        tokens, begins, ends, self.cells, whole = layout.rows(checked_features(batch, layout))
        self.tokens, self.begins, self.ends, self.whole = (
            RowFeatures(matrix, layout) for matrix in (tokens, begins, ends, whole)
        )

    def scores(self, weights: FloatArray) -> Segments:
        """The segments of the shard under the given weights."""
        layout, batch = self.layout, self.batch
        pairs, edge, start, stop = layout.split(weights)
        again, length = layout.own(weights)
        extra = None
        if len(self.cells):
            extra = np.zeros((batch.n_slots, layout.longest, layout.n_labels))
            extra.reshape(-1, layout.n_labels)[self.cells] = self.whole.scores(pairs)
        return Segments(
            batch.offsets, self.tokens.scores(pairs), edge, length=length, again=again, begin=self.begins.scores(pairs),
            end=self.ends.scores(pairs), extra=extra, start=start, stop=stop, first=batch.first,
        )  # fmt: skip

    def collect(self, q: SegmentPosterior) -> SegmentStatistics:
        """Expected counts under a posterior whose edge counts are weighted already."""
        batch, layout, k = self.batch, self.layout, self.layout.n_labels
        weight = np.repeat(batch.weights, batch.lengths)
        pairs = self.tokens.counts(batch.offsets, batch.weights, q.node)
        for rows, marginal in ((self.begins, q.begins), (self.ends, q.ends)):
            if len(rows.values):
                pairs = pairs + rows.counts(batch.offsets, batch.weights, marginal)
        if len(self.cells) and q.segment is not None:
            marginal = q.segment.reshape(-1, k)[self.cells]
            each = np.arange(len(self.cells) + 1)
            pairs = pairs + self.whole.counts(each, weight[self.cells // layout.longest], marginal)
        start, stop = np.zeros(k), np.zeros(k)
        log_linear.add_ends(batch.offsets, batch.weights, q.node, start, stop)
        ends = [start, stop] if layout.ends else []
        others = np.concatenate([q.edge_counts.ravel(), *ends, weight @ q.again, q.length_counts.ravel()])
        return SegmentStatistics(pairs, others, float(batch.weights @ q.log_partition))
