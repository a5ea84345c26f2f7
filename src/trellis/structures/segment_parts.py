"""The parts of segmentations: labels, transitions, segments, and segments that follow one of the same label.

A sequence is cut into segments of one label each. With n slots in all, K labels and lengths told apart up to L:

    label(t, k)           the token t has the label k                                                  n · K
    transition(t, a, b)   a ≠ b: a segment of a ends before t, one of b begins there                   n · K²
                          a = b: the segment goes on, it holds t − 1 and t
    again(t, k)           a segment of k ends before t, and another one of k begins there              n · K
    segment(t, l, k)      a segment of k with l tokens, or of the last l: L or more, ends with t       n · L · K

in this order, slot by slot. So rules about labels and their changes name the parts they name on chains, and a field
that follows one of its own label is a change to them. Segments may be as long as they like: beyond L tokens they are
alike. Of an instance's first slot transitions and what is ``again`` are holes, and so are segments longer than what is
before.

An output is (n_slots,) int32: k for the label k, K + k for the same where a segment begins beside one of k.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, owners
from trellis.errors import DataError
from trellis.structures.chain_parts import ChainChange, ChainParts, SequenceParts
from trellis.structures.extremes import some_rows
from trellis.structures.flat import PlainBlock
from trellis.structures.kernels import segments as kernel
from trellis.structures.part_set import PartSet
from trellis.structures.parts import PartLoss, check_change, check_labels
from trellis.structures.results import UsedTransitions

if TYPE_CHECKING:
    from trellis.structures.segments import Segments


@dataclass(frozen=True)
class SegmentChange:
    """What is added to the scores of segmentations: of labels and transitions, (n, K) of ``again``, (n, L, K)."""

    chain: ChainChange
    again: FloatArray | None
    segment: FloatArray | None


@dataclass(frozen=True)
class SegmentParts(SequenceParts):
    """Parts of the segmentations of a batch.

    longest : L

    >>> parts = SegmentParts(np.array([0, 3]), n_labels=2, longest=2)
    >>> parts.of(np.array([0, 0, 2])).tolist()  # two segments of label 0
    [0, 2, 4, 10, 22, 30, 32]
    """

    longest: int
    kind = "segments"
    outputs_are = "segmentations"
    has_again = True

    @property
    def segment_lengths(self) -> int:  # type: ignore[override]
        return self.longest

    @cached_property
    def cells(self) -> IntArray:
        """How many parts of each family a slot has."""
        k = self.n_labels
        return np.array([k, k * k, k, self.longest * k], dtype=np.int64)

    @property
    def blocks(self) -> Sequence[PlainBlock]:
        return [PlainBlock(self.offsets, size) for size in self.cells.tolist()]

    def label(self, slot: Any, label: Any) -> Any:
        """A code of an output stands for its label."""
        return super().label(slot, label % self.n_labels)

    def again(self, slot: Any, label: Any) -> Any:
        return self.starts[2] + slot * self.n_labels + label

    def segment(self, slot: Any, length: Any, label: Any) -> Any:
        """The part "a segment of the label and this many tokens ends with the slot"."""
        at = np.minimum(length, self.longest) - 1
        return self.starts[3] + (slot * self.longest + at) * self.n_labels + label

    def locate(self, parts: IntArray) -> tuple[IntArray, IntArray, IntArray]:
        """Of each part its family, its slot and its cell there."""
        family = np.searchsorted(self.starts[:-1], parts, side="right") - 1
        # families without parts begin where the next one does, and have none
        slot, cell = np.divmod(parts - self.starts[family], self.cells[family])
        return family, slot, cell

    def families(self, parts: IntArray) -> set[int]:
        """0: labels, 1: transitions, 2: again, 3: segments; those of any of the parts."""
        return set(np.unique(self.locate(parts)[0]).tolist())

    def place_of(self, parts: IntArray) -> IntArray:
        """The token of a label, the boundary, the token that a segment ends with."""
        family, slot, _ = self.locate(parts)
        return np.array([0, 1, 1, 2])[family] * self.n_slots + slot

    def shard(self, first: int, last: int) -> SegmentParts:
        return SegmentParts(self.offsets[first : last + 1] - self.offsets[first], self.n_labels, self.longest)

    def begins(self, outputs: Any) -> BoolArray:
        """(n_slots,): where segments begin."""
        y = np.asarray(outputs)
        first = ~self.has_boundary()
        return np.asarray(first | (y >= self.n_labels) | (y != np.roll(y % self.n_labels, 1)))

    def check(self, outputs: Any, *, unknown: bool = False) -> LabelArray:
        """Codes as int32; one that says a segment begins beside its like stands beside it."""
        y = check_labels(outputs, self.n_slots, 2 * self.n_labels, unknown=unknown)
        before = np.roll(y, 1)
        alone = ~self.has_boundary() | ((before >= 0) & (before % self.n_labels != y % self.n_labels))
        wrong = np.flatnonzero((y >= self.n_labels) & alone)
        if len(wrong):
            at = int(wrong[0])
            raise DataError(
                f"code {y[at]} of slot {at} says that a segment of label {y[at] - self.n_labels} follows another one "
                "of it, but there is none before"
            )
        return y

    def of(self, outputs: Any) -> IntArray:
        y = self.check(outputs).astype(np.int64)
        k, slots = self.n_labels, np.arange(self.n_slots, dtype=np.int64)
        label, begins, inner = y % k, self.begins(y), self.has_boundary()
        again = np.flatnonzero(y >= k)
        right = np.flatnonzero(inner & (y < k))
        start = np.flatnonzero(begins)
        length = np.diff(np.append(start, self.n_slots))
        last = start + length - 1
        return np.concatenate([
            self.label(slots, label), self.transition(right, label[right - 1], label[right]),
            self.again(again, label[again]), np.sort(self.segment(last, length, label[last])),
        ])  # fmt: skip

    def hamming(self, outputs: Any) -> PartLoss:
        """Codes that are missed: a token is wrong where its label is, or where it alone begins a second segment.

            1 − label(t, k) + again(t, k)           the code is k
            1 − label(t, k)                         the same after a token whose label is not known
            1 − again(t, k)                         the code is K + k
            1 − label(t, k) + transition(t, k, k)   the same after a token whose label is not known

        So Δ is the number of codes that differ, and 0 for all segmentations that clamping leaves.
        """
        y = self.check(outputs, unknown=True).astype(np.int64)
        k, slot, inner = self.n_labels, np.arange(self.n_slots), self.has_boundary()
        known, after = y >= 0, inner & (np.roll(y, 1) >= 0)
        label = y % k

        def of(family: Any, where: BoolArray, value: float) -> tuple[IntArray, FloatArray]:
            at = slot[where]
            return family(at, label[at]), np.full(len(at), value)

        def stays(at: IntArray, own: IntArray) -> IntArray:
            return np.asarray(self.transition(at, own, own))

        terms = [
            of(self.label, known & ((y < k) | ~after), -1.0),
            of(self.again, known & (y < k) & after, 1.0),
            of(self.again, (y >= k) & after, -1.0),
            of(stays, (y >= k) & ~after, 1.0),
        ]
        constant = np.bincount(owners(self.offsets)[known], minlength=self.n_instances).astype(np.float64)
        part, value = (np.concatenate(found) for found in zip(*terms, strict=True))
        return PartLoss(self, part, value, constant)

    def zeros(self) -> Segments:
        from trellis.structures.segments import Segments

        k = self.n_labels
        return Segments(self.offsets, np.zeros((self.n_slots, k)), np.zeros((k, k)), length=np.zeros((self.longest, k)))

    def change(self, part: IntArray, value: FloatArray) -> SegmentChange:
        part, value = check_change(part, value, self.n_parts)
        first, n = self.starts, self.n_slots
        of_chain, of_segments = part < first[2], part >= first[3]
        between = ~(of_chain | of_segments)

        def dense(chosen: BoolArray, start: int, shape: tuple[int, ...]) -> FloatArray | None:
            if not np.any(chosen):
                return None
            total = np.bincount(part[chosen] - start, value[chosen], minlength=int(np.prod(shape)))
            return total.astype(np.float64, copy=False).reshape(shape)

        return SegmentChange(
            self._chains.change(part[of_chain], value[of_chain]),
            dense(between, int(first[2]), (n, self.n_labels)),
            dense(of_segments, int(first[3]), (n, self.longest, self.n_labels)),
        )

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Of rows over labels alone, which most are, as on chains: every sequence of labels is possible."""
        plain, low, high = self._over_labels(start, part), np.zeros(len(start) - 1), np.zeros(len(start) - 1)
        low[plain], high[plain] = self._chains.extremes(*some_rows(plain, start, part, coefficient))
        low[~plain], high[~plain] = super().extremes(*some_rows(~plain, start, part, coefficient))
        return low, high

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        plain, settled = self._over_labels(start, part), np.ones(len(margin), dtype=np.bool_)
        labels, _ = self._chains.never_least(*some_rows(plain, start, part, coefficient), margin[plain])
        others, settled[~plain] = super().never_least(*some_rows(~plain, start, part, coefficient), margin[~plain])
        return PartSet.union([labels, others]), settled

    @property
    def _chains(self) -> ChainParts:
        """Parts of chains over the same slots; labels have the same numbers."""
        return ChainParts(self.offsets, self.n_labels)

    def _over_labels(self, start: IntArray, part: IntArray) -> BoolArray:
        """(n_rows,): which rows name labels alone."""
        others = np.bincount(owners(start), part >= self.starts[1], minlength=len(start) - 1)
        return np.asarray(others == 0)


