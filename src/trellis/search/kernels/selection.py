"""Choosing among many: the k-th largest of an array, hashes of states, random keys for ties."""

from __future__ import annotations

import numpy as np
from numba import njit

GOLDEN = np.uint64(0x9E3779B97F4A7C15)
FIRST, SECOND = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@njit(nogil=True, cache=True)
def mixed(x):
    """A uint64 whose bits all depend on all bits of x (splitmix64)."""
    x = x + GOLDEN
    x = (x ^ (x >> np.uint64(30))) * FIRST
    x = (x ^ (x >> np.uint64(27))) * SECOND
    return x ^ (x >> np.uint64(31))


@njit(nogil=True, cache=True)
def child_key(key, label):
    """Key of a prefix made one label longer, by which ties are broken; 0 (no random choice) stays 0."""
    if key == np.uint64(0):
        return key
    return mixed(key + np.uint64(label)) | np.uint64(1)


@njit(nogil=True, cache=True)
def hash_state(tag, bits, R):
    """Hash of a tag (slot, label) and the bit patterns of R sums."""
    h = mixed(np.uint64(tag))
    for r in range(R):
        h = (h ^ np.uint64(bits[r])) * SECOND
        h = h ^ (h >> np.uint64(29))
    return mixed(h)


@njit(nogil=True, cache=True)
def same_state(bits, other, R):
    """Whether R sums agree bit by bit."""
    for r in range(R):  # noqa: SIM110 (a generator is slower in compiled code)
        if bits[r] != other[r]:
            return False
    return True


@njit(nogil=True, cache=True)
def kth_largest(values, n, k, scratch):
    """The k-th largest (k = 1: the largest) of values[:n]; scratch (n,) is overwritten."""
    scratch[:n] = values[:n]
    low, high, target = 0, n - 1, k - 1
    while low < high:
        pivot = scratch[(low + high) // 2]
        i, j = low, high
        while i <= j:
            while scratch[i] > pivot:
                i += 1
            while scratch[j] < pivot:
                j -= 1
            if i <= j:
                kept = scratch[i]
                scratch[i] = scratch[j]
                scratch[j] = kept
                i += 1
                j -= 1
        if target <= j:
            high = j
        elif target >= i:
            low = i
        else:
            break
    return scratch[target]
