"""Rules about entities and the relations between them: variables of two kinds in one instance.

    relation("Located_In").implies(second(entity("Loc")))      of every two mentions                (Roth & Yih 2004)
    word.isin("Paris", "Rome").implies(entity("Loc"))          of every mention; its text is its word
    relations("Kill").per("corpus") <= 30                      how many there are; with share=True, of all pairs
    counts_like(labelled, within=0.2)                          their shares as in labelled data, ± 20 %
    one_relation_per_pair()                                    in one direction or in the other    (Samdani et al. 2012)

Where factors see a relation with its arguments, a rule is a sum of the assignments that break it and holds exactly.
Where nothing ties the variables, it is written as clauses (Roth & Yih 2004; Samdani et al. 2012, sec. 5.3), which hold
in expectation:

    not (y₁ ∈ S₁ and ... and yₙ ∈ Sₙ)        Σ_i [y_i ∈ S_i] ≤ n − 1,      so  [relation is r] ≤ [second is Loc]
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any

import numpy as np

from trellis.constraints.amounts import is_number, number
from trellis.constraints.block import Block, merge
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context
from trellis.constraints.entries import Entries, patterns_of
from trellis.constraints.labels import some_names
from trellis.constraints.linear_count import Count, Term
from trellis.constraints.rule import Observed, Patterns, Rule, Unobserved
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConstraintError, UnknownNameError

ENTITY, RELATION = "entity", "relation"
NONE = "None"
"""The label of two mentions without a relation."""
ROLES = ("first", "second", RELATION)
"""What a rule about two mentions may speak of, in the order of a factor's variables."""


@dataclass(frozen=True)
class VariablePatterns(Patterns):
    """Patterns of slots that are variables of one kind.

    sizes : labels of the variables that a rule sees;  axes : role -> its axis, and the names of its labels
    """

    sizes: tuple[int, ...] = ()
    axes: Mapping[str, tuple[int, tuple[str, ...]]] | None = None


class Among(Unobserved):
    """A mention's type, a relation's type, or the type of one of its arguments, is one of the names."""

    def __init__(self, role: str, names: tuple[str, ...]) -> None:
        self.role, self.names = role, names

    def everywhere(self) -> str:
        return "for every mention" if self.role == ENTITY else "for every two mentions"

    def table(self, patterns: Patterns) -> BoolArray:
        axes = getattr(patterns, "axes", None)
        if axes is None:
            patterns.context.parts.variable_kind(ENTITY)  # refuses
            raise ConstraintError(f"{self.code()} speaks of entities and relations")
        axis, labels = axes[self.role]
        for name in self.names:
            if name not in labels:
                raise UnknownNameError("label", name, labels)
        sizes: tuple[int, ...] = patterns.sizes  # type: ignore[attr-defined]
        shape = [size if i == axis else 1 for i, size in enumerate(sizes)]
        chosen = np.isin(labels, self.names).reshape(shape)
        return np.broadcast_to(chosen, sizes).reshape(1, 1, -1)

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


def entity(*names: str | Iterable[str]) -> Among:
    """Condition: a mention has one of these types.

    Parameters
    ----------
    *names : str or list of str
        Entity types.

    Returns
    -------
    Among
        Condition, to be combined with ``implies``.
    """
    return Among(ENTITY, some_names(names, "entity"))


def relation(*names: str | Iterable[str]) -> Among:
    """Condition: two mentions are in one of these relations.

    Parameters
    ----------
    *names : str or list of str
        Relations.

    Returns
    -------
    Among
        Condition, to be combined with ``implies``.
    """
    return Among(RELATION, some_names(names, "relation"))


def first(of: Any) -> Among:
    """Apply a condition to the first mention of a relation.

    Parameters
    ----------
    of : Among
        Condition such as ``entity("Peop")``.

    Returns
    -------
    Among
        Condition on pairs of mentions.
    """
    return _argument(of, "first")


def second(of: Any) -> Among:
    """Apply a condition to the second mention of a relation.

    Parameters
    ----------
    of : Among
        Condition such as ``entity("Loc")``.

    Returns
    -------
    Among
        Condition on pairs of mentions.
    """
    return _argument(of, "second")


def _argument(of: Any, role: str) -> Among:
    if not isinstance(of, Among) or of.role != ENTITY:
        raise ConstraintError(f"{role}(...) takes what is said of a mention, {role}(entity('Loc')), got {of!r}")
    return Among(role, of.names)


