"""Sparse rows against dense arrays of one instance.

Entries of a row are in the order of parts. A row that names a run of consecutive parts (all labels of all its slots,
say) is handled without looking up where each entry goes, which is several times faster.
"""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def is_run(low, high, part):
    """Whether entries low..high−1 name consecutive parts."""
    return high > low and part[high - 1] - part[low] == high - low - 1


@njit(nogil=True, cache=True)
def add_scaled_row(low, high, part, coefficient, factor, base, out):
    """out.flat[part − base] += factor · coefficient, over entries low..high−1."""
    if factor == 0.0 or low == high:
        return
    flat = out.reshape(-1)
    if is_run(low, high, part):
        target = flat[part[low] - base : part[low] - base + high - low]
        source = coefficient[low:high]
        for e in range(high - low):
            target[e] += factor * source[e]
    else:
        for e in range(low, high):
            flat[part[e] - base] += factor * coefficient[e]


@njit(nogil=True, cache=True)
def are_alike(r, n, starts, ends, part):
    """Whether rows r .. r + n − 1 name one and the same run of parts."""
    for other in range(r, r + n):
        if ends[other] - starts[other] != ends[r] - starts[r] or not is_run(starts[other], ends[other], part):
            return False
        if part[starts[other]] != part[starts[r]]:
            return False
    return True


@njit(nogil=True, cache=True)
def add_scaled_rows(first, n_rows, starts, ends, part, coefficient, factors, base, out):
    """out.flat[part − base] −= Σ_r factors[r] · coefficient over rows first .. first + n_rows − 1.

    Four rows over the same run go through ``out`` once.
    """
    r = 0
    while r < n_rows:
        row = first + r
        if r + 4 <= n_rows and are_alike(row, 4, starts, ends, part):
            size = ends[row] - starts[row]
            at = part[starts[row]] - base
            target = out.reshape(-1)[at : at + size]
            c0, c1 = coefficient[starts[row] : ends[row]], coefficient[starts[row + 1] : ends[row + 1]]
            c2, c3 = coefficient[starts[row + 2] : ends[row + 2]], coefficient[starts[row + 3] : ends[row + 3]]
            f0, f1, f2, f3 = factors[r], factors[r + 1], factors[r + 2], factors[r + 3]
            for e in range(size):
                target[e] -= (f0 * c0[e] + f1 * c1[e]) + (f2 * c2[e] + f3 * c3[e])
            r += 4
        else:
            add_scaled_row(starts[row], ends[row], part, coefficient, -factors[r], base, out)
            r += 1


@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def row_dots(first, n_rows, starts, ends, part, coefficient, base, values, out):
    """out[r] += Σ coefficient · values[part − base] of rows first .. first + n_rows − 1, four at a time where alike."""
    r = 0
    while r < n_rows:
        row = first + r
        if r + 4 <= n_rows and are_alike(row, 4, starts, ends, part):
            size = ends[row] - starts[row]
            at = part[starts[row]] - base
            source = values[at : at + size]
            c0, c1 = coefficient[starts[row] : ends[row]], coefficient[starts[row + 1] : ends[row + 1]]
            c2, c3 = coefficient[starts[row + 2] : ends[row + 2]], coefficient[starts[row + 3] : ends[row + 3]]
            t0, t1, t2, t3 = 0.0, 0.0, 0.0, 0.0
            for e in range(size):
                t0 += c0[e] * source[e]
                t1 += c1[e] * source[e]
                t2 += c2[e] * source[e]
                t3 += c3[e] * source[e]
            out[r] += t0
            out[r + 1] += t1
            out[r + 2] += t2
            out[r + 3] += t3
            r += 4
        else:
            out[r] += row_dot(starts[row], ends[row], part, coefficient, base, values)
            r += 1


# Sums may be taken in another order: it lets the compiler keep several side by side. The order is fixed in the compiled
# code, so the bits are the same in every run and on every thread.
@njit(nogil=True, cache=True, fastmath={"reassoc", "contract", "nsz"})
def row_dot(low, high, part, coefficient, base, values):
    """Σ coefficient · values[part − base] over entries low..high−1."""
    total = 0.0
    if is_run(low, high, part):
        source = values[part[low] - base : part[low] - base + high - low]
        factors = coefficient[low:high]
        for e in range(high - low):
            total += factors[e] * source[e]
    else:
        for e in range(low, high):
            total += coefficient[e] * values[part[e] - base]
    return total


@njit(nogil=True, cache=True)
def estimate_hessian(first, n_rows, n, n_labels, row_start, row_edges, part, coefficient, base, marginals, hessian):
    """Cov_q[φ] as if slots were independent: exact for one slot, a good start for many.

    B[r, s] = Σ_t [ Σ_parts c_r c_s μ − (Σ_parts c_r μ)(Σ_parts c_s μ) ]      over the parts of slot t
    """
    hessian[:] = 0.0
    add_covariance(
        n_rows, row_start[first : first + n_rows], row_edges[first : first + n_rows],
        part, coefficient, base, n_labels, n, marginals, hessian,
    )  # fmt: skip


@njit(nogil=True, cache=True)
def estimate_variances(first, n_rows, n, n_labels, row_start, row_edges, part, coefficient, base, marginals, out):
    """The diagonal of :func:`estimate_hessian` alone."""
    means = np.zeros(n)
    for r in range(n_rows):
        low, high = row_start[first + r], row_edges[first + r]
        out[r] = 0.0
        for e in range(low, high):
            local = part[e] - base
            mu = coefficient[e] * marginals[local]
            out[r] += coefficient[e] * mu
            means[local // n_labels] += mu
        for e in range(low, high):
            slot = (part[e] - base) // n_labels
            out[r] -= means[slot] ** 2
            means[slot] = 0.0


@njit(nogil=True, cache=True)
def add_covariance(n_rows, lows, highs, part, coefficient, base, width, n, values, hessian):
    """Add the covariances over places of ``width`` parts each, of which one is used."""
    means = np.zeros((n_rows, n))
    weighted = np.zeros(n * width)
    for r in range(n_rows):
        mean = means[r]
        if is_run(lows[r], highs[r], part) and (part[lows[r]] - base) % width == 0:
            at, place = 0, (part[lows[r]] - base) // width
            source = values[part[lows[r]] - base :]
            factors = coefficient[lows[r] : highs[r]]
            total = 0.0
            while at < factors.shape[0]:
                end = min(at + width, factors.shape[0])
                m = 0.0
                for e in range(at, end):
                    mu = factors[e] * source[e]
                    weighted[place * width + e - at] = mu
                    m += mu
                    total += mu * factors[e]
                mean[place] = m
                place += 1
                at = end
            hessian[r, r] += total
        else:
            for e in range(lows[r], highs[r]):
                local = part[e] - base
                mu = coefficient[e] * values[local]
                weighted[local] = mu
                mean[local // width] += mu
                hessian[r, r] += coefficient[e] * mu
        for s in range(r + 1, n_rows):
            hessian[r, s] += row_dot(lows[s], highs[s], part, coefficient, base, weighted)
        for e in range(lows[r], highs[r]):
            weighted[part[e] - base] = 0.0
    for r in range(n_rows):
        for s in range(r, n_rows):
            total = 0.0
            for t in range(n):
                total += means[r, t] * means[s, t]
            hessian[r, s] -= total
            hessian[s, r] = hessian[r, s]
