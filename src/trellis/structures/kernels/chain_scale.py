"""How large the rows of a table of probabilities are."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def largest_entries(rows, largest):
    """Fill largest (n,) with the largest entry of each row; return the smallest of those that are not 0.

    Returns −1, with the output unfinished, when an entry is negative, infinite or NaN; +∞ when all entries are 0.
    """
    n, k = rows.shape
    smallest = np.inf
    for i in range(n):
        row = rows[i]
        top = 0.0
        n_right = 0
        for j in range(k):
            top = max(top, row[j])
            n_right += row[j] >= 0.0
        if n_right != k or top == np.inf:
            return -1.0
        largest[i] = top
        if top > 0.0:
            smallest = min(smallest, top)
    return smallest
