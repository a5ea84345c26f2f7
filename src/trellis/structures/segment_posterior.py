"""Tables of segmentations: of scores, and of marginals, with two ways to have those of transitions.

Transitions are many and seldom asked for: after inference they are made from their factors (:class:`Factored`), of an
average of outputs those that occur are listed (:class:`trellis.structures.results.UsedTransitions`).
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.structures.kernels import segments as kernel
from trellis.structures.results import UsedTransitions
from trellis.structures.segment_parts import SegmentParts


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
