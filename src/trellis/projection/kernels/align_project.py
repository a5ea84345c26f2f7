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

from trellis.projection.kernels.exponential import exponentiate, logarithms
from trellis.structures.kernels.align_gather import gather
from trellis.structures.kernels.align_infer import collect_places, hand_out, hand_out_empty, posteriors
from trellis.structures.kernels.align_work import (
    ANY,
    EMISSION,
    HMM,
    LINK,
    TILTED,
    shape_of,
    whole_vectors,
    work_for,
)
from trellis.structures.kernels.lanes import LANES, load, multiply, store

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


# rows of Here.links, and of Here.words: dual variables now and before a step, the step, and the one before
NOW, OLD, STEP, PREVIOUS = range(4)
# further rows of Here.links: posteriors, and factors of potentials
Q1, Q2, FACTOR1, FACTOR2 = range(4, 8)


WHOLE = 32
"""Loops over links go on to a multiple of this, and find zeros there: else their ends would not be vectorised."""


class Here(NamedTuple):
    """One pair: its size, what is asked of it, and scratch space, in few arrays as in ``align_work.Work``."""

    n_source: int
    n_target: int
    n_links: int  # I · J, or the next multiple of WHOLE
    any_given: bool  # whether links are given
    rules: Rules
    marks: np.ndarray  # (≥ I · J,) which
    links: np.ndarray  # (8, ≥ I · J) λ, and what else links have
    words: np.ndarray  # (4, 4, ≥ max(I, J)) rows μ₁, μ₂, η₁, η₂


