"""Perceptron: the structured perceptron with averaging (Collins 2002; Chang 2011, algorithm 2).

w ← w + Φ(x_i, h_i) − Φ(x_i, ĥ),     ĥ = argmax_h w · Φ(x_i, h);     answer: the average of all w
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
            weights, batch, self.constraints, self._rule(), average=self.average, shuffle=self.shuffle, beam=self.beam
        )
        loop = self._loop(weights, step, batch, dev)
        return self._trained(loop, loop.run(resume=resume))

    def _rule(self) -> UpdateRule:
        return PerceptronRule()


class PerceptronRule(UpdateRule):
    """Add what the given output has and the best one has not."""

    def step(self, moving: Moving, rows: Any, loss: FloatArray, weight: float) -> None:
        moving.add(rows, np.array([weight]))
