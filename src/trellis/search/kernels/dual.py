"""Lagrangian relaxation of rows: their prices replaced by linear ones, of which the best are looked for.

A price is the largest of its tangents, price(e) = max_{λ ∈ Λ} λ·(φ − b) − c(λ), so for every λ ∈ Λ

    value(y) ≤ score(y) − λ·(φ(y) − b) + c(λ),      U(λ) = max_y [score(y) − λ·φ(y)] + λ·b + c(λ) ≥ best value

    pricing        Λ                  c(λ)                    (λ ≥ 0 as well unless the row is an equality)
    LINEAR ρ       |λ| ≤ ρ            0
    HARD, up to ε  all                ε |λ|
    SQUARED σ      all                λ² / 2σ
    L2 σ, L∞ σ     ‖λ‖₂ ≤ σ, ‖λ‖₁ ≤ σ  0
    WITHIN L1, L2  all                ε ‖λ‖_∞, ε ‖λ‖₂

U is convex and its subgradient is b − φ(y) + c'(λ) at the y that attains it: Viterbi is the oracle. Steps are Polyak's,
towards the best output met.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.search.kernels.beam import SLIP
from trellis.search.kernels.terms import (
    HARD,
    L2,
    LINEAR,
    LINF,
    SQUARED,
    WITHIN_L1,
    WITHIN_L2,
    price_of_rows,
    row_values,
)

PATIENCE = 6
"""Steps without a better bound before steps are halved."""
SHORTEST = 1e-3
"""Steps shorter than this share of Polyak's end the search."""


@njit(nogil=True, cache=True)
def viterbi(scores, terms, lo, n, lam, current, after, came_from, matrix, added, labels):
    """max_y score(y) − λ·φ(y), and labels (n,) that attain it."""
    K = current.shape[0]
    for t in range(n):
        added[:] = scores.node[scores.node_index[lo + t]]
        if t > 0:
            matrix[:] = scores.edge[scores.edge_index[lo + t]]
        for e in range(terms.entry_start[lo + t], terms.entry_start[lo + t + 1]):
            tilt = lam[terms.entry_row[e]] * terms.entry_value[e]
            if terms.entry_before[e] < 0:
                added[terms.entry_label[e]] -= tilt
            else:
                matrix[terms.entry_before[e], terms.entry_label[e]] -= tilt
        if t == 0:
            current[:] = scores.start + added
            continue
        for b in range(K):
            after[b] = current[0] + matrix[0, b]
            came_from[t, b] = 0
        for a in range(1, K):
            for b in range(K):
                value = current[a] + matrix[a, b]
                if value > after[b]:
                    after[b] = value
                    came_from[t, b] = a
        current[:] = after + added
    top, where = -np.inf, 0
    for b in range(K):
        if current[b] + scores.stop[b] > top:
            top, where = current[b] + scores.stop[b], b
    for t in range(n - 1, -1, -1):
        labels[t] = where
        if t > 0:
            where = came_from[t, where]
    return top


@njit(nogil=True, cache=True)
def conjugate(terms, instance, lam, slope):
    """λ·b + c(λ); its gradient is added to slope (R,)."""
    first = terms.row_start[instance]
    total = 0.0
    for r in range(terms.row_start[instance + 1] - first):
        j = first + r
        total += lam[r] * terms.bound[j]
        slope[r] += terms.bound[j]
        if terms.pricing[j] == HARD:
            total += terms.amount[j] * abs(lam[r])
            slope[r] += terms.amount[j] * np.sign(lam[r])
        elif terms.pricing[j] == SQUARED:
            total += lam[r] * lam[r] / (2.0 * terms.amount[j])
            slope[r] += lam[r] / terms.amount[j]
    for term in range(terms.term_start[instance], terms.term_start[instance + 1]):
        low, high = terms.term_first[term]
        how, amount = terms.pricing[first + low], terms.amount[first + low]
        if how == WITHIN_L1:
            largest = low
            for r in range(low, high):
                if abs(lam[r]) > abs(lam[largest]):
                    largest = r
            total += amount * abs(lam[largest])
            slope[largest] += amount * np.sign(lam[largest])
        elif how == WITHIN_L2:
            length = np.sqrt(np.sum(lam[low:high] ** 2))
            total += amount * length
            if length > 0.0:
                for r in range(low, high):
                    slope[r] += amount * lam[r] / length
    return total


