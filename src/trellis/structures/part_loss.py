"""A loss that is a sum over the parts of an output, so that an argmax can maximise it together with the scores.

Δ(y, h) = constant(y) + Σ_{parts of h} value(part)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray

if TYPE_CHECKING:
    from trellis.structures.parts import Parts
    from trellis.structures.structure import Structure


@dataclass(frozen=True)
class PartLoss:
    """Hamming loss against given outputs: see :meth:`Parts.hamming`.

    part : (m,) different parts;  value : (m,) what each adds where it is used
    constant : (n_instances,) the loss of an output that uses none of them
    """

    parts: Parts
    part: IntArray
    value: FloatArray
    constant: FloatArray

    def add_to(self, scores: Structure, scale: float = 1.0) -> Structure:
        """Scores plus the loss (times ``scale``), less its constant."""
        return scores.add(self.part, scale * self.value)

    def of(self, outputs: Any) -> FloatArray:
        """Δ (n_instances,) of outputs."""
        used = np.append(self.parts.of(outputs), -1)
        return self._sum(used[np.searchsorted(used[:-1], self.part)] == self.part)

    def expect(self, marginals: FloatArray) -> FloatArray:
        """E[Δ] (n_instances,); marginals : (m,) of ``part``."""
        return self._sum(marginals)

    def _sum(self, used: Any) -> FloatArray:
        instance = self.parts.instance_of(self.part)
        return self.constant + np.bincount(instance, self.value * used, minlength=len(self.constant))


def missed(parts: Parts, part: IntArray) -> PartLoss:
    """1 for each of these parts that an output does not use."""
    constant = np.bincount(parts.instance_of(part), minlength=parts.n_instances).astype(np.float64)
    return PartLoss(parts, part, np.full(len(part), -1.0), constant)
