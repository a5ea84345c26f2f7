"""The range of rows over all outputs, and the places where given outputs test them.

With low = min_y φ(y) and high = max_y φ(y) over all outputs (``Parts.extremes``), a row φ ≤ b

    always holds      if b ≥ high      it is dropped
    never holds       if b < low       a hard one is refused, with the least slack low − b
    forbids parts     if b = low       E_q[φ] ≤ low only if q puts no mass on outputs of larger φ. Where those are
                                       exactly the outputs that use a part which no output of least φ uses
                                       (``Parts.never_least``), forbidding these parts says it all; else the row stays

Places where one output tests a row, and where it breaks it:

    bound                         places                                    broken
    b = low: nothing may happen   high − low, each time that it could       φ − b
    b > low, an upper bound       1 where anything is counted, φ > low      1 where φ > b
    a lower bound, an equality    1                                         1 where it does not hold

A row that no output can violate is no place. An implication is tested where its condition holds. Where that is a
condition on labels, it depends on the outputs, and "a change of label is at a comma" is tested at every change.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import numpy as np

from trellis.constraints.context import Context, RowBlock
from trellis.constraints.entries import entries_of
from trellis.constraints.labels import Label
from trellis.constraints.rows import COUPLING
from trellis.constraints.rule import Rule
from trellis.constraints.strength import Kind, Strength
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import ConstraintError, InfeasibleError
from trellis.structures.part_set import PartSet

TOLERANCE = 1e-9
"""Relative to the size of a row: sums of coefficients in different orders may differ by this much."""


@dataclass(frozen=True)
class Reduced:
    """Rows of a block that say something about scores, and parts that it forbids."""

    keep: BoolArray
    forbidden: PartSet


def reduce_block(block: RowBlock, context: Context, name: str, strength: Strength) -> Reduced:
    """Sort the rows of a block; an InfeasibleError for a row that no output can satisfy."""
    low, high = extremes(block, context)
    margin = TOLERANCE * (1.0 + np.abs(block.bound) + np.abs(low) + np.abs(high))
    at_low = low >= block.bound - margin
    at_high = high <= block.bound + margin
    always = at_high & at_low if block.equality else at_high
    if strength.kind == Kind.KL:
        _refuse_no_target(block, low, high, margin, name)
    if strength.kind in (Kind.HARD, Kind.SLACK):
        _refuse_impossible(block, low, high, margin, name, strength, context)
    if strength.kind != Kind.HARD:
        return Reduced(~always, PartSet.union([]))
    settled, forbidden = always.copy(), []
    sides = [(1.0, at_low & ~always)]
    if block.equality:
        sides.append((-1.0, at_high & ~always))
    for sign, tight in sides:
        if tight.any():
            start, part, coefficient = _layout(block, context, tight)
            never, done = context.parts.never_least(start, part, sign * coefficient, margin[tight])
            forbidden.append(never)
            settled[np.flatnonzero(tight)[done]] = True
    return Reduced(~settled, PartSet.union(forbidden))


def _refuse_no_target(block: RowBlock, low: FloatArray, high: FloatArray, margin: FloatArray, name: str) -> None:
    """Raise if a row is no count, which is at least 0, or its target is one from which a KL divergence is infinite."""
    if not block.equality or np.any(np.minimum(low, block.bound) < -margin):
        raise ConstraintError(
            f"constraint {name!r} has a KL penalty, which is for counts that should be equal to a number: write "
            "count(...) == number or shares({label: share}), or choose another norm"
        )
    if np.any((high <= margin) & (block.bound > margin)):
        raise ConstraintError(
            f"constraint {name!r} has a KL penalty, which is infinite: no output has what it counts, but the target is "
            "more than 0"
        )


def extremes(block: RowBlock, context: Context) -> tuple[FloatArray, FloatArray]:
    """(n_rows,) each: least and largest value of every row over all outputs."""
    return context.parts.extremes(*_layout(block, context, np.ones(len(block), dtype=np.bool_)))


def _layout(block: RowBlock, context: Context, chosen: BoolArray) -> tuple[IntArray, IntArray, FloatArray]:
    """The chosen rows in compressed form; those over several instances count each as often as it weighs."""
    entries = chosen[block.row]
    row, part, coefficient = block.row[entries], block.part[entries], block.coefficient[entries]
    of_many = block.instance[row] == COUPLING
    if np.any(of_many):
        weight = context.batch.weights[context.parts.instance_of(part)]
        coefficient = np.where(of_many, coefficient * weight, coefficient)
    return offsets_of(np.bincount(row, minlength=len(block))[chosen]), part, coefficient


def _refuse_impossible(
    block: RowBlock,
    low: FloatArray,
    high: FloatArray,
    margin: FloatArray,
    name: str,
    strength: Strength,
    context: Context,
) -> None:
    """Raise if some row's least violation is more than its strength allows."""
    least = low - block.bound
    if block.equality:
        least = np.maximum(least, block.bound - high)
    wrong = np.flatnonzero(least > strength.amount + margin)
    if len(wrong) == 0:
        return
    row = int(wrong[np.argmax(least[wrong])])  # the worst, so that its slack suffices for all
    above = bool(low[row] > block.bound[row])  # φ cannot come down to the bound
    # + 0.0: a minus sign before zero means nothing to a reader
    reach = block.sign * float((low if above else high)[row] + block.offset[row]) + 0.0
    required = block.sign * float(block.bound[row] + block.offset[row]) + 0.0
    # with sign −1 the reader's count is −φ: too large a φ is too small a count
    too_large = above == (block.sign > 0)
    wanted = "exactly" if block.equality else ("at most" if too_large else "at least")
    need = float(least[row])
    allowance = f" up to {strength.amount:g}" if strength.kind == Kind.SLACK else ""
    instance = int(block.instance[row])
    more = f" ({len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
    raise InfeasibleError(
        f"constraint {name!r} cannot hold: it requires that {block.subject} be {wanted} {required:.6g}{allowance}, "
        f"but in {block.where(row)}, it is {'at least' if too_large else 'at most'} {reach:.6g}{more}; change the "
        f"bound, or give the constraint a slack of {need:.6g} or a penalty",
        instances=(context.batch.first + instance,) if instance >= 0 else (),
        constraints=(name,),
        slack=need,
    )


