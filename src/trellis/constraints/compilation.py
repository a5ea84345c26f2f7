"""compile_constraints: constraints over a batch become rows over its parts, in memory or on disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import combinations
from typing import Any, TypeVar

import numpy as np

from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowsOrImplicit
from trellis.constraints.implicit import Checks, Forbidden, LinkRows, Sparsity
from trellis.constraints.reduction import reduce_block
from trellis.constraints.rows import COUPLING, Groups, Rows
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind, Strength
from trellis.data.batch import Batch
from trellis.data.checks import check_list
from trellis.data.ragged import BoolArray, IntArray, offsets_of, take_rows
from trellis.data.storage import SHARE, Spilled, bytes_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, InfeasibleError, UnknownNameError
from trellis.structures.part_set import PartSet
from trellis.structures.parts import Parts

LARGEST_SET_TRIED = 3
"""Up to this size a smallest conflicting set is found by trying all; beyond it, one from which none can be left out."""


def compile_constraints(
    constraints: Sequence[Constraint | Rule] | Constraint | Rule, batch: Batch, label_names: Vocabulary, parts: Parts
) -> Rows:
    """Compile constraints to sparse rows over the parts of a batch.

    Parameters
    ----------
    constraints : list of Constraint
        Constraints; a rule in the list applies to every token.
    batch : Batch
        Instances. Counts over the corpus use their weights.
    label_names : Vocabulary
        Labels.
    parts : Parts
        Part numbers of the structure.

    Returns
    -------
    Rows
        Rows, forbidden parts and l1/linf blocks.

    Examples
    --------
    >>> from trellis.constraints import count
    >>> from trellis.structures import ChainParts
    >>> batch = Batch.from_sentences([["a", "b"], ["c", "d", "e"]])
    >>> rows = compile_constraints([count("V") >= 1], batch, Vocabulary(["N", "V"]), ChainParts(batch.offsets, 2))
    >>> len(rows), rows.bound.tolist(), rows.coefficient.tolist()
    (2, [-1.0, -1.0], [-1.0, -1.0, -1.0, -1.0, -1.0])
    """
    context = Context(batch, label_names, parts)
    listed = named(constraints)
    assembly = _Assembly(context, tuple(constraint.name for constraint in listed))
    for number, constraint in enumerate(listed):
        try:
            blocks = constraint.blocks(context)
        except UnknownNameError as unknown:
            if unknown.path is not None:
                raise
            known = label_names if unknown.kind == "label" else batch.columns
            where = constraint.origin
            if where is None:
                within = f"the constraint {constraint.name!r}"
                raise UnknownNameError(unknown.kind, unknown.name, known, within=within) from None
            raise UnknownNameError(unknown.kind, unknown.name, known, path=where.path, line=where.line) from None
        except ConstraintError as error:
            place = "" if constraint.origin is None else f" of {constraint.origin.path}, line {constraint.origin.line}"
            error.add_note(f"(in the rule {constraint.name!r}{place})")
            raise
        for block in blocks:
            assembly.add(number, constraint, block)
    return assembly.rows([constraint.strength for constraint in listed])


def named(constraints: Sequence[Constraint | Rule] | Constraint | Rule) -> list[Constraint]:
    """The constraints, each with a name of its own; names given by people must differ."""
    one = isinstance(constraints, Constraint | Rule)
    listed = [constraints] if one else list(check_list(constraints, "constraints"))
    given: set[str] = set()
    taken: set[str] = set()
    made: list[Constraint] = []
    for item in listed:
        if not isinstance(item, Constraint | Rule):
            raise ConstraintError(
                f"a constraint is a comparison such as count('A') >= 1 or a rule such as label('A'), got {item!r}"
            )
        constraint = item if isinstance(item, Constraint) else item.constraint()
        if constraint.given_name is not None:
            if constraint.given_name in given:
                raise ConstraintError(f"two constraints are called {constraint.given_name!r}: names must differ")
            given.add(constraint.given_name)
        made.append(constraint)
    for i, constraint in enumerate(made):
        name, again = constraint.name, 1
        while constraint.given_name is None and (name in taken or name in given):
            again += 1
            name = f"{constraint.name} ({again})"
        taken.add(name)
        if name != constraint.name:
            made[i] = replace(constraint, given_name=name)
    return made


class _Assembly:
    """Blocks of constraints, collected."""

    def __init__(self, context: Context, names: tuple[str, ...]) -> None:
        self.context, self.names = context, names
        i, f = np.zeros(0, dtype=np.int64), np.zeros(0)
        self.pieces: list[tuple[Any, ...]] = [(i, i, f, f, np.zeros(0, dtype=np.bool_), i, i)]
        """Of each block entries per row, parts, coefficients, bounds, equality, instances and the constraint."""
        self.forbidden: dict[int, list[PartSet]] = {}
        self.sparsity: list[Sparsity] = []
        self.implicit: list[LinkRows] = []
        self.checks: list[Checks] = []

    def add(self, number: int, constraint: Constraint, block: RowsOrImplicit) -> None:
        if isinstance(block, Sparsity):
            self.sparsity.append(replace(block, name=self.names[number]))
            return
        if isinstance(block, LinkRows):
            if constraint.strength.kind == Kind.KL:
                raise ConstraintError(f"{self.names[number]!r} is about links, which take no KL penalty: use 'squared'")
            self.implicit.append(replace(block, constraint=number))
            return
        if isinstance(block, Checks):
            self.checks.append(replace(block, constraint=number))
            return
        reduced = reduce_block(block, self.context, self.names[number], constraint.strength)
        kept = reduced.keep[block.row]
        lengths, n = np.bincount(block.row[kept], minlength=len(block)), int(np.count_nonzero(reduced.keep))
        self.pieces.append((
            lengths[reduced.keep], block.part[kept], block.coefficient[kept], block.bound[reduced.keep],
            np.full(n, block.equality), block.instance[reduced.keep], np.full(n, number, dtype=np.int64),
        ))  # fmt: skip
        if len(reduced.forbidden.at):
            self.forbidden.setdefault(number, []).append(reduced.forbidden)

    def rows(self, strengths: list[Strength]) -> Rows:
        columns = map(np.concatenate, zip(*self.pieces, strict=True))
        lengths, part, coefficient, bound, equality, instance, constraint = columns
        n_instances = len(self.context.batch)
        order = np.argsort(np.where(instance == COUPLING, n_instances, instance), kind="stable")
        start, entry = take_rows(offsets_of(lengths), order)
        instance, constraint = instance[order], constraint[order]
        key = constraint * (n_instances + 1) + instance + 1
        alone = np.array([s.kind == Kind.KL for s in strengths], dtype=np.bool_)[constraint]
        key = np.where(alone, len(strengths) * (n_instances + 1) + np.arange(len(key)), key)
        _, first, group = np.unique(key, return_index=True, return_inverse=True)
        return Rows(
            parts=self.context.parts,
            names=self.names,
            start=start,
            part=part[entry],
            coefficient=coefficient[entry],
            bound=bound[order],
            equality=equality[order],
            instance=instance,
            group=group.astype(np.int64),
            constraint=constraint,
            row_number=np.arange(len(order), dtype=np.int64),
            groups=_groups(constraint[first], strengths),
            forbidden=self._forbidden(),
            sparsity=tuple(self.sparsity),
            implicit=tuple(self.implicit),
            checks=tuple(self.checks),
        )

    def _forbidden(self) -> Forbidden:
        sets = [PartSet.union(some) for some in self.forbidden.values()]
        forbidden = Forbidden(tuple(self.forbidden), tuple(sets))
        _refuse_dead_slots(forbidden, self.names, self.context)
        return forbidden


def _groups(constraint: IntArray, strengths: list[Strength]) -> Groups:
    """Norm groups of the given constraints."""
    return Groups(
        np.asarray([s.kind for s in strengths], dtype=np.int8)[constraint],
        np.asarray([s.norm for s in strengths], dtype=np.int8)[constraint],
        np.asarray([s.amount for s in strengths], dtype=np.float64)[constraint],
    )


def _refuse_dead_slots(forbidden: Forbidden, names: tuple[str, ...], context: Context) -> None:
    """Raise if forbidden parts leave a slot without a label: which constraints do it, and what slack would undo it."""
    if not context.parts.has_labels or not len(forbidden):
        return
    k, n = context.n_labels, context.n_slots
    every = context.parts.label(np.arange(n, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64))
    dead = np.flatnonzero(forbidden.contains(every).all(axis=1))
    if len(dead) == 0:
        return
    slot = int(dead[0])
    forbids = np.zeros((len(names), k), dtype=np.bool_)
    for number, some in zip(forbidden.by, forbidden.sets, strict=True):
        forbids[number] = some.contains(every[slot])
    guilty = _smallest_cover(forbids)
    instance = int(context.instance[slot])
    number, token = context.batch.first + instance, slot - int(context.batch.offsets[instance])
    column = context.batch.columns.get("word")
    shown = "" if column is None else f" ({column.vocabulary[int(column.codes[slot])]!r})"
    verdicts = [f"{names[c]!r} {_verdict(forbids[c], context)}" for c in guilty]
    more = f" ({len(dead) - 1} more like it)" if len(dead) > 1 else ""
    slack = _least_slack(forbids[guilty])
    raise InfeasibleError(
        f"token {token}{shown} of instance {number} is left without a label{more}: {'; '.join(verdicts)}. Remove one "
        f"of them, or give each a slack of {slack:.6g} or a penalty",
        instances=(number,),
        constraints=tuple(names[c] for c in guilty),
        slack=slack,
    )


def _verdict(forbidden: BoolArray, context: Context) -> str:
    """What a constraint leaves of the labels, in the shorter form."""
    if forbidden.all():
        return "forbids every label"
    few = 2 * np.count_nonzero(forbidden) <= len(forbidden)
    names = ", ".join(context.labels[int(k)] for k in np.flatnonzero(forbidden if few else ~forbidden))
    return f"forbids {names}" if few else f"allows only {names}"


def _smallest_cover(forbids: BoolArray) -> list[int]:
    """Constraints (rows) that together forbid every label (column)."""
    able = [int(c) for c in np.flatnonzero(forbids.any(axis=1))]
    for size in range(1, LARGEST_SET_TRIED + 1):
        for chosen in combinations(able, size):
            if forbids[list(chosen)].any(axis=0).all():
                return list(chosen)
    kept = list(able)
    for c in able:
        rest = [other for other in kept if other != c]
        if rest and forbids[rest].any(axis=0).all():
            kept = rest
    return kept


def _least_slack(forbids: BoolArray) -> float:
    """min over label distributions x of the largest violation Σ_k forbids[c, k] x_k of the constraints c."""
    from scipy.optimize import linprog

    n, k = forbids.shape
    found = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=np.hstack([forbids.astype(np.float64), -np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(k), 0.0)[None, :],
        b_eq=[1.0],
    )
    return float(found.fun)


T = TypeVar("T")

ENTRY_BYTES = 24
"""Of an entry of a row, and of what is made of it."""
MANY_ENTRIES = 1_000
"""Of a slot. Where so many fit into memory, it is not looked how many there are."""


def rows_in_file(
    constraints: Sequence[Constraint | Rule],
    parts: Sequence[Batch],
    rows_of: Callable[[Batch], Rows],
    memory: object,
    make: Callable[[Rows], T],
) -> tuple[list[Rows], Sequence[T]] | None:
    """The heads of the rows of each shard, and what ``make`` makes of these rows, in a file; None: memory suffices.

    rows_of : compiles the constraints over a shard
    memory : what the run may use, of which rows have a quarter; how many they are is guessed from the first shard
    Constraints that tie instances together need all instances at once, and stay in memory.
    """
    budget, n_slots = SHARE * bytes_of(memory), sum(part.n_slots for part in parts)
    if len(parts) < 2 or ENTRY_BYTES * MANY_ENTRIES * n_slots <= budget:
        return None
    if not constraints or any(one.ties_instances for one in named(constraints)):
        return None
    if ENTRY_BYTES * len(rows_of(parts[0]).part) * (n_slots / parts[0].n_slots) <= budget:
        return None
    heads: list[Rows] = []

    def each() -> Iterator[T]:
        for part in parts:
            rows = rows_of(part).canonical()
            heads.append(rows.head())
            yield make(rows)

    return heads, Spilled(each())
