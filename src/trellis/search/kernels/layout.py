"""Entries of rows put in the order of slots, and the values of rows for an output."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.search.kernels.pricing import HARD, LINEAR, SQUARED, excess_of, price_of_term


@njit(nogil=True, cache=True)
def count_entries(part, n_node, K, entry_start):
    """entry_start[t + 1] = how many entries slots 0..t have; entry_start (n_slots + 1,) is zero before."""
    for e in range(len(part)):
        slot = part[e] // K if part[e] < n_node else (part[e] - n_node) // (K * K)
        entry_start[slot + 1] += 1
    for t in range(len(entry_start) - 1):
        entry_start[t + 1] += entry_start[t]


@njit(nogil=True, cache=True)
def place_entries(start, part, coefficient, first_row, n_node, K, at, row, before, label, value):
    """Write the entries by slot; first_row (n_rows,) is the first row of each row's instance, ``at`` is used up."""
    for r in range(len(start) - 1):
        for e in range(start[r], start[r + 1]):
            if part[e] < n_node:
                slot, a, b = part[e] // K, -1, part[e] % K
            else:
                within = (part[e] - n_node) % (K * K)
                slot, a, b = (part[e] - n_node) // (K * K), within // K, within % K
            to = at[slot]
            row[to], before[to], label[to], value[to] = r - first_row[r], a, b, coefficient[e]
            at[slot] = to + 1


@njit(nogil=True, cache=True)
def row_values(terms, lo, hi, labels, phi):
    """phi (R,) = Σ coefficient · part of an instance's rows, labels[t − lo] being the label of slot t."""
    phi[:] = 0.0
    for t in range(lo, hi):
        for e in range(terms.entry_start[t], terms.entry_start[t + 1]):
            if terms.entry_label[e] == labels[t - lo]:
                a = terms.entry_before[e]
                if a < 0 or a == labels[t - lo - 1]:
                    phi[terms.entry_row[e]] += terms.entry_value[e]


@njit(nogil=True, cache=True)
def price_of_rows(terms, instance, phi, excess):
    """Price of row values phi (R,) of an instance; excess (R,) is written."""
    first = terms.row_start[instance]
    total = 0.0
    for r in range(terms.row_start[instance + 1] - first):
        j = first + r
        excess[r] = excess_of(phi[r], terms.bound[j], terms.equality[j])
        if terms.pricing[j] == LINEAR:
            total += terms.amount[j] * excess[r]
        elif terms.pricing[j] == HARD or terms.pricing[j] == SQUARED:
            total += price_of_term(
                excess[r : r + 1], terms.pricing[j], terms.amount[j], terms.tolerance[j]
            )  # fmt: skip
    for term in range(terms.term_start[instance], terms.term_start[instance + 1]):
        low, high = terms.term_first[term]
        if terms.pricing[first + low] != SQUARED:
            total += price_of_term(
                excess[low:high], terms.pricing[first + low], terms.amount[first + low],
                terms.tolerance[first + low],
            )  # fmt: skip
    return total


@njit(nogil=True, cache=True)
def price_outputs(terms, offsets, todo, labels, price):
    """price[i] = what the labels of instance i cost, for i in ``todo``."""
    most_rows = 0
    for i in todo:
        most_rows = max(most_rows, terms.row_start[i + 1] - terms.row_start[i])
    phi, excess = np.empty(most_rows), np.empty(most_rows)
    for i in todo:
        R = terms.row_start[i + 1] - terms.row_start[i]
        row_values(terms, offsets[i], offsets[i + 1], labels[offsets[i] : offsets[i + 1]], phi[:R])
        price[i] = price_of_rows(terms, i, phi[:R], excess[:R])


@njit(nogil=True, cache=True)
def price_list(terms, instance, lo, labels, lam, price, paid):
    """price (k,) = what labels (k, n) of one instance cost, and paid (k,) = λ·φ, for lam (R,)."""
    R = terms.row_start[instance + 1] - terms.row_start[instance]
    phi, excess = np.empty(R), np.empty(R)
    for j in range(labels.shape[0]):
        row_values(terms, lo, lo + labels.shape[1], labels[j], phi)
        price[j] = price_of_rows(terms, instance, phi, excess)
        paid[j] = np.sum(lam * phi)
