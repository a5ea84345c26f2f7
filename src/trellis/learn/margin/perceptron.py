"""Perceptron: the structured perceptron with averaging (Collins 2002; Chang 2011, algorithm 2).

w ← w + Φ(x_i, h_i) − Φ(x_i, ĥ),     ĥ = argmax_h w · Φ(x_i, h);     answer: the average of all w

MIRA takes the smallest update that separates the given output from the k best by their loss.

    w ← argmin_w ½ ‖w − w_t‖²      w · f_j ≥ Δ_j  for the k best outputs at w_t,   f_j = Φ(x_i, h_i) − Φ(x_i, h_j)

(Crammer et al. 2005; Chang 2011, algorithm 3). By Hildreth's method on the dual: w = w_t + Σ_j α_j f_j, and in turn
α_j ← min(C, max(0, α_j + (Δ_j − w · f_j) / ‖f_j‖²)). With k = 1 that is a closed form, after one step.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.engine.compiling import compile_ahead
from trellis.learn.margin.cutting_plane import Weights
from trellis.learn.margin.learner import MarginLearner
from trellis.learn.margin.online import Moving, OnlineStep, UpdateRule
from trellis.models.documentation import documented


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class Perceptron(MarginLearner):
    """Averaged structured perceptron (Chang 2011, algorithm 2).

    Parameters
    ----------
    max_iter : int, default=10
        Passes over the examples. Training stops earlier if a pass makes no mistake.
    n_jobs : int or None, default=None
        Number of threads of prediction; training is sequential.
    average : bool, default=True
        Return the average of the weights after every example.
    shuffle : bool, default=True
        Visit the examples in a random order in every pass.

    Examples
    --------
    >>> from trellis.models import CRF
    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    >>> Perceptron(CRF()).fit(X, [["D", "N", "V"], ["D", "N", "V"]]).predict([["the", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    title = "perceptron"
    tol = 0.0

    max_iter: int = 10
    average: bool = True
    shuffle: bool = True
    checkpoint_every: int = 1

    def fit(
        self,
        X: Any,
        y: Any = None,
        *,
        sample_weight: Any = None,
        dev: tuple[Any, Any] | None = None,
        resume: bool = False,
    ) -> Self:
        """Learn from instances whose labels are all known; the score on ``dev`` = (X, y) decides which pass is kept."""
        self._check_types()
        self._check_settings(dev)
        compile_ahead(type(self.model).__name__)
        model, batch = self._begin(X, y, sample_weight)
        batch = batch.take(np.flatnonzero(batch.weights > 0))
        self._refuse_unknown(batch)
        weights = Weights(model)
        step = OnlineStep(
            weights, batch, self._priced(), self._rule(), average=self.average, shuffle=self.shuffle, beam=self.beam
        )
        loop = self._loop(weights, step, batch, dev)
        return self._trained(loop, loop.run(resume=resume))

    def _rule(self) -> UpdateRule:
        return PerceptronRule()


class PerceptronRule(UpdateRule):
    """Add what the given output has and the best one has not."""

    def step(self, moving: Moving, rows: Any, loss: FloatArray, weight: float) -> None:
        moving.add(rows, np.array([weight]))


TURNS = 1000
CLOSE = 1e-10


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class MIRA(Perceptron):
    """Margin infused relaxed algorithm, 1-best or k-best (Chang 2011, algorithm 3).

    Parameters
    ----------
    k_best : int, default=1
        Number of outputs that the correct one must be separated from.
    C : float or None, default=None
        Maximum weight of one output in an update, so that an example that cannot be satisfied does not undo the others.
        By default, unbounded.

    Examples
    --------
    >>> from trellis.models import CRF
    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    >>> MIRA(CRF(), k_best=3).fit(X, [["D", "N", "V"], ["D", "N", "V"]]).predict([["the", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    title = "MIRA"

    k_best: int = 1
    C: float | None = None

    def _rule(self) -> UpdateRule:
        return MIRARule(self.k_best, np.inf if self.C is None else self.C)

    def _check_settings(self, dev: Any = None) -> None:
        super()._check_settings(dev)
        self._check_whole(k_best=1)
        self._check_within(C=(1e-300, np.inf))


class MIRARule(UpdateRule):
    """k : best outputs;  most : C."""

    def __init__(self, k: int, most: float) -> None:
        self.k, self.most = k, most

    def step(self, moving: Moving, rows: Any, loss: FloatArray, weight: float) -> None:
        missing = loss - rows @ moving.w
        moving.add(rows, hildreth((rows @ rows.T).toarray(), missing, self.most * weight))


def hildreth(gram: FloatArray, missing: FloatArray, most: float) -> FloatArray:
    """α (k,) that maximises  missing · α − ½ αᵀ gram α  in 0..most.

    gram : (k, k) products of the f_j;  missing : (k,) Δ_j − w_t · f_j
    """
    alpha, slope = np.zeros(len(missing)), missing.astype(np.float64).copy()
    for _ in range(TURNS):
        largest = 0.0
        for j in range(len(alpha)):
            if gram[j, j] > 0.0:
                moved = min(max(alpha[j] + slope[j] / gram[j, j], 0.0), most) - alpha[j]
                if moved != 0.0:
                    alpha[j] += moved
                    slope -= moved * gram[:, j]
                    largest = max(largest, abs(moved) * gram[j, j])
        if largest <= CLOSE * (1.0 + np.abs(missing).max(initial=0.0)):
            break
    return alpha
