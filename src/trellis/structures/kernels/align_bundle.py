"""The projection of one sentence pair at γ = 0: a linear program, solved exactly by a proximal bundle method.

At γ = 0 the projection (``align_project``) is over averages q₁, q₂ of alignments of either direction (LP-EM)

    max <s₁, q₁> + <s₂, q₂> − HINT_LIMIT · Σ shortfalls of hints    s.t. agreement, bijectivity

and its dual min_{x ∈ X} D(x), x = (λ, μ, η), X: μ ≥ 0, 0 ≤ η ≤ HINT_LIMIT, is found from best alignments alone:

    D(x) = max_{y₁} (s₁(y₁) − x·a(y₁)) + max_{y₂} (s₂(y₂) − x·a(y₂)) + b·x

Samdani et al. 2012, Alg. 3, takes a subgradient step for each pair of best alignments. Here all of them are kept, in a
bundle of either direction, and the next point is the minimiser over X of D̂(x) + ‖x − x̂‖²/2t, with D̂ the maximum over
the bundle in place of all alignments and x̂ the best point so far (Lemaréchal 1978, Kiwiel 1990). The dual of that step
are weights of the alignments (``align_weights``): their average is q, x = x̂ + t · (what q violates), cut to X. Since
there are finitely many alignments, x̂ is optimal after finitely many steps, and q then obeys the constraints and attains
D(x̂): violation and gap D(x̂) − value(q) are certificates, whenever the method stops.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_columns import (
    add_column,
    agreement_price,
    disagreement,
    drop_columns,
    is_known,
    new_bounded,
    new_bundle,
)
from trellis.structures.kernels.align_max import add_path, best_alignment
from trellis.structures.kernels.align_project import AGREEMENT, BIJECTIVE, HINTS
from trellis.structures.kernels.align_weights import weigh

LARGEST_BUNDLE = 512
"""Columns of a pair, of both directions together: what an exact solution of long pairs may take of memory."""

FIRST_STEP = 2.0
LARGEST_STEP = 1e6
LAST_STEP = 10.0
"""By how much t grows for the last average, in which the constraints count for more than being near x̂."""

SERIOUS = 0.1
GOOD = 0.5
ROUNDING = 1e-12


@njit(nogil=True, cache=True)
def log_tilted(n_source, n_target, constraints, lam, bounded, hinted, first, second):
    """work.tilted = log emission minus what dual variables take; bounded (R,) as in ``align_columns.Bounded``."""
    half = n_source + n_target
    for i in range(n_source):
        for j in range(n_target):
            a, b = first.w[j, i] - lam[i, j], second.w[i, j] + lam[i, j]
            if constraints & BIJECTIVE:
                a -= bounded[i]
                b -= bounded[n_source + j]
            if constraints & HINTS and hinted[i, j]:
                a += bounded[half + j]
                b += bounded[half + n_target + i]
            first.tilted[j, i] = a
            second.tilted[i, j] = b


@njit(nogil=True, cache=True)
def clear(n_obs, n_places, work):
    """No links yet; work.w = log emission, which every evaluation needs."""
    for t in range(n_obs):
        work.null_link[t] = 0.0
        for i in range(n_places):
            work.link[t, i] = 0.0
            work.w[t, i] = np.log(work.emission[t, i])


@njit(nogil=True, cache=True)
def residual_of(n, n_source, n_target, value, bundle, rows, difference):
    """max(violation, |value − value(q)| / (I + J)) of the average q of n weighted columns.

    violation : the largest |q₁ − q₂| and excess fertility. A hint's shortfall has a price and so is part of value(q).
    Scores are sums over the words of both sides, so the gap is counted in nats a word.
    """
    violation, primal = 0.0, 0.0
    for k in range(n):
        primal += bundle.weight[k] * bundle.score[k]
    for i in range(n_source):
        for j in range(n_target):
            violation = max(violation, abs(difference[i, j]))
    for r in range(rows.high.shape[0]):
        if rows.high[r] == np.inf:
            violation = max(violation, rows.excess[r])
        else:
            primal -= rows.high[r] * max(rows.excess[r], 0.0)
    return max(violation, abs(value - primal) / (n_source + n_target))


@njit(nogil=True, cache=True)
def add_alignment(n, side, best, path, n_source, n_target, constraints, hinted, lam, trial, bundle, rows):
    """Add a best alignment under (trial, rows.point), whose log-score there is ``best``; return the columns' number."""
    if is_known(n, side, path, bundle):
        return n
    add_column(n, side, path, n_source, n_target, constraints, hinted, bundle)
    score = best + agreement_price(n, n_source, n_target, trial, bundle)
    for r in range(rows.high.shape[0]):
        score += rows.point[r] * bundle.uses[n, r]
    bundle.score[n] = score
    bundle.base[n] = score - agreement_price(n, n_source, n_target, lam, bundle)
    return n + 1


