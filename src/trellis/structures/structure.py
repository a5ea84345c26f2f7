"""What every structure offers: log-potentials over the parts of its outputs, and exact queries of them.

    p(y) ∝ exp score(y),      score(y) = Σ_{parts of y} score(part)

A structure that only offers ``argmax`` and ``score`` (a 0/1 program) still serves large-margin learners.
"""

from __future__ import annotations

from typing import Any, Protocol, Self

import numpy as np

from trellis.data.ragged import FloatArray, LabelArray
from trellis.errors import DataError, InfeasibleError
from trellis.structures.parts import Parts
from trellis.structures.results import Argmax, KBest, Posterior


class Structure(Protocol):
    """Scores of a batch of instances over the outputs of one kind."""

    @property
    def parts(self) -> Parts: ...
    def infer(self, *, weights: FloatArray | None = None, edge_marginals: bool = False) -> Posterior: ...
    def argmax(self, rng: np.random.Generator | None = None) -> Argmax: ...
    def kbest(self, k: int) -> KBest: ...
    def sample(self, n: int, rng: np.random.Generator) -> LabelArray: ...
    def entropy(self) -> FloatArray: ...
    def score(self, labels: LabelArray) -> FloatArray: ...
    def log_prob(self, labels: LabelArray) -> FloatArray: ...
    def tilt(self, node: FloatArray | None = None, edge: FloatArray | None = None, gamma: float = 1.0) -> Self: ...
    def clamp(self, labels: LabelArray) -> Self: ...


def check_scores(name: str, scores: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Scores as a contiguous float64 array of the given shape (None: any size), with no NaN and no +∞."""
    checked = np.ascontiguousarray(scores, dtype=np.float64)
    if checked.ndim != len(shape) or any(
        want is not None and want != got for want, got in zip(shape, checked.shape, strict=True)
    ):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise DataError(f"{name} scores must have shape {wanted} but have {checked.shape}")
    # One pass that is cheap when all is well: a sum of finite numbers and −∞ is neither NaN nor +∞.
    with np.errstate(invalid="ignore", over="ignore"):
        total = checked.sum() if checked.size else 0.0
    if not total < np.inf:
        bad = np.argwhere(np.isnan(checked) | (checked == np.inf))
        if len(bad):
            place = tuple(int(i) for i in bad[0])
            raise DataError(f"{name} scores must be finite or −inf, but entry {place} is {checked[place]}")
    return checked


def check_gamma(gamma: float) -> float:
    """A temperature to divide scores by."""
    if not (gamma > 0 and np.isfinite(gamma)):
        raise DataError(f"gamma must be a positive number here, got {gamma}; γ = 0 is argmax")
    return float(gamma)


def check_number_of_samples(n: int) -> None:
    """Refuse to draw fewer than no samples."""
    if n < 0:
        raise DataError(f"the number of samples must not be negative, got {n}")


def refuse_impossible(log_partition: FloatArray, first: int) -> None:
    """Raise, naming the instances, if any log-partition (or best score) is −∞."""
    nothing = np.flatnonzero(log_partition == -np.inf)
    if len(nothing):
        numbers = tuple(int(first + i) for i in nothing)
        more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
        raise InfeasibleError(
            f"instance {numbers[0]}{more} has no possible output: every one uses a forbidden part (score −inf). "
            "Allow more labels or transitions there, or drop the rule that forbids them.",
            instances=numbers,
        )
