"""Conditions on the types of mentions and pairs, and rules made of them as rows.

Where factors see a relation with its arguments, a rule is a sum of the assignments that break it and holds exactly.
Where nothing ties the variables, it is written as clauses (Roth & Yih 2004; Samdani et al. 2012, sec. 5.3), which hold
in expectation:

    not (y₁ ∈ S₁ and ... and yₙ ∈ Sₙ)        Σ_i [y_i ∈ S_i] ≤ n − 1,      so  [relation is r] ≤ [second is Loc]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from trellis.constraints.context import Context, RowBlock, merge
from trellis.constraints.entries import RuleEntries, patterns_of
from trellis.constraints.rule import Observed, Patterns, Rule, Unobserved
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConstraintError, check_name

ENTITY, RELATION = "entity", "relation"
ROLES = ("first", "second", RELATION)
"""What a rule about two mentions may speak of, in the order of a factor's variables."""


class Among(Unobserved):
    """A mention's type, a relation's type, or the type of one of its arguments, is one of the names."""

    def __init__(self, role: str, names: tuple[str, ...]) -> None:
        self.role, self.names = role, names

    def everywhere(self) -> str:
        return "for every mention" if self.role == ENTITY else "for every two mentions"

    def table(self, patterns: Patterns) -> BoolArray:
        if not patterns.axes:
            patterns.context.parts.variable_kind(ENTITY)  # refuses
            raise ConstraintError(f"{self.code()} refers to entities and relations")
        axis, labels = patterns.axes[self.role]
        for name in self.names:
            check_name("label", name, labels)
        shape = [size if i == axis else 1 for i, size in enumerate(patterns.sizes)]
        chosen = np.isin(labels, self.names).reshape(shape)
        return np.broadcast_to(chosen, patterns.sizes).reshape(1, 1, -1)

    def code(self) -> str:
        listed = ", ".join(map(repr, self.names))
        if self.role in (ENTITY, RELATION):
            return f"{self.role}({listed})"
        return f"{self.role}(entity({listed}))"

    def english(self, *, negated: bool = False) -> str:
        what = {ENTITY: "it", "first": "the first", "second": "the second", RELATION: "the relation"}[self.role]
        return f"{what} is {'not ' if negated else ''}{' or '.join(self.names)}"


class IsPair(Observed):
    """The slot is a pair of mentions."""

    def holds(self, context: Context) -> BoolArray:
        held = np.zeros(context.n_slots, dtype=np.bool_)
        held[context.parts.variable_slots(RELATION)] = True
        return held

    def code(self) -> str:
        return "is_pair"

    def english(self, *, negated: bool = False) -> str:
        return f"it is {'not ' if negated else ''}a pair of mentions"


@dataclass(frozen=True)
class Table:
    """A rule over the variables of every slot that it speaks of.

    slots : (n,);  pattern : (n,);  holds : (P, labels of the first variable, labels of the second, ...)
    variables : of each axis its kind and (n,) the variable, counted through the batch
    assignments : (n,) the first part of the factor that sees these variables in this order, −1: there is none
    """

    slots: IntArray
    pattern: IntArray
    holds: BoolArray
    variables: tuple[tuple[str, IntArray], ...]
    assignments: IntArray

    @property
    def axes(self) -> list[int]:
        """The axes that it depends on."""
        every = range(1, self.holds.ndim)
        return [a for a in every if np.any(self.holds != self.holds.take([0], axis=a))]


def _atoms(rule: Rule) -> list[Among]:
    if isinstance(rule, Among):
        return [rule]
    if isinstance(rule, Unobserved):
        raise ConstraintError(
            f"{rule.code():.80} refers to labels of tokens, but mentions and pairs have types: use entity(...), "
            "relation(...), first(entity(...)) or second(entity(...))"
        )
    return [atom for part in getattr(rule, "parts", ()) for atom in _atoms(part)]


def table_of(rule: Rule, context: Context) -> Table:
    """A rule's table at every mention, or at every pair of them."""
    roles, parts = {atom.role for atom in _atoms(rule)}, context.parts
    if ENTITY in roles and len(roles) > 1:
        raise ConstraintError(
            f"{rule.code()} refers to one mention and to a pair: use first(entity(...)) or second(entity(...))"
        )
    types = parts.variable_kind(ENTITY)
    if roles == {ENTITY}:
        slots, axes = parts.variable_slots(ENTITY), {ENTITY: (0, types.labels)}
        variables: tuple[tuple[str, IntArray], ...] = ((ENTITY, np.arange(len(slots))),)
        seen = np.full(len(slots), -1)
    else:
        ties = parts.variable_kind(RELATION)
        slots = parts.variable_slots(RELATION)
        axes = {role: (i, types.labels if i < 2 else ties.labels) for i, role in enumerate(ROLES)}
        of = types.offsets[context.instance[slots]][:, None] + ties.arguments
        variables = ((ENTITY, of[:, 0]), (ENTITY, of[:, 1]), (RELATION, np.arange(len(slots))))
        seen = parts.assignments(RELATION)
    sizes = tuple(len(labels) for _, labels in axes.values())
    codes, patterns = patterns_of(rule, context)
    n = len(patterns.is_first)
    found = rule.table(replace(patterns, sizes=sizes, axes=axes))
    holds = np.broadcast_to(found, (n, 1, prod(sizes))).reshape(n, *sizes)
    return Table(slots, codes[slots], holds, variables, seen)


