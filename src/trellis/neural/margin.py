"""Large margins of networks: mini-batch steps on the violation of the best output with the loss added.

    Σ_i w_i ℓ(max_h [score(h) + Δ(y_i, h) − price(h)] − score(y_i) + price(y_i)),      ℓ(a) = max(0, a)^d

Its subgradient at the scores is  w ℓ'(a) (parts of ĥ − parts of y), so a network needs nothing but that (Chang 2011,
eq. 2.12, with a network in the place of w · Φ).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from trellis.constraints import Constraint, Rule
from trellis.data.ragged import FloatArray, IntArray
from trellis.learn.margin.cutting_plane import Weights
from trellis.learn.margin.group import best_outputs
from trellis.learn.margin.steps import MarginStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.model import rows_of
from trellis.neural.forms import Form
from trellis.neural.functions import as_array, keep_gradient, scaled_gradient
from trellis.neural.targets import Targets
from trellis.neural.training import Steps
from trellis.search import Plan
from trellis.search.prices import prices

if TYPE_CHECKING:
    from trellis.neural.model import NeuralModel


def violation(
    form: Form,
    offsets: IntArray,
    tensors: Sequence[Any],
    outputs: Any,
    weights: FloatArray,
    *,
    power: int = 1,
    plan: Plan | None = None,
    paid: FloatArray | float = 0.0,
    beam: int = 50,
) -> Any:
    """The sum above, a scalar tensor.

    outputs : y, as structures take them;  power : d;  plan : of constraints on outputs;  paid : prices of y
    """
    return _Violation.apply(form, offsets, outputs, weights, power, plan, paid, beam, *tensors)


class _Violation(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, form: Form, offsets: IntArray, outputs: Any, weights: FloatArray, power: int, plan: Plan | None,
        paid: FloatArray | float, beam: int, *tensors: Any,
    ) -> Any:  # fmt: skip
        scores = form.structure(offsets, [as_array(one) for one in tensors])
        loss = scores.parts.hamming(outputs)
        best, price = best_outputs(loss.add_to(scores), plan, beam, None)
        over = np.maximum(scores.score(best) + loss.of(best) - price - scores.score(outputs) + paid, 0.0)
        slope = weights * (1.0 if power == 1 else 2.0 * over) * (over > 0.0)
        ahead, given = (form.marginals(scores, scores.certain(some, weights=slope), slope) for some in (best, outputs))
        keep_gradient(ctx, tuple(a - b for a, b in zip(ahead, given, strict=True)), tensors)
        return tensors[0].new_tensor(float(weights @ over**power))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return (*[None] * 8, *scaled_gradient(ctx, grad))


class NetworkMargin(MarginStep[ArrayState]):
    """A pass of mini-batch steps on ½ ‖θ‖² + C Σ_i ℓ(violation of i).

    passes : that are planned, by which learning rates fall
    """

    def __init__(
        self, weights: Weights, batch: Any, rules: Sequence[Constraint | Rule], *, C: float, power: int, beam: int,
        passes: int,
    ) -> None:  # fmt: skip
        super().__init__(weights)
        self.batch, self.rules, self.C, self.power = batch, list(rules), C, power
        self.beam, self.passes = beam, passes
        self.steps: Steps | None = None

    def run(self, gamma: float, state: ArrayState, rng: np.random.Generator) -> StepResult:
        network: NeuralModel = self.model.model
        if self.steps is None:
            certain = network.scores(self.batch).certain(self.batch.outputs, weights=self.batch.weights)
            targets = network.collect(self.batch, certain).joined()
            self.steps = Steps(network, targets, self.passes, rng, loss=self._loss, l2=1.0 / self.C)
        lost = self.C * self.steps.run()
        norm = 0.5 * float(network.weights_ @ network.weights_)
        return StepResult(None, -lost - norm, state, evaluations=1)

    def _loss(self, net: Any, part: Targets) -> Any:
        network, batch = self.model.model, part.batch
        plan, paid = None, np.zeros(len(batch))
        if self.rules:
            rows = rows_of(network, batch, self.rules).canonical()
            plan, paid = Plan.of(rows), prices(rows, batch.outputs)
        return violation(
            network.form_of(batch), batch.offsets, net(batch), batch.outputs, part.weights, power=self.power, plan=plan,
            paid=np.where(np.isfinite(paid), paid, 0.0), beam=self.beam,
        )  # fmt: skip
