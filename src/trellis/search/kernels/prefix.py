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

    best (longest, K);  least, most (longest, K, R);  here (K, R) of the slot, zero where none is loaded
    pair_head (K, K), pair_next, pair_row, pair_value (most of a slot,): coefficients of the boundary before it, a chain
        for each pair of labels, which ends with −1. Few pairs have any, and as a table they would be K² R numbers
    step, excess (R,), pairs (K, R), alike (K,): to write to
    """

    best: Any
    least: Any
    most: Any
    here: Any
    pair_head: Any
    pair_next: Any
    pair_row: Any
    pair_value: Any
    step: Any
    excess: Any
    pairs: Any
    alike: Any


@njit(nogil=True, cache=True)
def room_ahead(scores, terms, todo):
    """Room for the longest of the instances ``todo`` and the one with most rows."""
    K, longest, R, most = scores.node.shape[1], 1, 0, 0
    for i in todo:
        lo, hi = scores.offsets[i], scores.offsets[i + 1]
        longest = max(longest, hi - lo)
        R = max(R, terms.row_start[i + 1] - terms.row_start[i])
        for t in range(lo, hi):
            most = max(most, terms.entry_start[t + 1] - terms.entry_start[t])
    return Ahead(
        np.empty((longest, K)), np.empty((longest, K, R)), np.empty((longest, K, R)), np.zeros((K, R)),
        np.full((K, K), -1, np.int32), np.empty(most, np.int32), np.empty(most, np.int32), np.empty(most),
        np.empty(R), np.empty(R), np.zeros((K, R)), np.empty(K, np.uint64),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def look_ahead(scores, terms, i, ahead):
    """Write best, least and most of instance i, which has a slot at least; least and most are 0 where nothing is left
    that the scores allow.

    Labels after which the same labels may come, as mostly all do, have the same least and most but for rows with
    coefficients of their own at the boundary.
    """
    lo, n = scores.offsets[i], scores.offsets[i + 1] - scores.offsets[i]
    R = terms.row_start[i + 1] - terms.row_start[i]
    best, least, most = ahead.best, ahead.least, ahead.most
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
            if best[t, a] == -np.inf:
                for r in range(R):
                    low[r], high[r] = 0.0, 0.0
                continue
            like = first_alike(matrix, row, best[t], best[t + 1], a, ahead.alike)
            if like < a:
                for r in range(R):
                    low[r], high[r] = least[t, like, r], most[t, like, r]
                continue
            for r in range(R):
                low[r], high[r] = np.inf, -np.inf
            for b in range(K):
                if matrix[a, b] + row[b] + best[t + 1, b] > -np.inf:
                    added, after_low, after_high = ahead.here[b], least[t + 1, b], most[t + 1, b]
                    for r in range(R):
                        low[r] = min(low[r], added[r] + after_low[r])
                        high[r] = max(high[r], added[r] + after_high[r])
        for a in range(K):
            if best[t, a] > -np.inf:
                look_over_pairs(
                    matrix[a], row, best[t + 1], least[t + 1], most[t + 1], a, ahead, least[t, a], most[t, a]
                )
        clear_slot(terms, lo + t + 1, ahead)


@njit(nogil=True, cache=True)
def first_alike(matrix, row, best, best_after, a, alike):
    """The first label with any completion after which the same labels may come as after a; alike (K,) up to a − 1 is
    known, and alike[a] is written."""
    K = len(row)
    key = np.uint64(1)
    for b in range(K):
        if matrix[a, b] + row[b] + best_after[b] > -np.inf:
            key = mixed(key + np.uint64(b))
    alike[a] = key
    for other in range(a):
        if best[other] > -np.inf and alike[other] == key:
            same = True
            for b in range(K):
                ahead_of_it = row[b] + best_after[b]
                same = same and (matrix[a, b] + ahead_of_it > -np.inf) == (matrix[other, b] + ahead_of_it > -np.inf)
            if same:
                return other
    return a


@njit(nogil=True, cache=True)
def look_over_pairs(matrix_row, row, best, least, most, a, ahead, low, high):
    """Write low and high (R,) of label a anew for the rows that have coefficients at the boundary after it."""
    K = len(row)
    pairs, n_rows = ahead.pairs, 0
    # rows that are met are listed in step; that low is infinite says that they are there
    for b in range(K):
        at = ahead.pair_head[a, b]
        while at >= 0:
            r = ahead.pair_row[at]
            pairs[b, r] += ahead.pair_value[at]
            if low[r] != np.inf:
                low[r] = np.inf
                ahead.step[n_rows] = r
                n_rows += 1
            at = ahead.pair_next[at]
    for j in range(n_rows):
        r = int(ahead.step[j])
        high[r] = -np.inf
        for b in range(K):
            if matrix_row[b] + row[b] + best[b] > -np.inf:
                added = ahead.here[b, r] + pairs[b, r]
                low[r] = min(low[r], added + least[b, r])
                high[r] = max(high[r], added + most[b, r])
            pairs[b, r] = 0.0


@njit(nogil=True, cache=True)
def load_slot(terms, t, ahead):
    """Write the coefficients of slot t and of the boundary before it."""
    row, before, label, value = terms.entry_row, terms.entry_before, terms.entry_label, terms.entry_value
    n_pairs = 0
    for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
        if before[e] < 0:
            ahead.here[label[e], row[e]] += value[e]
        else:
            ahead.pair_next[n_pairs] = ahead.pair_head[before[e], label[e]]
            ahead.pair_row[n_pairs], ahead.pair_value[n_pairs] = row[e], value[e]
            ahead.pair_head[before[e], label[e]] = n_pairs
            n_pairs += 1


@njit(nogil=True, cache=True)
def clear_slot(terms, t, ahead):
    """Undo load_slot."""
    row, before, label = terms.entry_row, terms.entry_before, terms.entry_label
    for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
        if before[e] < 0:
            ahead.here[label[e], row[e]] = 0.0
        else:
            ahead.pair_head[before[e], label[e]] = -1


@njit(nogil=True, cache=True)
def extend(terms, ahead, i, t, a, b, sums, moved):
    """moved (R,) = sums (R,) of a prefix of instance i that ends in a, after slot t, which is loaded, with label b.

    Returns what is paid for it, ∞ if a hard row can no longer be met.
    """
    first, paid = terms.row_start[i], 0.0
    R = terms.row_start[i + 1] - first
    for r in range(R):
        moved[r] = ahead.here[b, r]
    at = ahead.pair_head[a, b]
    while at >= 0:
        moved[ahead.pair_row[at]] += ahead.pair_value[at]
        at = ahead.pair_next[at]
    for r in range(R):
        value = sums[r] + moved[r]
        low = terms.low_end[first + r] - ahead.most[t, b, r]
        high = terms.high_end[first + r] - ahead.least[t, b, r]
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