def variable_entries(rule: Rule, context: Context) -> RuleEntries:
    """The linear form of a rule at every slot: over the values of one variable, or over assignments."""
    table = table_of(rule, context)
    axes = table.axes
    if len(axes) > 1 and np.any(table.assignments < 0):
        raise ConstraintError(
            f"{rule.code()} has no linear form over independent variables: count a condition on one of them, or train "
            "with exact inference within sentences (exact=True)"
        )
    flat: BoolArray = table.holds.reshape(len(table.holds), prod(table.holds.shape[1:]))
    start = table.assignments
    if len(axes) <= 1:
        axis = axes[0] if axes else 1
        away = tuple(a for a in range(1, table.holds.ndim) if a != axis)
        flat = np.asarray(table.holds.any(axis=away))
        kind, variable = table.variables[axis - 1]
        start = context.parts.variable(kind, variable, 0)
    at, code = np.nonzero(flat[table.pattern])
    part = start[at] + code
    return RuleEntries(table.slots[at], part, np.ones(len(part)), np.zeros(context.n_slots))


def rule_blocks(rule: Rule, context: Context) -> list[RowBlock]:
    """Rows that say that a rule holds of every mention, or of every two."""
    table, parts = table_of(rule, context), context.parts
    made, axes = RowsOfInstances(), table.axes
    for p in range(len(table.holds)):
        broken, own = ~table.holds[p], table.pattern == p
        tied = own & (table.assignments >= 0) & (len(axes) > 1)
        mine = np.flatnonzero(tied)
        if len(mine) and broken.any():
            code = np.flatnonzero(broken.reshape(-1))
            made.add(table.assignments[mine][:, None] + code, np.ones(len(code)))
            made.close(table.slots[mine], 0.0)
        mine = np.flatnonzero(own & ~tied)
        for box in _boxes(broken) if len(mine) else ():
            limit = -1.0
            for (kind, variable), chosen in zip(table.variables, box, strict=True):
                if chosen.all():
                    continue
                few = 2 * chosen.sum() <= len(chosen)  # else [y ∈ S] = 1 − [y ∉ S]
                label = np.flatnonzero(chosen if few else ~chosen)
                made.add(
                    parts.variable(kind, variable[mine][:, None], label), np.full(len(label), 1.0 if few else -1.0)
                )
                limit += 1.0 if few else 0.0
            made.close(table.slots[mine], limit)
    return [made.block(context, f"the probability of breaking {rule.code()}")]


class RowsOfInstances:
    """Rows of single instances, collected some at a time."""

    def __init__(self) -> None:
        self.n = 0
        self.row, self.part, self.value = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0)]
        self.bound, self.slot = [np.zeros(0)], [np.zeros(0, np.int64)]

    def add(self, part: IntArray, value: FloatArray) -> None:
        """Entries of the next rows: part : (n, m);  value : (m,)."""
        self.row.append(self.n + np.repeat(np.arange(len(part)), part.shape[1]))
        self.part.append(np.asarray(part, np.int64).reshape(-1))
        self.value.append(np.tile(value, len(part)))

    def close(self, slots: IntArray, bound: float) -> None:
        """The rows that were added to are those of these slots."""
        self.slot.append(slots)
        self.bound.append(np.full(len(slots), bound))
        self.n += len(slots)

    def block(self, context: Context, subject: str) -> RowBlock:
        row, part, value = np.concatenate(self.row), np.concatenate(self.part), np.concatenate(self.value)
        entries = merge(row, part, value, context.parts.n_parts)
        instance = context.instance[np.concatenate(self.slot)]
        return RowBlock(
            *entries, np.concatenate(self.bound), False, instance, 1, np.zeros(self.n), subject,
            lambda r: f"instance {context.batch.first + int(instance[r])}",
        )  # fmt: skip


def _boxes(broken: BoolArray) -> Iterator[tuple[BoolArray, ...]]:
    """Sets S₁ × ... × Sₙ that together are what breaks a rule, each as large as can be."""
    left = broken.copy()
    while left.any():
        corner = np.unravel_index(int(np.argmax(left)), left.shape)
        sets = [np.arange(size) == at for size, at in zip(left.shape, corner, strict=True)]
        for axis in range(left.ndim):
            for label in range(left.shape[axis]):
                wider = [s | (np.arange(len(s)) == label) if a == axis else s for a, s in enumerate(sets)]
                if broken[np.ix_(*wider)].all():
                    sets = wider
        left[np.ix_(*sets)] = False
        yield tuple(sets)


def opposite_pairs(arguments: IntArray, instance: IntArray) -> IntArray:
    """(n, 2): the relations from i to j and from j to i, where an instance has both; i < j."""
    at = {(n, i, j): v for v, (n, (i, j)) in enumerate(zip(instance.tolist(), arguments.tolist(), strict=True))}
    found = [(v, at[n, j, i]) for (n, i, j), v in at.items() if i < j and (n, j, i) in at]
    return np.array(found, np.int64).reshape(-1, 2)
