"""Ranking measures: whether the correct candidate is first, and its mean reciprocal rank.

accuracy = share of queries whose first candidate is right,      MRR = mean of 1 / rank of the right one
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import IntArray
from trellis.errors import DataError


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
