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
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, owners
from trellis.errors import DataError
from trellis.structures.chain_parts import ChainChange, ChainParts, SequenceParts
from trellis.structures.extremes import some_rows
from trellis.structures.flat import PlainBlock
from trellis.structures.part_set import PartSet
from trellis.structures.parts import PartLoss, check_change, check_labels

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
