"""Stochastic steps of an edge-factored parser: passes over trees, with the average of the weights after each step.

g_f = Σ_arcs with f  (p − q)                        on the likelihood, of a mini-batch; q is 1 on the arcs given
g_f = Σ_arcs with f  [wrong arc] − [right arc]      on a margin, of the tree that is best with a point a wrong arc

w_f ← w_f − rate · g_f / √(Σ g_f²)                  (AdaGrad, Duchi et al. 2011)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.loop import ArrayState, Step, StepResult
from trellis.models.kernels import arc_features
from trellis.structures import TreePosterior

if TYPE_CHECKING:
    from trellis.models.arc_parser import ArcParser

LEAST = 1e-3
"""Steps on the likelihood leave out arcs whose probability is this near to what it should be."""
FIRST_SQUARE = {"margin": 1e-8, "adagrad": 1e-3}
"""What the squared gradients of a weight begin with, so that a first step is not endless."""


@dataclass(frozen=True)
class PassesState(ArrayState):
    """Where a pass ended.

    weights : (n_weights,), not averaged;  steps : (3, n_weights) squared gradients; Σ_s s · change in step s; the
        number of steps
    early : (n_weights,) the sum of the weights after each step of the first pass, of which there were ``early_steps``
    passed : share of a pass since the prior last pulled
    """

    weights: FloatArray
    steps: FloatArray
    early: FloatArray
    early_steps: float
    passed: float

    ARRAYS: ClassVar = {
        "weights": ArrayOf(np.float64, ("weights",)),
        "steps": ArrayOf(np.float64, (3, "weights")),
        "early": ArrayOf(np.float64, ("weights",)),
        "early_steps": ArrayOf(np.float64, (), low=0.0),
        "passed": ArrayOf(np.float64, (), low=0.0),
    }


class ArcPass(Step[PassesState]):
    """A pass over sentences whose trees are all known, in another order each time.

    The weights of the model are then the average over the steps of all passes but the first (after the first, of that
    one), where it averages.
    """

    def __init__(self, model: ArcParser, batch: Batch) -> None:
        self.model, self.batch, self.text = model, batch, model._text(batch)

    def initial_state(self, gamma: float, rng: np.random.Generator) -> PassesState:
        n = len(self.model.weights_)
        steps = np.zeros((3, n))
        steps[0] = FIRST_SQUARE[self.model.solver]
        return PassesState(self.model.weights_.copy(), steps, np.zeros(n), 0.0, 0.0)

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> PassesState:
        return PassesState.read(arrays, weights=len(self.model.weights_))

    def run(self, gamma: float, state: PassesState, rng: np.random.Generator) -> StepResult:
        model, batch = self.model, self.batch
        weights, steps, passed = state.weights, state.steps, float(state.passed)
        if model.checkpoint is not None:  # which may be written in the middle of this pass, from the state before it
            weights, steps = weights.copy(), steps.copy()
        model.weights_ = weights
        order = rng.permutation(len(batch))
        if model.solver == "margin":
            lost = float(
                arc_features.margin_pass(
                    self.text, order, batch.labels, model.single_root, weights, model.learning_rate, steps
                )
            )
        else:
            lost = 0.0
            for first in range(0, len(order), model.batch_size):
                some = batch.take(order[first : first + model.batch_size])
                lost += step_towards(model, some, model._given(some), steps)
                passed += len(some) / len(batch)
                if passed >= 1.0:
                    pull(weights, steps, model.learning_rate * model.l2)
                    passed -= 1.0
        early, early_steps = state.early, float(state.early_steps)
        if model.average:
            n, total = float(steps[2, 0]), summed_weights(weights, steps)
            model.weights_ = (total - early) / (n - early_steps) if early_steps else total / n
            if not early_steps:
                early, early_steps = total, n
        else:
            model.weights_ = weights.copy()
        left = PassesState(weights, steps, early, early_steps, passed)
        return StepResult(None, -lost, left, evaluations=len(batch))


def step_towards(model: ArcParser, batch: Batch, q: TreePosterior, steps: FloatArray) -> float:
    """One step of the model's weights, in place, towards a posterior of a mini-batch; returns −Σ_i w_i E_q[log p]."""
    scores, parts = model.scores(batch), model.parts(batch)
    p = scores.infer()
    gradient = (p.marginal - q.marginal) * np.repeat(batch.weights, parts.sizes())
    lost = float(batch.weights @ p.log_partition) - scores.expected_score(q, batch.weights)
    arc_features.step_arcs(model._text(batch), gradient, LEAST, model.weights_, model.learning_rate, steps)
    return lost


def pull(weights: FloatArray, steps: FloatArray, strength: float) -> None:
    """What the prior does to the weights in a pass, at each weight's own rate."""
    before = weights.copy()
    weights /= 1.0 + strength / np.sqrt(steps[0])
    steps[1] += steps[2, 0] * (weights - before)


def summed_weights(weights: FloatArray, steps: FloatArray) -> FloatArray:
    """The sum of the weights after each step so far."""
    return np.asarray(float(steps[2, 0]) * weights - steps[1])
