"""Learning example by example: a pass in random order, with a step after each.

    averaged   w̄ = (1 / T) Σ_t w_t over all steps (Chang 2011, algorithms 2 and 3): w − u / T with u = Σ_s (s − 1) δ_s
    rival      the best output at w, or the k best, or the one that is best with the loss added

A step is the learner's own (:class:`UpdateRule`). The pass goes in one thread: each step depends on the one before.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.constraints import Constraint, Rule
from trellis.constraints.rows import Rows
from trellis.data.arrays import ArrayOf
from trellis.data.ragged import FloatArray
from trellis.learn.margin.cutting_plane import Weights
from trellis.learn.margin.group import best_outputs
from trellis.learn.margin.scorer import loss_of, refuse_bounds
from trellis.learn.margin.steps import MarginStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.model import rows_of
from trellis.search import Plan, decode_kbest
from trellis.search.prices import prices


@dataclass
class Moving:
    """Weights that move (n_weights,), what their average is made of, and the number of steps so far."""

    w: FloatArray
    u: FloatArray
    n_steps: int = 0

    def add(self, rows: Any, amount: FloatArray) -> None:
        """w += Σ amount · row, and u so that the average of w over all steps is w − u / n_steps."""
        column, value = rows.indices, rows.data * np.repeat(amount, np.diff(rows.indptr))
        np.add.at(self.w, column, value)
        np.add.at(self.u, column, (self.n_steps - 1) * value)


@dataclass(frozen=True)
class PassState(ArrayState):
    """Where a pass ended: w and u (n_weights,) of :class:`Moving`, and the number of steps."""

    w: FloatArray
    u: FloatArray
    n_steps: int

    ARRAYS: ClassVar = {
        "w": ArrayOf(np.float64, ("weights",)),
        "u": ArrayOf(np.float64, ("weights",)),
        "n_steps": ArrayOf(np.int64, (), low=0),
    }


class UpdateRule(ABC):
    """A step on one example; subclasses bring ``step``.

    k : rivals looked at;  augmented : whether the loss is added to their scores
    """

    k = 1
    augmented = False

    @abstractmethod
    def step(self, moving: Moving, rows: Any, loss: FloatArray, weight: float) -> None:
        """Move the weights; rows : Φ(x, y) − Φ(x, rival) (k, n_weights);  loss : Δ less prices (k,)"""

    def average(self, moving: Moving) -> FloatArray:
        return moving.w - moving.u / max(moving.n_steps, 1)


class OnlineStep(MarginStep[PassState]):
    """A pass over examples whose outputs are all known.

    average : whether the model gets the average of the weights of all steps
    value : the objective at the model's weights after a pass; None: −Σ Δ of the first rival of each example, as met
    """

    def __init__(
        self,
        weights: Weights,
        batch: Any,
        constraints: Sequence[Constraint | Rule],
        rule: UpdateRule,
        *,
        average: bool = True,
        shuffle: bool = True,
        beam: int = 50,
        value: Callable[[], float] | None = None,
    ) -> None:
        super().__init__(weights)
        refuse_bounds(weights.model, "a step on one example")
        self.value = value
        self.weights, self.rule, self.average, self.shuffle, self.beam = weights, rule, average, shuffle, beam
        model = weights.model
        rows = rows_of(model, batch, constraints).canonical() if constraints else None
        self.examples = [
            (batch.instances(i, i + 1), None if rows is None else Plan.of(rows.shard(i, i + 1)))
            for i in range(len(batch))
        ]
        self.gold = model.phi(batch, batch.labels).tocsr()
        paid = np.zeros(len(batch)) if rows is None else prices(rows, batch.labels)
        self.paid = np.where(np.isfinite(paid), paid, 0.0)

    def initial_state(self, gamma: float, rng: np.random.Generator) -> PassState:
        first = self.weights.model.weights_
        return PassState(first.copy(), np.zeros(len(first)), 0)

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> PassState:
        return PassState.read(arrays, weights=len(self.weights.model.weights_))

    def run(self, gamma: float, state: PassState, rng: np.random.Generator) -> StepResult:
        """One pass."""
        rule, model = self.rule, self.weights.model
        model.set_parameters({"weights": state.w})
        moving = Moving(model.weights_, state.u.copy(), int(state.n_steps))  # steps move the model's own weights
        n, lost = len(self.examples), 0.0
        for i in (rng.permutation(n) if self.shuffle else np.arange(n)).tolist():
            part, plan = self.examples[i]
            features, loss = rivals(model, part, plan, rule.k, rule.augmented, self.beam)
            moving.n_steps += 1
            if features is None:
                continue
            own = self.gold[i : i + 1]
            gold = own if len(loss) == 1 else sparse.vstack([own] * len(loss), format="csr")
            lost += float(part.weights[0] * loss[0])
            rule.step(moving, gold - features, loss + self.paid[i], float(part.weights[0]))
        left = PassState(moving.w.copy(), moving.u, moving.n_steps)
        if self.average:
            model.set_parameters({"weights": rule.average(moving)})
        objective = -lost if self.value is None else -self.value()
        return StepResult(None, objective, left, evaluations=n, settled=lost == 0.0 and not rule.augmented)


def rivals(model: Any, part: Any, plan: Plan | None, k: int, augmented: bool, beam: int) -> tuple[Any, FloatArray]:
    """Φ of the k best outputs of one instance (k, n_weights), and their Δ less prices (k,).

    Features are None where the best output is the one given, and nothing else was asked for.
    """
    scores = model.scores(part)
    parts = scores.parts
    delta = loss_of(model, part, parts)
    searched = delta.add_to(scores) if augmented else scores
    if k == 1:
        outputs, paid = best_outputs(searched, plan, beam, None)
        found = [outputs]
    elif plan is None and hasattr(searched, "kbest"):
        best = searched.kbest(k)
        found = list(best.labels[best.score[:, 0] > -np.inf])
        paid = np.zeros(len(found))
    else:
        decoded = decode_kbest(searched, Rows.none(parts) if plan is None else plan, k, beam=beam)
        there = np.flatnonzero(decoded.value[:, 0] > -np.inf)
        found = [decoded.outputs[i] for i in there]
        paid = (decoded.score - decoded.value)[there, 0]
    loss = np.array([delta.of(outputs)[0] for outputs in found])
    if k == 1 and not augmented and parts.has_labels and loss[0] == 0.0:
        return None, loss
    features = [model.phi(part, outputs) for outputs in found]
    return features[0] if len(features) == 1 else sparse.vstack(features, format="csr"), loss - paid
