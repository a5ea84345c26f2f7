"""What the one loop does in a round of a large-margin learner.

    CuttingPlaneStep   one pass of the cutting plane method over a convex problem (structural SVM)
    LatentStep         structures that are not known are held at the best ones of w_t, and the convex problem that is
                       left is solved (Chang 2011, algorithms 10 and 13; the concave-convex procedure of eq. 2.18)

Both make their own M-steps, so they hand no statistics on. In the history the objective of cutting planes is the dual
value, which rises, and ``gap`` its distance to the primal; of the others it is −Q(w), Q with every structure free.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.engine import Placed
from trellis.learn.checkpoint import Checkpoint
from trellis.learn.expectation import Expectation
from trellis.learn.margin.cutting_plane import CuttingPlane, Weights
from trellis.projection import Duals


class MarginTraining:
    """What the loop trains: weights, from 0 or from those a model brings."""

    def __init__(self, weights: Weights) -> None:
        self.model, self._first = weights, weights.parameters()

    @property
    def supervised_parameters(self) -> dict[str, FloatArray]:
        return self._first

    def begin(self, start: str, rng: np.random.Generator, scale: float, free: Any) -> None:
        self.model.set_parameters(self._first)

    def update(self, statistics: Any, free: Any) -> None: ...

    def log_prior(self) -> float:
        return 0.0


class MarginStep(ABC):
    """What the steps have in common: no shards of free instances, random numbers, arrays for a checkpoint.

    kept : whether rounds leave behind what a checkpoint needs
    """

    kept = False

    def __init__(self) -> None:
        self.rng = np.random.default_rng()
        self._left: Duals | None = None

    @property
    def placed(self) -> list[Placed[Any]]:
        return []

    def nothing(self, gamma: float) -> Duals:
        return Duals.none()

    def restore(self, run: Checkpoint) -> None:
        """Go on with the random numbers and the state of a run, or of a new start, which has none yet."""
        self.rng.bit_generator.state = run.rng_state
        if run.duals is None:
            self.begin()
        elif run.duals is not self._left:
            self.resume(run.duals.memory)

    def snapshot(self) -> dict[str, Any]:
        return {"rng_state": self.rng.bit_generator.state}

    @abstractmethod
    def begin(self) -> None:
        """Start anew."""

    @abstractmethod
    def resume(self, arrays: tuple[FloatArray | None, ...]) -> None:
        """Go on with what :meth:`arrays` gave."""

    @abstractmethod
    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        """A round."""

    @abstractmethod
    def arrays(self) -> Sequence[Any]:
        """What a next round depends on beside the weights, as flat arrays: for a checkpoint."""

    def done(self, objective: float, *, evaluations: int, gap: float = 0.0, settled: bool) -> Expectation:
        """A round's outcome."""
        left = [np.array(array, dtype=np.float64) for array in self.arrays()] if self.kept else []
        self._left = Duals(np.zeros(0), (), tuple(left))
        return Expectation(None, objective, None, None, {}, self._left, 0.0, evaluations, gap, settled=settled)


class CuttingPlaneStep(MarginStep):
    """A pass over a convex problem whose given outputs are all known."""

    def __init__(self, solver: CuttingPlane) -> None:
        super().__init__()
        self.solver = solver
        solver.give(*solver.examples.given.given())

    def begin(self) -> None:
        self.solver.clear()

    def resume(self, arrays: tuple[FloatArray | None, ...]) -> None:
        self.solver.restore(arrays)

    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        self.solver.rng = self.rng
        found = self.solver.advance()
        cuts = len(self.solver.set)
        return self.done(found.dual, evaluations=cuts, gap=found.gap, settled=found.settled)

    def arrays(self) -> Sequence[Any]:
        return self.solver.arrays()


class LatentStep(MarginStep):
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
        super().__init__()
        self.first = first
        self.convex = not len(solver.examples.positive) and not solver.examples.latent  # one round solves it
        self.solver, self.passes, self.tol, self.two_stage = solver, passes, tol, two_stage
        self.value = np.inf
        if len(solver.examples.given) and not solver.examples.latent:
            solver.give(*solver.examples.given.given())

    def begin(self) -> None:
        """The first weights: from the given outputs that are all known; or from a heuristic; or as they are."""
        solver = self.solver
        solver.rng = self.rng
        solver.clear()
        self.value = np.inf
        if self.first is not None:
            self.first.clear()
            self.first.rng = self.rng
            self.first.give(*self.first.examples.given.given())
            self.first.solve(self.passes)
        fixed, solver.fixed = solver.fixed, True  # yes/no examples count only where they have a structure held
        if len(solver.examples.given) and not solver.examples.latent and not self.convex:
            solver.solve(self.passes)
        elif self.two_stage and not fixed:
            self._hold(everything=True)
            solver.forget_value()
            solver.solve(self.passes)
            solver.clear()
        solver.fixed = fixed

    def resume(self, arrays: tuple[FloatArray | None, ...]) -> None:
        self.solver.restore(arrays)
        self.value = np.inf

    def run(self, gamma: float, duals: Duals | None) -> Expectation:
        solver = self.solver
        solver.rng = self.rng
        before = self.value if np.isfinite(self.value) else solver.objective()
        self._hold(everything=solver.fixed)
        solver.forget_value()
        if not solver.fixed and not self.convex:
            solver.best = before
        solver.solve(self.passes)
        self.value = solver.objective()
        fell = abs(before - self.value) if solver.fixed else before - self.value
        settled = self.convex or bool(fell <= self.tol * abs(before))
        return self.done(-self.value, evaluations=len(solver.set), settled=settled)

    def arrays(self) -> Sequence[Any]:
        return self.solver.arrays()

    def _hold(self, *, everything: bool = False) -> None:
        """Structures at the model's weights: of outputs known in part, of positive and perhaps of negative examples."""
        solver, rng = self.solver, self.rng if self.solver.ties else None
        given, negative, positive = solver.examples.groups
        if solver.examples.latent:
            found = given.search(known=True, rng=rng)
            solver.give(found.rows, -found.constant)
        if len(positive):
            solver.hold(2, positive.search(rng=rng))
        if everything and len(negative):
            solver.hold(1, negative.search(rng=rng))
