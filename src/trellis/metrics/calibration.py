"""Calibration of probabilities: of answers with probability 0.8, four in five should be correct.

expected calibration error   Σ_bins (n_bin / n) |share right in the bin − mean probability in it|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from trellis.errors import DataError


@dataclass(frozen=True)
class Bin:
    """Things whose probability is from ``low`` on: how many, their mean probability, the share that is right."""

    low: float
    n: int
    probability: float
    right: float


@dataclass(frozen=True)
class Calibration:
    """error : the expected calibration error;  bins : those that are not empty."""

    error: float
    bins: tuple[Bin, ...]


def calibration(probability: Sequence[float], right: Sequence[bool], n_bins: int = 5) -> Calibration:
    """Probabilities of things beside whether they were right.

    >>> found = calibration([0.9, 0.9, 0.1, 0.3], [True, False, False, False], 2)
    >>> round(found.error, 3), [(one.low, one.n, one.right) for one in found.bins]
    (0.3, [(0.0, 2, 0.0), (0.5, 2, 0.5)])
    """
    p, hit = np.asarray(probability, dtype=np.float64), np.asarray(right, dtype=np.float64)
    if not len(p) or p.shape != hit.shape:
        raise DataError(f"calibration needs as many answers as probabilities, got {p.shape} and {hit.shape}")
    place = np.minimum((p * n_bins).astype(np.int64), n_bins - 1)
    bins = tuple(
        Bin(float(b / n_bins), int(mine.sum()), float(p[mine].mean()), float(hit[mine].mean()))
        for b in range(n_bins)
        if (mine := place == b).any()
    )
    return Calibration(sum(one.n * abs(one.right - one.probability) for one in bins) / len(p), bins)
