"""Implications between statements about a whole sentence, as linear rows that are exact for every single output.

    exists(A) → φ ≤ b :    φ + M · [A at t] ≤ b + M        for every token t
    ~exists(A) → φ ≤ b :   φ − M · count(A) ≤ b

where M = (largest value of φ in the sentence) − b. For exists(A) → exists(B) this is [A at t] ≤ count(B).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from trellis.constraints.comparison import Comparison
from trellis.constraints.constraint import Constraint
from trellis.constraints.context import Context, RowBlock, instance_units, merge
from trellis.constraints.entries import RuleEntries, entries_of
from trellis.constraints.reduction import Outputs, TestedPlaces, extremes, joined, merged
from trellis.constraints.rule import Rule
from trellis.data.ragged import FloatArray, IntArray, offsets_of, owners, take_rows
from trellis.errors import ConstraintError


@dataclass(frozen=True, eq=False, repr=False)
class Implication(Constraint):
    """A sentence in which the rule holds somewhere (nowhere, if ``absent``) obeys the comparison."""

    rule: Rule
    absent: bool
    then: Comparison

    @property
    def ties_instances(self) -> bool:
        return False

    def code(self) -> str:
        return f"{'~' if self.absent else ''}exists({self.rule.code()}).implies({self.then.code()})"

    def statement(self) -> str:
        what = "no token" if self.absent else "a token"
        then = self.then.statement().removeprefix("in every sentence ")
        return f"in every sentence that has {what} where {self.rule.english()}, {then}"

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
        blocks, context = self.blocks(outputs.context), outputs.context
        if self.rule.observed:
            return merged([outputs.test(block) for block in blocks])
        holds = outputs.holds(self.rule)
        if self.absent:
            somewhere = np.bincount(context.instance, weights=holds, minlength=len(context.batch)) > 0
            return merged([outputs.test(block).where(~somewhere) for block in blocks])
        return joined([outputs.test(block).where(holds[block.slot]) for block in blocks])

    def _conditional(self, context: Context, block: RowBlock) -> RowBlock:
        """The rows φ ≤ b of every instance, made conditional."""
        gap = np.maximum(extremes(block, context)[1] - block.bound, 0.0)
        if self.rule.observed:
            return self._where_observed(context, block)
        entries = entries_of(self.rule, context)
        if self.absent:
            return _unless_somewhere(context, block, entries, gap)
        return _for_each_token(context, block, entries, gap)

    def _where_observed(self, context: Context, block: RowBlock) -> RowBlock:
        """Whether the condition holds is known: the rows of some instances stand, the others ask nothing."""
        somewhere = np.bincount(context.instance, weights=self.rule.holds(context), minlength=len(block)) > 0
        applies = ~somewhere if self.absent else somewhere
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
    row = context.instance[entries.slot]
    always = np.bincount(context.instance, weights=entries.constant, minlength=len(block))
    merged = merge(
        np.concatenate((block.row, row)),
        np.concatenate((block.part, entries.part)),
        np.concatenate((block.coefficient, -gap[row] * entries.value)),
        context.parts.n_parts,
    )
    bound = block.bound + gap * always
    return replace(
        block, row=merged[0], part=merged[1], coefficient=merged[2], bound=bound, offset=block.offset - gap * always
    )


def _for_each_token(context: Context, block: RowBlock, entries: RuleEntries, gap: FloatArray) -> RowBlock:
    """φ + M · [A at t] ≤ b + M, for every token t at which A can hold."""
    can_hold = entries.constant != 0
    can_hold[entries.slot] = True
    slots = np.flatnonzero(can_hold & (gap[context.instance] > 0))
    instance = context.instance[slots]
    number = np.zeros(context.n_slots, dtype=np.int64)
    number[slots] = np.arange(len(slots))
    mine = can_hold[entries.slot] & (gap[context.instance[entries.slot]] > 0)
    row, source = _repeat_rows(block, instance)
    merged = merge(
        np.concatenate((row, number[entries.slot[mine]])),
        np.concatenate((block.part[source], entries.part[mine])),
        np.concatenate((block.coefficient[source], gap[context.instance[entries.slot[mine]]] * entries.value[mine])),
        context.parts.n_parts,
    )
    room = gap[instance]
    return RowBlock(
        *merged,
        bound=block.bound[instance] + room * (1.0 - entries.constant[slots]),
        equality=False,
        instance=instance,
        sign=block.sign,
        offset=block.offset[instance] - room * (1.0 - entries.constant[slots]),
        subject=block.subject,
        where=_where(context, instance),
        slot=slots,
    )


def _repeat_rows(block: RowBlock, wanted: IntArray) -> tuple[IntArray, IntArray]:
    """Entries of the wanted rows one after the other: the number in ``wanted`` and the entry, (n,) each."""
    start, entry = take_rows(offsets_of(np.bincount(block.row, minlength=len(block))), wanted)
    return owners(start), entry


def _where(context: Context, instance: IntArray) -> Callable[[int], str]:
    of_instance = instance_units(context).where
    return lambda row: of_instance(int(instance[row]))


def implication(condition: Comparison, then: Any) -> Implication:
    """``condition`` → ``then``, where the condition is exists(A) or ~exists(A)."""
    present, absent = condition.existing(), condition.absent()
    rule = absent if present is None else present
    if rule is None:
        raise ConstraintError(
            f"{condition.code()} cannot be the condition of an implication with a linear form; supported are exists(A) "
            "and ~exists(A), that is, at_least(1, A) and at_most(0, A)"
        )
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
    return Implication(rule, present is None, then)
