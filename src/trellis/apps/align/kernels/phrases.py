"""Phrase pairs of a sentence pair: boxes of the grid of links that no link leaves.

With link probabilities p(i, j) that are independent, the box i₁..i₂ × j₁..j₂ is consistent with the links and holds at
least one of them with probability

    Π (1 − p) over links in its rows or columns but outside it  ·  (1 − Π (1 − p) over links inside)

For links that are given this is 1 for the phrase pairs of Koehn et al. (2003) and 0 for all others. Sums of log(1 − p)
over boxes come from a table of prefix sums.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MONOTONE, SWAP, OTHER = 0, 1, 2


@njit(nogil=True, cache=True)
def phrase_boxes(log_free, longest, least, boxes, weights, orientations):
    """Write the boxes of weight ``least`` or more, and return their number; at most ``len(boxes)`` are written.

    log_free : (I, J) log(1 − p) of each link;  longest : words of a phrase
    boxes : (n, 4) first and last source word, first and last target word;  weights : (n,)
    orientations : (n, 2) how the phrase follows the one before it, and how the one after follows it
    """
    n_source, n_target = log_free.shape
    sums = np.zeros((n_source + 1, n_target + 1))
    for i in range(n_source):
        row = 0.0
        for j in range(n_target):
            row += log_free[i, j]
            sums[i + 1, j + 1] = sums[i, j + 1] + row
    log_least = np.log(least)
    n = 0
    for i1 in range(n_source):
        for i2 in range(i1, min(n_source, i1 + longest)):
            rows = sums[i2 + 1, n_target] - sums[i1, n_target]
            if rows == 0.0:
                continue
            for j1 in range(n_target):
                for j2 in range(j1, min(n_target, j1 + longest)):
                    inside = sums[i2 + 1, j2 + 1] - sums[i1, j2 + 1] - sums[i2 + 1, j1] + sums[i1, j1]
                    columns = sums[n_source, j2 + 1] - sums[n_source, j1]
                    outside = rows + columns - 2.0 * inside
                    if inside == 0.0 or outside < log_least:
                        continue
                    weight = np.exp(min(outside, 0.0)) * -np.expm1(inside)
                    if weight < least:
                        continue
                    if n < len(boxes):
                        boxes[n] = i1, i2, j1, j2
                        weights[n] = weight
                        orientations[n, 0] = orientation(
                            is_link(log_free, i1 - 1, j1 - 1), is_link(log_free, i2 + 1, j1 - 1)
                        )
                        orientations[n, 1] = orientation(
                            is_link(log_free, i2 + 1, j2 + 1), is_link(log_free, i1 - 1, j2 + 1)
                        )
                    n += 1
    return n


@njit(nogil=True, cache=True)
def is_link(log_free, i, j):
    """Whether a link is more likely than not; the sentences are linked before their first and after their last word."""
    n_source, n_target = log_free.shape
    if i < 0 or j < 0 or i == n_source or j == n_target:
        return (i == -1 and j == -1) or (i == n_source and j == n_target)
    return log_free[i, j] <= -np.log(2.0)


@njit(nogil=True, cache=True)
def orientation(straight, crossed):
    """Orientation of two neighbouring phrases by the link at their corner (Moses' word-based orientation)."""
    if straight == crossed:
        return OTHER
    return MONOTONE if straight else SWAP
