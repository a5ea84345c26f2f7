"""Stepwise EM: an M-step after every mini-batch, from statistics that forget slowly.

    s ← (1 − η_k) s + η_k (N / n) ŝ,      η_k = (k + 2)^−κ,  κ in (0.5, 1]

where ŝ are the expected statistics of mini-batch k (n of N free instances). Statistics of labelled instances are
added whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.constraints import Constraint, Rule
from trellis.data.ragged import FloatArray
from trellis.errors import ConstraintError, DataError
from trellis.learn.checkpoint import flattened, unflattened
from trellis.learn.expectation import Expectation, ExpectationStep

if TYPE_CHECKING:
    from trellis.learn.uem import UEM


class OnlineSteps:
    """The mini-batches of a corpus, in an order drawn anew every pass."""

    def __init__(
        self, whole: ExpectationStep, constraints: Sequence[Constraint | Rule], size: int, settings: UEM
    ) -> None:
        if size < 1:
            raise DataError(f"online is the number of instances in a mini-batch, at least 1; got {size}")
        if not 0.5 < settings.step_power <= 1.0:
            raise DataError(f"step_power must lie in (0.5, 1] for stepwise EM to settle, got {settings.step_power}")
        if whole.projector.couples:
            raise ConstraintError("online learning sees a few instances at a time: constraints must be per instance")
        self.whole, self.settings = whole, settings
        n = len(whole.free_batch)
        self.sizes = [min(size, n - at) for at in range(0, n, size)]
        self.steps = [
            ExpectationStep(
                whole.model, whole.free_batch.take(np.arange(at, min(at + size, n))), constraints, whole.engine,
                tolerance=settings.tolerance, most_evaluations=settings.evaluations,
            )
            for at in range(0, n, size)
        ]  # fmt: skip
        self.n_batches = len(self.steps)
        self.rng = np.random.default_rng(settings.random_state)
        self.statistics: Any = None
        self.saved: dict[str, FloatArray] | None = None

    @property
    def rng_state(self) -> Any:
        return self.rng.bit_generator.state

    def restore(self, state: Any, statistics: dict[str, FloatArray] | None) -> None:
        """Go on with the random order and the statistics of a checkpoint, or of a new start, which has none yet."""
        self.rng.bit_generator.state = state
        self.statistics, self.saved = None, statistics

    def run_pass(self, gamma: float, n_steps: int) -> Expectation:
        """One pass over the corpus, with an M-step after each mini-batch; figures are sums over the pass."""
        whole, total = self.whole, len(self.whole.free_batch)
        objective, likelihood, kl, residual, evaluations = 0.0, 0.0, 0.0, 0.0, 0
        violation: dict[str, float] = {}
        for count, b in enumerate(self.rng.permutation(self.n_batches).tolist()):
            found = self.steps[b].run(gamma, likelihood=self.settings.track_likelihood, warn=False)
            scaled = found.statistics * (total / self.sizes[b])
            if self.statistics is None and self.saved is not None:
                self.statistics = unflattened(scaled, self.saved)
            eta = (n_steps + count + 2.0) ** -self.settings.step_power
            self.statistics = scaled if self.statistics is None else self.statistics * (1.0 - eta) + scaled * eta
            with_labels = self.statistics
            if whole.supervised is not None and whole.use_labelled:
                with_labels = with_labels + whole.supervised
            whole.model.update(with_labels, shards=whole.parts, engine=whole.engine)
            objective += found.objective
            likelihood += found.log_likelihood or 0.0
            kl += found.kl or 0.0
            residual = max(residual, found.kkt_residual)
            evaluations += found.evaluations
            for name, value in found.violation.items():
                violation[name] = violation.get(name, 0.0) + value / self.n_batches
        # Whole tables at the end of every pass, as a checkpoint has them: sums are then taken in one order.
        self.statistics = unflattened(self.statistics, flattened(self.statistics))
        duals = whole.projector.no_duals()
        return Expectation(None, objective, likelihood, kl, violation, duals, residual, evaluations)
