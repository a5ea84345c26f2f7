"""Are these heads a tree?  And which arcs lead to the nearest dependent of their head on a side?"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def check_trees(offsets, heads, single_root, projective, is_tree):
    """is_tree : (n_sentences,): whether the heads (0 the root, k the k-th word) make a tree of this kind."""
    for s in range(len(offsets) - 1):
        own = heads[offsets[s] : offsets[s + 1]]
        n, n_roots = len(own), 0
        met = np.zeros(n, np.int64)
        good = True
        for c in range(n):
            if own[c] == 0:
                n_roots += 1
            at = c
            while met[at] == 0:  # until the root, a word known to reach it, or a word of this very walk
                met[at] = c + 1
                if own[at] == 0:
                    break
                at = own[at] - 1
            if own[at] != 0 and met[at] == c + 1:
                good = False
        if single_root and n > 0 and n_roots != 1:
            good = False
        if projective and good:
            for c in range(n):
                for d in range(c + 1, n):
                    low, high = min(own[c], c + 1), max(own[c], c + 1)
                    start, stop = min(own[d], d + 1), max(own[d], d + 1)
                    if low < start < high < stop or start < low < stop < high:
                        good = False
        is_tree[s] = good


@njit(nogil=True, cache=True)
def mark_nearest(offsets, arc_offsets, instance, start, heads, share, near):
    """Add the share of each tree at its arcs to nearest dependents.

    instance : (n_trees,);  start : (n_trees + 1,) cuts ``heads``;  near : (n_arcs,)
    """
    for t in range(len(instance)):
        s = instance[t]
        n, own = offsets[s + 1] - offsets[s], heads[start[t] : start[t + 1]]
        for c in range(n):
            h = own[c] - 1
            if h < 0:
                continue
            is_nearest = True
            step = 1 if c < h else -1
            k = c + step
            while k != h:
                if own[k] == h + 1:
                    is_nearest = False
                    break
                k += step
            if is_nearest:
                near[arc_offsets[s] + c * n + h] += share[t]
