"""Sweeps of dual coordinate descent over the cuts of a working set.

A cut c of example i says  ξ_i ≥ b_c − w · f_c.  Cuts are sparse rows (start, column, value); those of example i are
order[first[i]] .. order[first[i + 1] − 1], the weights are always  w = Σ_c α_c f_c, or the nearest within their bounds.

Where the loss is ξ², one step solves the dual in one α_c exactly (Chang 2011, eq. 6.9 and 6.10):

    α_c ← max(0, α_c + (b_c − w · f_c − Σ_{j of i} α_j / 2C_i) / (‖f_c‖² + 1 / 2C_i))

Algorithm 15 prints a plus before the sum. It is a minus: after a step d the dual is, up to constants,
½‖w + d f‖² + (Σ_j α_j + d)² / 4C − b d,  whose derivative at d = 0 is  w · f + Σ_j α_j / 2C − b,  and a step goes
against it.

Where the loss is ξ, an example's α are bounded together, Σ_j α_j ≤ C_i, and single coordinates would get stuck at the
bound. A step moves mass from the cut of the least slope to that of the largest, exactly along that line; the cut
"nothing is violated" (b = 0, f = 0) has what is left of C_i.

With bounds ‖w‖² / 2 in the dual becomes  g(v) = max_w v · w − ‖w‖² / 2  over the w within them, at v = Σ α f. Its slope
is w, which moves no faster than v does: g(v + d f) ≤ g(v) + d w · f + d² ‖f‖² / 2. The same step is the best one for
that bound, so the dual never falls.
"""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def _dot(c, start, column, value, w):
    total = 0.0
    for e in range(start[c], start[c + 1]):
        total += value[e] * w[column[e]]
    return total


@njit(nogil=True, cache=True)
def _move(c, step, start, column, value, w, total, low, high):
    """total += step · f_c, and w follows; without bounds (``low`` is empty) the two are one array."""
    bounded = len(low) > 0
    for e in range(start[c], start[c + 1]):
        j = column[e]
        total[j] += step * value[e]
        if bounded:
            w[j] = min(max(total[j], low[j]), high[j])


@njit(nogil=True, cache=True)
def sweep_squared(visit, first, order, start, column, value, bound, square, cost, alpha, w, total, low, high, pulling):
    """One step for every cut of the visited examples; alpha and w are changed. ``pulling``: cuts with α > 0 alone."""
    for i in visit:
        held = 0.0
        for at in range(first[i], first[i + 1]):
            held += alpha[order[at]]
        half = 0.5 / cost[i]
        for at in range(first[i], first[i + 1]):
            c = order[at]
            if pulling and alpha[c] == 0.0:
                continue
            step = (bound[c] - _dot(c, start, column, value, w) - half * held) / (square[c] + half)
            if step < -alpha[c]:
                step = -alpha[c]
            if step != 0.0:
                alpha[c] += step
                held += step
                _move(c, step, start, column, value, w, total, low, high)


@njit(nogil=True, cache=True)
def sweep_hinge(visit, first, order, start, column, value, bound, square, cost, alpha, w, total, low, high, pulling):
    """One step between two cuts of every visited example; alpha and w are changed. ``pulling`` as above."""
    for i in visit:
        left = cost[i]
        for at in range(first[i], first[i + 1]):
            left -= alpha[order[at]]
        up, down = -1, -1  # −1: the cut that nothing is violated
        best, worst = 0.0, 0.0
        least = 1e-12 * cost[i]  # less than this is rounding, and to move it would be no step
        if left <= least:
            left, worst = 0.0, 1e300
        for at in range(first[i], first[i + 1]):
            c = order[at]
            if pulling and alpha[c] == 0.0:
                continue
            slope = bound[c] - _dot(c, start, column, value, w)
            if slope > best:
                up, best = c, slope
            if alpha[c] > least and slope < worst:
                down, worst = c, slope
        if up == down or best <= worst:
            continue
        between = 0.0  # ‖f_up − f_down‖²
        if up >= 0:
            between += square[up]
        if down >= 0:
            between += square[down]
        if up >= 0 and down >= 0:
            a, b = start[up], start[down]
            while a < start[up + 1] and b < start[down + 1]:
                if column[a] == column[b]:
                    between -= 2.0 * value[a] * value[b]
                    a += 1
                    b += 1
                elif column[a] < column[b]:
                    a += 1
                else:
                    b += 1
        most = left if down < 0 else alpha[down]
        step = most
        if between * most > best - worst:
            step = (best - worst) / between
        if up >= 0:
            alpha[up] += step
            _move(up, step, start, column, value, w, total, low, high)
        if down >= 0:
            # what is taken whole leaves nothing behind, not a rounding error
            alpha[down] = 0.0 if step == most else alpha[down] - step
            _move(down, -step, start, column, value, w, total, low, high)


@njit(nogil=True, cache=True)
def slacks(examples, first, order, start, column, value, bound, w, slack):
    """slack[n] = max(0, max over the cuts of examples[n] of b − w · f)"""
    for n in range(len(examples)):
        worst = 0.0
        for at in range(first[examples[n]], first[examples[n] + 1]):
            c = order[at]
            found = bound[c] - _dot(c, start, column, value, w)
            if found > worst:
                worst = found
        slack[n] = worst
