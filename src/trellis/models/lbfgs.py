"""L-BFGS (Nocedal 1980; Nocedal & Wright 2006, algorithms 7.4, 3.5 and 3.6) for many weights.

Why not SciPy's: on the 457,000 weights of a chunking CRF its L-BFGS-B spends 160 ms a round on bounds that are not
there, beside 260 ms for the objective; the two loops below take 7 ms.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.engine.blas import blas_at_one_thread

Objective = Callable[[FloatArray], tuple[float, FloatArray]]
"""w -> value and gradient."""
Memory = deque[tuple[FloatArray, FloatArray, float]]
"""Of each remembered round: how the weights and the gradient changed, and 1 / their product."""

MEMORY = 6
"""Rounds that are remembered."""
DECREASE, CURVATURE = 1e-4, 0.9
"""The strong Wolfe conditions that a step must meet."""
MAX_TRIES = 25


@dataclass(frozen=True)
class Minimum:
    """weights : where the search ended;  objective : the value there;  rounds;  evaluations;  converged."""

    weights: FloatArray
    objective: float
    rounds: int
    evaluations: int
    converged: bool


@dataclass(frozen=True)
class _Point:
    """A place on the line of a search: the step that leads there, its value, slope along the line, and gradient."""

    step: float
    value: float
    slope: float
    weights: FloatArray
    gradient: FloatArray


def minimise(
    objective: Objective,
    weights: FloatArray,
    *,
    max_iter: int,
    tol: float,
    callback: Callable[[FloatArray], None] | None = None,
) -> Minimum:
    """Minimise a smooth function; every round lowers it.

    Stops when a round lowers the value by less than ``tol`` of it (or of 1), when no entry of the gradient is above
    ``tol``, or when rounding leaves nothing to gain. ``callback`` is called with the weights after each round.

    >>> found = minimise(lambda w: (float(((w - 3) ** 2).sum()), 2 * (w - 3)), np.zeros(2), max_iter=20, tol=1e-12)
    >>> found.weights.round(6).tolist(), found.converged
    ([3.0, 3.0], True)
    """
    # BLAS at one thread: else the bits of a dot product depend on the number of cores.
    with blas_at_one_thread():
        for found in descend(objective, weights, tol=tol):
            if callback is not None and found.rounds:
                callback(found.weights)
            if found.converged or found.rounds >= max_iter:
                break
    return found


def descend(objective: Objective, weights: FloatArray, *, tol: float) -> Iterator[Minimum]:
    """Where the search begins, and where it is after each round of :func:`minimise`, until it has converged.

    Whoever goes through it holds BLAS at one thread.
    """
    value, gradient = objective(weights)
    evaluations, rounds = 1, 0
    memory: Memory = deque(maxlen=MEMORY)
    gain = np.inf
    while True:
        settled = bool(gain <= tol * max(1.0, abs(value)) or np.abs(gradient).max(initial=0.0) <= tol)
        yield Minimum(weights, value, rounds, evaluations, settled)
        if settled:
            return
        point, tries = _lower(objective, weights, value, gradient, memory)
        evaluations += tries
        if point is None:  # not even the steepest descent leads down
            yield Minimum(weights, value, rounds, evaluations, True)
            return
        change, turn = point.weights - weights, point.gradient - gradient
        curvature = float(change @ turn)
        if curvature > 1e-16 * float(turn @ turn):
            memory.append((change, turn, 1.0 / curvature))
        gain = value - point.value
        weights, value, gradient = point.weights, point.value, point.gradient
        rounds += 1


def _lower(
    objective: Objective, weights: FloatArray, value: float, gradient: FloatArray, memory: Memory
) -> tuple[_Point | None, int]:
    """A lower point along the remembered curvature, or along the gradient where rounding has spoiled that."""
    tries = 0
    while True:
        direction = _direction(gradient, memory)
        slope = float(direction @ gradient)
        if not slope < 0.0:
            memory.clear()
            direction, slope = -gradient, -float(gradient @ gradient)
        first = 1.0 if memory else min(1.0, 1.0 / float(np.sqrt(gradient @ gradient)))
        point, own = _search(objective, _Point(0.0, value, slope, weights, gradient), direction, first)
        tries += own
        if point is not None or not memory:
            return point, tries
        memory.clear()


def _direction(gradient: FloatArray, memory: Memory) -> FloatArray:
    """−H · gradient, H the inverse curvature of the remembered rounds (two loops)."""
    direction = -gradient
    shares = []
    for change, turn, inverse in reversed(memory):
        share = inverse * float(change @ direction)
        direction -= share * turn
        shares.append(share)
    if memory:
        _, turn, inverse = memory[-1]
        direction *= 1.0 / (inverse * float(turn @ turn))
    for (change, turn, inverse), share in zip(memory, reversed(shares), strict=True):
        direction += (share - inverse * float(turn @ direction)) * change
    return direction


def _search(objective: Objective, here: _Point, direction: FloatArray, step: float) -> tuple[_Point | None, int]:
    """A step that meets the strong Wolfe conditions, or the lowest that was found; None where nothing is lower."""
    # ``low`` is the best step so far and goes down towards ``high``, so that a good step lies between them.
    low: _Point = here
    high: _Point | None = None
    negligible = 1e-15 * max(1.0, abs(here.value))
    tries = 0
    while tries < MAX_TRIES:
        weights = here.weights + step * direction
        value, gradient = objective(weights)
        tries += 1
        point = _Point(step, value, float(gradient @ direction), weights, gradient)
        if not value <= min(here.value + DECREASE * step * here.slope, low.value):
            high = point
        else:
            if abs(point.slope) <= -CURVATURE * here.slope:
                return point, tries
            if point.slope * (1.0 if high is None else high.step - low.step) >= 0.0:
                high = low
            low = point
        if high is not None and abs(low.slope * (high.step - low.step)) <= negligible:
            break
        step = 4.0 * step if high is None else _between(low, high)
    return (low if low.value < here.value else None), tries


def _between(low: _Point, high: _Point) -> float:
    """The minimum of the cubic through both ends, kept away from them; half-way where there is none."""
    width = high.step - low.step
    share = 0.5
    if np.isfinite(high.value) and np.isfinite(high.slope):
        steepness = low.slope + high.slope - 3.0 * (high.value - low.value) / width
        inside = steepness * steepness - low.slope * high.slope
        if inside >= 0.0:
            root = float(np.copysign(np.sqrt(inside), width))
            bottom = high.slope - low.slope + 2.0 * root
            if bottom != 0.0:
                share = 1.0 - (high.slope + root - steepness) / bottom
    return low.step + width * float(np.clip(share if np.isfinite(share) else 0.5, 0.1, 0.9))
