"""Violations of a partial output from left to right, for search.

A row's value over the labels set so far grows by one table look-up a slot, and what the slots to come can still add
lies between bounds that are exact for that row, given the last label:

    φ(y) = value(y_1..t) + rest,        rest_low(t, y_t) ≤ rest ≤ rest_high(t, y_t)

so max(0, value + rest_low − b) is a lower bound on the row's violation that any completion will have, and its violation
itself once the output is complete.

An *event* is a slot at which the value or the bounds of a row change. Most events of a batch look alike ("a segment of
TITLE starts here"), so their tables are stored once.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.rows import COUPLING, Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray


@dataclass(frozen=True)
class PrefixRows:
    """Local rows, laid out by slot. Rows that couple instances play no part.

    row_start : (n_instances + 1,)   rows of instance i are row_start[i] .. row_start[i + 1] − 1
    bound, equality : (n_rows,)
    event_start : (n_slots + 1,)     events of slot t, in the order of rows
    event_row : (n_events,)
    event_table : (n_events,)        which of the tables the event adds
    tables : (m, K + 1, K)           [a, b]: what label b after label a adds; a = K: after no label
    rests : (2, n_events, K)         least and largest value that can still come after label b at the event
    start_rest : (2, n_rows)         the same before any label is set
    """

    row_start: IntArray
    bound: FloatArray
    equality: BoolArray
    event_start: IntArray
    event_row: IntArray
    event_table: IntArray
    tables: FloatArray
    rests: FloatArray
    start_rest: FloatArray

    @classmethod
    def of(cls, rows: Rows) -> PrefixRows:
        """Lay out the local rows of compiled constraints."""
        from trellis.constraints.kernels.prefix import bound_the_rest

        local = rows.select(rows.instance != COUPLING)
        k, n_slots = rows.parts.n_labels, rows.parts.n_slots
        row = local.entry_row
        is_edge = local.part >= rows.parts.n_node_parts
        slot = np.where(is_edge, (local.part - rows.parts.n_node_parts) // (k * k), local.part // k)
        # what follows the label before a boundary depends on it: an event of its own, though it adds nothing
        key = np.concatenate((row * n_slots + slot, row[is_edge] * n_slots + slot[is_edge] - 1))
        keys = np.unique(key)
        event_row, event_slot = np.divmod(keys, max(n_slots, 1))
        event = np.searchsorted(keys, row * n_slots + slot)
        within = np.where(is_edge, k + (local.part - rows.parts.n_node_parts) % (k * k), local.part % k)
        tables, table = _tables(event, within, local.coefficient, len(keys), k)
        rests, start_rest = np.zeros((2, len(keys), k)), np.zeros((2, len(local)))
        of_row = np.searchsorted(event_row, np.arange(len(local) + 1))
        bound_the_rest(of_row, event_slot, table, tables, rests[0], rests[1], start_rest[0], start_rest[1])
        order = np.argsort(event_slot, kind="stable")
        return cls(
            row_start=np.searchsorted(local.instance, np.arange(rows.parts.n_instances + 1)),
            bound=local.bound,
            equality=local.equality,
            event_start=np.searchsorted(event_slot[order], np.arange(n_slots + 1)),
            event_row=event_row[order],
            event_table=table[order],
            tables=tables,
            rests=np.ascontiguousarray(rests[:, order]),
            start_rest=start_rest,
        )

    def least_excess(self, offsets: IntArray, instance: int, labels: LabelArray) -> FloatArray:
        """(n_rows of the instance,): least violation of each row by any output that begins with ``labels``.

        offsets : (n_instances + 1,) of the batch;  labels : (n,) the first n labels of the instance
        """
        from trellis.constraints.kernels.prefix import append_label, least_excess

        first, last = int(self.row_start[instance]), int(self.row_start[instance + 1])
        value, rest = np.zeros(last - first), self.start_rest[:, first:last].copy()
        before = self.tables.shape[2]
        for t, label in enumerate(np.asarray(labels, dtype=np.int64).tolist()):
            slot = int(offsets[instance]) + t
            append_label(
                slot, before, label, first, self.event_start, self.event_row, self.event_table, self.tables,
                self.rests, value, rest,
            )  # fmt: skip
            before = label
        out = np.empty(last - first)
        least_excess(value, rest, self.bound, self.equality, first, out)
        return out


def _tables(
    event: IntArray, within: IntArray, coefficient: FloatArray, n_events: int, k: int
) -> tuple[FloatArray, IntArray]:
    """The distinct tables (m, K + 1, K) of events, and which one each event has.

    event, within, coefficient : (n_entries,)   ``within`` is label b, or K + a·K + b
    """
    order = np.lexsort((within, event))
    event, within, coefficient = event[order], within[order], coefficient[order]
    length = np.bincount(event, minlength=n_events)
    start = np.cumsum(length) - length
    # equal lists of entries have equal sums of scrambled numbers; unequal ones are told apart below
    print_ = _scramble(within.astype(np.uint64) ^ _scramble(coefficient.view(np.uint64)))
    total = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(print_, dtype=np.uint64)))
    mark = total[start + length] - total[start]
    _, first, table = np.unique(mark, return_index=True, return_inverse=True)
    table = table.astype(np.int64)
    source = start[first][table]  # where the entries of the event's model begin
    alike = length == length[first][table]
    place = np.arange(len(event)) - start[event]
    twin = np.minimum(source[event] + place, max(len(event) - 1, 0))
    differs = (within[twin] != within) | (coefficient[twin] != coefficient)
    alike[event[differs]] = False
    if not alike.all():  # two lists with one mark: give the odd ones tables of their own
        odd = np.flatnonzero(~alike)
        table[odd] = len(first) + np.arange(len(odd))
        first = np.concatenate((first, odd))
    tables = np.zeros((len(first), k + 1, k))
    model = np.full(n_events, -1, dtype=np.int64)
    model[first] = np.arange(len(first))
    mine = model[event] >= 0
    number, place, value = model[event[mine]], within[mine], coefficient[mine]
    node = place < k
    tables[number[node], :, place[node]] += value[node][:, None]
    edge = place[~node] - k
    tables[number[~node], edge // k, edge % k] += value[~node]
    return tables, table


def _scramble(x: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """SplitMix64: neighbouring numbers become unrelated ones."""
    with np.errstate(over="ignore"):
        x = x + np.uint64(0x9E3779B97F4A7C15)
        x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return x ^ (x >> np.uint64(31))
