"""Prefixes of outputs: what is paid for sure, and what the rest can add at best.

For a prefix that ends in slot t with label b, and for each row with sum s so far,

    best[t, b]              largest score of a completion                         (Chang 2011, eq. 3.5)
    least, most[t, b, r]    least and largest value that a completion adds to the row

over the completions that the scores allow: where labels may change only at punctuation, say, a label that has not come
by the last comma will not come (:class:`trellis.constraints.PrefixRows` bounds the same without scores).

The final sum lies in [s + least, s + most]. What exceeds the bound for sure is paid at once (eq. 3.1: violations of the
prefix, and those that no completion avoids) and the sum is moved to the nearest value at which nothing is sure:

    s > bound − least : every completion exceeds, by s + least − bound more than from bound − least.  Pay, move down.
    s < bound − most  : no completion exceeds; where falling short is priced too (an equality) pay. Move up.

For prices that are linear in the excess this changes nothing in the value of any completion, so two prefixes with
the same label and the same moved sums differ by a constant in all their completions: the worse may be dropped. The
other prices (squares, norms of several rows) are bounded from the excess that is sure; their sums are not moved down.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.search.kernels.pricing import price_of_term


@njit(nogil=True, cache=True)
def completions(scores, lo, n, best):
    """best[t, b] = largest score of slots t + 1.. after label b in slot t, stop included."""
    K = best.shape[1]
    for b in range(K):
        best[n - 1, b] = scores.stop[b]
    for t in range(n - 2, -1, -1):
        matrix, row = scores.edge[scores.edge_index[lo + t + 1]], scores.node[scores.node_index[lo + t + 1]]
        for a in range(K):
            top = -np.inf
            for b in range(K):
                top = max(top, matrix[a, b] + (row[b] + best[t + 1, b]))
            best[t, a] = top


@njit(nogil=True, cache=True)
def load_slot(terms, t, here, between):
    """Coefficients of slot t (here (K, R)) and of the boundary before it (between (K, K, R)), both zero before."""
    for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
        if terms.entry_before[e] < 0:
            here[terms.entry_label[e], terms.entry_row[e]] += terms.entry_value[e]
        else:
            between[terms.entry_before[e], terms.entry_label[e], terms.entry_row[e]] += terms.entry_value[e]


@njit(nogil=True, cache=True)
def clear_slot(terms, t, here, between):
    """Undo load_slot."""
    for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
        if terms.entry_before[e] < 0:
            here[terms.entry_label[e], terms.entry_row[e]] = 0.0
        else:
            between[terms.entry_before[e], terms.entry_label[e], terms.entry_row[e]] = 0.0


@njit(nogil=True, cache=True)
def remaining(scores, terms, lo, n, R, best, here, between, least, most):
    """least, most (n, K, R) over possible completions; zero where there is none."""
    K = best.shape[1]
    least[n - 1, :, :R] = 0.0
    most[n - 1, :, :R] = 0.0
    for t in range(n - 2, -1, -1):
        matrix, row = scores.edge[scores.edge_index[lo + t + 1]], scores.node[scores.node_index[lo + t + 1]]
        load_slot(terms, lo + t + 1, here, between)
        for a in range(K):
            low, high = least[t, a], most[t, a]
            if best[t, a] == -np.inf:
                low[:R] = 0.0
                high[:R] = 0.0
                continue
            low[:R] = np.inf
            high[:R] = -np.inf
            for b in range(K):
                if matrix[a, b] + row[b] + best[t + 1, b] == -np.inf:
                    continue
                added, pair, after_low, after_high = here[b], between[a, b], least[t + 1, b], most[t + 1, b]
                for r in range(R):
                    step = added[r] + pair[r]
                    low[r] = min(low[r], step + after_low[r])
                    high[r] = max(high[r], step + after_high[r])
        clear_slot(terms, lo + t + 1, here, between)


@njit(nogil=True, cache=True)
def extend(terms, first, R, sums, here, between, least, most, moved):
    """moved (R,) = sums after one more slot; returns what is paid for it, ∞ if a hard row can no longer be met.

    here, between, least, most : (R,) of this slot and label;  first : the instance's first row
    """
    paid = 0.0
    for r in range(R):
        value = sums[r] + (here[r] + between[r])
        low, high = terms.low_end[first + r] - most[r], terms.high_end[first + r] - least[r]
        if value > high:
            paid += terms.price_high[first + r] * (value - high)
            value = high
        elif value < low:
            paid += terms.price_low[first + r] * (low - value)
            value = low
        moved[r] = value + 0.0  # −0 and 0 must look alike when sums are compared bit by bit
    return paid


@njit(nogil=True, cache=True)
def curved_price(terms, instance, sums, least, most, excess):
    """Least price that the terms which are not linear take of any completion; excess (R,) is overwritten."""
    total = 0.0
    first = terms.row_start[instance]
    for term in range(terms.term_start[instance], terms.term_start[instance + 1]):
        low, high = terms.term_first[term]
        for r in range(low, high):
            bound = terms.bound[first + r]
            excess[r] = max(0.0, sums[r] + least[r] - bound)
            if terms.equality[first + r]:
                excess[r] = max(excess[r], bound - sums[r] - most[r])
        total += price_of_term(
            excess[low:high], terms.pricing[first + low], terms.amount[first + low],
            terms.tolerance[first + low],
        )  # fmt: skip
    return total
