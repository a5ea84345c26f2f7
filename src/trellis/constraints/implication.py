"""Implications between statements about a whole sentence, as linear rows that are exact for every single output.

    exists(A) → φ ≤ b :    φ + M · [A at t] ≤ b + M        for every token t
    ~exists(A) → φ ≤ b :   φ − M · count(A) ≤ b

where M = (largest value of φ in the sentence) − b. For exists(A) → exists(B) this is [A at t] ≤ count(B). Conditions
that are joined by "and" are taken one after the other, as in A → (B → φ ≤ b): every condition on the existence of
labels has a row for each token, so two of them have one for each pair of tokens.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NoReturn

import numpy as np

from trellis.constraints.comparison import Comparison
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock, instance_units, merge
from trellis.constraints.entries import RuleEntries, entries_of
from trellis.constraints.reduction import Outputs, TestedPlaces, extremes, joined, merged
from trellis.constraints.rule import Rule
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows
from trellis.errors import ConstraintError


@dataclass(frozen=True)
class Premise:
    """The rule holds at some token of a sentence, or at none if ``absent``."""

    rule: Rule
    absent: bool

    def code(self) -> str:
        return f"{'~' if self.absent else ''}exists({self.rule.code()})"

    def english(self) -> str:
        return f"{'no' if self.absent else 'a'} token where {self.rule.english()}"

    def holds(self, somewhere: FloatArray | BoolArray, context: Context) -> BoolArray:
        """(n_instances,): whether it does, given where the rule holds, (n_slots,)."""
        found = np.bincount(context.instance, weights=somewhere, minlength=len(context.batch)) > 0
        return np.asarray(found != self.absent)


@dataclass(frozen=True, eq=False, repr=False)
class Conjunction:
    """Statements about a sentence that all hold: the condition of an implication, and no constraint by itself."""

    premises: tuple[Premise, ...]

    def code(self) -> str:
        return " & ".join(premise.code() for premise in self.premises)

    def __repr__(self) -> str:
        return self.code()

    def __and__(self, other: Any) -> Conjunction:
        return Conjunction((*self.premises, *premises_of(other)))

    def implies(self, other: Any) -> Implication:
        """Where these hold of a sentence, ``other`` holds of it."""
        return implication(self, other)

    def __bool__(self) -> NoReturn:
        raise ConstraintError(f"{self.code()} has no truth value before labels are known")


@dataclass(frozen=True, eq=False, repr=False)
class Implication(Constraint):
    """A sentence of which all premises hold obeys the comparison."""

    premises: tuple[Premise, ...]
    then: Comparison

    @property
    def ties_instances(self) -> bool:
        return False

    def code(self) -> str:
        condition = Conjunction(self.premises).code()
        plain = len(self.premises) == 1 and not self.premises[0].absent
        return f"{condition if plain else f'({condition})'}.implies({self.then.code()})"

    def statement(self) -> str:
        what = " and ".join(premise.english() for premise in self.premises)
        then = self.then.statement().removeprefix("in every sentence ")
        return f"in every sentence that has {what}, {then}"

    def blocks(self, context: Context) -> list[RowBlock]:
        made = []
        for block in self.then.blocks(context):
            upper = replace(block, equality=False)
            made.append(self._conditional(context, upper))
            if block.equality:
                lower = replace(upper, coefficient=-block.coefficient, bound=-block.bound)
                made.append(self._conditional(context, replace(lower, sign=-block.sign, offset=-block.offset)))
        return made

    def tested(self, outputs: Outputs) -> TestedPlaces:
        context = outputs.context
        if len(self.premises) > 1:
            each = [premise.holds(outputs.holds(premise.rule), context) for premise in self.premises]
            every = np.logical_and.reduce(each)
            return merged([outputs.test(block).where(every) for block in self.then.blocks(context)])
        (premise,), blocks = self.premises, self.blocks(context)
        if premise.rule.observed:
            return merged([outputs.test(block) for block in blocks])
        holds = outputs.holds(premise.rule)
        if premise.absent:
            return merged([outputs.test(block).where(premise.holds(holds, context)) for block in blocks])
        return joined([outputs.test(block).where(holds[block.slot]) for block in blocks])

    def _conditional(self, context: Context, block: RowBlock) -> RowBlock:
        """The rows φ ≤ b of every instance, made conditional; what is observed first leaves the fewest rows."""
        for premise in sorted(self.premises, key=lambda one: not one.rule.observed):
            if premise.rule.observed:
                block = _where_observed(context, block, premise)
                continue
            gap = np.maximum(extremes(block, context)[1] - block.bound, 0.0)
            entries = entries_of(premise.rule, context)
            conditional = _unless_somewhere if premise.absent else _for_each_token
            block = conditional(context, block, entries, gap)
        return block


def _where_observed(context: Context, block: RowBlock, premise: Premise) -> RowBlock:
    """Whether the premise holds is known: the rows of some instances stand, the others ask nothing."""
    applies = premise.holds(premise.rule.holds(context), context)[block.instance]
    keep = applies[block.row]
    return replace(
        block,
        row=block.row[keep],
        part=block.part[keep],
        coefficient=block.coefficient[keep],
        bound=np.where(applies, block.bound, 0.0),
    )


def _unless_somewhere(context: Context, block: RowBlock, entries: RuleEntries, gap: FloatArray) -> RowBlock:
    """φ − M · count(A) ≤ b."""
    n, instance = len(context.batch), context.instance[entries.slot]
    row, entry = _taken(instance, n, block.instance)
    always = np.bincount(context.instance, weights=entries.constant, minlength=n)[block.instance]
    merged = merge(
        np.concatenate((block.row, row)),
        np.concatenate((block.part, entries.part[entry])),
        np.concatenate((block.coefficient, -gap[row] * entries.value[entry])),
        context.parts.n_parts,
    )
    bound = block.bound + gap * always
    return replace(
        block, row=merged[0], part=merged[1], coefficient=merged[2], bound=bound, offset=block.offset - gap * always
    )


def _for_each_token(context: Context, block: RowBlock, entries: RuleEntries, gap: FloatArray) -> RowBlock:
    """φ + M · [A at t] ≤ b + M, for every row that can be violated and every token t at which A can hold."""
    can_hold = entries.constant != 0
    can_hold[entries.slot] = True
    slots, violable = np.flatnonzero(can_hold), np.flatnonzero(gap > 0)
    of_row, at = _taken(context.instance[slots], len(context.batch), block.instance[violable])
    old, slot = violable[of_row], slots[at]
    row, source = _taken(block.row, len(block), old)
    row_a, source_a = _taken(entries.slot, context.n_slots, slot)
    merged = merge(
        np.concatenate((row, row_a)),
        np.concatenate((block.part[source], entries.part[source_a])),
        np.concatenate((block.coefficient[source], gap[old[row_a]] * entries.value[source_a])),
        context.parts.n_parts,
    )
    room = gap[old] * (1.0 - entries.constant[slot])
    return RowBlock(
        *merged,
        bound=block.bound[old] + room,
        equality=False,
        instance=block.instance[old],
        sign=block.sign,
        offset=block.offset[old] - room,
        subject=block.subject,
        where=_where(context, block.instance[old]),
        slot=slot,
    )


def _taken(owner: IntArray, n: int, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """The items of the wanted owners one after the other: the number in ``wanted`` and the item, (n_found,) each.

    owner : (n_items,) from 0 to n − 1
    """
    start, place = take_rows(offsets_of(np.bincount(owner, minlength=n)), wanted)
    return owners(start), np.argsort(owner, kind="stable")[place]


def _where(context: Context, instance: IntArray) -> Callable[[int], str]:
    of_instance = instance_units(context).where
    return lambda row: of_instance(int(instance[row]))


def premises_of(condition: Any) -> tuple[Premise, ...]:
    """The premises that a conjunction has, or that exists(A) or ~exists(A) is."""
    if isinstance(condition, Conjunction):
        return condition.premises
    if isinstance(condition, Comparison):
        for rule, absent in ((condition.existing(), False), (condition.absent(), True)):
            if rule is not None:
                return (Premise(rule, absent),)
    code = condition.code() if isinstance(condition, Constraint) else repr(condition)
    raise ConstraintError(
        f"{code} cannot be the condition of an implication with a linear form; "
        "supported are exists(A) and ~exists(A), that is, at_least(1, A) and at_most(0, A), joined by &"
    )


def implication(condition: Comparison | Conjunction, then: Any) -> Implication:
    """``condition`` → ``then``, where the condition is exists(A), ~exists(A), or some of these joined by &."""
    premises = premises_of(condition)
    if isinstance(then, Rule):
        raise ConstraintError(
            f"{then.code()} is about one token, {condition.code()} about a sentence: write exists({then.code()}) or "
            f"count(where=~({then.code()})) == 0 on the right"
        )
    if not isinstance(then, Comparison) or then.rule is not None:
        raise ConstraintError(
            f"what {condition.code()} implies must be a comparison of counts, such as exists(B) or "
            f"count('B') <= 2, got {then!r}"
        )
    scopes = [then.left.scope, *(side.scope for side in (then.low, then.high) if side is not None)]
    wrong = [scope for scope in scopes if scope not in (None, "instance")]
    if wrong:
        raise ConstraintError(f"{then.code()} must be counted per sentence to be used in an implication")
    return Implication(premises, then)
