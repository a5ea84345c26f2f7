"""Sums and maxima over the segmentations of sequences, in O(n · (longest + K) · K) (see ``segment_parts.py``).

    a(t, d, k)  prefixes whose last segment, not yet ended, has label k and d tokens (the last d: that many or more)
    z(t, k)     prefixes whose last segment has label k and ends at t
    b(t, d, k)  what may follow a(t, d, k)

    z(t, k)     = ⊕_d a(t, d, k) + segment(t, d, k),     segment(t, d, k) = end(t, k) + length(d, k) + extra(t, d, k)
    a(t, 1, k)  = node(t, k) + [ begin(t, k) + ⊕_{j≠k} z(t − 1, j) + edge(j, k)  ⊕  z(t − 1, k) + again(t, k) ]
    a(t, d, k)  = node(t, k) + edge(k, k) + a(t − 1, d − 1, k)               and of the last d  ⊕ a(t − 1, d, k)

⊕ is the log of a sum of exponentials, or with ``hard`` a maximum. Scores may be as far apart as they like: sums over
labels are sums of exponentials where that keeps all that counts, and of logs elsewhere.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

LEAST = 1e-280
"""A sum of exponentials below this may have lost terms; what vanishes beside one above it is nothing."""


class Scores(NamedTuple):
    """Scores as kernels take them; those of labels, and of boundaries before slots.

    node, begin, again, end : (n, K);  length : (L, K);  extra : (n, L, K), or (0, L, K) for none
    edge, edge_t : (m, K, K) and transposed, what it is to stay on the diagonal;  index : (n,)
    power, power_t : exp(edge − shift) and transposed, 0 on the diagonal;  shift : (m,)
    """

    node: Any
    begin: Any
    again: Any
    end: Any
    length: Any
    extra: Any
    edge: Any
    edge_t: Any
    index: Any
    power: Any
    power_t: Any
    shift: Any


@njit(nogil=True, cache=True)
def log_add(x, y, hard):
    """x ⊕ y."""
    if x < y:
        x, y = y, x
    if hard or y == -np.inf:
        return x
    return x + np.log1p(np.exp(y - x))


@njit(nogil=True, cache=True)
def combine(values, exponential, top, edge, power, shift, own, hard):
    """⊕_j values[j] + edge[j] without j = own.

    exponential : exp(values − top), top the largest of them;  power : exp(edge − shift), 0 at its own place
    """
    if top == -np.inf:
        return top
    if not hard:
        total = 0.0
        for j in range(len(values)):
            total += exponential[j] * power[j]
        if total > LEAST:
            return top + shift + np.log(total)
    found = -np.inf
    for j in range(len(values)):
        if j != own:
            found = log_add(found, values[j] + edge[j], hard)
    return found


@njit(nogil=True, cache=True)
def exponentials(values, hard, exponential):
    """exp(values − their largest), and that."""
    top = -np.inf
    for j in range(len(values)):
        top = max(top, values[j])
    if not hard and top > -np.inf:
        for j in range(len(values)):
            exponential[j] = np.exp(values[j] - top)
    return top


@njit(nogil=True, cache=True)
def forward(lo, hi, s, hard, a, z, room):
    """Fill a (n, L, K) and z (n, K) at slots lo..hi−1; returns ⊕ over all outputs.  room : (K,)"""
    longest, n_labels = s.length.shape
    has_extra = len(s.extra) > 0
    for t in range(lo, hi):
        m, here = s.index[t], min(t - lo + 1, longest)
        if t > lo:
            top = exponentials(z[t - 1], hard, room)
        for k in range(n_labels):
            if t == lo:
                a[t, 0, k] = s.node[t, k]
            else:
                entered = combine(z[t - 1], room, top, s.edge_t[m, k], s.power_t[m, k], s.shift[m], k, hard)
                entered = log_add(s.begin[t, k] + entered, z[t - 1, k] + s.again[t, k], hard)
                a[t, 0, k] = s.node[t, k] + entered
                stay = s.node[t, k] + s.edge[m, k, k]
                for d in range(1, here):
                    a[t, d, k] = a[t - 1, d - 1, k] + stay
                if t - lo >= longest:
                    a[t, longest - 1, k] = log_add(a[t, longest - 1, k], a[t - 1, longest - 1, k] + stay, hard)
            best = -np.inf
            for d in range(here):
                best = max(best, a[t, d, k] + s.length[d, k] + (s.extra[t, d, k] if has_extra else 0.0))
            if not hard and best > -np.inf:
                total = 0.0
                for d in range(here):
                    total += np.exp(a[t, d, k] + s.length[d, k] + (s.extra[t, d, k] if has_extra else 0.0) - best)
                best += np.log(total)
            z[t, k] = best + s.end[t, k]
    found = 0.0 if hi == lo else -np.inf
    if hi > lo:
        for k in range(n_labels):
            found = log_add(found, z[hi - 1, k], hard)
    return found


@njit(nogil=True, cache=True)
def infer(offsets, chosen, s, hard, weights, a, z, after, label, stays, again, ended, counts, lengths, total):
    """Marginals, or with ``hard`` max-marginals, of ``chosen`` instances; what is impossible has total −∞ alone.

    weights : (n_instances,) of the counts
    a : (n, L, K) room, and then the marginals of segments by their last token
    z, after : (n, K) log factors of the transitions: of those that leave a slot, and of those that enter one
    label, stays, again : (n, K) labels; segments that go on into a slot; that follow one of their own label
    ended : (n, K) segments of all lengths that end
    counts : (K, K) Σ weight · transitions, what stays on the diagonal;  lengths : (L, K) likewise, of segments
    total : (n_instances,)
    """
    longest, n_labels = s.length.shape
    has_extra = len(s.extra) > 0
    nothing = -np.inf if hard else 0.0
    room, left = np.zeros(n_labels), np.zeros(n_labels)
    b, b_next = np.empty((longest, n_labels)), np.empty((longest, n_labels))
    for i in range(len(offsets) - 1):
        if not chosen[i]:
            continue
        lo, hi, weight = offsets[i], offsets[i + 1], weights[i]
        total[i] = forward(lo, hi, s, hard, a, z, room)
        if total[i] == -np.inf:
            continue
        for t in range(hi - 1, lo - 1, -1):
            here = min(t - lo + 1, longest)
            m = s.index[t + 1] if t + 1 < hi else 0
            if t + 1 < hi:
                top = exponentials(after[t + 1], hard, room)
            for k in range(n_labels):
                out, stay = 0.0, -np.inf
                if t + 1 < hi:
                    out = combine(after[t + 1], room, top, s.edge[m, k], s.power[m, k], s.shift[m], k, hard)
                    # after begins a segment beside another label; again has a beginning of its own
                    restart = s.again[t + 1, k] + s.node[t + 1, k] + b_next[0, k]
                    used = z[t, k] + restart - (0.0 if hard else total[i])
                    again[t + 1, k] = used if hard else np.exp(used)
                    out = log_add(out, restart, hard)
                    stay = s.node[t + 1, k] + s.edge[m, k, k]
                used_label, going_on = nothing, nothing
                for d in range(here):
                    ends = s.end[t, k] + s.length[d, k] + (s.extra[t, d, k] if has_extra else 0.0) + out
                    goes = stay + b_next[min(d + 1, longest - 1), k] if t + 1 < hi else -np.inf
                    if hard:
                        b[d, k] = max(ends, goes)
                        used_label, going_on = max(used_label, a[t, d, k] + b[d, k]), max(going_on, a[t, d, k] + goes)
                        a[t, d, k] += ends
                        continue
                    # P(state) and the shares in which it ends and goes on, with one exponential for both
                    ratio = np.exp(-abs(ends - goes)) if goes > -np.inf else 0.0
                    b[d, k] = max(ends, goes) + np.log1p(ratio)
                    state = np.exp(a[t, d, k] + b[d, k] - total[i]) if a[t, d, k] + b[d, k] > -np.inf else 0.0
                    larger = state / (1.0 + ratio)
                    gone = larger if goes > ends else larger * ratio
                    a[t, d, k] = larger * ratio if goes > ends else larger
                    lengths[d, k] += weight * a[t, d, k]
                    used_label += state
                    going_on += gone
                for d in range(here, longest):
                    a[t, d, k] = nothing
                label[t, k] = used_label
                ended[t, k] = -np.inf if hard else np.exp(z[t, k] + out - total[i])
                if t + 1 < hi:
                    stays[t + 1, k] = going_on
                    counts[k, k] += 0.0 if hard else weight * going_on
            if t + 1 < hi and not hard:
                factor = exponentials(z[t], False, left) + top + s.shift[m] - total[i]
                if factor < 600.0:
                    factor = weight * np.exp(factor)
                    for j in range(n_labels):
                        for k in range(n_labels):
                            counts[j, k] += factor * left[j] * s.power[m, j, k] * room[k]
                else:  # exponentials have vanished that count
                    add_transitions(z[t], after[t + 1], s.edge[m], total[i], weight, counts)
            for k in range(n_labels):
                after[t, k] = s.begin[t, k] + s.node[t, k] + b[0, k]
                if t == lo:
                    stays[t, k], again[t, k] = nothing, nothing
            b, b_next = b_next, b


@njit(nogil=True, cache=True)
def add_transitions(z, after, edge, total, weight, counts):
    """counts[j, k] += weight · exp(z[j] + edge[j, k] + after[k] − total), where j ≠ k."""
    for j in range(len(z)):
        for k in range(len(z)):
            if j != k:
                counts[j, k] += weight * np.exp(z[j] + edge[j, k] + after[k] - total)


@njit(nogil=True, cache=True)
def best_outputs(offsets, s, uniform, a, z, outputs, best):
    """A best output of every instance as codes (K + k: label k, and a new segment after one of label k).

    uniform : (n, 2) draws that choose among equals, or nothing: then the first label and the shortest segment
    """
    longest, n_labels = s.length.shape
    has_extra = len(s.extra) > 0
    room = np.empty(n_labels)
    for i in range(len(offsets) - 1):
        lo, hi = offsets[i], offsets[i + 1]
        best[i] = forward(lo, hi, s, True, a, z, room)
        if best[i] == -np.inf or lo == hi:
            continue
        for k in range(n_labels):
            room[k] = z[hi - 1, k]
        t, label = hi - 1, pick(room, uniform, hi - 1, 0)
        while True:
            # how long is the segment of this label that ends at t?
            here = min(t - lo + 1, longest)
            values = np.empty(here)
            for d in range(here):
                values[d] = a[t, d, label] + s.length[d, label] + (s.extra[t, d, label] if has_extra else 0.0)
            d = pick(values, uniform, t, 1)
            while True:
                outputs[t] = label
                if d == longest - 1 and t - lo >= longest:
                    # as long as this is told apart: it may be longer still
                    stay = s.node[t, label] + s.edge[s.index[t], label, label]
                    longer = a[t - 1, d, label] + stay
                    ends_here = entered(s, z, t, label, room) if d == 0 else a[t - 1, d - 1, label] + stay
                    if longer > ends_here or (longer == ends_here and len(uniform) and uniform[t, 0] < 0.5):
                        t -= 1
                        continue
                if d == 0:
                    break
                t, d = t - 1, d - 1
            if t == lo:
                break
            entered(s, z, t, label, room)
            before = pick(room, uniform, t, 0)
            if before == label:
                outputs[t] = n_labels + label
            t, label = t - 1, before


@njit(nogil=True, cache=True)
def entered(s, z, t, label, values):
    """The best score of a prefix in which a segment of this label begins at t;  values : (K,) by the label before."""
    m, found = s.index[t], -np.inf
    for j in range(len(values)):
        values[j] = z[t - 1, j] + (s.again[t, label] if j == label else s.begin[t, label] + s.edge[m, j, label])
        found = max(found, values[j])
    return s.node[t, label] + found


@njit(nogil=True, cache=True)
def pick(values, uniform, t, column):
    """The place of the largest, the first of several or one by chance."""
    top, ties = -np.inf, 0
    for j in range(len(values)):
        top = max(top, values[j])
    for j in range(len(values)):
        ties += values[j] == top
    left = int(uniform[t, column] * ties) if len(uniform) else 0
    for j in range(len(values)):
        if values[j] == top:
            if left == 0:
                return j
            left -= 1
    return 0
