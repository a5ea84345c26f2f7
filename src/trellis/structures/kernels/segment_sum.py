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

from trellis.structures.kernels.chain_infer import push
from trellis.structures.kernels.lanes import LANES, add, add_scaled, load, multiply, splat, store

MOST = 60.0


@njit(nogil=True, cache=True)
def infer_scaled(
    offsets, scaled, k, wide, size, keep, node, begin, again, end, length, extra, stay, pair, pair_t, index, weights,
    a, z, after, label, stays, restarts, ends, counts, lengths, total,
):  # fmt: skip
    """As ``segments.infer`` for the instances of which ``scaled`` (n_instances,) is true.

    All arrays are flat, their rows (of k labels) of whole vectors: ``wide`` entries, those of tables zero after the
    k-th; a slot has ``size`` = L · wide entries of lengths and labels. Only node, begin, again and end have rows of k
    entries, and slack (see :mod:`lanes`): what follows the k-th entry of a vector meets nothing but its like.
    node .. extra : exponentials of scores, of nodes divided by the largest of a slot
    stay, pair, pair_t : (m, K), (m, K, K) and transposed: of the diagonal of edges, and of the rest (0 there)
    a : (n, L, K), at last marginals of segments by their last token; not ``keep``: room for the longest instance
    z, after : (n, K) factors of transitions, P(a, b) = z(t − 1, a) · pair(a, b) · after(t, b)
    label, stays, restarts, ends : (n, K) marginals of labels, of what goes on, is again, ends
    counts, lengths : (m, K, K) Σ weight · z(t − 1, a) · after(t, b), (L, K) Σ weight · segments
    total : the logs of the scales are added
    """
    has_extra = len(extra) > 0
    out, _step, b, b_next = np.zeros(wide), np.zeros(wide), np.zeros(size), np.zeros(size)
    for i in range(len(offsets) - 1):
        lo, hi = offsets[i], offsets[i + 1]
        if not scaled[i] or lo == hi:
            continue
        weight, scale, logs, whole, base = weights[i], 1.0, 0.0, 0.0, 0 if keep else lo
        for t in range(lo, hi):
            m, filled, at, row = index[t], min((t - lo + 1) * wide, size), (t - base) * size, t * wide
            if t > lo:
                push(z, row - wide, pair, m * k * wide, wide, k, out, 0)
            whole = 0.0
            for v in range(0, wide, LANES):
                here, ending = load(node, t * k + v), splat(0.0)
                first = here
                if t > lo:
                    factor = multiply(here, splat(scale))
                    going_on = multiply(load(stay, m * wide + v), factor)
                    first = multiply(load(out, v), load(begin, t * k + v))
                    first = multiply(add(first, multiply(load(z, row - wide + v), load(again, t * k + v))), factor)
                    for x in range(wide + v, filled, wide):
                        store(a, at + x, multiply(load(a, at - size + x - wide), going_on))
                    if (t - lo) * wide >= size:
                        longer = multiply(load(a, at - wide + v), going_on)
                        if size == wide:
                            first = add(first, longer)
                        else:
                            store(a, at + size - wide + v, add(load(a, at + size - wide + v), longer))
                store(a, at + v, first)
                for x in range(v, filled, wide):
                    one = multiply(load(a, at + x), load(length, x))
                    if has_extra:
                        one = multiply(one, load(extra, t * size + x))
                    ending = add(ending, one)
                store(z, row + v, multiply(ending, load(end, t * k + v)))
            for j in range(k):
                whole += z[row + j]
            if whole == 0.0:
                break
            scale = 1.0 / whole
            logs += np.log(whole)
            label[row] = scale  # kept here until the way back
        if whole == 0.0:  # labels are forbidden so that nothing is left
            total[i] = -np.inf
            continue
        total[i] += logs
        for t in range(hi - 1, lo - 1, -1):
            filled, at, row, scale = min((t - lo + 1) * wide, size), (t - base) * size, t * wide, label[t * wide]
            if t + 1 < hi:
                m, after_row = index[t + 1], row + wide
                for v in range(0, wide, LANES):
                    begun = multiply(multiply(load(node, (t + 1) * k + v), splat(scale)), load(b_next, v))
                    store(after, after_row + v, multiply(begun, load(begin, (t + 1) * k + v)))
                push(after, after_row, pair_t, m * k * wide, wide, k, out, 0)
                for j in range(k):
                    often, cell = weight * z[row + j], (m * k + j) * wide
                    for v in range(0, wide, LANES):
                        store(counts, cell + v, add_scaled(load(counts, cell + v), often, load(after, after_row + v)))
            for v in range(0, wide, LANES):
                going_on, goes, outward = splat(0.0), splat(0.0), splat(scale)
                if t + 1 < hi:
                    factor = multiply(load(node, (t + 1) * k + v), splat(scale))
                    going_on = multiply(load(stay, m * wide + v), factor)
                    restart = multiply(multiply(load(again, (t + 1) * k + v), factor), load(b_next, v))
                    store(restarts, after_row + v, multiply(load(z, row + v), restart))
                    outward = add(load(out, v), restart)
                ended = multiply(load(z, row + v), outward)
                store(ends, row + v, ended)
                outward = multiply(outward, load(end, t * k + v))
                for x in range(v, filled, wide):
                    ending, prefix = multiply(load(length, x), outward), load(a, at + x)
                    if has_extra:
                        ending = multiply(ending, load(extra, t * size + x))
                    goes_on = multiply(going_on, load(b_next, min(x + wide, size - wide + v)))
                    store(b, x, add(ending, goes_on))
                    ending = multiply(prefix, ending)
                    store(a, at + x, ending)
                    store(lengths, x, add_scaled(load(lengths, x), weight, ending))
                    goes = add(goes, multiply(prefix, goes_on))
                for x in range(filled + v, size, wide):
                    store(a, at + x, splat(0.0))
                store(label, row + v, add(ended, goes))
                if t + 1 < hi:
                    store(stays, after_row + v, goes)
            b, b_next = b_next, b
