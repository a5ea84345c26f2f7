"""Projection of both directions of one sentence pair onto what links must obey in expectation.

With p₁ (places are source words) and p₂ (places are target words), minimise over x, where λ = γ x,

    V(x) = log Z₁(x) + log Z₂(x) + Σ_i μ₁(i) + Σ_j μ₂(j) − r (Σ_j η₁(j) + Σ_i η₂(i))
    q₁(i, j) ∝ p₁^{1/γ} exp(−λ_ij − μ₁(i) + [ij hinted] η₁(j)),    q₂ ∝ p₂^{1/γ} exp(+λ_ij − μ₂(j) + [ij hinted] η₂(i))

agreement  q₁(i, j) = q₂(i, j)                    λ free          (Ganchev et al. 2010, sec. 5.3)
bijective  Σ_j q₁(i, j) ≤ 1,  Σ_i q₂(i, j) ≤ 1    μ ≥ 0           (Ganchev et al. 2010, sec. 5.2)
hints      Σ_{i hinted for j} q₁(i, j) ≥ r, q₂ alike;  0 ≤ η ≤ ``HINT_LIMIT``, what a unit of violation costs

V is the dual of Samdani et al. 2012, eq. 8, divided by γ. Steps are per coordinate: ½ log(q₁/q₂) for λ, log of the
expected fertility for μ, the missing log-odds for η. Each has the sign of minus the gradient, so their
sum is a descent direction, and for links that compete with nothing it is Newton's step. Steps are
scaled spectrally (Barzilai & Borwein 1988) once a first one is known, and halved until V falls.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_hmm import forward_backward
from trellis.structures.kernels.align_log import forward_backward_log
from trellis.structures.kernels.align_model1 import independent_posteriors
from trellis.structures.kernels.align_work import HMM

AGREEMENT = 1
BIJECTIVE = 2
HINTS = 4

HINT_LIMIT = 12.0
LARGEST_STEP = 6.0
LARGEST_DUAL = 60.0


@njit(nogil=True, cache=True)
def posteriors(n_obs, n_places, emission, direction, inv_gamma, beam, work):
    """Posteriors of one direction under its model; ``set_places`` has been called for the HMM."""
    if direction.kind == HMM:
        work.in_logs[0] = False
        log_partition = forward_backward(n_obs, n_places, emission, direction, beam, work)
        if log_partition > -np.inf:
            return log_partition
        return forward_backward_log(n_obs, n_places, emission, direction, work)
    place = ((1.0 - direction.p_null) / max(n_places, 1)) ** inv_gamma
    return independent_posteriors(n_obs, n_places, emission, place, work)


@njit(nogil=True, cache=True)
def tilt(n_source, n_target, constraints, duals, hinted, first, second):
    """tilted = emission times the exponentials of the dual variables, in both directions."""
    lam = duals[0]
    mu1, mu2, eta1, eta2 = duals[1][0], duals[1][1], duals[1][2], duals[1][3]
    for i in range(n_source):
        u1 = np.exp(-mu1[i])
        h2 = np.exp(eta2[i])
        e2, out2 = second.emission[i], second.tilted[i]
        for j in range(n_target):
            x = lam[i, j]
            m = 1.0 if x == 0.0 else np.exp(x)
            a = u1 / m
            b = m
            if constraints & HINTS and hinted[i, j]:
                a *= np.exp(eta1[j])
                b *= h2
            first.tilted[j, i] = first.emission[j, i] * a
            out2[j] = e2[j] * b
    if constraints & BIJECTIVE:
        for j in range(n_target):
            u2 = np.exp(-mu2[j])
            for i in range(n_source):
                second.tilted[i, j] *= u2


@njit(nogil=True, cache=True)
def clipped(value, low, high):
    """value held between two bounds."""
    return min(max(value, low), high)


@njit(nogil=True, cache=True)
def steps(n_source, n_target, constraints, reliability, ignore, duals, hinted, first, second, step):
    """Fill ``step`` with the step of every dual variable; return (KKT residual, gradient · step).

    The residual is the largest of |q₁ − q₂|, of excess fertilities, of shortfalls of hints, and of slack left at a
    positive dual variable. Links with both posteriors below ``ignore`` stay as they are.
    """
    lam, d_lam = duals[0], step[0]
    mu1, mu2, eta1, eta2 = duals[1][0], duals[1][1], duals[1][2], duals[1][3]
    d_mu1, d_mu2, d_eta1, d_eta2 = step[1][0], step[1][1], step[1][2], step[1][3]
    q1, q2 = first.link, second.link
    worst = 0.0
    slope = 0.0
    if constraints & AGREEMENT:
        for i in range(n_source):
            row = q2[i]
            for j in range(n_target):
                a, b = q1[j, i], row[j]
                if max(a, b) <= ignore:
                    d_lam[i, j] = 0.0
                    continue
                gap = a - b
                worst = max(worst, abs(gap))
                d = 0.5 * np.log((a + 1e-30) / (b + 1e-30))
                d = clipped(d, -LARGEST_STEP, LARGEST_STEP)
                d = clipped(lam[i, j] + d, -LARGEST_DUAL, LARGEST_DUAL) - lam[i, j]
                d_lam[i, j] = d
                slope -= gap * d
    if constraints & BIJECTIVE:
        for i in range(n_source):
            total = 0.0
            for j in range(n_target):
                total += q1[j, i]
            d = clipped(mu1[i] + np.log(total + 1e-30), 0.0, LARGEST_DUAL) - mu1[i]
            d_mu1[i] = d
            slope -= (total - 1.0) * d
            if total > 1.0 or mu1[i] > 0.0:
                worst = max(worst, min(abs(total - 1.0), abs(d)))
        for j in range(n_target):
            total = 0.0
            for i in range(n_source):
                total += q2[i, j]
            d = clipped(mu2[j] + np.log(total + 1e-30), 0.0, LARGEST_DUAL) - mu2[j]
            d_mu2[j] = d
            slope -= (total - 1.0) * d
            if total > 1.0 or mu2[j] > 0.0:
                worst = max(worst, min(abs(total - 1.0), abs(d)))
    if constraints & HINTS:
        for j in range(n_target):
            total, found = 0.0, False
            for i in range(n_source):
                if hinted[i, j]:
                    total += q1[j, i]
                    found = True
            d_eta1[j] = 0.0
            if found:
                d = hint_step(eta1[j], total, reliability)
                d_eta1[j] = d
                slope -= (reliability - total) * d
                worst = max(worst, min(abs(total - reliability), abs(d)))
        for i in range(n_source):
            total, found = 0.0, False
            for j in range(n_target):
                if hinted[i, j]:
                    total += q2[i, j]
                    found = True
            d_eta2[i] = 0.0
            if found:
                d = hint_step(eta2[i], total, reliability)
                d_eta2[i] = d
                slope -= (reliability - total) * d
                worst = max(worst, min(abs(total - reliability), abs(d)))
    return worst, slope


@njit(nogil=True, cache=True)
def hint_step(eta, total, reliability):
    """The missing log-odds, within the bounds of the dual variable."""
    miss = np.log((reliability + 1e-12) / (1.0 - reliability + 1e-12) * (1.0 - total + 1e-12) / (total + 1e-12))
    return clipped(eta + miss, 0.0, HINT_LIMIT) - eta


@njit(nogil=True, cache=True)
def constant_term(n_source, n_target, constraints, reliability, duals):
    """The part of V that does not depend on the models."""
    rows = duals[1]
    value = 0.0
    if constraints & BIJECTIVE:
        value += rows[0, :n_source].sum() + rows[1, :n_target].sum()
    if constraints & HINTS:
        value -= reliability * (rows[2, :n_target].sum() + rows[3, :n_source].sum())
    return value


@njit(nogil=True, cache=True)
def move(n_source, n_target, constraints, duals, old, step, length):
    """duals = old + length · step, kept within their bounds."""
    if constraints & AGREEMENT:
        for i in range(n_source):
            for j in range(n_target):
                duals[0][i, j] = clipped(old[0][i, j] + length * step[0][i, j], -LARGEST_DUAL, LARGEST_DUAL)
    for k in range(4):
        highest = LARGEST_DUAL if k < 2 else HINT_LIMIT
        for i in range(max(n_source, n_target)):
            duals[1][k, i] = clipped(old[1][k, i] + length * step[1][k, i], 0.0, highest)


@njit(nogil=True, cache=True)
def evaluate(n_source, n_target, constraints, reliability, inv_gamma, beam, duals, hinted, directions, first, second):
    """Tilt both directions, infer, and return (log Z₁, log Z₂, V)."""
    tilt(n_source, n_target, constraints, duals, hinted, first, second)
    z1 = posteriors(n_target, n_source, first.tilted, directions[0], inv_gamma, beam, first)
    z2 = posteriors(n_source, n_target, second.tilted, directions[1], inv_gamma, beam, second)
    return z1, z2, z1 + z2 + constant_term(n_source, n_target, constraints, reliability, duals)


@njit(nogil=True, cache=True)
def project(
    n_source, n_target, constraints, reliability, inv_gamma, beam, tolerance, max_evaluations,
    duals, old, step, previous, hinted, directions, first, second,
):  # fmt: skip
    """Minimise V from where ``duals`` stand; the posteriors of the last evaluation are left in first and second.

    Returns (V, log Z₁, log Z₂, KKT residual, evaluations); there is one evaluation more than ``max_evaluations`` if the
    last step was too long. Emissions and places have been set; V is +∞ if a direction has no possible alignment.
    duals, old, step, previous : as ``new_duals`` makes them
    """
    ignore = min(1e-3, tolerance * 0.02)
    z1, z2, value = evaluate(
        n_source, n_target, constraints, reliability, inv_gamma, beam, duals, hinted, directions, first, second
    )
    evaluations = 1
    if not (z1 > -np.inf and z2 > -np.inf):
        return np.inf, z1, z2, np.inf, evaluations
    length = 1.0
    worst = np.inf
    while True:
        worst, slope = steps(n_source, n_target, constraints, reliability, ignore, duals, hinted, first, second, step)
        if worst <= tolerance or evaluations >= max_evaluations:
            break
        if evaluations > 1:
            length = spectral_length(n_source, n_target, constraints, length, previous, step)
        old[1][:] = duals[1]
        previous[1][:] = step[1]
        if constraints & AGREEMENT:
            for i in range(n_source):
                for j in range(n_target):
                    old[0][i, j] = duals[0][i, j]
                    previous[0][i, j] = step[0][i, j]
        while True:
            move(n_source, n_target, constraints, duals, old, step, length)
            z1, z2, new_value = evaluate(
                n_source, n_target, constraints, reliability, inv_gamma, beam, duals, hinted, directions, first, second
            )
            evaluations += 1
            # What rounding adds to V must not look like a rise.
            allowed = value + 1e-4 * length * slope + 1e-12 * (1.0 + abs(value))
            if new_value <= allowed or length < 1e-6:
                break
            if evaluations >= max_evaluations:
                # No step was found in time: back to where V was least, rather than on to where it is not.
                move(n_source, n_target, constraints, duals, old, step, 0.0)
                z1, z2, new_value = evaluate(
                    n_source, n_target, constraints, reliability, inv_gamma, beam, duals, hinted, directions, first,
                    second,
                )  # fmt: skip
                evaluations += 1
                break
            length *= 0.5
        value = new_value
    return value, z1, z2, worst, evaluations


@njit(nogil=True, cache=True)
def spectral_length(n_source, n_target, constraints, length, previous, step):
    """length · p·p / p·(p − d), the Barzilai-Borwein length in the scaled variables, within [1/2, 8]."""
    pp, pd = 0.0, 0.0
    if constraints & AGREEMENT:
        for i in range(n_source):
            for j in range(n_target):
                p = previous[0][i, j]
                pp += p * p
                pd += p * step[0][i, j]
    for k in range(4):
        for i in range(max(n_source, n_target)):
            pp += previous[1][k, i] * previous[1][k, i]
            pd += previous[1][k, i] * step[1][k, i]
    if pp <= pd:
        return 8.0
    return clipped(length * pp / (pp - pd), 0.5, 8.0)


@njit(nogil=True, cache=True)
def new_duals(n_source, n_target):
    """Dual variables of one pair, all zero: λ (I, J), and μ₁, μ₂, η₁, η₂ as the rows of a (4, max(I, J)) array."""
    return np.zeros((max(n_source, 1), max(n_target, 1))), np.zeros((4, max(n_source, n_target, 1)))
