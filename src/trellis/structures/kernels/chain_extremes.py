"""Least and largest value of a row over all outputs, and the parts that outputs of least value never use.

An output is a path through the slots, so both are shortest paths (min-plus forward and backward recursions) over the
stretch of slots that a row names. Rows of several instances are handled an instance at a time. Entries of a row are
sorted by part: node parts in the order of slots, then edge parts in the order of slots.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FAR = np.int64(2**62)


@njit(nogil=True, cache=True)
def row_extremes(start, first_edge, part, coefficient, offsets, instance_of_slot, n_node, K, low, high):
    """low[r], high[r] = min, max over outputs of Σ coefficient · part.

    start, first_edge : (n_rows + 1,), (n_rows,) node entries start[r]..first_edge[r] − 1, edge entries up to the end
    part, coefficient : (n_entries,)
    offsets, instance_of_slot : (n_instances + 1,), (n_slots,)
    low, high : (n_rows,) written
    """
    least, following, edge = np.empty((2, K)), np.empty(K), np.full((K, K), np.nan)
    for r in range(len(low)):
        p, e = start[r], first_edge[r]
        last_p, last_e = first_edge[r], start[r + 1]
        low[r], high[r] = 0.0, 0.0
        while p < last_p or e < last_e:
            node_slot = part[p] // K if p < last_p else FAR
            edge_slot = (part[e] - n_node) // (K * K) if e < last_e else FAR
            slot = min(node_slot, edge_slot - 1)
            end = offsets[instance_of_slot[slot] + 1]
            fill(least[0], 0.0)
            fill(least[1], 0.0)
            while True:
                # the largest value is minus the least one of −φ
                while p < last_p and part[p] // K == slot:
                    least[0, part[p] % K] += coefficient[p]
                    least[1, part[p] % K] -= coefficient[p]
                    p += 1
                node_slot = part[p] // K if p < last_p else FAR
                edge_slot = (part[e] - n_node) // (K * K) if e < last_e else FAR
                ahead = min(node_slot, edge_slot)
                if ahead >= end:
                    break
                if ahead > slot + 1 or edge_slot != ahead:
                    # no entry on the way: any label follows any other
                    fill(least[0], smallest_of(least[0]))
                    fill(least[1], smallest_of(least[1]))
                slot = ahead
                if edge_slot == slot:
                    behind = entries_until(part, e, last_e, n_node + (slot + 1) * K * K)
                    for side in range(2):
                        spread(edge, part, coefficient, 1.0 - 2.0 * side, e, behind, n_node, K)
                        least_after(least[side], edge, part, e, behind, n_node, following)
                        for k in range(K):
                            least[side, k] = following[k]
                    wipe(edge, part, e, behind, n_node, K)
                    e = behind
            low[r] += smallest_of(least[0])
            high[r] -= smallest_of(least[1])


@njit(nogil=True, cache=True)
def least_after(least, edge, part, low, high, n_node, after):
    """after[b] = min_a least[a] + edge[a, b], for the entries low..high − 1 of a boundary, spread into ``edge``.

    Most labels have no entry: the two smallest of ``least`` serve where not both have one.
    """
    K = len(least)
    first, second = two_smallest(least)
    for b in range(K):
        after[b] = np.inf
        if np.isnan(edge[first, b]):
            after[b] = least[first]
        elif K > 1 and np.isnan(edge[second, b]):
            after[b] = least[second]
        else:
            for a in range(K):
                if np.isnan(edge[a, b]):
                    after[b] = min(after[b], least[a])
    for i in range(low, high):
        within = (part[i] - n_node) % (K * K)
        a, b = within // K, within % K
        after[b] = min(after[b], least[a] + edge[a, b])


@njit(nogil=True, cache=True)
def least_before(least, edge, part, low, high, n_node, before):
    """before[a] = min_b edge[a, b] + least[b], as :func:`least_after`."""
    K = len(least)
    first, second = two_smallest(least)
    for a in range(K):
        before[a] = np.inf
        if np.isnan(edge[a, first]):
            before[a] = least[first]
        elif K > 1 and np.isnan(edge[a, second]):
            before[a] = least[second]
        else:
            for b in range(K):
                if np.isnan(edge[a, b]):
                    before[a] = min(before[a], least[b])
    for i in range(low, high):
        within = (part[i] - n_node) % (K * K)
        a, b = within // K, within % K
        before[a] = min(before[a], edge[a, b] + least[b])


# Loops, since Numba takes half a second for each whole-array assignment and for each call of a method such as min.


@njit(nogil=True, cache=True)
def fill(values, value):
    """values[:] = value."""
    for k in range(len(values)):
        values[k] = value


@njit(nogil=True, cache=True)
def smallest_of(values):
    """values.min(), +inf if there are none."""
    smallest = np.inf
    for k in range(len(values)):
        smallest = min(smallest, values[k])
    return smallest


@njit(nogil=True, cache=True)
def two_smallest(values):
    """Places of the smallest value and of the next, which is the same where there is only one."""
    first, second = 0, -1
    for k in range(1, len(values)):
        if values[k] < values[first]:
            first, second = k, first
        elif second < 0 or values[k] < values[second]:
            second = k
    return first, max(second, 0)


@njit(nogil=True, cache=True)
def parts_never_least(margin, start, first_edge, part, coefficient, offsets, instance_of_slot, n_node, K):
    """Parts that no output of least value uses, row by row: node parts, and edges as patterns of boundaries.

    An edge is left out where one of its two nodes is listed. At a boundary that a row does not name, every edge between
    two nodes that lie on shortest paths lies on one itself.

    margin : (n_rows,) by how much two sums may differ and yet count as equal
    Returns nodes (n,) with their part numbers; slots (n,) and which (n,) pattern the boundary before each slot has; and
    the patterns, pattern_start (n_patterns + 1,) and cells (n_cells,) a · K + b, increasing inside one
    """
    longest = 0
    for i in range(len(offsets) - 1):
        longest = max(longest, offsets[i + 1] - offsets[i])
    node, edge, onward = np.zeros((longest, K)), np.full((K, K), np.nan), np.empty(K)
    forward, backward = np.zeros((longest, K)), np.zeros((longest, K))
    used = np.zeros((longest, K), dtype=np.bool_)
    nodes, n_nodes = np.empty(16, dtype=np.int64), 0
    slots, which, n_slots = np.empty(16, dtype=np.int64), np.empty(16, dtype=np.int64), 0
    cells, pattern_start, n_patterns = np.empty(16, dtype=np.int64), np.zeros(16, dtype=np.int64), 0
    digests = np.empty(16, dtype=np.uint64)
    for r in range(len(margin)):
        p, e = start[r], first_edge[r]
        last_p, last_e = first_edge[r], start[r + 1]
        while p < last_p or e < last_e:
            node_slot = part[p] // K if p < last_p else FAR
            edge_slot = (part[e] - n_node) // (K * K) if e < last_e else FAR
            first = min(node_slot, edge_slot - 1)
            end = offsets[instance_of_slot[first] + 1]
            length = 1
            q, f = p, e
            while q < last_p and part[q] // K < end:
                length = max(length, part[q] // K - first + 1)
                q += 1
            while f < last_e and (part[f] - n_node) // (K * K) < end:
                length = max(length, (part[f] - n_node) // (K * K) - first + 1)
                f += 1
            node[:length] = 0.0
            for i in range(p, q):
                node[part[i] // K - first, part[i] % K] = coefficient[i]
            forward[0] = node[0]
            backward[length - 1] = 0.0
            at = e
            for t in range(1, length):
                behind = entries_until(part, at, f, n_node + (first + t + 1) * K * K)
                spread(edge, part, coefficient, 1.0, at, behind, n_node, K)
                least_after(forward[t - 1], edge, part, at, behind, n_node, forward[t])
                forward[t] += node[t]
                wipe(edge, part, at, behind, n_node, K)
                at = behind
            for t in range(length - 1, 0, -1):
                behind = at
                while at > e and part[at - 1] >= n_node + (first + t) * K * K:
                    at -= 1
                spread(edge, part, coefficient, 1.0, at, behind, n_node, K)
                onward[:] = node[t] + backward[t]
                least_before(onward, edge, part, at, behind, n_node, backward[t - 1])
                wipe(edge, part, at, behind, n_node, K)
            limit = smallest_of(forward[length - 1]) + margin[r]
            for t in range(length):
                for k in range(K):
                    used[t, k] = forward[t, k] + backward[t, k] <= limit
                    if not used[t, k]:
                        nodes = grown(nodes, n_nodes)
                        nodes[n_nodes] = (first + t) * K + k
                        n_nodes += 1
            at = e
            for t in range(1, length):
                behind = entries_until(part, at, f, n_node + (first + t + 1) * K * K)
                if behind == at:
                    continue
                spread(edge, part, coefficient, 1.0, at, behind, n_node, K)
                begin = pattern_start[n_patterns]
                n_cells, digest = begin, np.uint64(0)
                far_before, far_after = -np.inf, -np.inf
                for k in range(K):
                    onward[k] = node[t, k] + backward[t, k]
                    if used[t - 1, k]:
                        far_before = max(far_before, forward[t - 1, k])
                    if used[t, k]:
                        far_after = max(far_after, onward[k])
                if far_before + far_after <= limit:
                    low, high = part[at], part[behind - 1] + 1  # where there is no entry, none is too far
                else:
                    low, high = n_node + (first + t) * K * K, n_node + (first + t + 1) * K * K
                for a in range((low - n_node) // K % K, (high - 1 - n_node) // K % K + 1):
                    if used[t - 1, a]:
                        for b in range(K):
                            added = 0.0 if np.isnan(edge[a, b]) else edge[a, b]
                            through = forward[t - 1, a] + added + onward[b]
                            if used[t, b] and through > limit:
                                cells = grown(cells, n_cells)
                                cells[n_cells] = a * K + b
                                digest = (digest ^ np.uint64(a * K + b + 1)) * np.uint64(0x9E3779B97F4A7C15)
                                digest ^= digest >> np.uint64(29)
                                n_cells += 1
                wipe(edge, part, at, behind, n_node, K)
                at = behind
                if n_cells == begin:
                    continue
                found = 0
                while found < n_patterns and not (
                    digests[found] == digest and same_cells(cells, pattern_start, found, n_patterns, n_cells)
                ):
                    found += 1
                if found == n_patterns:
                    digests, pattern_start = grown(digests, found), grown(pattern_start, found + 1)
                    digests[found], pattern_start[found + 1] = digest, n_cells
                    n_patterns += 1
                slots, which = grown(slots, n_slots), grown(which, n_slots)
                slots[n_slots], which[n_slots] = first + t, found
                n_slots += 1
            p, e = q, f
    n_cells = pattern_start[n_patterns]
    return (
        nodes[:n_nodes].copy(), slots[:n_slots].copy(), which[:n_slots].copy(),
        pattern_start[: n_patterns + 1].copy(), cells[:n_cells].copy(),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def entries_until(part, at, last, end):
    """The first entry from ``at`` on whose part is not below ``end``."""
    while at < last and part[at] < end:
        at += 1
    return at


@njit(nogil=True, cache=True)
def spread(edge, part, coefficient, sign, low, high, n_node, K):
    """Write the entries of one boundary, times the sign, into edge (K, K), which is NaN where there are none."""
    for i in range(low, high):
        within = (part[i] - n_node) % (K * K)
        edge[within // K, within % K] = sign * coefficient[i]


@njit(nogil=True, cache=True)
def wipe(edge, part, low, high, n_node, K):
    """Undo spread."""
    for i in range(low, high):
        within = (part[i] - n_node) % (K * K)
        edge[within // K, within % K] = np.nan


@njit(nogil=True, cache=True)
def grown(array, n):
    """The array, with room for entry n."""
    if n < len(array):
        return array
    larger = np.zeros(2 * len(array), dtype=array.dtype)
    larger[: len(array)] = array
    return larger


@njit(nogil=True, cache=True)
def same_cells(cells, start, one, other, end):
    """Whether pattern ``one`` has the cells of pattern ``other``, which ends at ``end``."""
    size = start[one + 1] - start[one]
    if end - start[other] != size:
        return False
    for i in range(size):  # noqa: SIM110 (a generator is slower in compiled code)
        if cells[start[one] + i] != cells[start[other] + i]:
            return False
    return True
