"""Projection of dual variables onto the l1/linf set, group by group.

for every key w and label k:   λ(·, k) ← argmin ‖λ − v‖²   s.t. λ ≥ 0,  Σ_{slots t of w} λ(t, k) ≤ σ
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def project_groups(v, order, key_start, radius):
    """In place on v (n, K): rows order[key_start[w] : key_start[w + 1]] belong to key w.

    Michelot's algorithm, for all labels at once.
    """
    n_labels = v.shape[1]
    level, above = np.empty(n_labels), np.empty(n_labels)
    count = np.empty(n_labels, np.int64)
    for w in range(key_start.shape[0] - 1):
        low, high = key_start[w], key_start[w + 1]
        if low == high:
            continue
        above[:] = 0.0
        for j in range(low, high):
            row = v[order[j]]
            for k in range(n_labels):
                row[k] = max(row[k], 0.0)
                above[k] += row[k]
        unfinished = False
        for k in range(n_labels):
            level[k] = 0.0
            if above[k] > radius:
                level[k] = (above[k] - radius) / (high - low)
                unfinished = True
        if not unfinished:
            continue
        while unfinished:
            above[:] = 0.0
            count[:] = 0
            for j in range(low, high):
                row = v[order[j]]
                for k in range(n_labels):
                    if row[k] > level[k]:
                        above[k] += row[k]
                        count[k] += 1
            unfinished = False
            for k in range(n_labels):
                if level[k] > 0.0 and count[k] > 0:
                    higher = (above[k] - radius) / count[k]
                    if higher > level[k]:
                        level[k] = higher
                        unfinished = True
        for j in range(low, high):
            row = v[order[j]]
            for k in range(n_labels):
                row[k] = max(row[k] - level[k], 0.0)