@njit(nogil=True, cache=True)
def project(terms, instance, lam):
    """lam becomes the nearest point of Λ."""
    first = terms.row_start[instance]
    for r in range(terms.row_start[instance + 1] - first):
        j = first + r
        if not terms.equality[j]:
            lam[r] = max(lam[r], 0.0)
        if terms.pricing[j] == LINEAR:
            lam[r] = min(max(lam[r], -terms.amount[j]), terms.amount[j])
    for term in range(terms.term_start[instance], terms.term_start[instance + 1]):
        low, high = terms.term_first[term]
        how, amount = terms.pricing[first + low], terms.amount[first + low]
        if how == L2:
            length = np.sqrt(np.sum(lam[low:high] ** 2))
            if length > amount:
                lam[low:high] *= amount / length
        elif how == LINF and np.sum(np.abs(lam[low:high])) > amount:
            # shrink towards zero by the amount that makes the sum right
            sizes = np.sort(np.abs(lam[low:high]))[::-1]
            total, cut = 0.0, 0.0
            for m in range(len(sizes)):
                total += sizes[m]
                if sizes[m] > (total - amount) / (m + 1):
                    cut = (total - amount) / (m + 1)
            for r in range(low, high):
                lam[r] = np.sign(lam[r]) * max(abs(lam[r]) - cut, 0.0)


@njit(nogil=True, cache=True)
def relax(scores, terms, todo, most_steps, labels, values, bounds, duals):
    """Best output met, least bound found, and its λ, of each of the instances ``todo``.

    labels : (n_slots,), values : (n_instances,) come with some output and its value, and a better one overwrites them
    bounds : (n_instances,);  duals : (n_rows,), zero before
    """
    K = scores.node.shape[1]
    longest, most_rows = 1, 0
    for i in todo:
        longest = max(longest, scores.offsets[i + 1] - scores.offsets[i])
        most_rows = max(most_rows, terms.row_start[i + 1] - terms.row_start[i])
    current, after, added = np.empty(K), np.empty(K), np.empty(K)
    matrix, came_from = np.empty((K, K)), np.empty((longest, K), np.int32)
    found = np.empty(longest, np.int32)
    many_phi, many_excess = np.empty(most_rows), np.empty(most_rows)
    many_lam, many_slope = np.empty(most_rows), np.empty(most_rows)
    for i in todo:
        lo, n = scores.offsets[i], scores.offsets[i + 1] - scores.offsets[i]
        bounds[i] = values[i]
        if n == 0:
            continue
        bounds[i] = np.inf
        R = terms.row_start[i + 1] - terms.row_start[i]
        phi, excess, lam, slope = many_phi[:R], many_excess[:R], many_lam[:R], many_slope[:R]
        lam[:] = 0.0
        share, idle = 1.0, 0
        for _ in range(most_steps):
            tilted = viterbi(scores, terms, lo, n, lam, current, after, came_from, matrix, added, found)
            row_values(terms, lo, lo + n, found, phi)
            slope[:] = -phi
            bound = tilted + conjugate(terms, i, lam, slope)
            value = tilted + np.sum(lam * phi) - price_of_rows(terms, i, phi, excess)
            if value > values[i]:
                values[i] = value
                labels[lo : lo + n] = found[:n]
            idle += 1
            if bound < bounds[i]:
                if bound < bounds[i] - 1e-6 * (1.0 + abs(bound)):
                    idle = 0
                bounds[i] = bound
                duals[terms.row_start[i] : terms.row_start[i + 1]] = lam
            if bounds[i] <= values[i] + SLIP * (1.0 + abs(values[i])):
                break
            if idle >= PATIENCE:
                idle, share = 0, 0.5 * share
            size = np.sum(slope * slope)
            if share < SHORTEST or size == 0.0:
                break
            # towards the best output known, or where none is, a little below the bound
            target = values[i] if values[i] > -np.inf else bounds[i] - 0.1 * (1.0 + abs(bounds[i]))
            lam -= (share * (bound - target) / size) * slope
            project(terms, i, lam)
