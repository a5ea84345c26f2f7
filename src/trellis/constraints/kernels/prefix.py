"""Values of rows along an output that grows from left to right."""

from __future__ import annotations

import numpy as np
from numba import njit


@njit(nogil=True, cache=True)
def bound_the_rest(row_start, slot, table, tables, rest_low, rest_high, low, high):
    """Least and largest value that slots after an event can still add, given the event's label.

        rest(t, a) = min_b  table_{t+1}[a, b] + rest(t + 1, b)

    row_start : (n_rows + 1,) events of row r are row_start[r] .. row_start[r + 1] − 1, in the order of slots
    slot, table : (n_events,) where it is, and which of tables (m, K + 1, K) it adds
    rest_low, rest_high : (n_events, K) written;  low, high : (n_rows,) written, before any label is set
    """
    K = tables.shape[2]
    for r in range(len(low)):
        first, last = row_start[r], row_start[r + 1]
        low[r], high[r] = 0.0, 0.0
        if first == last:
            continue
        rest_low[last - 1], rest_high[last - 1] = 0.0, 0.0
        for i in range(last - 2, first - 1, -1):
            ahead = tables[table[i + 1]]
            for a in range(K):
                # across a gap nothing depends on the label before it
                before = a if slot[i + 1] == slot[i] + 1 else K
                smallest, largest = np.inf, -np.inf
                for b in range(K):
                    smallest = min(smallest, ahead[before, b] + rest_low[i + 1, b])
                    largest = max(largest, ahead[before, b] + rest_high[i + 1, b])
                rest_low[i, a], rest_high[i, a] = smallest, largest
        smallest, largest = np.inf, -np.inf
        for b in range(K):
            smallest = min(smallest, tables[table[first], K, b] + rest_low[first, b])
            largest = max(largest, tables[table[first], K, b] + rest_high[first, b])
        low[r], high[r] = smallest, largest


@njit(nogil=True, cache=True)
def append_label(slot, before, label, first_row, event_start, event_row, event_table, tables, rests, value, rest):
    """Append ``label`` at ``slot`` after ``before`` (K where the slot is an instance's first).

    first_row : number of the instance's first row
    event_start : (n_slots + 1,);  event_row, event_table : (n_events,)
    rests : (2, n_events, K) least and largest value that can still come
    value : (n_rows of the instance,) changed in place
    rest : (2, n_rows of the instance) changed in place
    """
    for i in range(event_start[slot], event_start[slot + 1]):
        r = event_row[i] - first_row
        value[r] += tables[event_table[i], before, label]
        rest[0, r] = rests[0, i, label]
        rest[1, r] = rests[1, i, label]


@njit(nogil=True, cache=True)
def least_excess(value, rest, bound, equality, first_row, out):
    """By how much each row of an instance will at least be violated, whatever labels follow.

    value, out : (n_rows of the instance,);  rest : (2, n_rows of the instance)
    bound, equality : (n_rows,) of all instances
    """
    for r in range(len(value)):
        over = value[r] + rest[0, r] - bound[first_row + r]
        if equality[first_row + r]:
            over = max(over, bound[first_row + r] - value[r] - rest[1, r])
        out[r] = max(over, 0.0)
