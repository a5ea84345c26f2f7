"""A rule as a linear function of parts:  [r_t(y_{t−1}, y_t)]  =  constant_t + Σ value · [y uses part].

Slots that a rule cannot distinguish share one table r(a, b), made once a pattern and then gathered. A table is split
as  r(a, b) = constant + f(a) + g(b) + rest(a, b),  which are node parts of slot t − 1, of slot t, and edge parts,
so that few entries are left: a rule about one label names no edge at all, "a segment of A starts" is one node and one
edge, [y_t = A] − [y_{t−1} = A, y_t = A], and "the label changes" is 1 − Σ_a [y_{t−1} = a, y_t = a].
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.context import Context, RowBlock, Units, merge
from trellis.constraints.rule import Patterns, Rule
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows


@dataclass(frozen=True)
class RuleEntries:
    """Σ value · part of every slot, and what is left when no part is used.

    slot : (n_entries,) the slot whose rule the entry belongs to; it may name a part of the slot before
    part, value : (n_entries,)
    constant : (n_slots,)
    """

    slot: IntArray
    part: IntArray
    value: FloatArray
    constant: FloatArray


def entries_of(rule: Rule, context: Context) -> RuleEntries:
    """The linear form of a rule at every slot of the batch."""
    own = rule.entries(context)
    if own is not None:
        return own
    if rule.observed:  # no part is named, so that outputs without labels have it too
        nothing = np.zeros(0, dtype=np.int64)
        return RuleEntries(nothing, nothing, np.zeros(0), rule.holds(context).astype(np.float64))
    if context.parts.has_variables:
        from trellis.constraints.relation_rows import variable_entries

        return variable_entries(rule, context)
    if not context.parts.has_labels:
        context.parts.label(0, 0)  # refuses
    code, patterns = patterns_of(rule, context)
    split = _split_table(rule.table(patterns), len(patterns.is_first), context.n_labels)
    k = context.n_labels
    slot, label, value = _gather(code, split.here)
    slot_b, label_b, value_b = _gather(code, split.before)
    slots, values = [slot, slot_b], [value, value_b]
    parts = [context.parts.label(slot, label), context.parts.label(slot_b - 1, label_b)]
    if split.pair is not None:
        slot_e, within, value_e = _gather(code, split.pair.reshape(len(split.pair), k * k))
        if len(slot_e):  # where every instance has one slot there are no transitions to have numbers
            slots.append(slot_e)
            parts.append(context.parts.transition(slot_e, within // k, within % k))
            values.append(value_e)
    if rule.uses_previous and context.parts.has_again:
        slot_a, label_a, value_a = _gather(code, _again(rule, patterns, split))
        slots.append(slot_a)
        parts.append(context.parts.again(slot_a, label_a))
        values.append(value_a)
    return RuleEntries(np.concatenate(slots), np.concatenate(parts), np.concatenate(values), split.constant[code])


def _again(rule: Rule, patterns: Patterns, split: _Split) -> NDArray[np.int8]:
    """(P, K): what is left for a field that follows one of its own label, beside what both labels give."""
    n, k = split.here.shape
    table = np.broadcast_to(rule.table(replace(patterns, again=True)), (n, k, k))
    given = split.constant[:, None] + split.before + split.here
    left = np.where(patterns.is_first[:, None], 0.0, np.einsum("pkk->pk", table) - given)
    return left.astype(np.int8)


@dataclass(frozen=True)
class _Split:
    """table[a, b] = constant + before[a] + here[b] + pair[a, b], for each of P patterns.

    constant : (P,);  before, here : (P, K);  pair : (P, K, K), or None where it is zero
    """

    constant: FloatArray
    before: NDArray[np.int8]
    here: NDArray[np.int8]
    pair: NDArray[np.int8] | None


def _split_table(table: BoolArray, n: int, k: int) -> _Split:
    """Split r(a, b) so that few numbers are not zero."""
    rest = np.broadcast_to(table, (n, *table.shape[1:])).astype(np.int8)
    constant = np.zeros(n)
    before, here = np.zeros((n, k), dtype=np.int8), np.zeros((n, k), dtype=np.int8)
    if rest.shape[1] == 1 and rest.shape[2] == 1:
        return _Split(constant + rest[:, 0, 0], before, here, None)
    if rest.shape[1] == 1:
        here[:] = rest[:, 0, :]
    elif rest.shape[2] == 1:
        before[:] = rest[:, :, 0]
    else:
        # a column (or row) of mostly ones is cheaper as one node and its few exceptions
        here[:] = 2 * rest.sum(axis=1, dtype=np.int64) > k + 1
        rest -= here[:, None, :]
        total = rest.sum(axis=2, dtype=np.int64)
        before[:] = np.where(2 * np.abs(total) > k + 1, np.sign(total), 0)
        rest -= before[:, :, None]
    for spread in (here, before):
        # one label is used, whichever: the same value at all of them is a constant
        same = np.all(spread == spread[:, :1], axis=1)
        constant[same] += spread[same, 0]
        spread[same] = 0
    return _Split(constant, before, here, rest if rest.shape[1] > 1 and rest.shape[2] > 1 else None)


def patterns_of(rule: Rule, context: Context) -> tuple[IntArray, Patterns]:
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


def _gather(code: IntArray, table: NDArray[np.int8]) -> tuple[IntArray, IntArray, FloatArray]:
    """Slot, column and value of the nonzero entries of table[code], without ever making it dense."""
    pattern, column = np.nonzero(table)
    if not len(pattern):
        return np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0)
    start, source = take_rows(offsets_of(np.bincount(pattern, minlength=len(table))), code)
    return owners(start), column[source], table[pattern[source], column[source]].astype(np.float64)


Terms = tuple[IntArray, IntArray, FloatArray, FloatArray]
"""row, part and coefficient of entries, and the constant of each row."""


def times(entries: RuleEntries, factor: float | FloatArray) -> Terms:
    """What a rule gives at every token, times a factor of the token."""
    scale = np.broadcast_to(factor, entries.constant.shape)
    return entries.slot, entries.part, entries.value * scale[entries.slot], entries.constant * scale


def spread(entries: RuleEntries, first: IntArray, end: IntArray, sign: float) -> Terms:
    """What a rule gives at every token, in the rows ``first`` .. ``end`` − 1 of it, (n_slots,) each."""
    start = offsets_of((end - first)[entries.slot])
    entry = owners(start)
    row = first[entries.slot[entry]] + np.arange(len(entry)) - start[entry]
    steps = np.zeros(len(first) + 1)
    np.add.at(steps, first, entries.constant)
    np.subtract.at(steps, end, entries.constant)
    return row, entries.part[entry], sign * entries.value[entry], sign * np.cumsum(steps)[:-1]


def rows_of_terms(
    context: Context, units: Units, terms: list[Terms], room: FloatArray | float, subject: str
) -> RowBlock:
    """Σ terms ≤ room, in every unit; the count of messages is Σ terms − room."""
    row, part, value = (np.concatenate([term[i] for term in terms]) for i in range(3))
    offset = np.sum([term[3] for term in terms], axis=0) - room
    return RowBlock(
        *merge(row, part, value, context.parts.n_parts),
        bound=-offset,
        equality=False,
        instance=units.instance,
        sign=1,
        offset=offset,
        subject=subject,
        where=units.where,
        slot=units.slot,
    )
