"""Scaling rows of probabilities so that the largest entry is 1."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def scale_rows(rows, scaled, shift):
    """scaled = row / its largest entry, shift = log of that entry (0 for a row of zeros).

    Returns False, with the outputs unfinished, when an entry is negative, infinite or NaN.
    """
    n, k = rows.shape
    for i in range(n):
        largest = 0.0
        n_wrong = 0
        for j in range(k):
            value = rows[i, j]
            n_wrong += not (value >= 0.0 and value < np.inf)
            largest = max(largest, value)
        if n_wrong > 0:
            return False
        if largest == 0.0:
            shift[i] = 0.0
            for j in range(k):
                scaled[i, j] = 0.0
        else:
            shift[i] = np.log(largest)
            # A division and no product with the inverse: that of a subnormal number is infinite.
            for j in range(k):
                scaled[i, j] = rows[i, j] / largest
    return True