NO_SLOT = -1


@dataclass(frozen=True)
class TestedPlaces:
    """Places and broken ones of each of n units; arrays (n,).

    instance : the unit's instance, or COUPLING;  slot : the token that the unit is about, or NO_SLOT
    """

    places: FloatArray
    broken: FloatArray
    instance: IntArray
    slot: IntArray

    def where(self, applies: BoolArray) -> TestedPlaces:
        """The same, but units where it does not apply are no places."""
        return replace(self, places=self.places * applies, broken=self.broken * applies)

    def at(self, holds: BoolArray) -> TestedPlaces:
        """The same of single tokens, whose places are those where a condition on labels holds."""
        return replace(self, places=holds.astype(np.float64), broken=self.broken * holds)

    def sums(self, weights: FloatArray) -> tuple[float, float]:
        """Places and broken ones in all; an instance counts as often as it weighs."""
        weight = np.where(self.instance == COUPLING, 0.0, weights[self.instance])
        return float(weight @ self.places), float(weight @ self.broken)


@dataclass(frozen=True)
class Outputs:
    """One output of every instance of a context, by the parts it uses, increasing."""

    context: Context
    used: IntArray

    def uses(self, part: IntArray) -> BoolArray:
        """(n,): which of the parts are used."""
        at = np.append(self.used, -1)
        return np.asarray(at[np.searchsorted(self.used, part)] == part)

    def holds(self, rule: Rule) -> BoolArray:
        """(n_slots,): where a rule about single tokens holds."""
        for condition in rule.earlier():
            before = condition.holds_in(self.holds(Label(condition.names)), self.context)
            return np.where(before, self.holds(rule.decided(True)), self.holds(rule.decided(False)))
        entries = entries_of(rule, self.context)
        values = entries.value * self.uses(entries.part)
        return entries.constant + np.bincount(entries.slot, values, minlength=self.context.n_slots) > 0.5

    def test(self, block: RowBlock) -> TestedPlaces:
        """The rows of a block."""
        low, high = extremes(block, self.context)
        margin = TOLERANCE * (1.0 + np.abs(block.bound) + np.abs(low) + np.abs(high))
        entries = block.coefficient * self.uses(block.part)
        value = np.bincount(block.row, entries, minlength=len(block)).astype(np.float64)
        over = value - block.bound
        excess = np.where(np.abs(over) > margin, np.abs(over) if block.equality else np.maximum(over, 0.0), 0.0)
        possible = high > block.bound + margin
        if block.equality:
            return _units(possible | (low < block.bound - margin), excess > 0, block)
        nothing_may = low >= block.bound - margin
        counted = (value > low + margin) | (block.sign < 0)
        places = np.where(nothing_may, high - low, np.where(counted, 1.0, 0.0)) * possible
        broken = np.where(nothing_may, np.minimum(excess, places), np.minimum((excess > 0) * 1.0, places))
        return _units(places, broken, block)


def _units(places: BoolArray | FloatArray, broken: BoolArray | FloatArray, block: RowBlock) -> TestedPlaces:
    slot = np.full(len(block), NO_SLOT) if block.slot is None else block.slot
    return TestedPlaces(places.astype(np.float64), broken.astype(np.float64), block.instance, slot)


def joined(pieces: list[TestedPlaces]) -> TestedPlaces:
    """Units one after the other."""
    none = TestedPlaces(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    every = [none, *pieces]
    return TestedPlaces(
        *(np.concatenate([getattr(one, field.name) for one in every]) for field in fields(TestedPlaces))
    )


def merged(pieces: list[TestedPlaces]) -> TestedPlaces:
    """Several bounds of the same units: a unit is broken where one of them is."""
    if len(pieces) < 2:
        return joined(pieces)
    places = np.maximum.reduce([one.places for one in pieces])
    return replace(pieces[0], places=places, broken=np.maximum.reduce([one.broken for one in pieces]))
