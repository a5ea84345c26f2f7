"""Where given outputs put a constraint to the test, and where they break it.

    φ ≤ b, low ≤ φ ≤ high         low, high: the least and the largest value over all outputs

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

from trellis.constraints.block import Block
from trellis.constraints.context import Context
from trellis.constraints.entries import entries_of
from trellis.constraints.reduction import TOLERANCE, extremes
from trellis.constraints.rows import COUPLING
from trellis.constraints.rule import Rule
from trellis.data.ragged import BoolArray, FloatArray, IntArray

NO_SLOT = -1


@dataclass(frozen=True)
class Places:
    """Places and broken ones of each of n units; arrays (n,).

    instance : the unit's instance, or COUPLING;  slot : the token that the unit is about, or NO_SLOT
    """

    places: FloatArray
    broken: FloatArray
    instance: IntArray
    slot: IntArray

    def where(self, applies: BoolArray) -> Places:
        """The same, but units where it does not apply are no places."""
        return replace(self, places=self.places * applies, broken=self.broken * applies)

    def at(self, holds: BoolArray) -> Places:
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
        entries = entries_of(rule, self.context)
        values = entries.value * self.uses(entries.part)
        return entries.constant + np.bincount(entries.slot, values, minlength=self.context.n_slots) > 0.5

    def test(self, block: Block) -> Places:
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


def _units(places: BoolArray | FloatArray, broken: BoolArray | FloatArray, block: Block) -> Places:
    slot = np.full(len(block), NO_SLOT) if block.slot is None else block.slot
    return Places(places.astype(np.float64), broken.astype(np.float64), block.instance, slot)


def joined(pieces: list[Places]) -> Places:
    """Units one after the other."""
    none = Places(np.zeros(0), np.zeros(0), np.zeros(0, np.int64), np.zeros(0, np.int64))
    every = [none, *pieces]
    return Places(*(np.concatenate([getattr(one, field.name) for one in every]) for field in fields(Places)))


def merged(pieces: list[Places]) -> Places:
    """Several bounds of the same units: a unit is broken where one of them is."""
    if len(pieces) < 2:
        return joined(pieces)
    places = np.maximum.reduce([one.places for one in pieces])
    return replace(pieces[0], places=places, broken=np.maximum.reduce([one.broken for one in pieces]))
