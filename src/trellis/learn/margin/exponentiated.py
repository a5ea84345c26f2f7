"""Exponentiated gradient on the dual of a structural SVM with hinge loss (Collins et al. 2008; Chang 2011, alg. 5).

    min_α  ½ ‖w(α)‖² − Σ_i C_i Σ_h α_i(h) Δ(h_i, h),     w(α) = Σ_i C_i (Φ(x_i, h_i) − E_{α_i}[Φ(x_i, h)])

    α_i(h) ← α_i(h) exp(η (Δ(h_i, h) + w · Φ(x_i, h))) / Z

over distributions α_i of all outputs. The exponents are sums over parts, and linear in what was added to them: after
any number of updates  α_i(h) ∝ exp(u · Φ(x_i, h) + c Δ(h_i, h))  with u = Σ η w and c = Σ η. So an α_i is a posterior
of the structure under weights u, which examples that are updated together share. Blocks of examples are updated one
after the other in random order; an η is halved until the dual does not get worse, and grows while it does not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf
from trellis.data.ragged import FloatArray
from trellis.errors import DataError
from trellis.learn.margin.cutting_plane import CuttingPlane
from trellis.learn.margin.scorer import refuse_bounds
from trellis.learn.margin.steps import MarginStep
from trellis.loop.step import ArrayState, StepResult

BLOCKS = 32
"""At most so many blocks of examples, each of which has weights u of its own."""
HALVINGS = 30


@dataclass(frozen=True)
class Exponents(ArrayState):
    """Exponents u (n_blocks, n_weights) and c (n_blocks,) of each block, and its rate η."""

    u: FloatArray
    c: FloatArray
    rate: FloatArray

    ARRAYS: ClassVar = {
        "u": ArrayOf(np.float64, ("blocks", "weights")),
        "c": ArrayOf(np.float64, ("blocks",)),
        "rate": ArrayOf(np.float64, ("blocks",), low=0.0),
    }


class ExponentiatedStep(MarginStep[Exponents]):
    """A pass over all blocks."""

    def __init__(self, solver: CuttingPlane) -> None:
        super().__init__(solver.weights)
        refuse_bounds(solver.weights.model, "exponentiated gradient")
        self.solver, self.group = solver, solver.examples.given
        if not callable(getattr(self.group.model, "_vector", None)):
            raise DataError("exponentiated gradient needs expected features, which this model does not count")
        solver.give(*self.group.given())
        n = len(self.group)
        bounds = list(pairwise(np.unique(np.linspace(0, n, min(BLOCKS, n) + 1).astype(int)).tolist()))
        self.blocks = [self.group.batch.instances(low, high) for low, high in bounds]
        self.cost = [solver.cost[low:high] for low, high in bounds]
        self.gold = [solver.gold[low:high].T @ solver.cost[low:high] for low, high in bounds]
        self._left: Exponents | None = None

    def initial_state(self, gamma: float, rng: np.random.Generator) -> Exponents:
        n, k = len(self.blocks), len(self.group.model.weights_)
        rate = np.full(n, 1.0 / max(float(self.solver.cost.sum()), 1.0))
        return Exponents(np.zeros((n, k)), np.zeros(n), rate)

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> Exponents:
        return Exponents.read(arrays, blocks=len(self.blocks), weights=len(self.group.model.weights_))

    def _recall(self, state: Exponents) -> None:
        """Each block's share of w and of the expected loss, from its exponents."""
        found = [self._expect(b, state.u[b], state.c[b]) for b in range(len(self.blocks))]
        self.share, self.loss = np.array([share for share, _ in found]), np.array([loss for _, loss in found])

    def _expect(self, b: int, u: FloatArray, c: float) -> tuple[FloatArray, float]:
        """Σ_i C_i (Φ(x_i, h_i) − E[Φ]) and Σ_i C_i E[Δ] of a block under exponents u and c."""
        model, part, cost = self.group.model, self.blocks[b], self.cost[b]
        model.weights_ = u
        scores = model.scores(part)
        loss = scores.parts.hamming(part.labels)
        q = loss.add_to(scores, c).infer(weights=part.weights, at=loss.part)
        # the model counts an instance by its weight, and C_i is C times that
        scale = float(self.solver.cost.sum() / self.group.weights.sum())
        expected = scale * model._vector(model.collect(part, q))
        return self.gold[b] - expected, float(cost @ loss.expect(q.at(loss.part)))

    def run(self, gamma: float, state: Exponents, rng: np.random.Generator) -> StepResult:
        if state is not self._left:
            self._recall(state)
        exponent, scale, rate, evaluations = state.u.copy(), state.c.copy(), state.rate.copy(), 0
        w = self.share.sum(axis=0)
        for b in rng.permutation(len(self.blocks)).tolist():
            others = w - self.share[b]
            before = 0.5 * float(w @ w) - self.loss[b]
            for _ in range(HALVINGS):
                eta = rate[b]
                u, c = exponent[b] + eta * w, scale[b] + eta
                share, loss = self._expect(b, u, c)
                moved = others + share
                evaluations += 1
                if 0.5 * float(moved @ moved) - loss <= before:
                    exponent[b], scale[b], self.share[b], self.loss[b], w = u, c, share, loss, moved
                    rate[b] = 1.1 * eta
                    break
                rate[b] = 0.5 * eta
        solver = self.solver
        solver.weights.take(np.append(w, 0.0))
        dual = float(self.loss.sum()) - 0.5 * float(w @ w)
        primal = solver.objective()
        settled = primal - dual <= solver.tol * abs(primal)
        self._left = Exponents(exponent, scale, rate)
        return StepResult(None, dual, self._left, evaluations=evaluations, gap=primal - dual, settled=bool(settled))
