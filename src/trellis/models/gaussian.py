"""Maximising a concave log-likelihood under a Gaussian prior, by L-BFGS or by stochastic steps.

    minimise   f(w) + (l2 / 2) ‖w‖²,      f convex and smooth;  l2 = 1 / σ²

L-BFGS looks at all data a round. AdaGrad (Duchi et al. 2011) looks at a mini-batch a step:
w ← w − rate · g / √(Σ g²), entry by entry.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.errors import DataError


def check_l2(l2: object) -> float:
    """The strength of the prior."""
    if isinstance(l2, bool) or not isinstance(l2, int | float) or not np.isfinite(l2) or l2 < 0:
        raise DataError(f"l2 must be a number, 0 or more, got {l2!r}")
    return float(l2)


class AdaGrad:
    """Stochastic steps.

    squares : (n_weights,) the sum of squared gradients so far
    """

    def __init__(self, squares: FloatArray, rate: float) -> None:
        if not (np.isfinite(rate) and rate > 0):
            raise DataError(f"learning_rate must be a positive number, got {rate!r}")
        self.rate, self.squares = rate, squares

    def step(self, weights: FloatArray, gradient: FloatArray) -> FloatArray:
        """The weights after one step down the gradient."""
        self.squares = self.squares + gradient * gradient
        return weights - self.rate * gradient / np.sqrt(self.squares + 1e-12)
