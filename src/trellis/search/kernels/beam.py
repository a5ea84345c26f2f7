"""Beam search over prefixes, with the best unconstrained completion in their rank.

    rank(prefix) = score so far − paid for sure + best completion           ≥ value of every completion

Wanted are the k best outputs, mostly k = 1. A prefix that is no better than k outputs already found, or from which a
hard row cannot be met, is dropped for good; of prefixes with the same future (:mod:`prefix`) all but the k best are.
Beyond the width of the beam the lowest ranks are dropped, and the largest of these bounds what was lost: the answer is
proved if it is not below that bound.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

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

NARROW = 4
"""Width of a first pass, which finds an output good enough to drop most prefixes of the second."""
SLIP = 1e-11
"""Relative; sums of one output in two orders may differ by this much."""


class Prefixes(NamedTuple):
    """Prefixes of one length, W of them, and how they came about.

    value (W,), label (W,), sums (W, R), key (W,);  parent, chosen (longest, W) by slot
    """

    value: Any
    label: Any
    sums: Any
    key: Any
    parent: Any
    chosen: Any


class Candidates(NamedTuple):
    """Prefixes one label longer, C = W · K at most, and a hash table of their states.

    rank, value, scratch (C,), parent, label (C,), key (C,), sums (C, R), bits: sums as int64
    table, stamp (a power of two ≥ 2 C,);  order (C,) those that go on
    """

    rank: Any
    value: Any
    scratch: Any
    parent: Any
    label: Any
    key: Any
    sums: Any
    bits: Any
    table: Any
    stamp: Any
    order: Any


@njit(nogil=True, cache=True)
def search(scores, terms, todo, width, seeds, labels, values, bounds):
    """The best outputs found of the instances ``todo``.

    seeds : (n_instances,) uint64, 0: the first of equals is kept, else a random one
    labels : (k, n_slots);  values : (k, n_instances).  They come with known outputs of each instance, best first (−∞:
        none, or one that breaks a hard row), and better ones take their places
    bounds : (n_instances,) written: no output, or none but the k, has a larger value
    """
    k, ahead = labels.shape[0], room_ahead(scores, terms, todo)
    prefixes, candidates = room_for(width, ahead.best.shape[0], scores.node.shape[1], len(ahead.excess))
    ticks = np.int64(0)
    for i in todo:
        if scores.offsets[i + 1] == scores.offsets[i]:
            bounds[i] = values[k - 1, i]
            continue
        look_ahead(scores, terms, i, ahead)
        for step in range(2):
            if step == 0 and width <= 2 * NARROW * k:
                continue
            wide = NARROW * k if step == 0 else width
            lost, ticks = one_pass(
                scores, terms, i, ahead, prefixes, candidates, wide, ticks, seeds[i], labels, values
            )  # fmt: skip
            if lost <= values[k - 1, i]:
                break
        bounds[i] = max(lost, values[k - 1, i])


@njit(nogil=True, cache=True)
def room_for(width, longest, K, R):
    """Room for a beam of this width, and for its candidates."""
    size = 16
    while size < 2 * width * K:
        size *= 2
    many = width * K
    sums = np.empty((many, R))
    prefixes = Prefixes(
        np.empty(width), np.empty(width, np.int32), np.empty((width, R)), np.empty(width, np.uint64),
        np.empty((longest, width), np.int32), np.empty((longest, width), np.int32),
    )  # fmt: skip
    candidates = Candidates(
        np.empty(many), np.empty(many), np.empty(many), np.empty(many, np.int32), np.empty(many, np.int32),
        np.empty(many, np.uint64), sums, sums.view(np.int64),
        np.empty(size, np.int32), np.zeros(size, np.int64), np.empty(many, np.int32),
    )  # fmt: skip
    return prefixes, candidates


@njit(nogil=True, cache=True)
def one_pass(scores, terms, i, ahead, prefixes, candidates, width, ticks, seed, labels, values):
    """One pass over instance i; returns the largest rank lost for want of width, and the count of hash tables used."""
    lo, n = scores.offsets[i], scores.offsets[i + 1] - scores.offsets[i]
    best, R = ahead.best, terms.row_start[i + 1] - terms.row_start[i]
    K, k = best.shape[1], labels.shape[0]
    curved = terms.term_start[i + 1] > terms.term_start[i]
    lost, alive = -np.inf, np.int64(1)
    prefixes.value[0], prefixes.label[0], prefixes.key[0] = 0.0, 0, seed
    for r in range(R):
        prefixes.sums[0, r] = 0.0
    floor = -np.inf
    if values[k - 1, i] > -np.inf:
        floor = values[k - 1, i] + SLIP * (1.0 + abs(values[k - 1, i]))
    for t in range(n):
        ticks += 1
        load_slot(terms, lo + t, ahead)
        row, matrix = scores.node[scores.node_index[lo + t]], scores.edge[scores.edge_index[lo + t]]
        n_found = np.int64(0)
        for w in range(alive):
            a = prefixes.label[w]
            for b in range(K):
                value = prefixes.value[w] + (scores.start[b] if t == 0 else matrix[a, b]) + row[b]
                if not (value + best[t, b] > floor):
                    continue
                moved = candidates.sums[n_found]
                value -= extend(terms, ahead, i, t, a, b, prefixes.sums[w], moved)
                rank = value + best[t, b]
                if curved and rank > floor:
                    rank -= curved_price(terms, ahead, i, t, b, moved)
                if not (rank > floor):
                    continue
                key = child_key(prefixes.key[w], b)
                n_found = keep(candidates, n_found, R, rank, value, w, b, key, ticks, k)
        clear_slot(terms, lo + t, ahead)
        alive = n_found
        if n_found > width:
            lost, alive = max(lost, narrow(candidates, n_found, width)), width
        else:
            for c in range(n_found):
                candidates.order[c] = c
        for w in range(alive):
            c = candidates.order[w]
            prefixes.value[w], prefixes.label[w] = candidates.value[c], candidates.label[c]
            prefixes.key[w] = candidates.key[c]
            for r in range(R):
                prefixes.sums[w, r] = candidates.sums[c, r]
            prefixes.parent[t, w], prefixes.chosen[t, w] = candidates.parent[c], candidates.label[c]
            candidates.scratch[w] = candidates.rank[c]
        if alive == 0:
            return lost, ticks
    write_best(prefixes, candidates.scratch, alive, i, lo, n, labels, values)
    return lost, ticks


@njit(nogil=True, cache=True)
def keep(candidates, n_found, R, rank, value, parent, label, key, tick, k):
    """Keep the candidate whose sums are in place n_found, unless k with the same future are better; the new count."""
    mask = np.uint64(len(candidates.table) - 1)
    at = hash_state(label, candidates.bits[n_found], R) & mask
    n_alike, worst = 0, -1
    while candidates.stamp[at] == tick:
        other = candidates.table[at]
        if candidates.label[other] == label and same_state(candidates.bits[n_found], candidates.bits[other], R):
            n_alike += 1
            if worst < 0 or candidates.value[other] < candidates.value[worst]:
                worst = other
            if n_alike == k:
                break
        at = (at + np.uint64(1)) & mask
    to = n_found
    if n_alike == k:
        if value < candidates.value[worst] or (value == candidates.value[worst] and key <= candidates.key[worst]):
            return n_found
        to = worst
    else:
        candidates.stamp[at], candidates.table[at] = tick, n_found
    candidates.rank[to], candidates.value[to] = rank, value
    candidates.parent[to], candidates.label[to], candidates.key[to] = parent, label, key
    return n_found + 1 if to == n_found else n_found


@njit(nogil=True, cache=True)
def narrow(candidates, n_found, width):
    """Put ``width`` candidates of highest rank into ``order``, and return the highest rank left out."""
    limit = kth_largest(candidates.rank, n_found, width, candidates.scratch)
    places = width
    for c in range(n_found):
        places -= candidates.rank[c] > limit
    # with random ties, those at the limit are taken from a random place on
    begin = np.int64(candidates.key[0] % np.uint64(n_found))
    n_kept, highest_lost = 0, -np.inf
    for j in range(n_found):
        c = (begin + j) % n_found
        rank = candidates.rank[c]
        if rank > limit or (rank == limit and places > 0):
            places -= rank == limit
            candidates.order[n_kept] = c
            n_kept += 1
        else:
            highest_lost = max(highest_lost, rank)
    return highest_lost


@njit(nogil=True, cache=True)
def kth_largest(values, n, k, scratch):
    """The k-th largest (k = 1: the largest) of values[:n]; scratch (n,) is overwritten."""
    for i in range(n):
        scratch[i] = values[i]
    low, high, target = 0, n - 1, k - 1
    while low < high:
        pivot = scratch[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while scratch[i] > pivot:
                i += 1
            while scratch[j] < pivot:
                j -= 1
            if i <= j:
                kept = scratch[i]
                scratch[i] = scratch[j]
                scratch[j] = kept
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return scratch[target]


@njit(nogil=True, cache=True)
def write_best(prefixes, ranks, alive, i, lo, n, labels, values):
    """Put the finished outputs, whose values are ``ranks``, into the list of the k best, each once."""
    k = labels.shape[0]
    output = np.empty(n, np.int32)
    while True:
        top = -1
        for w in range(alive):
            if ranks[w] > values[k - 1, i] and (
                top < 0 or ranks[w] > ranks[top] or (ranks[w] == ranks[top] and prefixes.key[w] > prefixes.key[top])
            ):
                top = w
        if top < 0:
            return
        value, w = ranks[top], top
        ranks[top] = -np.inf
        for t in range(n - 1, -1, -1):
            output[t] = prefixes.chosen[t, w]
            w = prefixes.parent[t, w]
        place, known = 0, False
        for j in range(k):
            if values[j, i] >= value:
                place = j + 1
            if abs(values[j, i] - value) <= 2.0 * SLIP * (1.0 + abs(value)):
                differ = 0
                for t in range(n):
                    differ += labels[j, lo + t] != output[t]
                known = known or differ == 0
        if known:
            continue
        for j in range(k - 1, place, -1):
            values[j, i] = values[j - 1, i]
            for t in range(lo, lo + n):
                labels[j, t] = labels[j - 1, t]
        values[place, i] = value
        for t in range(n):
            labels[place, lo + t] = output[t]
