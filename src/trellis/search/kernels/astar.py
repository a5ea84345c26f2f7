"""A* over prefixes: the prefix of highest rank is extended first, so the first whole output met is a best one.

    rank(prefix) = score so far − paid for sure + best unconstrained completion    (Chang 2011, eq. 3.5-3.6, theorem 1)

The rank never rises along a prefix, so of prefixes with the same future (:mod:`prefix`) the first one extended is the
best, and each such state is extended once.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.search.kernels.beam import SLIP
from trellis.search.kernels.prefix import (
    child_key,
    clear_slot,
    curved_price,
    extend,
    hash_state,
    load_slot,
    look_ahead,
    room_ahead,
    same_state,
)

FOUND, EXHAUSTED, CAPPED = 0, 1, 2


class Nodes(NamedTuple):
    """Prefixes stored, a heap of those not yet extended, and a hash table from state to node.

    rank, value (N,);  parent, slot, label (N,);  key (N,);  sums, bits (N, R);  heap (N,);  table (power of two ≥ 2 N,)
    """

    rank: Any
    value: Any
    parent: Any
    slot: Any
    label: Any
    key: Any
    sums: Any
    bits: Any
    heap: Any
    table: Any


@njit(nogil=True, cache=True)
def room_for(n, R):
    """Empty storage for n nodes."""
    size = 16
    while size < 2 * n:
        size *= 2
    sums = np.empty((n, R))
    return Nodes(
        np.empty(n), np.empty(n), np.empty(n, np.int32), np.empty(n, np.int32), np.empty(n, np.int32),
        np.empty(n, np.uint64), sums, sums.view(np.int64), np.empty(n, np.int32), np.full(size, -1, np.int32),
    )  # fmt: skip


@njit(nogil=True, cache=True)
def grown(old, n, n_heap, R, K):
    """Storage of twice the size with the same n nodes."""
    new = room_for(2 * len(old.rank), R)
    new.rank[:n], new.value[:n], new.key[:n] = old.rank[:n], old.value[:n], old.key[:n]
    new.parent[:n], new.slot[:n], new.label[:n] = old.parent[:n], old.slot[:n], old.label[:n]
    new.sums[:n] = old.sums[:n]
    new.heap[:n_heap] = old.heap[:n_heap]
    for at in range(len(old.table)):
        if old.table[at] >= 0:
            node = old.table[at]
            place, _ = find(new, new.bits[node], new.slot[node], new.label[node], R, K)
            new.table[place] = node
    return new


@njit(nogil=True, cache=True)
def find(nodes, bits, slot, label, R, K):
    """Place in the table of a state, and the node there, −1 if it is new."""
    mask = np.uint64(len(nodes.table) - 1)
    at = hash_state(np.int64(slot) * K + label, bits, R) & mask
    while True:
        node = nodes.table[at]
        if node < 0:
            return at, np.int32(-1)
        if nodes.slot[node] == slot and nodes.label[node] == label and same_state(bits, nodes.bits[node], R):
            return at, node
        at = (at + np.uint64(1)) & mask


@njit(nogil=True, cache=True)
def goes_before(nodes, x, y):
    """Higher rank first; of equals the longer prefix, then the larger key."""
    if nodes.rank[x] != nodes.rank[y]:
        return nodes.rank[x] > nodes.rank[y]
    if nodes.slot[x] != nodes.slot[y]:
        return nodes.slot[x] > nodes.slot[y]
    return nodes.key[x] > nodes.key[y]


@njit(nogil=True, cache=True)
def push(nodes, n_heap, node):
    """Add a node to a heap of n_heap."""
    heap, at = nodes.heap, n_heap
    while at > 0:
        above = (at - 1) // 2
        if not goes_before(nodes, node, heap[above]):
            break
        heap[at] = heap[above]
        at = above
    heap[at] = node


@njit(nogil=True, cache=True)
def pop(nodes, n_heap):
    """The first of n_heap nodes, which leaves the heap."""
    heap = nodes.heap
    top, last = heap[0], heap[n_heap - 1]
    at, size = 0, n_heap - 1
    while 2 * at + 1 < size:
        below = 2 * at + 1
        if below + 1 < size and goes_before(nodes, heap[below + 1], heap[below]):
            below += 1
        if not goes_before(nodes, heap[below], last):
            break
        heap[at] = heap[below]
        at = below
    heap[at] = last
    return top


@njit(nogil=True, cache=True)
def search(scores, terms, todo, most_nodes, seeds, labels, values, bounds, status):
    """A best output of each of the instances ``todo``, storing at most ``most_nodes`` prefixes of one.

    labels : (n_slots,), values : (n_instances,) come with some output and its value (−∞: breaks a hard row), and are
        overwritten by a better one
    bounds, status : (n_instances,) written: no output has a larger value; FOUND, EXHAUSTED (what came is best, or there
        is no output where its value is −∞), CAPPED
    """
    K, ahead = scores.node.shape[1], room_ahead(scores, terms, todo)
    best = ahead.best
    for i in todo:
        lo, n = scores.offsets[i], scores.offsets[i + 1] - scores.offsets[i]
        status[i], bounds[i] = EXHAUSTED, values[i]
        if n == 0:
            continue
        R = terms.row_start[i + 1] - terms.row_start[i]
        curved = terms.term_start[i + 1] > terms.term_start[i]
        look_ahead(scores, terms, i, ahead)
        floor = -np.inf
        if values[i] > -np.inf:
            floor = values[i] + SLIP * (1.0 + abs(values[i]))
        nodes = room_for(min(256, max(1, most_nodes)), R)
        n_nodes, n_heap = 1, 0
        nodes.rank[0], nodes.value[0], nodes.parent[0], nodes.slot[0], nodes.label[0] = -np.inf, 0.0, -1, -1, 0
        for b in range(K):
            nodes.rank[0] = max(nodes.rank[0], scores.start[b] + scores.node[scores.node_index[lo], b] + best[0, b])
        nodes.key[0] = seeds[i]
        nodes.sums[0] = 0.0
        node = 0
        while True:
            t, a = nodes.slot[node] + 1, nodes.label[node]
            if t == n:
                status[i], values[i], bounds[i] = FOUND, nodes.rank[node], nodes.rank[node]
                while nodes.slot[node] >= 0:
                    labels[lo + nodes.slot[node]] = nodes.label[node]
                    node = nodes.parent[node]
                break
            row, matrix = scores.node[scores.node_index[lo + t]], scores.edge[scores.edge_index[lo + t]]
            load_slot(terms, lo + t, ahead)
            for b in range(K):
                value = nodes.value[node] + (scores.start[b] if t == 0 else matrix[a, b]) + row[b]
                if not (value + best[t, b] > floor):
                    continue
                if n_nodes >= most_nodes:
                    status[i] = CAPPED
                    break
                if n_nodes == len(nodes.rank):
                    nodes = grown(nodes, n_nodes, n_heap, R, K)
                moved = nodes.sums[n_nodes]
                value -= extend(terms, ahead, i, t, a, b, nodes.sums[node], moved)
                rank = value + best[t, b]
                if curved and rank > floor:
                    rank -= curved_price(terms, ahead, i, t, b, moved)
                if not (rank > floor):
                    continue
                place, known = find(nodes, nodes.bits[n_nodes], t, b, R, K)
                if known >= 0 and value <= nodes.value[known]:
                    continue
                nodes.table[place] = n_nodes
                nodes.rank[n_nodes], nodes.value[n_nodes] = rank, value
                nodes.parent[n_nodes], nodes.slot[n_nodes], nodes.label[n_nodes] = node, t, b
                nodes.key[n_nodes] = child_key(nodes.key[node], b)
                push(nodes, n_heap, n_nodes)
                n_nodes += 1
                n_heap += 1
            clear_slot(terms, lo + t, ahead)
            if status[i] == CAPPED:
                bounds[i] = max(values[i], nodes.rank[node])
                break
            node = -1
            while n_heap > 0 and node < 0:
                top = pop(nodes, n_heap)
                n_heap -= 1
                _, current = find(nodes, nodes.bits[top], nodes.slot[top], nodes.label[top], R, K)
                if current == top:  # else a better prefix with the same future took its place
                    node = top
            if node < 0:
                break
