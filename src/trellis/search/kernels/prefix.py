"""Prefixes of outputs: what is paid for sure, what the rest can add at best, and which of them have the same future.

For a prefix that ends in slot t with label b, and for each row with sum s so far,

    best[t, b]              largest score of a completion                         (Chang 2011, eq. 3.5)
    least, most[t, b, r]    least and largest value that a completion adds to the row

over the completions that the scores allow: where labels may change only at punctuation, say, a label that has not come
by the last comma will not come.

The final sum lies in [s + least, s + most]. What exceeds the bound for sure is paid at once (eq. 3.1: violations of the
prefix, and those that no completion avoids) and the sum is moved to the nearest value at which nothing is sure:

    s > bound − least : every completion exceeds, by s + least − bound more than from bound − least.  Pay, move down.
    s < bound − most  : no completion exceeds; where falling short is priced too (an equality) pay. Move up.

For prices that are linear in the excess this changes nothing in the value of any completion, so two prefixes with
the same label and the same moved sums differ by a constant in all their completions: the worse may be dropped. The
other prices (squares, norms of several rows) are bounded from the excess that is sure; their sums are not moved down.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.search.kernels.terms import price_of_term
from trellis.structures.kernels.chain_max import best_completions

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


class Ahead(NamedTuple):
    """What lies ahead of the prefixes of one instance, and the coefficients of the slot that they are extended by.

    best (longest, K);  least, most (longest, K, R);  here (K, R) of the slot, between (K, K, R) of the boundary before
    it, both zero where no slot is loaded;  excess (R,) to write to
    """

    best: Any
    least: Any
    most: Any
    here: Any
    between: Any
    excess: Any


@njit(nogil=True, cache=True)
def room_ahead(scores, terms, todo):
    """Room for the longest of the instances ``todo`` and the one with most rows."""
    K, longest, R = scores.node.shape[1], 1, 0
    for i in todo:
        longest = max(longest, scores.offsets[i + 1] - scores.offsets[i])
        R = max(R, terms.row_start[i + 1] - terms.row_start[i])
    return Ahead(
        np.empty((longest, K)), np.empty((longest, K, R)), np.empty((longest, K, R)), np.zeros((K, R)),
        np.zeros((K, K, R)), np.empty(R),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def look_ahead(scores, terms, i, ahead):
    """Write best, least and most of instance i, which has a slot at least; least and most are 0 where nothing is left
    that the scores allow."""
    lo, n = scores.offsets[i], scores.offsets[i + 1] - scores.offsets[i]
    R = terms.row_start[i + 1] - terms.row_start[i]
    best, least, most, here, between = ahead.best, ahead.least, ahead.most, ahead.here, ahead.between
    K = best.shape[1]
    best_completions(scores.node, scores.node_index, scores.edge, scores.edge_index, scores.stop, lo, n, best)
    for a in range(K):
        for r in range(R):
            least[n - 1, a, r], most[n - 1, a, r] = 0.0, 0.0
    for t in range(n - 2, -1, -1):
        matrix, row = scores.edge[scores.edge_index[lo + t + 1]], scores.node[scores.node_index[lo + t + 1]]
        load_slot(terms, lo + t + 1, ahead)
        for a in range(K):
            low, high = least[t, a], most[t, a]
            hopeless = best[t, a] == -np.inf
            for r in range(R):
                low[r], high[r] = (0.0, 0.0) if hopeless else (np.inf, -np.inf)
            if hopeless:
                continue
            for b in range(K):
                if matrix[a, b] + row[b] + best[t + 1, b] == -np.inf:
                    continue
                added, pair, after_low, after_high = here[b], between[a, b], least[t + 1, b], most[t + 1, b]
                for r in range(R):
                    step = added[r] + pair[r]
                    low[r] = min(low[r], step + after_low[r])
                    high[r] = max(high[r], step + after_high[r])
        clear_slot(terms, lo + t + 1, ahead)


@njit(nogil=True, cache=True)
def load_slot(terms, t, ahead):
    """Write the coefficients of slot t and of the boundary before it."""
    here, between, value = ahead.here, ahead.between, terms.entry_value
    row, before, label = terms.entry_row, terms.entry_before, terms.entry_label
    for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
        if before[e] < 0:
            here[label[e], row[e]] += value[e]
        else:
            between[before[e], label[e], row[e]] += value[e]


@njit(nogil=True, cache=True)
def clear_slot(terms, t, ahead):
    """Undo load_slot."""
    here, between = ahead.here, ahead.between
    row, before, label = terms.entry_row, terms.entry_before, terms.entry_label
    for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
        if before[e] < 0:
            here[label[e], row[e]] = 0.0
        else:
            between[before[e], label[e], row[e]] = 0.0


@njit(nogil=True, cache=True)
def extend(terms, ahead, i, t, a, b, sums, moved):
    """moved (R,) = sums (R,) of a prefix of instance i that ends in a, after slot t, which is loaded, with label b.

    Returns what is paid for it, ∞ if a hard row can no longer be met.
    """
    here, between, least, most = ahead.here[b], ahead.between[a, b], ahead.least[t, b], ahead.most[t, b]
    first, paid = terms.row_start[i], 0.0
    for r in range(terms.row_start[i + 1] - first):
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
def curved_price(terms, ahead, i, t, b, sums):
    """Least price that the terms which are not linear take of any completion of a prefix with these sums (R,)."""
    excess, least, most = ahead.excess, ahead.least[t, b], ahead.most[t, b]
    total = 0.0
    first = terms.row_start[i]
    for term in range(terms.term_start[i], terms.term_start[i + 1]):
        low, high = terms.term_first[term]
        for r in range(low, high):
            bound = terms.bound[first + r]
            excess[r] = max(0.0, sums[r] + least[r] - bound)
            if terms.equality[first + r]:
                excess[r] = max(excess[r], bound - sums[r] - most[r])
        j = first + low
        total += price_of_term(excess[low:high], terms.pricing[j], terms.amount[j], terms.tolerance[j])
    return total


@njit(nogil=True, cache=True)
def hash_state(tag, bits, R):
    """Hash of a tag (slot, label) and the bit patterns of R sums."""
    h = mixed(np.uint64(tag))
    for r in range(R):
        h = (h ^ np.uint64(bits[r])) * SECOND
        h = h ^ (h >> np.uint64(29))
    return mixed(h)


@njit(nogil=True, cache=True)
def same_state(bits, other, R):
    """Whether R sums agree bit by bit."""
    for r in range(R):  # noqa: SIM110 (a generator is slower in compiled code)
        if bits[r] != other[r]:
            return False
    return True


@njit(nogil=True, cache=True)
def child_key(key, label):
    """Key of a prefix made one label longer, by which ties are broken; 0 (no random choice) stays 0."""
    if key == np.uint64(0):
        return key
    return mixed(key + np.uint64(label)) | np.uint64(1)


@njit(nogil=True, cache=True)
def mixed(x):
    """A uint64 whose bits all depend on all bits of x (splitmix64)."""
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))
