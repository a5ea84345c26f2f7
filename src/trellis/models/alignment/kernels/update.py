"""M-step of the translation tables: expected counts to probabilities, one pass over the table.

variational   t(f | e) = exp ψ(c(e, f) + α) / exp ψ(N(e) + A(e))        mean-field variational Bayes
mean          t(f | e) = (c(e, f) + α) / (N(e) + A(e))                  maximum a posteriori under Dirichlet(1 + α)

α is the concentration plus what is known of the pair beforehand; A(e) is its sum over the pairs of e.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

SMALLEST = 1e-30
HALF_LOG_TWO_PI = 0.9189385332046728
FEW = 1e-3
"""Counts below this share of α, most of a table's, need no logarithms of their own: three terms of a series do."""


@njit(nogil=True, cache=True)
def exp_digamma(x):
    """exp ψ(x), x > 0: ψ(x) = ψ(x + 6) − Σ_{k<6} 1/(x + k), and exp ψ(y + ½) by its asymptotic series in 1/y."""
    x2 = x * x
    # Σ 1/(x + k) = P′(x) / P(x), P(x) = x (x + 1) ... (x + 5): one division instead of six
    p = x * (120.0 + x * (274.0 + x * (225.0 + x * (85.0 + x * (15.0 + x)))))
    dp = 120.0 + 548.0 * x + x2 * (675.0 + 340.0 * x + 75.0 * x2 + 6.0 * x2 * x)
    y = x + 5.5
    z = 1.0 / (y * y)
    series = y + (1.0 / 24 - z * (37.0 / 5760 - z * (10313.0 / 2903040 - z * 5509121.0 / 1393459200))) / y
    return series * np.exp(-dp / p)


@njit(nogil=True, cache=True)
def log_gamma(x):
    """log Γ(x), x > 0: Stirling's series at x + 6, less log (x (x + 1) ... (x + 5)). Twice as fast as the library's."""
    p = x * (120.0 + x * (274.0 + x * (225.0 + x * (85.0 + x * (15.0 + x)))))
    y = x + 6.0
    z = 1.0 / (y * y)
    series = (1.0 / 12 - z * (1.0 / 360 - z * (1.0 / 1260 - z / 1680))) / y
    return (y - 0.5) * np.log(y) - y + HALF_LOG_TWO_PI + series - np.log(p)


@njit(nogil=True, cache=True)
def table_totals(row_offsets, row_targets, counts, totals1, totals2):
    """Σ of the counts by source word (1) and by target word (2)."""
    for e in range(row_offsets.shape[0] - 1):
        for k in range(row_offsets[e], row_offsets[e + 1]):
            f = row_targets[k]
            totals1[e] += counts[k, 0]
            totals2[f] += counts[k, 1]


@njit(nogil=True, cache=True)
def update_rows(
    start, stop, row_offsets, row_targets, counts, extra_at, extra, alpha, variational, norm1, norm2, score, log_norm1,
    log_norm2, bend, out,
):  # fmt: skip
    """out[k] = the two translation probabilities of the pairs of source words start..stop−1.

    extra_at, extra : rising places of pairs that have more than α, and how much more; below 0: forbidden
    norm1, norm2 : what to divide by, by source and by target word
    log_norm1, log_norm2, bend : their logarithms and ψ′(α), looked at if ``score``
    Returns, if ``score``, the pairs' part of the log-prior (see ``trellis.models.alignment.translation``).
    """
    prior, log_alpha, log_gamma_alpha = 0.0, np.log(alpha), log_gamma(alpha)
    following = np.searchsorted(extra_at, row_offsets[start])
    for e in range(start, stop):
        for k in range(row_offsets[e], row_offsets[e + 1]):
            a, f = alpha, row_targets[k]
            if following < extra_at.shape[0] and extra_at[following] == k:
                more = extra[following]
                following += 1
                if more < 0.0:
                    out[k, 0] = 0.0
                    out[k, 1] = 0.0
                    continue
                a += more
            for d in range(2):
                c = counts[k, d]
                norm = norm1[e] if d == 0 else norm2[f]
                t = max((exp_digamma(c + a) if variational else c + a) / norm, SMALLEST)
                out[k, d] = t
                if not score:
                    continue
                if c <= FEW * alpha and a == alpha and t > SMALLEST:
                    log_norm = log_norm1[e] if d == 0 else log_norm2[f]
                    if variational:
                        prior += c * (log_norm - 0.5 * c * bend)
                    else:
                        share = c / a
                        prior += a * (log_alpha - log_norm + share * (1.0 - share * (0.5 - share / 3.0)))
                elif variational:
                    prior += log_gamma(c + a) - (log_gamma_alpha if a == alpha else log_gamma(a)) - c * np.log(t)
                else:
                    prior += a * np.log(t)
    return prior


@njit(nogil=True, cache=True)
def update_list(counts, alpha, variational, norm, score, out):
    """The same for one distribution given as a list, that of the words which come from null."""
    prior = 0.0
    for k in range(counts.shape[0]):
        x = counts[k] + alpha
        t = max((exp_digamma(x) if variational else x) / norm, SMALLEST)
        out[k] = t
        if score:
            if variational:
                prior += math.lgamma(x) - math.lgamma(alpha) - counts[k] * np.log(t)
            else:
                prior += alpha * np.log(t)
    return prior


@njit(nogil=True, cache=True)
def lgamma_differences(totals, mass, out):
    """out[k] = log Γ(mass) − log Γ(totals + mass), 0 where there is no mass."""
    for k in range(totals.shape[0]):
        out[k] = math.lgamma(mass[k]) - math.lgamma(totals[k] + mass[k]) if mass[k] > 0.0 else 0.0