@dataclass(frozen=True)
class SegmentPosterior:
    """Marginals of segmentations, and what their model counts.

    node : (n_slots, K) of labels;  stays, again : (n_slots, K), segment : (n_slots, L, K) of the other parts, where
        ``infer(at=...)`` was told of a segment, or single ones have scores of their own; else None
    ends : (n_slots, K) of segments of all lengths
    edge_counts, length_counts : (K, K), (L, K)    Σ_i weight_i Σ_t of transitions and of segments
    transitions : marginals of those between labels that are not alike; None: as with segments
    """

    parts: SegmentParts
    log_partition: FloatArray
    node: FloatArray
    stays: FloatArray
    again: FloatArray
    ends: FloatArray
    segment: FloatArray | None
    edge_counts: FloatArray
    length_counts: FloatArray
    transitions: Factored | UsedTransitions | None

    @property
    def begins(self) -> FloatArray:
        """(n_slots, K): P(a segment of the label begins here)."""
        return np.maximum(self.node - self.stays, 0.0)

    def at(self, parts: IntArray) -> FloatArray:
        family, slot, cell = self.parts.locate(parts.reshape(-1))
        found, k = np.empty(parts.size), self.parts.n_labels
        for number, table in ((0, self.node), (2, self.again), (3, self.segment)):
            mine = family == number
            if table is None:
                if np.any(mine):
                    raise ValueError("this posterior has no marginals of segments: ask for them with infer(at=parts)")
                continue
            found[mine] = table.reshape(-1)[slot[mine] * self.parts.cells[number] + cell[mine]]
        pairs = np.flatnonzero(family == 1)
        same = cell[pairs] // k == cell[pairs] % k
        found[pairs[same]] = self.stays[slot[pairs[same]], cell[pairs[same]] % k]
        others = pairs[~same]
        if len(others):
            if self.transitions is None:
                raise ValueError("this posterior has no marginals of transitions: ask for them with infer(at=parts)")
            found[others] = self.transitions.at(slot[others] * (k * k) + cell[others])
        return found.reshape(parts.shape)


