"""Projection of both directions of sentence pairs onto what links must obey in expectation.

With p₁ (places are source words) and p₂ (places are target words), already to the power 1/γ, minimise over θ = λ/γ

    V(θ) = log Z₁(θ) + log Z₂(θ) + Σ_i μ₁(i) + Σ_j μ₂(j) − r (Σ_j η₁(j) + Σ_i η₂(i))
    q₁(i, j) ∝ p₁ exp(−λ_ij − μ₁(i) + [ij given] η₁(j)),    q₂ ∝ p₂ exp(+λ_ij − μ₂(j) + [ij given] η₂(i))

agreement  q₁(i, j) = q₂(i, j)                    λ free          (Ganchev et al. 2010, sec. 5.3)
bijective  Σ_j q₁(i, j) ≤ 1,  Σ_i q₂(i, j) ≤ 1    μ ≥ 0           (Ganchev et al. 2010, sec. 5.2)
trusted    Σ_{i given for j} q₁(i, j) ≥ r, q₂ alike;  η ≥ 0

A penalty σ on any of these bounds its dual variables by σ/γ. V is the dual of Samdani et al. 2012, eq. 8, divided by γ.
Steps are per coordinate: ½ log(q₁/q₂) for λ, log of the expected fertility for μ, the missing log-odds for η. Each has
the sign of minus the gradient, so their sum is a descent direction, and for links that compete with nothing it is
Newton's step. Steps are scaled spectrally (Barzilai & Borwein 1988) once a first one is known, and halved until V
falls.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.align_infer import collect_places, hand_out, hand_out_empty, posteriors
from trellis.structures.kernels.align_work import HMM, gather, shape_of, work_for

LARGEST_STEP = 6.0
LARGEST_DUAL = 60.0


class Rules(NamedTuple):
    """Which rows there are, and how far their dual variables θ may go.

    agreement : λ;  source, target : fertilities of source words under q₁ and of target words under q₂, μ₁ and μ₂
    at_least : r of the given links
    """

    agreement: bool
    source: bool
    target: bool
    at_least: float
    most_lambda: float
    most_mu1: float
    most_mu2: float
    most_eta: float


class Projected(NamedTuple):
    """What the kernel leaves of every pair, beside the posteriors."""

    pull1: np.ndarray  # (n_links,) what θ adds to the scores of links, or empty: it is not asked for
    pull2: np.ndarray  # (n_links,)
    value: np.ndarray  # (n_pairs,) V, NaN where log space is needed
    residual: np.ndarray  # (n_pairs,) of KKT
    evaluations: np.ndarray  # (n_pairs,)


class Duals(NamedTuple):
    """Dual variables of one pair, or steps of them: λ (I, J), and μ₁, μ₂, η₁, η₂ as the rows of (4, max(I, J))."""

    link: np.ndarray
    word: np.ndarray


@njit(nogil=True, cache=True)
def project_pairs(chosen, direction1, direction2, weights, rules, given, tolerance, most_evaluations, logs, found, out):
    """Project the chosen pairs (n,); posteriors of both directions go into the pair ``found``.

    given : (n,) given links, increasing;  logs : None, or True to go over to log space at need
    """
    first = work_for(direction1.pairs, chosen, True)
    second = work_for(direction2.pairs, chosen, False)
    duals, old, step, previous = new_duals(second), new_duals(second), new_duals(second), new_duals(second)
    marks = np.zeros(second.emission.shape, np.bool_)
    pairs, moves1, moves2 = direction1.pairs, direction1.moves, direction2.moves
    words1, words2 = direction1.words, direction2.words
    found1, found2 = found
    for s in chosen:
        shape1, shape2 = shape_of(s, pairs, True), shape_of(s, pairs, False)
        n_source, n_target, base = shape2.n_obs, shape1.n_obs, shape1.link
        if n_source == 0 or n_target == 0:
            hand_out_empty(s, shape1, words1, found1)
            hand_out_empty(s, shape2, words2, found2)
            out.value[s] = found1.log_partition[s] + found2.log_partition[s]
            continue
        lost1, lost2 = gather(shape1, words1, moves1, first), gather(shape2, words2, moves2, second)
        any_given = mark(given, base, n_source, n_target, marks)
        here = Here(n_source, n_target, any_given, rules, marks)
        duals.word[:] = 0.0
        step.word[:] = 0.0
        duals.link[:n_source, :n_target] = 0.0
        value, z1, z2, residual, evaluations = project(
            here, tolerance, most_evaluations, duals, old, step, previous, moves1, moves2, first, second, logs
        )
        out.value[s] = value + lost1 + lost2
        if np.isnan(value):
            continue
        out.residual[s], out.evaluations[s] = residual, evaluations
        found1.log_partition[s], found2.log_partition[s] = z1 + lost1, z2 + lost2
        if not value < np.inf:
            continue
        hand_out(shape1, first, found1)
        hand_out(shape2, second, found2)
        if out.pull1.shape[0]:
            write_pulls(here, base, duals, out)
        if moves1.kind == HMM:
            collect_places(n_target, n_source, moves1, weights[s], first, found1)
            collect_places(n_source, n_target, moves2, weights[s], second, found2)


@njit(nogil=True, cache=True)
def write_pulls(here, base, duals, out):
    """What the dual variables of a pair add to the scores of its links in both directions."""
    lam, word, pull1, pull2 = duals.link, duals.word, out.pull1, out.pull2
    for i in range(here.n_source):
        for j in range(here.n_target):
            is_given = here.any_given and here.marks[i, j]
            k = base + i * here.n_target + j
            pull1[k] = (word[2, j] if is_given else 0.0) - lam[i, j] - word[0, i]
            pull2[k] = (word[3, i] if is_given else 0.0) + lam[i, j] - word[1, j]


class Here(NamedTuple):
    """One pair: its size, what is asked of it, and whether links are given: ``marks`` (≥ I, ≥ J) says which."""

    n_source: int
    n_target: int
    any_given: bool
    rules: Rules
    marks: np.ndarray


@njit(nogil=True, cache=True)
def mark(given, base, n_source, n_target, marks):
    """Fill ``marks`` (≥ I, ≥ J) with the given links of the pair whose links begin at ``base``; whether it has any."""
    if given.shape[0] == 0:
        return False
    marks[:n_source, :n_target] = False
    k = np.searchsorted(given, base)
    start = k
    while k < given.shape[0] and given[k] < base + n_source * n_target:
        marks[(given[k] - base) // n_target, (given[k] - base) % n_target] = True
        k += 1
    return k > start


@njit(nogil=True, cache=True)
def new_duals(second):
    """Zeros for pairs up to the size of this scratch space."""
    i, j = second.emission.shape
    return Duals(np.zeros((i, j)), np.zeros((4, max(i, j))))


@njit(nogil=True, cache=True)
def tilt(here, duals, first, second):
    """tilted = emission times the exponentials of the dual variables, in both directions."""
    marks, any_given = here.marks, here.any_given
    emission1, tilted1, emission2, tilted2 = first.emission, first.tilted, second.emission, second.tilted
    lam, mu1, mu2, eta1, eta2 = duals.link, duals.word[0], duals.word[1], duals.word[2], duals.word[3]
    for i in range(here.n_source):
        u1 = np.exp(-mu1[i])
        h2 = np.exp(eta2[i])
        e2, out2 = emission2[i], tilted2[i]
        for j in range(here.n_target):
            x = lam[i, j]
            m = 1.0 if x == 0.0 else np.exp(x)
            a = u1 / m
            b = m
            if any_given and marks[i, j]:
                a *= np.exp(eta1[j])
                b *= h2
            tilted1[j, i] = emission1[j, i] * a
            out2[j] = e2[j] * b
    if here.rules.target:
        for j in range(here.n_target):
            u2 = np.exp(-mu2[j])
            for i in range(here.n_source):
                tilted2[i, j] *= u2


@njit(nogil=True, cache=True)
def clipped(value, low, high):
    """value held between two bounds."""
    return min(max(value, low), high)


@njit(nogil=True, cache=True)
def steps(here, ignore, duals, first, second, step):
    """Fill ``step`` with the step of every dual variable; return (KKT residual, gradient · step).

    The residual is the largest of |q₁ − q₂|, of excess fertilities, of shortfalls of given links, and of slack left at
    a positive dual variable. Links with both posteriors below ``ignore`` stay as they are.
    """
    rules, marks, q1, q2 = here.rules, here.marks, first.link, second.link
    n_source, n_target = here.n_source, here.n_target
    lam, d_lam, word, d_word = duals.link, step.link, duals.word, step.word
    worst = 0.0
    slope = 0.0
    if rules.agreement:
        most = rules.most_lambda
        for i in range(n_source):
            row = q2[i]
            for j in range(n_target):
                a, b = q1[j, i], row[j]
                if max(a, b) <= ignore:
                    d_lam[i, j] = 0.0
                    continue
                gap = a - b
                d = 0.5 * np.log((a + 1e-30) / (b + 1e-30))
                d = clipped(d, -LARGEST_STEP, LARGEST_STEP)
                d = clipped(lam[i, j] + d, -most, most) - lam[i, j]
                # At the end of its range a dual variable stays: there a penalty is cheaper than agreement.
                if d != 0.0 or most == LARGEST_DUAL:
                    worst = max(worst, abs(gap))
                d_lam[i, j] = d
                slope -= gap * d
    if rules.source:
        for i in range(n_source):
            total = 0.0
            for j in range(n_target):
                total += q1[j, i]
            mu, most = word[0, i], rules.most_mu1
            d = clipped(mu + np.log(total + 1e-30), 0.0, most) - mu
            d_word[0, i] = d
            slope -= (total - 1.0) * d
            if total > 1.0 or mu > 0.0:
                worst = max(worst, min(abs(total - 1.0), abs(d)))
    if rules.target:
        for j in range(n_target):
            total = 0.0
            for i in range(n_source):
                total += q2[i, j]
            mu, most = word[1, j], rules.most_mu2
            d = clipped(mu + np.log(total + 1e-30), 0.0, most) - mu
            d_word[1, j] = d
            slope -= (total - 1.0) * d
            if total > 1.0 or mu > 0.0:
                worst = max(worst, min(abs(total - 1.0), abs(d)))
    if here.any_given:
        for j in range(n_target):
            total, found = 0.0, False
            for i in range(n_source):
                if marks[i, j]:
                    total += q1[j, i]
                    found = True
            d = trusted_step(word[2, j], total, rules) if found else 0.0
            d_word[2, j] = d
            slope -= (rules.at_least - total) * d
            worst = max(worst, min(abs(total - rules.at_least), abs(d)))
        for i in range(n_source):
            total, found = 0.0, False
            for j in range(n_target):
                if marks[i, j]:
                    total += q2[i, j]
                    found = True
            d = trusted_step(word[3, i], total, rules) if found else 0.0
            d_word[3, i] = d
            slope -= (rules.at_least - total) * d
            worst = max(worst, min(abs(total - rules.at_least), abs(d)))
    return worst, slope


@njit(nogil=True, cache=True)
def trusted_step(eta, total, rules):
    """The missing log-odds, within the bounds of the dual variable."""
    r = rules.at_least
    miss = np.log((r + 1e-12) / (1.0 - r + 1e-12) * (1.0 - total + 1e-12) / (total + 1e-12))
    return clipped(eta + miss, 0.0, rules.most_eta) - eta


@njit(nogil=True, cache=True)
def constant_term(here, duals):
    """The part of V that does not depend on the models."""
    word, n_source, n_target = duals.word, here.n_source, here.n_target
    value = 0.0
    if here.rules.source:
        value += word[0, :n_source].sum()
    if here.rules.target:
        value += word[1, :n_target].sum()
    if here.any_given:
        value -= here.rules.at_least * (word[2, :n_target].sum() + word[3, :n_source].sum())
    return value


@njit(nogil=True, cache=True)
def move(here, duals, old, step, length):
    """duals = old + length · step, kept within their bounds."""
    rules, lam, old_lam, d_lam = here.rules, duals.link, old.link, step.link
    word, old_word, d_word = duals.word, old.word, step.word
    if rules.agreement:
        for i in range(here.n_source):
            for j in range(here.n_target):
                new = old_lam[i, j] + length * d_lam[i, j]
                lam[i, j] = clipped(new, -rules.most_lambda, rules.most_lambda)
    for k in range(4):
        most = rules.most_mu1 if k == 0 else (rules.most_mu2 if k == 1 else rules.most_eta)
        for i in range(max(here.n_source, here.n_target)):
            word[k, i] = clipped(old_word[k, i] + length * d_word[k, i], 0.0, most)


@njit(nogil=True, cache=True)
def evaluate(here, duals, moves1, moves2, first, second, logs):
    """Tilt both directions, infer, and return (log Z₁, log Z₂, V)."""
    tilt(here, duals, first, second)
    z1 = posteriors(here.n_target, here.n_source, first.tilted, moves1, logs, first)
    z2 = posteriors(here.n_source, here.n_target, second.tilted, moves2, logs, second)
    return z1, z2, z1 + z2 + constant_term(here, duals)


@njit(nogil=True, cache=True)
def project(here, tolerance, most_evaluations, duals, old, step, previous, moves1, moves2, first, second, logs):
    """Minimise V from where ``duals`` stand; the posteriors of the last evaluation are left in the scratch spaces.

    Returns (V, log Z₁, log Z₂, KKT residual, evaluations); there is one evaluation more than ``most_evaluations`` if
    the last step was too long. V is +∞ if a direction has no possible alignment, and NaN if log space is needed.
    """
    ignore = min(1e-3, tolerance * 0.02)
    z1, z2, value = evaluate(here, duals, moves1, moves2, first, second, logs)
    evaluations = 1
    if z1 == -np.inf or z2 == -np.inf:
        return np.inf, z1, z2, np.inf, evaluations
    length = 1.0
    worst = np.inf
    while not np.isnan(value):
        worst, slope = steps(here, ignore, duals, first, second, step)
        if worst <= tolerance or evaluations >= most_evaluations:
            break
        if evaluations > 1:
            length = spectral_length(here, length, previous, step)
        keep(here, duals, old)
        keep(here, step, previous)
        while True:
            move(here, duals, old, step, length)
            z1, z2, new_value = evaluate(here, duals, moves1, moves2, first, second, logs)
            evaluations += 1
            # What rounding adds to V must not look like a rise.
            allowed = value + 1e-4 * length * slope + 1e-12 * (1.0 + abs(value))
            if np.isnan(new_value) or new_value <= allowed or length < 1e-6:
                break
            if evaluations >= most_evaluations:
                # No step was found in time: back to where V was least, rather than on to where it is not.
                move(here, duals, old, step, 0.0)
                z1, z2, new_value = evaluate(here, duals, moves1, moves2, first, second, logs)
                evaluations += 1
                break
            length *= 0.5
        value = new_value
    return value, z1, z2, worst, evaluations


@njit(nogil=True, cache=True)
def keep(here, duals, copy):
    """Copy what the pair uses."""
    copy.word[:] = duals.word
    lam, copied = duals.link, copy.link
    if here.rules.agreement:
        for i in range(here.n_source):
            for j in range(here.n_target):
                copied[i, j] = lam[i, j]


@njit(nogil=True, cache=True)
def spectral_length(here, length, previous, step):
    """length · p·p / p·(p − d), the Barzilai-Borwein length in the scaled variables, within [1/2, 8]."""
    pp, pd = 0.0, 0.0
    p_lam, d_lam, p_word, d_word = previous.link, step.link, previous.word, step.word
    if here.rules.agreement:
        for i in range(here.n_source):
            for j in range(here.n_target):
                p = p_lam[i, j]
                pp += p * p
                pd += p * d_lam[i, j]
    for k in range(4):
        for i in range(max(here.n_source, here.n_target)):
            pp += p_word[k, i] * p_word[k, i]
            pd += p_word[k, i] * d_word[k, i]
    if pp <= pd:
        return 8.0
    return clipped(length * pp / (pp - pd), 0.5, 8.0)
