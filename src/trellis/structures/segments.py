"""Segments: each instance is cut into segments of one label, scored as wholes (Sarawagi and Cohen 2004).

    score(y) = Σ_t node_t[y_t] + start[y_1] + stop[y_n]
             + Σ_{segments of label k, tokens s..t} begin_s[k] + end_t[k] + length[t − s + 1, k] + extra_t[t − s + 1, k]
             + Σ_{neighbours a ≠ b} edge[a, b] + Σ_{neighbours of one label} again[k] + Σ_{t inside} edge[y_t, y_t]

The empty sequence has one output, of score 0. Lengths are told apart up to L tokens, so that sums and maxima take
O(n · (L + K) · K) however long segments are. Parts and the form of outputs stand in :mod:`segment_parts`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from itertools import pairwise
from typing import Any, Unpack

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, check_offsets, take_rows
from trellis.errors import DataError
from trellis.structures.chain_parts import pair_up
from trellis.structures.kernels import segment_sum
from trellis.structures.kernels import segments as kernel
from trellis.structures.kernels.lanes import LANES, with_slack
from trellis.structures.polytope import Polytope, segment_polytope
from trellis.structures.results import Argmax, UsedTransitions
from trellis.structures.segment_parts import Factored, SegmentChange, SegmentParts, SegmentPosterior, SegmentTables
from trellis.structures.structure import (
    PosteriorOptions,
    Structure,
    check_alike,
    check_gamma,
    check_scores,
    check_weights,
    expect_scores,
    numbers_of,
    refuse_impossible,
)

AT_ONCE = 1000
"""Slots whose sums are taken together."""


def _cut(offsets: IntArray) -> IntArray:
    """Numbers of instances, 0 and the number of all among them, between which lie about AT_ONCE slots."""
    number = np.searchsorted(offsets, np.arange(0, int(offsets[-1]) + 1, AT_ONCE), side="left")
    return np.unique(np.concatenate(([0], number, [len(offsets) - 1])))


class Segments(Structure):
    """Log-potentials of segmentations, for a ragged batch.

    Parameters
    ----------
    offsets : array of shape (n_instances + 1,)
        First slot of each instance.
    node : array of shape (n_slots, n_labels)
        Scores of labels.
    edge : array of shape (n_labels, n_labels)
        Scores of transitions.
    length : array of shape (L, n_labels)
        Scores of segment lengths; the last row is for L tokens and more.
    again : array of shape (n_labels,) or None, default=None
        Score of a segment that follows another one of its label.
    begin : array of shape (n_slots, n_labels) or None, default=None
        Scores of segments that begin at a slot.
    end : array of shape (n_slots, n_labels) or None, default=None
        Scores of segments that end at a slot.
    extra : array of shape (n_slots, L, n_labels) or None, default=None
        Scores of segments by last slot and length.
    start : array of shape (n_labels,) or None, default=None
        Scores of first labels.
    stop : array of shape (n_labels,) or None, default=None
        Scores of last labels.
    first : int, default=0
        Number of the first instance in the corpus, for messages.

    Examples
    --------
    >>> both = Segments([0, 2], np.zeros((2, 1)), np.zeros((1, 1)), length=np.log([[0.5], [1.0]]))
    >>> both.argmax().outputs.tolist(), np.exp(both.infer().log_partition).round(2)  # one of two tokens, or two of one
    ([0, 0], array([1.25]))
    """

    def __init__(
        self,
        offsets: Any,
        node: Any,
        edge: Any,
        *,
        length: Any,
        again: Any = None,
        begin: Any = None,
        end: Any = None,
        extra: Any = None,
        start: Any = None,
        stop: Any = None,
        first: int = 0,
    ) -> None:
        self.offsets, self.first = check_offsets(offsets), first
        n, k = int(self.offsets[-1]), int(np.shape(edge)[-1])
        lengths = check_scores("length", length, (None, k))
        if not len(lengths):
            raise DataError("segments have at least one length: length scores must not be empty")

        def given(name: str, scores: Any, shape: tuple[int, ...]) -> FloatArray:
            return np.zeros(shape) if scores is None else check_scores(name, scores, shape)

        labels, begins = given("node", node, (n, k)).copy(), given("begin", begin, (n, k)).copy()
        filled = np.diff(self.offsets) > 0
        at, last = self.offsets[:-1][filled], self.offsets[1:][filled] - 1
        labels[at] += begins[at] + given("start", start, (k,))
        labels[last] += given("stop", stop, (k,))
        begins[at] = 0.0
        self.tables = SegmentTables(
            labels, begins, begins + given("again", again, (k,)), given("end", end, (n, k)),
            None if extra is None else given("extra", extra, (n, len(lengths), k)), np.zeros(n, dtype=np.int64),
            check_scores("edge", np.asarray(edge, np.float64).reshape(1, k, k), (1, k, k)), lengths,
        )  # fmt: skip

    def _over(self, tables: SegmentTables, offsets: IntArray | None = None) -> Segments:
        made = self.__class__.__new__(self.__class__)
        made.offsets, made.tables = self.offsets if offsets is None else offsets, tables
        made.first, made.numbers = self.first, self.numbers
        return made

    @property
    def n_labels(self) -> int:
        return int(self.tables.node.shape[1])

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def longest(self) -> int:
        return len(self.tables.length)

    @cached_property
    def parts(self) -> SegmentParts:
        return SegmentParts(self.offsets, self.n_labels, self.longest)

    def take(self, numbers: IntArray) -> Segments:
        offsets, slots = take_rows(self.offsets, numbers)
        some = self._over(self.tables.of_slots(slots), offsets)
        some.first, some.numbers = 0, numbers_of(numbers, self.first, self.numbers)
        return some

    # sums and maxima

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> SegmentPosterior:
        t, weights = self.tables, check_weights(weights, len(self))
        scaled = self._serves_scaled()
        total = np.zeros(len(self))
        # marginals of all segments are much to write down where nobody asks for them
        asked = self.parts.families(np.zeros(0, np.int64) if at is None else at.reshape(-1))
        keep = t.extra is not None or not np.all(scaled) or 3 in asked
        with np.errstate(over="ignore", invalid="ignore"):
            found = self._infer_scaled(scaled, weights, total, keep, pairs=1 in asked or not np.all(scaled))
        if not np.all(scaled):
            found = [np.ascontiguousarray(one) for one in found]
            kernel.infer(self.offsets, ~scaled, t.arrays, False, weights, *found, total)
        refuse_impossible(total, self.first, self.numbers)
        segment, z, after, label, stays, again, ends, counts, lengths = found
        if not np.all(scaled):
            np.minimum(label, 1.0, out=label)  # scores of 1e15 have no digits left for ways that add up to 1
        factors = None
        if 1 in asked or not np.all(scaled):
            factors = Factored(self.parts, z, t.edge, t.index, after, scaled, total)
        return SegmentPosterior(self.parts, total, label, stays, again, ends, segment, counts, lengths, factors)

    def _infer_scaled(
        self, scaled: BoolArray, weights: FloatArray, total: FloatArray, keep: bool, pairs: bool
    ) -> list[Any]:
        """Segments, factors of transitions, labels, what stays, is again, ends, counts of both, where that serves.

        Some slots at a time, whose arrays stay in the cache. keep, pairs : whether segments, and factors, are wanted
        """
        t, n, k, longest = self.tables, self.n_slots, self.n_labels, self.longest
        wide = -(-k // LANES) * LANES

        def widened(powers: FloatArray) -> FloatArray:
            found = np.zeros((*powers.shape[:-1], wide))
            found[..., :k] = powers
            return found

        def of_slots(scores: FloatArray) -> FloatArray:
            found: FloatArray = np.exp(scores, out=with_slack(scores.shape))
            return found.ravel()

        edge, diagonal = widened(np.exp(np.minimum(t.edge, 2 * segment_sum.MOST))), np.arange(k)
        stay = widened(edge[:, diagonal, diagonal])
        edge[:, diagonal, diagonal] = 0.0
        edge_t, length = widened(edge[..., :k].transpose(0, 2, 1)), widened(np.exp(t.length))
        tables = [one.ravel() for one in (stay, edge, edge_t)]
        counts, lengths = np.zeros(edge.shape), np.zeros((longest, wide))
        cuts = _cut(self.offsets)
        most = int(np.diff(self.offsets[cuts]).max(initial=0))
        segment = np.empty((n if keep else most, longest, wide))
        rows, found = np.zeros((6, most, wide)), np.zeros((6, n, k))
        for one, other in pairwise(cuts.tolist()):
            low, high = int(self.offsets[one]), int(self.offsets[other])
            rows[:, : high - low] = 0.0
            node = t.node[low:high]
            shift = node.max(axis=1, initial=-np.inf)
            shift[shift == -np.inf] = 0.0
            given = [of_slots(node - shift[:, None]), *(of_slots(x[low:high]) for x in (t.begin, t.again, t.end))]
            extra = np.zeros(0) if t.extra is None else widened(np.exp(t.extra[low:high])).ravel()
            logs, inside = np.zeros(other - one), self.offsets[one : other + 1] - low
            segment_sum.infer_scaled(
                inside, scaled[one:other], k, wide, longest * wide, keep, *given, length.ravel(), extra, *tables,
                t.index[low:high], weights[one:other], (segment[low:high] if keep else segment).ravel(),
                *(row.ravel() for row in rows), counts.ravel(), lengths.ravel(), logs,
            )  # fmt: skip
            sums = np.concatenate(([0.0], np.cumsum(shift)))
            total[one:other] = np.where(scaled[one:other], logs + sums[inside[1:]] - sums[inside[:-1]], 0.0)
            written = slice(0 if pairs else 2, None)
            found[written, low:high] = rows[written, : high - low, :k]
        stays = np.repeat(weights * scaled, np.diff(self.offsets)) @ found[3]
        counted = (counts * edge).sum(axis=0)[:, :k] + np.diag(stays)
        return [segment[..., :k] if keep else None, *found, counted, lengths[:, :k]]

    def _serves_scaled(self) -> BoolArray:
        """(n_instances,): where scaled probabilities are exact enough (:mod:`kernels.segment_sum`)."""
        t, most = self.tables, segment_sum.MOST
        if not np.all(np.abs(t.length) <= most):
            return np.zeros(len(self), dtype=np.bool_)
        tables = [t.edge, t.begin, t.end, *([] if t.extra is None else [t.extra])]
        light = all(one.max(initial=0.0) <= most and one.min(initial=0.0) >= -most for one in tables)
        if light and t.again.max(initial=0.0) <= most:
            return np.ones(len(self), dtype=np.bool_)
        fine = np.all(np.abs(t.edge) <= most, axis=(1, 2))[t.index]
        fine &= np.all((np.abs(t.begin) <= most) & (np.abs(t.end) <= most) & (t.again <= most), axis=1)
        if t.extra is not None:
            fine &= np.all(np.abs(t.extra) <= most, axis=(1, 2))
        wrong = np.concatenate(([0], np.cumsum(~fine)))
        return np.asarray(wrong[self.offsets[1:]] == wrong[self.offsets[:-1]])

    def max_marginals(self) -> FloatArray:
        n, k, total = self.n_slots, self.n_labels, np.zeros(len(self))
        rows, of_labels = np.zeros((6, n, k)), (np.zeros((k, k)), np.zeros((self.longest, k)))
        segment, every = np.zeros((n, self.longest, k)), np.ones(len(self))
        kernel.infer(self.offsets, every > 0, self.tables.arrays, True, every, segment, *rows, *of_labels, total)
        refuse_impossible(total, self.first, self.numbers)
        z, after, label, stays, again, _ = rows
        before = np.roll(z, 1, axis=0)
        pairs = before[:, :, None] + self.tables.edge[self.tables.index] + after[:, None, :]
        pairs[:, np.arange(k), np.arange(k)] = stays
        pairs[~self.parts.has_boundary()] = -np.inf
        return np.concatenate([one.ravel() for one in (label, pairs, again, segment)])

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best segmentations. Of equals the one with the smallest last label and the shortest last segment, and so on;
        with ``rng``, any of them."""
        n, k = self.n_slots, self.n_labels
        uniform = np.zeros((0, 2)) if rng is None else rng.random((n, 2))
        outputs, best = np.zeros(n, dtype=np.int32), np.zeros(len(self))
        a, z = np.zeros((n, self.longest, k)), np.zeros((n, k))
        kernel.best_outputs(self.offsets, self.tables.arrays, uniform, a, z, outputs, best)
        refuse_impossible(best, self.first, self.numbers)
        return Argmax(outputs, best)

    def score(self, outputs: Any) -> FloatArray:
        used = self.parts.of(outputs)
        return np.bincount(self.parts.instance_of(used), self.part_scores(used), minlength=len(self)).astype(np.float64)

    def part_scores(self, parts: IntArray) -> FloatArray:
        """The score of each part; what begins is in transitions and what is again, what ends in segments."""
        t, k = self.tables, self.n_labels
        family, slot, cell = self.parts.locate(parts)
        a, b = np.divmod(cell, k)
        lengths = np.minimum(a, self.longest - 1)  # of a segment, a is its length less one
        of_pair = t.edge[t.index[slot], np.minimum(a, k - 1), b] + np.where(a != b, t.begin[slot, b], 0.0)
        of_segment = t.end[slot, b] + t.length[lengths, b]
        if t.extra is not None:
            of_segment = of_segment + t.extra[slot, lengths, b]
        return np.choose(family, [t.node[slot, b], of_pair, t.again[slot, b], of_segment])

    def expected_score(self, q: SegmentPosterior, weights: FloatArray) -> float:
        t = self.tables
        if len(t.edge) > 1:
            raise DataError("expected scores are those of the model's own segments, not of a change of them")
        weight = np.repeat(weights, np.diff(self.offsets))[:, None]
        beside = np.where(self.parts.has_boundary()[:, None], q.begins - q.again, 0.0)
        by_slot = expect_scores(q.node, t.node) + expect_scores(np.maximum(beside, 0.0), t.begin)
        by_slot = by_slot + expect_scores(q.again, t.again) + expect_scores(q.ends, t.end)
        if t.extra is not None and q.segment is not None:
            by_slot = by_slot + expect_scores(q.segment, t.extra).sum(axis=1)
        over_all = expect_scores(q.edge_counts, t.edge[0]).sum() + expect_scores(q.length_counts, t.length).sum()
        return float((weight * by_slot).sum() + over_all)

    def marginal_argmax(self, q: SegmentPosterior) -> LabelArray:
        """Labels alone: neighbours of one label are one segment."""
        return np.asarray(q.node.argmax(axis=1), dtype=np.int32)

    def posterior(self, part: IntArray, value: FloatArray, **options: Unpack[PosteriorOptions]) -> SegmentPosterior:
        p, k, n = self.parts, self.n_labels, self.n_slots
        weight = np.repeat(check_weights(options.get("weights"), len(self)), np.diff(self.offsets))
        family, slot, cell = p.locate(part)

        def of(number: int) -> FloatArray:
            mine, size = family == number, int(p.cells[number])
            total = np.bincount(slot[mine] * size + cell[mine], value[mine], minlength=n * size)
            return total.astype(np.float64, copy=False)

        pairs = family == 1
        counts = np.bincount(cell[pairs], value[pairs] * weight[slot[pairs]], minlength=k * k).reshape(k, k)
        used = UsedTransitions.of(n, k, slot[pairs] * (k * k) + cell[pairs], value[pairs])
        stays = used.at((np.arange(n * k).reshape(n, k) * k) + np.arange(k))
        segment = of(3).reshape(n, self.longest, k)
        return SegmentPosterior(
            p, self._top(options), of(0).reshape(n, k), stays, of(2).reshape(n, k),
            segment.sum(axis=1), segment, counts.astype(np.float64), np.tensordot(weight, segment, axes=1), used,
        )  # fmt: skip

    def polytope(self, closed: IntArray) -> Polytope:
        return segment_polytope(self.parts, self.part_scores(np.arange(self.parts.n_parts)), closed)

    # changes

    def apply(self, change: SegmentChange, gamma: float = 1.0) -> Segments:
        t, g = self.tables, check_gamma(gamma)
        chain = change.chain
        if chain.node is not None:
            t = replace(t, node=t.node + chain.node)
        if chain.pattern is not None:
            matrix, added, index = pair_up(t.index, chain.pattern, len(chain.patterns))
            t = replace(t, edge=t.edge[matrix] + chain.patterns[added], index=index)
        if change.again is not None:
            t = replace(t, again=t.again + change.again)
        if change.segment is not None:
            t = replace(t, extra=change.segment if t.extra is None else t.extra + change.segment)
        return self._over(t if g == 1.0 else t.map(lambda scores: scores / g))

    def flat(self) -> Segments:
        return self._over(self.tables.map(lambda scores: np.where(scores > -np.inf, 0.0, -np.inf)))

    def mean(self, other: Any, share: float = 0.5) -> Segments:
        """Of segments with segments, or with a chain, to which neighbours of one label are like any others."""
        from trellis.structures.chain import Chain

        if not np.array_equal(self.offsets, other.offsets):
            raise DataError("models agree over the same instances, but the lengths of these differ")
        check_alike((self.n_labels,), (other.n_labels,), ("labels",))
        theirs = self._of_chain(other) if isinstance(other, Chain) else other.tables
        check_alike((self.longest,), (len(theirs.length),), ("lengths of segments",))
        t, rest = self.tables, 1.0 - share
        one, other_one, index = pair_up(t.index, theirs.index, len(theirs.edge))
        made = {
            name: share * getattr(t, name) + rest * getattr(theirs, name)
            for name in ("node", "begin", "again", "end", "length")
        }
        extra = [part * one.extra for part, one in ((share, t), (rest, theirs)) if one.extra is not None]
        edge = share * t.edge[one] + rest * theirs.edge[other_one]
        return self._over(
            SegmentTables(**made, extra=sum(extra[1:], extra[0]) if extra else None, index=index, edge=edge)
        )

    def _of_chain(self, chain: Any) -> SegmentTables:
        """A chain's scores of labels, as those of segments."""
        n, k, tables = self.n_slots, self.n_labels, chain.tables
        node, zeros = chain.node_with_ends(), np.zeros((n, k))
        again = np.einsum("mkk->mk", tables.edge)[chain.edge_index]
        again[~self.parts.has_boundary()] = 0.0
        return SegmentTables(
            node, zeros, again, zeros, None, chain.edge_index, tables.edge, np.zeros((self.longest, k))
        )

    def clamp(self, outputs: Any) -> Segments:
        """Scores in which labels that are known (≥ 0) are as they are; neighbours that are known and alike are one
        segment, unless the code of the second says that it begins another one."""
        y = self.parts.check(outputs, unknown=True).astype(np.int64)
        if np.all(y < 0):
            return self
        k, t = self.n_labels, self.tables
        known, label = y >= 0, np.where(y < 0, 0, y % self.n_labels)
        node = np.where(known[:, None] & (np.arange(k) != label[:, None]), -np.inf, t.node)
        alike = known & np.roll(known, 1) & (y < k) & (label == np.roll(label, 1)) & self.parts.has_boundary()
        again, begun = t.again.copy(), np.flatnonzero(y >= k)
        again[alike, label[alike]] = -np.inf
        change = self.parts.change(
            self.parts.transition(begun, label[begun], label[begun]), np.full(len(begun), -np.inf)
        )
        return self._over(replace(t, node=node, again=again)).apply(change)
