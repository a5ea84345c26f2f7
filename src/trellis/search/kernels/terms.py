"""What the kernels over chains are given: scores of a batch, and the rows that are searched, their entries by slot."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from trellis.search.prices import FIRST_JOINT, Priced, Pricing

LINEAR, HARD, SQUARED, L2, LINF, WITHIN_L1, WITHIN_L2 = (int(pricing) for pricing in Pricing)


class ChainArrays(NamedTuple):
    """The arrays of a chain.

    offsets (n_instances + 1,);  node (n_rows, K), node_index (n_slots,)
    edge (n_matrices, K, K), edge_index (n_slots,);  start, stop (K,)
    """

    offsets: Any
    node: Any
    node_index: Any
    edge: Any
    edge_index: Any
    start: Any
    stop: Any


class Terms(NamedTuple):
    """Rows that remain to be searched, each instance's together, and their entries by slot.

    row_start : (n_instances + 1,)
    bound, equality, pricing, amount, tolerance : (n_rows,)
    low_end, high_end : (n_rows,) a sum below low_end − (most that can still come) is moved up to it at price_low a
        unit, one above high_end − (least that can still come) down to it at price_high; see :mod:`prefix`
    price_low, price_high : (n_rows,)
    term_start : (n_instances + 1,) terms with a curved price: squares, norms of several rows
    term_first : (n_terms, 2) their first row and the one past the last, counted inside the instance
    entry_start : (n_slots + 1,) entries of a slot and of the boundary before it
    entry_row : row, counted inside the instance;  entry_before : label before, −1 for a node part
    entry_label, entry_value : (n_entries,)
    """

    row_start: Any
    bound: Any
    equality: Any
    pricing: Any
    amount: Any
    tolerance: Any
    low_end: Any
    high_end: Any
    price_low: Any
    price_high: Any
    term_start: Any
    term_first: Any
    entry_start: Any
    entry_row: Any
    entry_before: Any
    entry_label: Any
    entry_value: Any


def terms_of(priced: Priced) -> Terms:
    """Rows over the parts of chains, or over labels alone, as the kernels take them."""
    rows, how, amount = priced.rows, priced.pricing, priced.amount
    parts: Any = rows.parts
    n_node = parts.n_slots * parts.n_labels
    row_start = np.searchsorted(rows.instance, np.arange(parts.n_instances + 1)).astype(np.int64)
    entry_start = np.zeros(parts.n_slots + 1, dtype=np.int64)
    count_entries(rows.part, n_node, parts.n_labels, entry_start)
    n = len(rows.part)
    row, before, label = (np.empty(n, dtype=np.int32) for _ in range(3))
    value = np.empty(n)
    place_entries(
        rows.start, rows.part, rows.coefficient, row_start[rows.instance], n_node, parts.n_labels,
        entry_start[:-1].copy(), row, before, label, value,
    )  # fmt: skip
    linear, hard = how == LINEAR, how == HARD
    margin = np.where(hard, amount + priced.tolerance, 0.0)
    price_high = np.where(linear, amount, np.where(hard, np.inf, 0.0))
    # Falling short costs nothing where only exceeding is forbidden or priced: such a sum is moved up to the bound
    # itself, so that the tolerance is left for rounding on the way to the end. A curved equality is never moved.
    low_end = rows.bound + np.where(rows.equality, -margin, np.where(hard, amount, 0.0))
    low_end[rows.equality & ~linear & ~hard] = -np.inf
    term_start, term_first = _curved(priced, row_start)
    return Terms(
        row_start=row_start,
        bound=rows.bound,
        equality=rows.equality,
        pricing=how,
        amount=amount,
        tolerance=priced.tolerance,
        low_end=low_end,
        high_end=np.where(linear | hard, rows.bound + margin, np.inf),
        price_low=np.where(rows.equality, price_high, 0.0),
        price_high=price_high,
        term_start=term_start,
        term_first=term_first,
        entry_start=entry_start,
        entry_row=row,
        entry_before=before,
        entry_label=label,
        entry_value=value,
    )


def _curved(priced: Priced, row_start: Any) -> tuple[Any, Any]:
    """term_start and term_first of the terms that are neither linear nor hard."""
    rows, how = priced.rows, priced.pricing
    curved = (how == SQUARED) | (how >= FIRST_JOINT)
    _, first, size = np.unique(priced.terms()[curved], return_index=True, return_counts=True)
    first = np.flatnonzero(curved)[first]
    instance = rows.instance[first]
    inside = first - row_start[instance]
    term_start = np.searchsorted(instance, np.arange(rows.parts.n_instances + 1)).astype(np.int64)
    return term_start, np.stack((inside, inside + size), axis=1).astype(np.int64)


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
def price_of_term(excess, pricing, amount, tolerance):
    """Price of one term: excess (n,) of its rows."""
    added, squares, largest = 0.0, 0.0, 0.0
    for r in range(excess.shape[0]):
        added += excess[r]
        squares += excess[r] * excess[r]
        largest = max(largest, excess[r])
    if pricing == LINEAR:
        return amount * added
    if pricing == SQUARED:
        return 0.5 * amount * squares
    if pricing == L2:
        return amount * np.sqrt(squares)
    if pricing == LINF:
        return amount * largest
    if pricing == HARD:
        return 0.0 if largest <= amount + tolerance else np.inf
    if pricing == WITHIN_L1:
        return 0.0 if added <= amount + tolerance else np.inf
    return 0.0 if np.sqrt(squares) <= amount + tolerance else np.inf