def relations(*names: str | Iterable[str], share: bool = False) -> Count:
    """The number of relations of these types; with ``share``, of all ordered pairs of mentions.

    >>> (relations("Kill").per("corpus") <= 30).describe()
    'Over the corpus the expected number of Kill relations is at most 30, as a hard constraint.'
    """
    chosen = relation(*names)
    listed, what = ", ".join(map(repr, chosen.names)), " or ".join(chosen.names)
    if share:
        phrase = f"the expected share of {what} among all pairs of mentions"
        return Count((Term(1.0, chosen, IsPair(), f"relations({listed}, share=True)", phrase),))
    return Count((Term(1.0, chosen, None, f"relations({listed})", f"the expected number of {what} relations"),))


def entities(*names: str | Iterable[str]) -> Count:
    """The number of mentions of these types."""
    chosen = entity(*names)
    listed = ", ".join(map(repr, chosen.names))
    phrase = f"the expected number of {' or '.join(chosen.names)} mentions"
    return Count((Term(1.0, chosen, None, f"entities({listed})", phrase),))


# rules as rows


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
            f"{rule.code():.80} speaks of labels of tokens, but mentions and pairs have types: say entity(...), "
            "relation(...), first(entity(...)) or second(entity(...))"
        )
    return [atom for part in getattr(rule, "parts", ()) for atom in _atoms(part)]


