"""Schedules of γ over rounds: a number, a list, a function, or annealing from one value to another.

γ: ∞ → 1 is deterministic annealing, γ: 1 → 0 ends in hard EM (Samdani et al. 2012, sec. 2; Chang 2011, sec. 4.3)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.errors import DataError

Gamma = float | Sequence[float] | Callable[[int], float]


@dataclass(frozen=True)
class Anneal:
    """Schedule for γ: geometric (or linear, if an end is 0) interpolation over rounds.

    Parameters
    ----------
    start : float
        Value in the first round.
    end : float, default=1.0
        Value after ``rounds`` rounds.
    rounds : int, default=20
        Number of rounds.

    Examples
    --------
    >>> [Anneal(8.0, 1.0, 3)(r) for r in range(5)]
    [8.0, 4.0, 2.0, 1.0, 1.0]
    """

    start: float
    end: float = 1.0
    rounds: int = 20

    def __call__(self, number: int) -> float:
        if number >= self.rounds:
            return self.end
        share = number / self.rounds
        if self.start > 0 and self.end > 0:
            return float(self.start * (self.end / self.start) ** share)
        return float(self.start + (self.end - self.start) * share)


SMALLEST = 1e-100
"""The least γ that is not 0."""


def gamma_at(gamma: Gamma, number: int) -> float:
    """The value of a schedule in round ``number``; a list stays at its last entry."""
    value: Any = gamma
    if callable(gamma):
        value = gamma(number)
    elif isinstance(gamma, Sequence | np.ndarray) and not isinstance(gamma, str):
        if len(gamma) == 0:
            raise DataError("a schedule of γ needs at least one value")
        value = gamma[min(number, len(gamma) - 1)]
    if not isinstance(value, int | float | np.integer | np.floating) or not (value >= 0 and np.isfinite(value)):
        raise DataError(f"γ must be a number ≥ 0, got {value!r} in round {number}")
    if 0 < value < SMALLEST:
        raise DataError(f"γ must be 0, or {SMALLEST:g} or more: scores divided by {value!r} overflow")
    return float(value)


def is_constant_from(gamma: Gamma, number: int) -> bool:
    """Whether γ has settled by a round, so that the objective of the next rounds can be compared with it."""
    if callable(gamma):
        return all(gamma(number) == gamma(number + ahead) for ahead in (1, 2, 10, 100))
    if isinstance(gamma, Sequence | np.ndarray):
        return number >= len(gamma) - 1
    return True
