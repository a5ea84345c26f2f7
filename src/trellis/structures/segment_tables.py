"""Scores of segments as tables: what :class:`~trellis.structures.segments.Segments` holds and kernels read."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray
from trellis.structures.kernels import segments as kernel


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