def table_of(rule: Rule, context: Context) -> Table:
    """A rule's table at every mention, or at every pair of them."""
    roles, parts = {atom.role for atom in _atoms(rule)}, context.parts
    if ENTITY in roles and len(roles) > 1:
        raise ConstraintError(
            f"{rule.code()} speaks of a mention and of two: say first(entity(...)) or second(entity(...))"
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
    found = rule.table(VariablePatterns(context, patterns.value, patterns.is_first, sizes, axes))
    holds = np.broadcast_to(found, (n, 1, prod(sizes))).reshape(n, *sizes)
    return Table(slots, codes[slots], holds, variables, seen)


def variable_entries(rule: Rule, context: Context) -> Entries:
    """The linear form of a rule at every slot: over the values of one variable, or over assignments."""
    table = table_of(rule, context)
    axes = table.axes
    if len(axes) > 1 and np.any(table.assignments < 0):
        raise ConstraintError(
            f"{rule.code()} has no linear form over variables that nothing ties: count what is said of one of them, or "
            "learn with sums that are exact within a sentence"
        )
    flat: BoolArray = table.holds.reshape(len(table.holds), math.prod(table.holds.shape[1:]))
    start = table.assignments
    if len(axes) <= 1:
        axis = axes[0] if axes else 1
        away = tuple(a for a in range(1, table.holds.ndim) if a != axis)
        flat = np.asarray(table.holds.any(axis=away))
        kind, variable = table.variables[axis - 1]
        start = context.parts.variable(kind, variable, 0)
    at, code = np.nonzero(flat[table.pattern])
    part = start[at] + code
    return Entries(table.slots[at], part, np.ones(len(part)), np.zeros(context.n_slots))


def rule_blocks(rule: Rule, context: Context) -> list[Block]:
    """Rows that say that a rule holds of every mention, or of every two."""
    table, parts = table_of(rule, context), context.parts
    made, axes = _Rows(), table.axes
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


class _Rows:
    """Rows of single instances, put together some at a time."""

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

    def block(self, context: Context, subject: str) -> Block:
        row, part, value = np.concatenate(self.row), np.concatenate(self.part), np.concatenate(self.value)
        entries = merge(row, part, value, context.parts.n_parts)
        instance = context.instance[np.concatenate(self.slot)]
        return Block(
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


# counts as in labelled data


@dataclass(frozen=True, eq=False, repr=False)
class CountsLike(Constraint):
    """Σ over pairs [relation is r] between (1 − within) and (1 + within) times share_r of all pairs, for every r.

    shares : of each relation among the ordered pairs of mentions; None: still to be taken from labelled data
    within : for all relations, or for each by its name; None: 0.2, and where labelled data have a relation n times and
        1 / √n is more, that: a count of few is known no better
    """

    shares: Mapping[str, float] | None
    within: float | Mapping[str, float] | None

    def of(self, labelled: Iterable[Any]) -> CountsLike:
        """The same with shares taken from sentences whose relations are known."""
        count: Counter[str] = Counter()
        pairs = 0
        for sentence in labelled:
            if sentence.relations is not None:
                pairs += len(sentence.spans) * (len(sentence.spans) - 1)
                count.update(r.label for r in sentence.relations)
        if not pairs:
            raise ConstraintError(f"{self.name!r}: no two mentions are labelled, so there are no counts to be like")
        within = self.within
        if within is None:
            within = {name: max(WITHIN, float(n) ** -0.5) for name, n in sorted(count.items())}
        return replace(self, shares={name: count[name] / pairs for name in sorted(count)}, within=within)

    def code(self) -> str:
        own = self.within
        within = "None" if own is None else _listed(own) if isinstance(own, Mapping) else number(own)
        return f"counts_like({'None' if self.shares is None else _listed(self.shares)}, within={within})"

    def statement(self) -> str:
        every = not isinstance(self.within, Mapping)
        listed = ", ".join(
            f"{name} {share:.2%}" + ("" if every else f" ± {self._width(name):.0%}")
            for name, share in (self.shares or {}).items()
        )
        return (
            "over the corpus the expected share of every relation among all pairs of mentions is that in labelled data"
            + (f" ({listed})" if listed else "")
            + (f", give or take {self._width(''):.0%}" if every else "")
        )

    def blocks(self, context: Context) -> list[Block]:
        if self.shares is None:
            raise ConstraintError(f"{self.name!r} takes its counts from labelled data: give it some, .of(labelled)")
        made: list[Block] = []
        for name, share in self.shares.items():
            low, high = share * (1.0 - self._width(name)), share * (1.0 + self._width(name))
            made += relations(name, share=True).per("corpus").between(low, min(high, 1.0)).blocks(context)
        return made

    def _width(self, name: str) -> float:
        if self.within is None:
            return WITHIN
        return self.within.get(name, WITHIN) if isinstance(self.within, Mapping) else self.within


WITHIN = 0.2
"""By what share counts may differ from those of labelled data (Samdani et al. 2012, sec. 5.3)."""


def counts_like(labelled: Any, within: float | Mapping[str, float] | None = None) -> CountsLike:
    """Relations are as frequent as in labelled sentences, within a tolerance.

    Parameters
    ----------
    labelled : list or dict
        Labelled sentences, or the proportion of each relation.
    within : float, dict or None, default=None
        Relative tolerance, for all relations or by name. By default 0.2, or 1 / √n for relations with n < 25
        occurrences.

    Returns
    -------
    CountsLike
        A constraint.

    Examples
    --------
    >>> counts_like({"Kill": 0.01}, within=0.2)
    counts_like({'Kill': 0.01}, within=0.2)
    """
    for one in within.values() if isinstance(within, Mapping) else () if within is None else (within,):
        if not is_number(one) or not 0 <= one <= 1:
            raise ConstraintError(f"within is a share from 0 to 1, got {one!r}")
    band = {str(n): float(w) for n, w in within.items()} if isinstance(within, Mapping) else within
    if labelled is None:
        return CountsLike(None, band)
    if isinstance(labelled, Mapping):
        for name, share in labelled.items():
            if not is_number(share) or not 0 <= share <= 1:
                raise ConstraintError(f"the share of {name!r} must lie between 0 and 1, got {share!r}")
        return CountsLike({str(name): float(share) for name, share in labelled.items()}, band)
    return CountsLike(None, band).of(labelled)


def _listed(values: Mapping[str, float]) -> str:
    return f"{{{', '.join(f'{name!r}: {number(value)}' for name, value in values.items())}}}"


@dataclass(frozen=True, eq=False, repr=False)
class OnePerPair(Constraint):
    """[i to j is related] + [j to i is related] ≤ 1 for every two mentions."""

    def code(self) -> str:
        return "one_relation_per_pair()"

    def statement(self) -> str:
        return "two mentions stand in one relation at most, in one direction or in the other"

    def blocks(self, context: Context) -> Sequence[Block]:
        parts = context.parts
        ties, slots = parts.variable_kind(RELATION), parts.variable_slots(RELATION)
        labels = np.flatnonzero(np.array(ties.labels) != NONE)
        made, k = _Rows(), len(ties.labels)
        start, seen = parts.together(RELATION)
        made.add(start[:, None] + (labels[:, None] * k + labels).reshape(-1), np.ones(len(labels) ** 2))
        made.close(slots[seen[:, 0]], 0.0)
        pair = opposite_pairs(ties.arguments, context.instance[slots])
        pair = pair[~np.isin(pair[:, 0], seen)]
        both = np.concatenate([parts.variable(RELATION, pair[:, [side]], labels) for side in (0, 1)], axis=1)
        made.add(both, np.ones(2 * len(labels)))
        made.close(slots[pair[:, 0]], 1.0)
        return [made.block(context, "the expected number of relations between two mentions")]


def one_relation_per_pair() -> OnePerPair:
    """Two mentions stand in one relation at most, in one direction or in the other."""
    return OnePerPair()


def opposite_pairs(arguments: IntArray, instance: IntArray) -> IntArray:
    """(n, 2): the relations from i to j and from j to i, where an instance has both; i < j."""
    at = {(n, i, j): v for v, (n, (i, j)) in enumerate(zip(instance.tolist(), arguments.tolist(), strict=True))}
    found = [(v, at[n, j, i]) for (n, i, j), v in at.items() if i < j and (n, j, i) in at]
    return np.array(found, np.int64).reshape(-1, 2)
