"""A rule as a linear function of parts:  [r_t(y_{t−1}, y_t)]  =  constant_t + Σ value · [y uses part].

Slots that look alike to a rule share one table r(a, b), so tables are made once a pattern and then gathered. A table
that depends on one label alone becomes node parts, of slot t or of slot t − 1; any other becomes edge parts. Since
exactly one edge of a boundary is used, r = 1 − (1 − r), and whichever of r and 1 − r has fewer ones is stored:
"the label changes" is K entries a boundary and not K(K − 1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.constraints.context import Context
from trellis.constraints.rule import Patterns, Rule
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.structures.parts import ChainParts


@dataclass(frozen=True)
class Entries:
    """Σ value · part of every slot, and what is left when no part is used.

    slot : (n_entries,) the slot whose rule the entry belongs to; it may name a part of the slot before
    part, value : (n_entries,)
    constant : (n_slots,)
    """

    slot: IntArray
    part: IntArray
    value: FloatArray
    constant: FloatArray


def entries_of(rule: Rule, context: Context) -> Entries:
    """The linear form of a rule at every slot of the batch."""
    code, patterns = _patterns_of(rule, context)
    n, k = len(patterns.is_first), context.n_labels
    table = rule.table(patterns)
    before, here = table.shape[1], table.shape[2]
    table = np.broadcast_to(table, (n, before, here)).astype(np.int8)
    constant = np.zeros(n)
    nodes = np.zeros((n, k), dtype=np.int8)
    nodes_before = np.zeros((n, k), dtype=np.int8)
    edges = np.zeros((n, k, k), dtype=np.int8) if before > 1 and here > 1 else None
    if before == 1 and here == 1:
        constant[:] = table[:, 0, 0]
    elif before == 1:
        nodes[:] = table[:, 0, :]
    elif here == 1:
        nodes_before[:] = table[:, :, 0]
    elif edges is not None:
        on_here = np.all(table == table[:, :1, :], axis=(1, 2))
        on_before = np.all(table == table[:, :, :1], axis=(1, 2)) & ~on_here
        nodes[on_here] = table[on_here, 0, :]
        nodes_before[on_before] = table[on_before, :, 0]
        rest = ~on_here & ~on_before
        edges[rest] = table[rest]
        mostly_one = rest & (edges.sum(axis=(1, 2), dtype=np.int64) * 2 > k * k)
        edges[mostly_one] -= 1
        constant[mostly_one] = 1.0
    for spread in (nodes, nodes_before):
        everywhere = np.all(spread == 1, axis=1)
        constant[everywhere] += 1.0
        spread[everywhere] = 0
    gathered = [_gather(code, nodes), _gather(code, nodes_before)]
    slots = [gathered[0][0], gathered[1][0]]
    parts = [
        np.asarray(context.parts.node(gathered[0][0], gathered[0][1])),
        np.asarray(context.parts.node(gathered[1][0] - 1, gathered[1][1])),
    ]
    values = [gathered[0][2], gathered[1][2]]
    if edges is not None and isinstance(context.parts, ChainParts):
        slot, within, value = _gather(code, edges.reshape(n, -1))
        slots.append(slot)
        parts.append(context.parts.n_node_parts + slot * (k * k) + within)
        values.append(value)
    return Entries(np.concatenate(slots), np.concatenate(parts), np.concatenate(values), constant[code])


def _patterns_of(rule: Rule, context: Context) -> tuple[IntArray, Patterns]:
    """The pattern of each slot (n_slots,), and what leaves see in each."""
    leaves = {id(leaf): leaf for leaf in rule.leaves()}
    seen = {number: leaf.codes(context) for number, leaf in leaves.items()}
    combined = np.zeros(context.n_slots, dtype=np.int64)
    for codes in [*seen.values(), *([context.is_first.astype(np.int64)] if rule.uses_previous else [])]:
        size = int(codes.max(initial=0)) + 1
        combined = _compact(combined * size + codes)
    n = int(combined.max(initial=-1)) + 1
    representative = np.zeros(n, dtype=np.int64)
    representative[combined] = np.arange(context.n_slots)
    is_first = context.is_first[representative] if rule.uses_previous else np.zeros(n, dtype=np.bool_)
    return combined, Patterns(context, {number: codes[representative] for number, codes in seen.items()}, is_first)


def _compact(codes: IntArray) -> IntArray:
    """The same partition of slots with codes 0..n_distinct − 1."""
    size = int(codes.max(initial=-1)) + 1
    if size > 4 * len(codes) + 1024:
        return np.unique(codes, return_inverse=True)[1].astype(np.int64)
    present: BoolArray = np.bincount(codes, minlength=size) > 0
    return (np.cumsum(present) - 1)[codes]


def _gather(code: IntArray, table: np.ndarray) -> tuple[IntArray, IntArray, FloatArray]:  # type: ignore[type-arg]
    """Slot, column and value of the nonzero entries of table[code], without ever making it dense."""
    pattern, column = np.nonzero(table)
    length = np.bincount(pattern, minlength=len(table)).astype(np.int64)
    if not length.any():
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    start = np.cumsum(length) - length
    of_slot = length[code]
    slot = np.repeat(np.arange(len(code), dtype=np.int64), of_slot)
    within = np.arange(len(slot), dtype=np.int64) - np.repeat(np.cumsum(of_slot) - of_slot, of_slot)
    source = start[code][slot] + within
    return slot, column[source], table[pattern[source], column[source]].astype(np.float64)
