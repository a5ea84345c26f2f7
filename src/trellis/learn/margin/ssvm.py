"""SSVM: the structural support vector machine, by three methods.

    min_w  ½ ‖w‖² + C Σ_i ℓ(max_h Δ(h_i, h) − w · (Φ(x_i, h_i) − Φ(x_i, h))),     ℓ(a) = max(0, a)^d

(Tsochantaridis et al. 2005; Chang 2011, eq. 2.12.) In the picture of unified EM: γ = −∞ with the loss added, and an
M-step that keeps the given output ahead of the best other one in place of one that counts it.

    "cutting-plane"           algorithm 6 with dual coordinate descent: an optimum to the duality gap asked for
    "subgradient"             algorithm 4: stochastic steps, averaged; of networks mini-batch steps of their own
    "exponentiated-gradient"  algorithm 5 over parts: needs marginals in place of an argmax; hinge loss alone

Stochastic subgradient is a step on each example (Chang 2011, algorithm 4):

    w ← (1 − η_t) w + η_t l C ℓ'(v) f,      v = max_h Δ − w · f,   f = Φ(x, h_i) − Φ(x, ĥ),   η_t = 1 / (t + l)

with ℓ' = 1 or 2 v. (The thesis prints Φ(x, ĥ) for f in v; the derivative of ℓ(v) says f.) A step goes no farther than
to where v is 0, which bounds the first ones. The objective is strongly convex, so the average that weighs w_t by t
approaches the optimum as 1 / t; algorithm 4 returns the last w.

Exponentiated gradient works on the dual with hinge loss (Collins et al. 2008; Chang 2011, algorithm 5):

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
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf
from trellis.data.ragged import FloatArray
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.learn.margin.cutting_plane import CuttingPlane, Weights
from trellis.learn.margin.learner import NONE, MarginLearner, solver_of
from trellis.learn.margin.online import Moving, OnlineStep, UpdateRule
from trellis.learn.margin.scorer import loss_of, refuse_bounds
from trellis.learn.margin.steps import CuttingPlaneStep, MarginStep
from trellis.loop.step import ArrayState, StepResult
from trellis.models.documentation import documented

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
        loss = loss_of(model, part, scores.parts)
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


class Subgradient(UpdateRule):
    """Steps on the loss and on ½ ‖w‖².

    total : l C, all examples' C together;  power : d of the loss;  delay : l of the step sizes
    """

    augmented = True

    def __init__(self, total: float, power: int, delay: int) -> None:
        self.total, self.power, self.delay = total, power, delay

    def step(self, moving: Moving, rows: Any, loss: FloatArray, weight: float) -> None:
        rate = 1.0 / (moving.n_steps + self.delay)
        violation, square = float(loss[0] - (rows @ moving.w)[0]), float(rows.data @ rows.data)
        moving.w *= 1.0 - rate
        if violation > 0.0 and square > 0.0:
            slope = 1.0 if self.power == 1 else 2.0 * violation
            amount = min(rate * self.total * weight * slope, violation / square)
            np.add.at(moving.w, rows.indices, amount * rows.data)
        moving.u += 2.0 / (moving.n_steps + 1.0) * (moving.w - moving.u)

    def average(self, moving: Moving) -> FloatArray:
        return moving.u.copy()


METHODS = ("cutting-plane", "subgradient", "exponentiated-gradient")


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SSVM(MarginLearner):
    """Structural SVM over any structure with an argmax and a feature map.

    Parameters
    ----------
    max_iter : int, default=100
        Passes over the examples.
    method : {"cutting-plane", "subgradient", "exponentiated-gradient"}, default="cutting-plane"
        Optimiser. The exponentiated gradient needs ``loss="hinge"`` and no constraints; networks need "subgradient".
    tol : float, default=0.01
        Relative duality gap at which training stops (not for "subgradient").

    Examples
    --------
    >>> from trellis.models import CRF
    >>> X = [["the", "dog", "barks"], ["a", "cat", "sleeps"]]
    >>> SSVM(CRF(), C=1.0).fit(X, [["D", "N", "V"], ["D", "N", "V"]]).predict([["the", "cat", "barks"]])
    [['D', 'N', 'V']]
    """

    title = "structural SVM"
    trains_networks = True

    C: float = 0.1
    loss: str = "squared_hinge"
    method: str = "cutting-plane"
    tol: float = 0.01

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
        step = self._step(weights, batch)
        loop = self._loop(weights, step, batch, dev, warns=self.method != "subgradient")
        return self._trained(loop, loop.run(resume=resume))

    def _step(self, weights: Weights, batch: Any) -> MarginStep[Any]:
        model, everything = weights.model, np.arange(len(batch))
        if not callable(getattr(model, "phi", None)):
            return model.margin_step(  # type: ignore[no-any-return]
                weights, batch, self._priced(), C=self.C, power=self._check_loss(self.loss), beam=self.beam,
                passes=self.max_iter,
            )  # fmt: skip
        examples = self._examples(model, batch, everything, NONE, NONE, latent=False)
        solver = solver_of(self, weights, examples, C_binary=1.0, tol=self.tol)
        if self.method == "cutting-plane":
            return CuttingPlaneStep(solver)
        if self.method == "exponentiated-gradient":
            return ExponentiatedStep(solver)
        solver.give(*examples.given.given())
        rule = Subgradient(self.C * float(batch.weights.sum()), self._check_loss(self.loss), len(batch))
        return OnlineStep(weights, batch, self._priced(), rule, beam=self.beam, value=solver.objective)

    def _check_settings(self, dev: Any = None) -> None:
        super()._check_settings(dev)
        self._check_within(C=(1e-300, np.inf), tol=(0.0, np.inf))
        power = self._check_loss(self.loss)
        self._check_names(method=METHODS)
        if self.method == "exponentiated-gradient" and (power == 2 or self.constraints):
            raise DataError(
                "exponentiated gradient is for loss='hinge' without constraints, since it sums over all outputs: use "
                "method 'cutting-plane'"
            )
        if self.method != "subgradient" and callable(getattr(self.model, "margin_step", None)):
            raise DataError(f"a {type(self.model).__name__} is trained by method 'subgradient', not {self.method!r}")
