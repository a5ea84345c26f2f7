"""Posteriors of one sentence pair under IBM Model 1: every word picks its generating word by itself.

P(y_t = i) = e_t(i) (1 − p₀)/I / Z_t,    P(y_t = null) = n_t / Z_t,    Z_t = n_t + Σ_i e_t(i) (1 − p₀)/I

In long sentences too many places are alike to it. As in Dyer et al. 2013, places near the diagonal can be preferred,
p(i | t) ∝ exp(−|i + ½ − (t + ½) I/J| / reach), which e_t(i) then holds the factor I p(i | t) of; what differs is that
the reach is counted in words, so that short sentences hardly feel it.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def independent_posteriors(n_obs, n_places, emission, place, work):
    """Fill work.link (J, I) and work.null_link (J,); returns Σ_t log Z_t, −∞ if a word has no possible origin.

    emission : (≥ J, ≥ I), work.emission or work.tilted;  place : (1 − p₀)/I, to the power 1/γ
    """
    null, link, null_link = work.null_emission, work.link, work.null_link
    log_sum = 0.0
    product = 1.0
    for t in range(n_obs):
        e, out = emission[t], link[t]
        total = 0.0
        for i in range(n_places):
            out[i] = e[i] * place
            total += out[i]
        total += null[t]
        if not total > 0.0:
            return -np.inf
        inverse = 1.0 / total
        for i in range(n_places):
            out[i] *= inverse
        null_link[t] = null[t] * inverse
        product *= total
        if product < 1e-200 or product > 1e200:
            log_sum += np.log(product)
            product = 1.0
    return log_sum + np.log(product)


@njit(nogil=True, cache=True)
def favour_diagonal(n_obs, n_places, pull, emission):
    """Multiply emission (≥ J, ≥ I) by I p(i | t); pull : (≥ I,) exp((i + ½) / reach), or empty for an endless reach."""
    if pull.shape[0] == 0:
        return
    for t in range(n_obs):
        centre = (t + 0.5) * n_places / n_obs
        # exp(c / reach): logarithms of the table are linear in the place.
        below = int(centre)
        at = pull[below] * (pull[1] / pull[0]) ** (centre - below - 0.5)
        total = 0.0
        for i in range(n_places):
            total += pull[i] / at if i + 0.5 <= centre else at / pull[i]
        share = n_places / total
        for i in range(n_places):
            emission[t, i] *= share * (pull[i] / at if i + 0.5 <= centre else at / pull[i])