@njit(nogil=True, cache=True)
def project_pairs(chosen, direction1, direction2, weights, rules, given, tolerance, most_evaluations, logs, found, out):
    """Project the chosen pairs (n,); posteriors of both directions go into the pair ``found``.

    given : (n,) given links, increasing;  logs : None, or True to go over to log space at need
    """
    first, second = work_for(direction1, chosen), work_for(direction2, chosen)
    n_links = first.matrices.shape[1] * second.matrices.shape[1] + WHOLE
    links, words = np.zeros((8, n_links)), np.zeros((4, 4, max(first.words.shape[1], second.words.shape[1])))
    marks = np.zeros(n_links, np.bool_)
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
        n_whole = -(-n_source * n_target // WHOLE) * WHOLE
        here = Here(n_source, n_target, n_whole, any_given, rules, marks, links, words)
        sides = (shape1, words1.rows, moves1, first), (shape2, words2.rows, moves2, second)
        value, z1, z2, residual, evaluations = project(here, tolerance, most_evaluations, sides, logs)
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
            write_pulls(here, base, out)
        if moves1.kind == HMM:
            collect_places(n_target, n_source, moves1, weights[s], first, found1)
            collect_places(n_source, n_target, moves2, weights[s], second, found2)


@njit(nogil=True, cache=True)
def write_pulls(here, base, out):
    """What the dual variables of a pair add to the scores of its links in both directions."""
    links, words, pull1, pull2 = here.links, here.words, out.pull1, out.pull2
    for i in range(here.n_source):
        for j in range(here.n_target):
            k = i * here.n_target + j
            is_given = here.any_given and here.marks[k]
            pull1[base + k] = (words[NOW, 2, j] if is_given else 0.0) - links[NOW, k] - words[NOW, 0, i]
            pull2[base + k] = (words[NOW, 3, i] if is_given else 0.0) + links[NOW, k] - words[NOW, 1, j]


@njit(nogil=True, cache=True)
def mark(given, base, n_source, n_target, marks):
    """Fill ``marks`` (≥ I · J,) with the given links of the pair whose links begin at ``base``; whether it has any."""
    if given.shape[0] == 0:
        return False
    marks[: n_source * n_target] = False
    k = np.searchsorted(given, base)
    start = k
    while k < given.shape[0] and given[k] < base + n_source * n_target:
        marks[given[k] - base] = True
        k += 1
    return k > start


@njit(nogil=True, cache=True, error_model="numpy")
def tilt(here, first, second):
    """TILTED = EMISSION times the exponentials of the dual variables, in both directions."""
    n_source, n_target, n, links, words = here.n_source, here.n_target, here.n_links, here.links, here.words
    exponentiate(links[NOW, :n], links[FACTOR1, :n], links[FACTOR2, :n])
    for k in range(n):
        links[FACTOR1, k] = 1.0 / links[FACTOR2, k]
    if here.any_given:
        for k in range(n_source * n_target):
            if here.marks[k]:
                links[FACTOR1, k] *= np.exp(words[NOW, 2, k % n_target])
                links[FACTOR2, k] *= np.exp(words[NOW, 3, k // n_target])
    matrices1, matrices2, places1, places2 = first.matrices, second.matrices, first.places, second.places
    for i in range(n_source):
        places1[ANY, i] = np.exp(-words[NOW, 0, i])
    for j in range(n_target):
        places2[ANY, j] = np.exp(-words[NOW, 1, j])
    for j in range(n_target):
        for i in range(n_source):
            change = links[FACTOR1, i * n_target + j] * places1[ANY, i]
            matrices1[TILTED, j, i] = matrices1[EMISSION, j, i] * change
        for i in range(n_source, whole_vectors(n_source)):
            matrices1[TILTED, j, i] = 0.0
    width = matrices2.shape[2]
    factor, of_target = FACTOR2 * links.shape[1], ANY * places2.shape[1]
    emission, tilted = EMISSION * matrices2.shape[1] * width, TILTED * matrices2.shape[1] * width
    for i in range(n_source):
        for j in range(0, n_target, LANES):
            change = multiply(load(links, factor + i * n_target + j), load(places2, of_target + j))
            store(matrices2, tilted + i * width + j, multiply(load(matrices2, emission + i * width + j), change))


@njit(nogil=True, cache=True)
def clipped(value, low, high):
    """value held between two bounds."""
    return min(max(value, low), high)


@njit(nogil=True, cache=True)
def steps(here, ignore, first, second):
    """Fill STEP with the step of every dual variable; return (KKT residual, gradient · step).

    The residual is the largest of |q₁ − q₂|, of excess fertilities, of shortfalls of given links, and of slack left at
    a positive dual variable. Links with both posteriors below ``ignore`` stay as they are.
    """
    rules, n_source, n_target, links, words = here.rules, here.n_source, here.n_target, here.links, here.words
    n, matrices1, matrices2 = n_source * n_target, first.matrices, second.matrices
    for i in range(n_source):
        for j in range(n_target):
            links[Q1, i * n_target + j] = matrices1[LINK, j, i]
            links[Q2, i * n_target + j] = matrices2[LINK, i, j]
    for k in range(n, here.n_links):
        links[Q1, k] = 0.0
        links[Q2, k] = 0.0
    worst = 0.0
    slope = 0.0
    if rules.agreement:
        worst, slope = agreement_steps(links, here.n_links, rules.most_lambda, ignore)
    if rules.source:
        totals = first.places
        for i in range(n_source):
            totals[ANY, i] = 0.0
            for k in range(i * n_target, (i + 1) * n_target):
                totals[ANY, i] += links[Q1, k]
        worst, slope = fertility_steps(totals, n_source, words, 0, rules.most_mu1, worst, slope)
    if rules.target:
        totals = second.places
        for j in range(n_target):
            totals[ANY, j] = 0.0
        for i in range(n_source):
            for j in range(n_target):
                totals[ANY, j] += links[Q2, i * n_target + j]
        worst, slope = fertility_steps(totals, n_target, words, 1, rules.most_mu2, worst, slope)
    if here.any_given:
        for j in range(n_target):
            worst, slope = trusted_step(Q1, j, n, n_target, here, 2, j, worst, slope)
        for i in range(n_source):
            worst, slope = trusted_step(Q2, i * n_target, (i + 1) * n_target, 1, here, 3, i, worst, slope)
    return worst, slope


@njit(nogil=True, cache=True, fastmath={"reassoc", "nnan", "nsz", "contract"}, error_model="numpy")
def agreement_steps(links, n, most, ignore):
    """½ log(q₁/q₂) within the bounds of λ, 0 where both are small; return (max |q₁ − q₂|, slope)."""
    for k in range(n):
        links[FACTOR1, k] = (links[Q1, k] + 1e-30) / (links[Q2, k] + 1e-30)
    logarithms(links[FACTOR1, :n], links[STEP, :n])
    is_free = most == LARGEST_DUAL
    for k in range(n):
        a, b, lam = links[Q1, k], links[Q2, k], links[NOW, k]
        d = min(max(0.5 * links[STEP, k], -LARGEST_STEP), LARGEST_STEP)
        d = min(max(lam + d, -most), most) - lam
        counts = max(a, b) > ignore
        d = d if counts else 0.0
        links[STEP, k] = d
        # At the end of its range a dual variable stays: there a penalty is cheaper than agreement.
        links[FACTOR1, k] = abs(a - b) if counts & (is_free | (d != 0.0)) else 0.0
    worst, slope = 0.0, 0.0
    for k in range(n):
        slope -= (links[Q1, k] - links[Q2, k]) * links[STEP, k]
        worst = max(worst, links[FACTOR1, k])
    return worst, slope


@njit(nogil=True, cache=True)
def fertility_steps(totals, n, words, kind, most, worst, slope):
    """log of the expected fertilities of n words, in ANY, within the bounds of μ; residual and slope with them."""
    for i in range(n):
        total, mu = totals[ANY, i], words[NOW, kind, i]
        d = clipped(mu + np.log(total + 1e-30), 0.0, most) - mu
        words[STEP, kind, i] = d
        slope -= (total - 1.0) * d
        if total > 1.0 or mu > 0.0:
            worst = max(worst, min(abs(total - 1.0), abs(d)))
    return worst, slope


@njit(nogil=True, cache=True)
def trusted_step(q, first, end, by, here, kind, at, worst, slope):
    """The log-odds that the given ones of a word's links miss, within the bounds of η; residual and slope with it."""
    total, found, r = 0.0, False, here.rules.at_least
    for k in range(first, end, by):
        if here.marks[k]:
            total += here.links[q, k]
            found = True
    eta = here.words[NOW, kind, at]
    miss = np.log((r + 1e-12) / (1.0 - r + 1e-12) * (1.0 - total + 1e-12) / (total + 1e-12))
    d = clipped(eta + miss, 0.0, here.rules.most_eta) - eta if found else 0.0
    here.words[STEP, kind, at] = d
    return max(worst, min(abs(total - r), abs(d))), slope - (r - total) * d


@njit(nogil=True, cache=True)
def constant_term(here):
    """The part of V that does not depend on the models."""
    words, value = here.words, 0.0
    for i in range(here.n_source):
        value += words[NOW, 0, i] - here.rules.at_least * words[NOW, 3, i]
    for j in range(here.n_target):
        value += words[NOW, 1, j] - here.rules.at_least * words[NOW, 2, j]
    return value


@njit(nogil=True, cache=True)
def move(here, length):
    """NOW = OLD + length · STEP, kept within their bounds."""
    rules, links, words = here.rules, here.links, here.words
    most = rules.most_lambda
    for k in range(here.n_links if rules.agreement else 0):
        links[NOW, k] = min(max(links[OLD, k] + length * links[STEP, k], -most), most)
    for kind in range(4):
        most = rules.most_mu1 if kind == 0 else (rules.most_mu2 if kind == 1 else rules.most_eta)
        for i in range(max(here.n_source, here.n_target)):
            words[NOW, kind, i] = clipped(words[OLD, kind, i] + length * words[STEP, kind, i], 0.0, most)


@njit(nogil=True, cache=True)
def start(here):
    """Dual variables and steps of nothing."""
    for k in range(here.n_links):
        here.links[NOW, k] = 0.0
    for kind in range(4):
        for i in range(max(here.n_source, here.n_target)):
            here.words[NOW, kind, i] = 0.0
            here.words[STEP, kind, i] = 0.0


@njit(nogil=True, cache=True)
def keep(here):
    """OLD = NOW, and PREVIOUS = STEP."""
    links, words = here.links, here.words
    for k in range(here.n_links if here.rules.agreement else 0):
        links[OLD, k] = links[NOW, k]
        links[PREVIOUS, k] = links[STEP, k]
    for kind in range(4):
        for i in range(max(here.n_source, here.n_target)):
            words[OLD, kind, i] = words[NOW, kind, i]
            words[PREVIOUS, kind, i] = words[STEP, kind, i]


@njit(nogil=True, cache=True, fastmath={"reassoc", "nsz"})
def spectral_length(here, length):
    """length · p·p / p·(p − d), the Barzilai-Borwein length in the scaled variables, within [1/2, 8]."""
    links, words = here.links, here.words
    pp, pd = 0.0, 0.0
    for k in range(here.n_links if here.rules.agreement else 0):
        pp += links[PREVIOUS, k] * links[PREVIOUS, k]
        pd += links[PREVIOUS, k] * links[STEP, k]
    for kind in range(4):
        for i in range(max(here.n_source, here.n_target)):
            pp += words[PREVIOUS, kind, i] * words[PREVIOUS, kind, i]
            pd += words[PREVIOUS, kind, i] * words[STEP, kind, i]
    if pp <= pd:
        return 8.0
    return clipped(length * pp / (pp - pd), 0.5, 8.0)


@njit(nogil=True, cache=True)
def project(here, tolerance, most_evaluations, sides, logs):
    """Minimise V from dual variables of 0; the posteriors of the last evaluation are left in the scratch spaces.

    sides : of both directions the shape, rows of factors, moves and scratch space

    Returns (V, log Z₁, log Z₂, KKT residual, evaluations); there is one evaluation more than ``most_evaluations`` if
    the last step was too long. V is +∞ if a direction has no possible alignment, and NaN if log space is needed.
    """
    (shape1, rows1, moves1, first), (shape2, rows2, moves2, second) = sides
    ignore = min(1e-3, tolerance * 0.02)
    start(here)
    value, slope, worst, length, potentials, evaluations = np.inf, 0.0, np.inf, 1.0, EMISSION, 0
    while True:
        z1 = posteriors(shape1, potentials, rows1, moves1, logs, first)
        z2 = posteriors(shape2, potentials, rows2, moves2, logs, second)
        new_value = z1 + z2 + constant_term(here)
        evaluations += 1
        if evaluations == 1 and (z1 == -np.inf or z2 == -np.inf):
            return np.inf, z1, z2, np.inf, evaluations
        if np.isnan(new_value):
            return new_value, z1, z2, worst, evaluations
        # What rounding adds to V must not look like a rise.
        allowed = value + 1e-4 * length * slope + 1e-12 * (1.0 + abs(value))
        if new_value <= allowed or length < 1e-6 or evaluations > most_evaluations:
            value = new_value
            worst, slope = steps(here, ignore, first, second)
            if worst <= tolerance or evaluations >= most_evaluations:
                return value, z1, z2, worst, evaluations
            if evaluations > 1:
                length = spectral_length(here, length)
            keep(here)
        elif evaluations == most_evaluations:
            # No step was found in time: back to where V was least, rather than on to where it is not.
            length = 0.0
        else:
            length *= 0.5
        move(here, length)
        tilt(here, first, second)
        potentials = TILTED
