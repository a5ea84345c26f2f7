"""Prices that are functions of the labels of one slot, or of two that meet, as additions to parts."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.search.kernels.pricing import excess_of, price_of_term


@njit(nogil=True, cache=True)
def cells(first, start, part, coefficient, bound, equality, pricing, amount, tolerance, n_node, K, cell, value):
    """Write the parts and what is added to each, −(price − price of using none of the parts); return how many.

    first : (n_terms + 1,) rows of each term;  start : (n_rows + 1,) entries of each row
    cell, value : at least n_terms · K² long
    """
    n = 0
    for term in range(len(first) - 1):
        lo, hi = first[term], first[term + 1]
        left, right, pairs = n_node, -1, False
        for e in range(start[lo], start[hi]):
            if part[e] >= n_node:
                slot, pairs = (part[e] - n_node) // (K * K), True
                left = min(left, slot - 1)
            else:
                slot = part[e] // K
                left = min(left, slot)
            right = max(right, slot)
        if right < 0:
            continue
        pairs = pairs or left < right
        rows = hi - lo
        phi = np.zeros((K, K, rows)) if pairs else np.zeros((1, K, rows))
        for r in range(lo, hi):
            for e in range(start[r], start[r + 1]):
                if part[e] >= n_node:
                    within = (part[e] - n_node) % (K * K)
                    phi[within // K, within % K, r - lo] += coefficient[e]
                elif pairs and part[e] // K == left:
                    phi[part[e] % K, :, r - lo] += coefficient[e]
                else:
                    phi[:, part[e] % K, r - lo] += coefficient[e]
        excess = np.empty(rows)
        for r in range(rows):
            excess[r] = excess_of(0.0, bound[lo + r], equality[lo + r])
        base = price_of_term(excess, pricing[lo], amount[lo], tolerance[lo])
        if base == np.inf:
            base = 0.0
        for a in range(phi.shape[0]):
            for b in range(K):
                for r in range(rows):
                    excess[r] = excess_of(phi[a, b, r], bound[lo + r], equality[lo + r])
                added = base - price_of_term(excess, pricing[lo], amount[lo], tolerance[lo])
                if added != 0.0:
                    cell[n] = n_node + (right * K + a) * K + b if pairs else right * K + b
                    value[n] = added
                    n += 1
    return n
