"""SSVM: the structural support vector machine, by three methods.

    min_w  ½ ‖w‖² + C Σ_i ℓ(max_h Δ(h_i, h) − w · (Φ(x_i, h_i) − Φ(x_i, h))),     ℓ(a) = max(0, a)^d

(Tsochantaridis et al. 2005; Chang 2011, eq. 2.12.) In the picture of unified EM: γ = −∞ with the loss added, and an
M-step that keeps the given output ahead of the best other one in place of one that counts it.

    "cutting-plane"           algorithm 6 with dual coordinate descent: an optimum to the duality gap asked for
    "subgradient"             algorithm 4: stochastic steps, averaged; of networks mini-batch steps of their own
    "exponentiated-gradient"  algorithm 5 over parts: needs marginals in place of an argmax; hinge loss alone
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.learn.margin.cutting_plane import Weights
from trellis.learn.margin.exponentiated import ExponentiatedStep
from trellis.learn.margin.learner import NONE, MarginLearner, solver_of
from trellis.learn.margin.online import OnlineStep
from trellis.learn.margin.steps import CuttingPlaneStep, MarginStep
from trellis.learn.margin.subgradient import Subgradient
from trellis.models.documentation import documented

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
                weights, batch, self.constraints, C=self.C, power=self._check_loss(self.loss), beam=self.beam,
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
        return OnlineStep(weights, batch, self.constraints, rule, beam=self.beam, value=solver.objective)

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
