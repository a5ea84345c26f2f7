"""Measures of ranked and of probable answers: is the right candidate first, and is a probability what it says?

accuracy = share of queries whose first candidate is right,      MRR = mean of 1 / rank of the right one
expected calibration error = Σ_bins (n_bin / n) |share right in the bin − mean probability in it|
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import IntArray
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


@dataclass(frozen=True)
class RankingScores:
    """accuracy and mrr as shares, over ``n`` queries."""

    accuracy: float
    mrr: float
    n: int


def ranks(scores: Any, right: Any) -> IntArray:
    """(n_queries,): the rank of the best right candidate; wrong ones that score as much stand before it.

    scores : (n_queries, n_candidates);  right : the same shape, bools

    >>> ranks([[0.2, 0.9, 0.9], [1.0, 0.0, 0.0]], [[False, True, False], [True, False, False]]).tolist()
    [2, 1]
    """
    given, is_right = np.asarray(scores, np.float64), np.asarray(right, np.bool_)
    if given.ndim != 2 or given.shape != is_right.shape:
        raise DataError(f"scores and right answers must be tables of one shape, got {given.shape} and {is_right.shape}")
    without = np.flatnonzero(~is_right.any(axis=1))
    if len(without):
        raise DataError(f"query {without[0]} (and {len(without) - 1} more) has no correct candidate")
    best = np.where(is_right, given, -np.inf).max(axis=1)
    return np.asarray(1 + np.count_nonzero((given >= best[:, None]) & ~is_right, axis=1))


def score_ranking(scores: Any, right: Any) -> RankingScores:
    """Accuracy and mean reciprocal rank."""
    found = ranks(scores, right)
    if not len(found):
        raise DataError("there are no queries to rank candidates for")
    return RankingScores(float(np.mean(found == 1)), float(np.mean(1.0 / found)), len(found))
