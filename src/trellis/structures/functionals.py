"""Functionals: linear functions of the parts that outputs use, made once where the same ones meet many scores.

    φ_r(y) = Σ_{entries of r} coefficient · [y uses part]

A learner whose objective is made of its own expectations needs E[φ_r], and how the posterior moves as scores move along
Σ_r s_r φ_r: the covariance of every part with that sum (Ganchev et al. 2010, eq. 34). Here by part numbers alone; a
structure may know a shorter way.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, owners


class Functionals:
    """Functions over parts in compressed form.

    start : (n + 1,);  part, coefficient : (n_entries,), parts increasing inside a function
    instance : (n,) the one that a function is about; those of many have −1 and come last
    """

    def __init__(
        self, parts: Any, start: IntArray, part: IntArray, coefficient: FloatArray, instance: IntArray
    ) -> None:
        self.parts, self.part, self.coefficient, self.instance = parts, part, coefficient, instance
        self.row = owners(start)

    def __len__(self) -> int:
        return len(self.instance)

    def expect(self, scores: Any, weights: FloatArray) -> FloatArray:
        """(n,): E[φ]; in a function of many instances each counts ``weights`` times (n_instances,)."""
        return self._sum(scores.infer(at=self.part).at(self.part), weights)

    def derive(self, scores: Any, slope: FloatArray, weights: FloatArray) -> Any:
        """``scores.derivative`` along Σ_r slope_r φ_r."""
        return scores.derivative(self.part, slope[self.row] * self.coefficient, weights=weights)

    def _sum(self, marginal: FloatArray, weights: FloatArray) -> FloatArray:
        """E[φ] from the marginals of ``part``."""
        values = self.coefficient * marginal
        if np.any(weights != 1.0):
            shared = np.flatnonzero(self.instance[self.row] < 0)
            values[shared] *= weights[self.parts.instance_of(self.part[shared])]
        return np.bincount(self.row, values, minlength=len(self)).astype(np.float64, copy=False)
