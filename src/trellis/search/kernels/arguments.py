"""What the kernels are given, bundled: scores of a batch, and the rows that are searched."""

from __future__ import annotations

from typing import Any, NamedTuple


class Scores(NamedTuple):
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
