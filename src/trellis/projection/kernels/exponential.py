"""exp of many numbers at once, in loops that the compiler can vectorise.

    exp(x) = 2^k · exp(r),     k = round(x / ln 2),  |r| ≤ ln 2 / 2,   exp(r) by its Taylor polynomial of degree 13

The remainder after degree 13 is below 5e-18; measured error is one unit in the last place. Arguments are held within
±708: what very small or large potentials do to a sum is the business of the caller's underflow check.
"""

from __future__ import annotations

import numpy as np
from numba import njit

FARTHEST = 708.0
ROUND = 6755399441055744.0  # 1.5 · 2^52: adding it leaves the nearest integer in the low bits
PER_LN2 = 1.4426950408889634
LN2_HIGH = 6.93147180369123816490e-01
LN2_LOW = 1.90821492927058770002e-10


@njit(nogil=True, cache=True, fastmath={"contract"})
def exponentiate(x, scratch, out):
    """out = exp(x) for flat arrays of one length; x is left as it is."""
    bits = out.view(np.int64)
    n = x.shape[0]
    for i in range(n):
        held = min(max(x[i], -FARTHEST), FARTHEST)
        shifted = held * PER_LN2 + ROUND
        out[i] = shifted
        k = shifted - ROUND
        r = held - k * LN2_HIGH - k * LN2_LOW
        p = 1.0 / 6227020800.0
        p = p * r + 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        scratch[i] = p * r + 1.0
    for i in range(n):
        bits[i] = (bits[i] + 1023) << 52
    for i in range(n):
        out[i] *= scratch[i]
