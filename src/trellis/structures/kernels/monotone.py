"""Paths of two strings through their points, in steps of up to ``longest`` characters of either (see Monotone).

    any(i, j)  = ⊕_{a, b > 0} any(i − a, j − b) + s  ⊕  ⊕_a open(i − a, j) + s  ⊕  ⊕_b any(i, j − b) + s
    open(i, j) = the same without the steps (0, b)

⊕ is a maximum, or the log of a sum of exponentials: tables are small, and scores may be as far apart as they like. A
step (a, 0) begins where the last one was none of (0, b): that is ``open``.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_log import log_add


@njit(nogil=True, cache=True)
def best_paths(first_part, source, target, longest, value, uniform, points, n_points, best):
    """A best path of every pair, and its score.

    uniform : (Σ (n + m),) draws that choose among equals, or nothing: the first is taken
    points : (Σ (n + m), 2) where paths are written, from the place of their pair on;  n_points : (n_pairs,)
    """
    n_steps = (longest + 1) * (longest + 1) - 1
    room = 0
    at_room = 0
    for pair in range(len(source)):
        room = max(room, (source[pair] + 1) * (target[pair] + 1))
    table = np.empty((2, room))
    for pair in range(len(source)):
        n, m, first = source[pair], target[pair], first_part[pair]
        width = m + 1
        for i in range(n + 1):
            for j in range(width):
                here = i * width + j
                opened, closed = -np.inf, -np.inf
                if here == 0:
                    opened = 0.0
                for a in range(min(longest, i) + 1):
                    for b in range(min(longest, j) + 1):
                        if a + b == 0:
                            continue
                        s = value[first + here * n_steps + a * (longest + 1) + b - 1]
                        there = (i - a) * width + j - b
                        if a == 0:
                            closed = max(closed, s + table[1, there])
                        else:
                            opened = max(opened, s + table[0 if b == 0 else 1, there])
                table[0, here] = opened
                table[1, here] = max(opened, closed)
        best[pair] = table[1, n * width + m]
        i, j, layer, count = n, m, 1, 0
        if best[pair] > -np.inf:
            while i + j > 0:
                here = i * width + j
                wanted, ties, left, take_a, take_b = table[layer, here], 0, 0, 0, 0
                for look in range(2):  # count the best steps, then take one of them
                    if look == 1 and len(uniform):
                        left = int(uniform[at_room + count] * ties)
                    for a in range(1 - layer, min(longest, i) + 1):
                        for b in range(min(longest, j) + 1):
                            if a + b == 0:
                                continue
                            s = value[first + here * n_steps + a * (longest + 1) + b - 1]
                            if s + table[0 if b == 0 else 1, (i - a) * width + j - b] == wanted:
                                if look == 0:
                                    ties += 1
                                else:
                                    if left == 0:
                                        take_a, take_b = a, b
                                    left -= 1
                points[at_room + count, 0], points[at_room + count, 1] = i, j
                count += 1
                layer = 0 if take_b == 0 else 1
                i, j = i - take_a, j - take_b
        n_points[pair] = count
        at_room += n + m


@njit(nogil=True, cache=True)
def sum_paths(first_part, source, target, longest, value, marginal, log_partition):
    """Log-partitions, and the probability that each step is taken."""
    n_steps = (longest + 1) * (longest + 1) - 1
    room = 0
    for pair in range(len(source)):
        room = max(room, (source[pair] + 1) * (target[pair] + 1))
    fore, back = np.empty((2, room)), np.empty((2, room))
    for pair in range(len(source)):
        n, m, first = source[pair], target[pair], first_part[pair]
        width = m + 1
        for i in range(n + 1):
            for j in range(width):
                here = i * width + j
                opened, closed = -np.inf, -np.inf
                if here == 0:
                    opened = 0.0
                for a in range(min(longest, i) + 1):
                    for b in range(min(longest, j) + 1):
                        if a + b == 0:
                            continue
                        s = value[first + here * n_steps + a * (longest + 1) + b - 1]
                        there = (i - a) * width + j - b
                        if a == 0:
                            closed = log_add(closed, s + table_sum(fore, there))
                        elif b == 0:
                            opened = log_add(opened, s + fore[0, there])
                        else:
                            opened = log_add(opened, s + table_sum(fore, there))
                fore[0, here], fore[1, here] = opened, closed
        total = table_sum(fore, n * width + m)
        log_partition[pair] = total
        if total == -np.inf:
            continue
        # back[1]: what may follow a step (0, b); back[0]: what may follow any other
        for i in range(n, -1, -1):
            for j in range(m, -1, -1):
                here = i * width + j
                after_open, after_closed = -np.inf, -np.inf
                if i == n and j == m:
                    after_open, after_closed = 0.0, 0.0
                for a in range(min(longest, n - i) + 1):
                    for b in range(min(longest, m - j) + 1):
                        if a + b == 0:
                            continue
                        there = (i + a) * width + j + b
                        part = first + there * n_steps + a * (longest + 1) + b - 1
                        rest = value[part] + back[1 if a == 0 else 0, there]
                        after_open = log_add(after_open, rest)
                        if b == 0:
                            before = fore[0, here]
                        else:
                            after_closed = log_add(after_closed, rest)
                            before = table_sum(fore, here)
                        marginal[part] = min(np.exp(before + rest - total), 1.0)
                back[0, here], back[1, here] = after_open, after_closed


@njit(nogil=True, cache=True)
def table_sum(table, at):
    """Both layers of a point together."""
    return log_add(table[0, at], table[1, at])
