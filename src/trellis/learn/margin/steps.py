"""What the one loop does in a round of a large-margin learner.

    CuttingPlaneStep   one pass of the cutting plane method over a convex problem (structural SVM)
    LatentStep         structures that are not known are held at the best ones of w_t, and the convex problem that is
                       left is solved (Chang 2011, algorithms 10 and 13; the concave-convex procedure of eq. 2.18)

Both make their own M-steps, so they hand no statistics on. In the history the objective of cutting planes is the dual
value, which rises, and ``gap`` its distance to the primal; of the others it is −Q(w), Q with every structure free.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.learn.margin.cutting_plane import CutState, CuttingPlane, Weights
from trellis.learn.margin.group import Best
from trellis.loop.step import S, Step, StepResult


class MarginStep(Step[S]):
    """A step that trains weights, from 0 or from those a model brings, and is not asked for statistics."""

    def __init__(self, weights: Weights) -> None:
        self.model, self._first = weights, weights.parameters()

    def begin(self, start: str, rng: np.random.Generator, scale: float) -> None:
        self.model.set_parameters(self._first)


class CuttingPlaneStep(MarginStep[CutState]):
    """A pass over a convex problem whose given outputs are all known."""

    def __init__(self, solver: CuttingPlane) -> None:
        super().__init__(solver.weights)
        self.solver = solver
        solver.give(*solver.examples.given.given())

    def initial_state(self, gamma: float, rng: np.random.Generator) -> CutState:
        self.solver.clear()
        return self.solver.state()

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> CutState:
        return self.solver.read(arrays)

    def run(self, gamma: float, state: CutState, rng: np.random.Generator) -> StepResult:
        self.solver.go_on(state)
        found = self.solver.advance(rng)
        return StepResult(
            None, found.dual, self.solver.state(), evaluations=len(self.solver.set), gap=found.gap,
            settled=found.settled,
        )  # fmt: skip


class LatentStep(MarginStep[CutState]):
    """One outer round: hold what is not known at the best of w_t, solve, and look where the objective is.

    Q(w_{t+1}) ≤ A(w_{t+1}, w_t) ≤ A(w_t, w_t) = Q(w_t): w_t is among what the inner problem may answer, so the
    objective falls however early the inner problem is stopped (Chang 2011, theorem 3). With ``solver.fixed`` the
    structures of negative examples are held as well (algorithm 12), and nothing is promised.

    passes : of the inner problem at most;  tol : the end is where Q falls by less than this share of itself
    two_stage : whether the first weights are a heuristic for structures alone, and one solve with all structures
        held comes before the rounds (Chang 2011, sec. 5.4)
    first : the problem of the given outputs that are all known, where others are known in part: a start
    """

    def __init__(
        self, solver: CuttingPlane, *, passes: int, tol: float, two_stage: bool, first: CuttingPlane | None = None
    ) -> None:
        super().__init__(solver.weights)
        self.first = first
        self.convex = not len(solver.examples.positive) and not solver.examples.latent  # one round solves it
        self.solver, self.passes, self.tol, self.two_stage = solver, passes, tol, two_stage
        self.value = np.inf
        if len(solver.examples.given) and not solver.examples.latent:
            solver.give(*solver.examples.given.given())

    def initial_state(self, gamma: float, rng: np.random.Generator) -> CutState:
        """The first weights: from structures of positive examples that a start has found, or from the given outputs
        that are all known, or from a heuristic, or as they are."""
        solver = self.solver
        solver.clear()
        self.value = np.inf
        if self.first is not None:
            self.first.clear()
            self.first.give(*self.first.examples.given.given())
            self.first.solve(self.passes, rng)
        given, _, positive = solver.examples.groups
        if positive.batch.known:
            if solver.examples.latent:
                self._hold_given(rng)
            rows, paid = positive.given()
            solver.hold(2, Best(-paid, np.arange(len(positive)), rows, -paid))
            solver.solve(self.passes, rng)
            return solver.state()
        fixed, solver.fixed = solver.fixed, True  # yes/no examples count only where they have a structure held
        if len(given) and not solver.examples.latent and not self.convex:
            solver.solve(self.passes, rng)
        elif self.two_stage and not fixed:
            self._hold(rng, everything=True)
            solver.forget_value()
            solver.solve(self.passes, rng)
            solver.clear()
        solver.fixed = fixed
        return solver.state()

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> CutState:
        return self.solver.read(arrays)

    def run(self, gamma: float, state: CutState, rng: np.random.Generator) -> StepResult:
        solver = self.solver
        if solver.go_on(state):
            self.value = np.inf
        before = self.value if np.isfinite(self.value) else solver.objective()
        self._hold(rng, everything=solver.fixed)
        solver.forget_value()
        if not solver.fixed and not self.convex:
            solver.best = before
        solver.solve(self.passes, rng)
        self.value = solver.objective()
        fell = abs(before - self.value) if solver.fixed else before - self.value
        settled = self.convex or bool(fell <= self.tol * abs(before))
        return StepResult(None, -self.value, solver.state(), evaluations=len(solver.set), settled=settled)

    def _hold(self, rng: np.random.Generator, *, everything: bool = False) -> None:
        """Structures at the model's weights: of outputs known in part, of positive and perhaps of negative examples."""
        solver, drawn = self.solver, rng if self.solver.ties else None
        _, negative, positive = solver.examples.groups
        if solver.examples.latent:
            self._hold_given(rng)
        if len(positive):
            solver.hold(2, positive.search(rng=drawn))
        if everything and len(negative):
            solver.hold(1, negative.search(rng=drawn))

    def _hold_given(self, rng: np.random.Generator) -> None:
        """The best of the outputs that agree with what is given."""
        found = self.solver.examples.given.search(known=True, rng=rng if self.solver.ties else None)
        self.solver.give(found.rows, -found.constant)
