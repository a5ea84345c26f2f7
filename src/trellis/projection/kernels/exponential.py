"""exp and log of many numbers at once, in loops that the compiler can vectorise.

    exp(x) = 2^k · exp(r),     k = round(x / ln 2),  |r| ≤ ln 2 / 2,   exp(r) by its Taylor polynomial of degree 13
    log(x) = k ln 2 + 2 artanh(s),     x = 2^k m,  √½ ≤ m < √2,  s = (m − 1)/(m + 1),   artanh as in Sun's fdlibm

A division that may raise an error is not vectorised, hence ``error_model="numpy"``.

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
BITS_OF_ROOT = 0x3FE6A09E667F3BCD  # √½


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


@njit(nogil=True, cache=True, fastmath={"contract"}, error_model="numpy")
def logarithms(x, out):
    """out = log(x) for flat arrays of one length, x > 0 and no smaller than normal numbers are; x is overwritten."""
    bits = x.view(np.int64)
    n = x.shape[0]
    for i in range(n):
        k = (bits[i] - BITS_OF_ROOT) >> 52
        bits[i] -= k << 52
        out[i] = k
    for i in range(n):
        s = (x[i] - 1.0) / (x[i] + 1.0)
        z = s * s
        p = 1.479819860511658591e-01
        p = p * z + 1.531383769920937332e-01
        p = p * z + 1.818357216161805012e-01
        p = p * z + 2.222219843214978396e-01
        p = p * z + 2.857142874366239149e-01
        p = p * z + 3.999999999940941908e-01
        p = p * z + 6.666666666666735130e-01
        out[i] = out[i] * LN2_HIGH + (out[i] * LN2_LOW + s * (2.0 + z * p))