@dataclass(frozen=True)
class Factored:
    """Probabilities of transitions from their factors, P(a, b) = before_{t−1}(a) · exp edge(a, b) · after_t(b).

    scaled : (n_instances,) where they are so; elsewhere they are logs, and the log-partition is taken from their sum
    """

    parts: SegmentParts
    before: FloatArray
    edge: FloatArray
    index: IntArray
    after: FloatArray
    scaled: BoolArray
    log_partition: FloatArray

    def at(self, cell: IntArray) -> FloatArray:
        """The marginals of transitions, counted from the first of all: (slot · K + a) · K + b."""
        k = self.parts.n_labels
        slot, a, b = cell // (k * k), cell // k % k, cell % k
        lengths = np.diff(self.parts.offsets)
        inner = self.parts.has_boundary()[slot]
        scaled, total = np.repeat(self.scaled, lengths)[slot], np.repeat(self.log_partition, lengths)[slot]
        before, after, edge = self.before[slot - 1, a], self.after[slot, b], self.edge[self.index[slot], a, b]
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.where(scaled, np.log(before) + np.log(after), before + after - total) + edge
        return np.where(inner, np.exp(np.where(inner, logs, -np.inf)), 0.0)


@dataclass(frozen=True)
class SegmentTables:
    """Scores, by slot: node, begin, again, end (n, K);  extra (n, L, K) or None;  index (n,) into edge (m, K, K).

    What begins, starts or stops at the ends of an instance is in node; length is (L, K).
    """

    node: FloatArray
    begin: FloatArray
    again: FloatArray
    end: FloatArray
    extra: FloatArray | None
    index: IntArray
    edge: FloatArray
    length: FloatArray

    def of_slots(self, slots: Any) -> SegmentTables:
        moved = {name: getattr(self, name)[slots] for name in ("node", "begin", "again", "end", "index")}
        return replace(self, **moved, extra=None if self.extra is None else self.extra[slots])

    def map(self, function: Any) -> SegmentTables:
        """The function of every score."""
        names = [f.name for f in fields(self) if f.name != "index" and getattr(self, f.name) is not None]
        changed: dict[str, Any] = {name: function(getattr(self, name)) for name in names}
        return replace(self, **changed)

    @cached_property
    def arrays(self) -> kernel.Scores:
        """As the kernels take them."""
        k = self.node.shape[1]
        off = np.where(np.eye(k, dtype=np.bool_), -np.inf, self.edge)
        shift = off.max(axis=(1, 2), initial=-np.inf)
        shift = np.where(shift > -np.inf, shift, 0.0)
        power = np.exp(off - shift[:, None, None])
        extra = np.zeros((0, *self.length.shape)) if self.extra is None else self.extra

        def turned(stack: FloatArray) -> FloatArray:
            return np.ascontiguousarray(stack.transpose(0, 2, 1))

        return kernel.Scores(
            self.node, self.begin, self.again, self.end, self.length, extra, self.edge, turned(self.edge), self.index,
            power, turned(power), shift,
        )  # fmt: skip
