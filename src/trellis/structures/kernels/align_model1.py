"""Posteriors of one sentence pair under IBM Model 1: every word picks its generating word by itself.

P(y_t = i) = e_t(i) (1 − p₀)/I / Z_t,    P(y_t = null) = n_t / Z_t,    Z_t = n_t + Σ_i e_t(i) (1 − p₀)/I
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
