"""Sum-product over segmentations with scaled probabilities: the recursions of :mod:`segments` without logarithms.

Why scaling suffices: where beginnings, ends, lengths and transitions are all possible and none weighs more than
MOST nats, a segment may end and another one of any label begin at every boundary for 8 · MOST = 480 nats at most.
So whatever underflow takes (690 nats below the largest prefix) is nothing beside a path that changes labels there
and then does the same. Labels may be forbidden, and weigh what they like; instances in which something else is
impossible, or heavier, are left to logarithms.
"""

from __future__ import annotations

import numpy as np
from numba import njit

MOST = 60.0


@njit(nogil=True, cache=True)
def infer_scaled(
    offsets, scaled, node, begin, again, end, length, extra, stay, pair, index, weights, a, z, after, label, stays,
    restarts, ends, counts, total,
):  # fmt: skip
    """As ``segments.infer`` for the instances of which ``scaled`` (n_instances,) is true.

    node .. extra : exponentials of scores, of nodes divided by the largest of a slot;  length, extra, a : flat
    stay, pair : (m, K), (m, K, K) exponentials of the diagonal of edges, and of the rest (0 on the diagonal)
    z, after : factors of transitions, P(a, b) = z(t − 1, a) · pair(a, b) · after(t, b)
    restarts, ends : (n, K) marginals of what is again, and of segments that end
    total : the logs of the scales are added

    Loops run over all lengths and labels at once, a few arrays each: that is what a compiler makes vectors of.
    """
    n_labels = node.shape[1]
    size = len(length)
    has_extra = len(extra) > 0
    out, step, room = np.empty(n_labels), np.empty(n_labels), np.empty(n_labels)
    tiled_out, tiled_step, ending, going = np.empty(size), np.empty(size), np.empty(size), np.empty(size)
    b, b_next = np.empty(size + n_labels), np.zeros(size + n_labels)  # the last lengths twice: beyond them nothing changes
    for i in range(len(offsets) - 1):
        lo, hi = offsets[i], offsets[i + 1]
        if not scaled[i] or lo == hi:
            continue
        weight, scale, logs, whole = weights[i], 1.0, 0.0, 0.0
        for t in range(lo, hi):
            m, filled, at = index[t], min((t - lo + 1) * n_labels, size), t * size
            if t == lo:
                for k in range(n_labels):
                    a[at + k] = node[t, k]
            else:
                for k in range(n_labels):
                    room[k] = 0.0
                for j in range(n_labels):
                    for k in range(n_labels):
                        room[k] += z[t - 1, j] * pair[m, j, k]
                for k in range(n_labels):
                    factor = node[t, k] * scale
                    a[at + k] = (room[k] * begin[t, k] + z[t - 1, k] * again[t, k]) * factor
                    step[k] = stay[m, k] * factor
                tile(step, tiled_step)
                for x in range(filled - n_labels):
                    a[at + n_labels + x] = a[at - size + x] * tiled_step[x]
                if (t - lo) * n_labels >= size:
                    for k in range(n_labels):
                        a[at + size - n_labels + k] += a[at - n_labels + k] * step[k]
            for x in range(filled):
                ending[x] = a[at + x] * length[x]
            if has_extra:
                for x in range(filled):
                    ending[x] *= extra[at + x]
            add_up(ending, filled, room)
            whole = 0.0
            for k in range(n_labels):
                z[t, k] = room[k] * end[t, k]
                whole += z[t, k]
            if whole == 0.0:
                break
            scale = 1.0 / whole
            logs += np.log(whole)
            label[t, 0] = scale  # kept here until the way back
        if whole == 0.0:  # labels are forbidden so that nothing is left
            total[i] = -np.inf
            continue
        total[i] += logs
        for t in range(hi - 1, lo - 1, -1):
            filled, at, scale = min((t - lo + 1) * n_labels, size), t * size, label[t, 0]
            if t + 1 == hi:
                for k in range(n_labels):
                    out[k], step[k] = scale, 0.0
            else:
                m = index[t + 1]
                for k in range(n_labels):
                    factor = node[t + 1, k] * scale
                    after[t + 1, k] = begin[t + 1, k] * factor * b_next[k]
                    step[k] = stay[m, k] * factor
                    out[k] = again[t + 1, k] * factor * b_next[k]
                    restarts[t + 1, k] = z[t, k] * out[k]
                for j in range(n_labels):
                    entered, often = 0.0, weight * z[t, j]
                    for k in range(n_labels):
                        room[k] = pair[m, j, k] * after[t + 1, k]
                    for k in range(n_labels):
                        counts[j, k] += often * room[k]
                    for k in range(n_labels):
                        entered += room[k]
                    out[j] += entered
            for k in range(n_labels):
                ends[t, k] = z[t, k] * out[k]
                out[k] *= end[t, k]
            tile(out, tiled_out)
            tile(step, tiled_step)
            for x in range(filled):
                ending[x] = length[x] * tiled_out[x]
            if has_extra:
                for x in range(filled):
                    ending[x] *= extra[at + x]
            for x in range(filled):
                going[x] = tiled_step[x] * b_next[n_labels + x]
            for x in range(filled):
                b[x] = ending[x] + going[x]
            for x in range(filled):
                going[x] *= a[at + x]
            for x in range(filled):
                a[at + x] *= ending[x]
            for x in range(filled, size):
                a[at + x] = 0.0
            for k in range(n_labels):
                b[size + k] = b[size - n_labels + k]
            add_up(going, filled, room)
            for k in range(n_labels):
                label[t, k] = ends[t, k] + room[k]
            if t + 1 < hi:
                for k in range(n_labels):
                    stays[t + 1, k] = room[k]
                    counts[k, k] += weight * room[k]
            b, b_next = b_next, b


@njit(nogil=True, cache=True)
def tile(row, table):
    """The row again and again."""
    for at in range(0, len(table), len(row)):
        for k in range(len(row)):
            table[at + k] = row[k]


@njit(nogil=True, cache=True)
def add_up(table, filled, row):
    """The sum of the rows of a flat table of which so much is filled."""
    for k in range(len(row)):
        row[k] = 0.0
    for at in range(0, filled, len(row)):
        for k in range(len(row)):
            row[k] += table[at + k]
