"""Maximising a concave log-likelihood under a Gaussian prior, by L-BFGS or by stochastic steps.

    minimise   f(w) + (l2 / 2) ‖w‖²,      f convex and smooth;  l2 = 1 / σ²

L-BFGS looks at all data a round (SciPy's L-BFGS-B without bounds). AdaGrad (Duchi et al. 2011) looks at a mini-batch
a step: w ← w − rate · g / √(Σ g²), entry by entry.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.errors import DataError

MEMORY = 6
"""Rounds that L-BFGS remembers."""

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""w -> f(w) and its gradient, the prior not included."""


@dataclass(frozen=True)
class Maximum:
    """weights : where the search ended;  objective : f + prior there;  rounds;  evaluations;  converged."""

    weights: FloatArray
    objective: float
    rounds: int
    evaluations: int
    converged: bool


def check_l2(l2: object) -> float:
    """The strength of the prior."""
    if isinstance(l2, bool) or not isinstance(l2, int | float) or not np.isfinite(l2) or l2 < 0:
        raise DataError(f"l2 must be a number, 0 or more, got {l2!r}")
    return float(l2)


def lbfgs(
    objective: Objective,
    weights: FloatArray,
    *,
    l2: float,
    max_iter: int,
    tol: float,
    free: slice | None = None,
    callback: Callable[[FloatArray], None] | None = None,
) -> Maximum:
    """Minimise f(w) + (l2 / 2) ‖w‖² from ``weights`` on.

    Stops when a round improves the objective by less than ``tol`` of it, or no entry of the gradient is above ``tol``.
    ``free`` : weights that the prior leaves alone.
    """
    from scipy.optimize import minimize

    penalised = np.full(len(weights), l2)
    if free is not None:
        penalised[free] = 0.0

    def with_prior(w: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = objective(w)
        return value + 0.5 * float(w @ (penalised * w)), gradient + penalised * w

    if not len(weights):
        return Maximum(weights, objective(weights)[0], 0, 1, True)
    found = minimize(
        with_prior,
        weights,
        jac=True,
        method="L-BFGS-B",
        callback=callback,
        options={"maxiter": max_iter, "maxfun": 3 * max_iter + 20, "maxcor": MEMORY, "ftol": tol, "gtol": tol},
    )
    return Maximum(np.asarray(found.x), float(found.fun), int(found.nit), int(found.nfev), found.status != 1)


class AdaGrad:
    """State of stochastic steps: the sum of squared gradients of every weight.

    squares : (n_weights,)
    """

    def __init__(self, n_weights: int, rate: float) -> None:
        if not (np.isfinite(rate) and rate > 0):
            raise DataError(f"learning_rate must be a positive number, got {rate!r}")
        self.rate = rate
        self.squares = np.zeros(n_weights)

    def step(self, weights: FloatArray, gradient: FloatArray) -> FloatArray:
        """The weights after one step down the gradient."""
        self.squares = self.squares + gradient * gradient
        return weights - self.rate * gradient / np.sqrt(self.squares + 1e-12)