@njit(nogil=True, cache=True)
def project_linear(
    n_source, n_target, constraints, reliability, tolerance, max_evaluations, largest_bundle, hinted, directions,
    first, second, out,
):  # fmt: skip
    """Solve the linear program; q₁ and q₂ are left in link and null_link, their jumps added to ``out``.

    Returns (least D met, both directions' shares of it without b·x, residual, evaluations); it stops when the residual
    (``residual_of``) is at most ``tolerance``. work.tilted is left at the log scores under the multipliers of that D.
    largest_bundle : alignments kept, of both directions together, at least 6. D is +∞ if a direction has no alignment.
    """
    clear(n_target, n_source, first)
    clear(n_source, n_target, second)
    capacity = min(2 * max_evaluations, largest_bundle)
    rows = new_bounded(n_source, n_target, constraints, reliability, hinted)
    n_rows = rows.high.shape[0]
    bundle = new_bundle(capacity, max(n_source, n_target), n_rows)
    lam, trial = np.zeros((n_source, n_target)), np.zeros((n_source, n_target))
    difference = np.zeros((n_source, n_target))
    path1, path2 = np.empty(n_target, np.int32), np.empty(n_source, np.int32)
    value, s1, s2, estimate, residual = np.inf, 0.0, 0.0, -np.inf, np.inf
    t = FIRST_STEP
    n, evaluations = 0, 0
    while True:
        log_tilted(n_source, n_target, constraints, trial, rows.point, hinted, first, second)
        z1 = best_alignment(n_target, n_source, first.tilted, directions[0], first, path1)
        z2 = best_alignment(n_source, n_target, second.tilted, directions[1], second, path2)
        evaluations += 1
        here = z1 + z2
        if not here > -np.inf:
            return np.inf, z1, z2, np.inf, evaluations
        for r in range(n_rows):
            here += rows.right[r] * rows.point[r]
        if n + 2 > capacity:
            n = drop_columns(n, capacity - 2, bundle)
        known = n
        n = add_alignment(n, 0, z1, path1, n_source, n_target, constraints, hinted, lam, trial, bundle, rows)
        n = add_alignment(n, 1, z2, path2, n_source, n_target, constraints, hinted, lam, trial, bundle, rows)
        hoped, fall = value - estimate, value - here
        stuck = False
        if evaluations == 1 or fall >= SERIOUS * hoped:
            if evaluations == 1:
                bundle.weight[0] = bundle.weight[1] = 1.0
            elif fall >= GOOD * hoped:
                t = min(2.0 * t, LARGEST_STEP)
            value, s1, s2 = here, z1, z2
            for r in range(n_rows):
                rows.centre[r] = rows.point[r]
            for i in range(n_source):
                for j in range(n_target):
                    lam[i, j] = trial[i, j]
            for k in range(n):
                bundle.base[k] = bundle.score[k] - agreement_price(k, n_source, n_target, lam, bundle)
        else:
            # D̂ was exact where it promised less than D(x̂), yet D is not less: rounding is all that is left to gain.
            stuck = n == known
        last = evaluations >= max_evaluations
        t = t * LAST_STEP if last else t
        rounding = ROUNDING * (1.0 + abs(value))
        while True:
            estimate = weigh(n, t, rounding, bundle, rows)
            if constraints & AGREEMENT:
                disagreement(n, n_source, n_target, bundle, difference)
            residual = residual_of(n, n_source, n_target, value, bundle, rows, difference)
            if residual <= tolerance or last or not (stuck or value - estimate <= 10.0 * rounding):
                break
            # x̂ cannot be told from an optimal point, but q is not yet one: a longer step counts violations for more.
            t *= 10.0
            last = t > LARGEST_STEP
            stuck = False
        if residual <= tolerance or last:
            break
        if constraints & AGREEMENT:
            for i in range(n_source):
                for j in range(n_target):
                    trial[i, j] = lam[i, j] + t * difference[i, j]
    for k in range(n):
        if bundle.weight[k] > 0.0:
            if bundle.side[k] == 0:
                add_path(n_target, n_source, bundle.path[k], bundle.weight[k], directions[0], first, 0, out)
            else:
                add_path(n_source, n_target, bundle.path[k], bundle.weight[k], directions[1], second, 1, out)
    log_tilted(n_source, n_target, constraints, lam, rows.centre, hinted, first, second)
    return value, s1, s2, residual, evaluations
