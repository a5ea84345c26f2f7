"""Prices of excess vectors, in compiled code; the codes are those of :class:`trellis.search.prices.Pricing`."""

from __future__ import annotations

import numpy as np
from numba import njit

LINEAR, HARD, SQUARED, L2, LINF, WITHIN_L1, WITHIN_L2 = range(7)


@njit(nogil=True, cache=True)
def excess_of(value, bound, equality):
    """(φ − b)⁺, or |φ − b|."""
    over = value - bound
    if equality:
        return abs(over)
    return max(over, 0.0)


@njit(nogil=True, cache=True)
def price_of_term(excess, pricing, amount, tolerance):
    """Price of one term: excess (n,) of its rows."""
    added, squares, largest = 0.0, 0.0, 0.0
    for r in range(excess.shape[0]):
        added += excess[r]
        squares += excess[r] * excess[r]
        largest = max(largest, excess[r])
    if pricing == LINEAR:
        return amount * added
    if pricing == SQUARED:
        return 0.5 * amount * squares
    if pricing == L2:
        return amount * np.sqrt(squares)
    if pricing == LINF:
        return amount * largest
    if pricing == HARD:
        return 0.0 if largest <= amount + tolerance else np.inf
    if pricing == WITHIN_L1:
        return 0.0 if added <= amount + tolerance else np.inf
    return 0.0 if np.sqrt(squares) <= amount + tolerance else np.inf
