"""What rows say before any score is known: that they always hold, never hold, or forbid parts.

With low = min_y φ(y) and high = max_y φ(y) over all outputs (``Parts.extremes``), a row φ ≤ b

    always holds      if b ≥ high      it is dropped
    never holds       if b < low       a hard one is refused, with the least slack low − b
    forbids parts     if b = low       E_q[φ] ≤ low only if q puts no mass on outputs of larger φ. Where those are
                                       exactly the outputs that use a part which no output of least φ uses
                                       (``Parts.never_least``), forbidding these parts says it all; else the row stays
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.constraints.block import Block
from trellis.constraints.context import Context
from trellis.constraints.rows import COUPLING
from trellis.constraints.strength import Kind, Strength
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import InfeasibleError
from trellis.structures.part_set import PartSet

TOLERANCE = 1e-9
"""Relative to the size of a row: sums of coefficients in different orders may differ by this much."""


@dataclass(frozen=True)
class Reduced:
    """Rows of a block that say something about scores, and parts that it forbids."""

    keep: BoolArray
    forbidden: PartSet


def reduce_block(block: Block, context: Context, name: str, strength: Strength) -> Reduced:
    """Sort the rows of a block; an InfeasibleError for a row that no output can satisfy."""
    low, high = extremes(block, context)
    margin = TOLERANCE * (1.0 + np.abs(block.bound) + np.abs(low) + np.abs(high))
    at_low = low >= block.bound - margin
    at_high = high <= block.bound + margin
    always = at_high & at_low if block.equality else at_high
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


def extremes(block: Block, context: Context) -> tuple[FloatArray, FloatArray]:
    """(n_rows,) each: least and largest value of every row over all outputs."""
    return context.parts.extremes(*_layout(block, context, np.ones(len(block), dtype=np.bool_)))


def _layout(block: Block, context: Context, chosen: BoolArray) -> tuple[IntArray, IntArray, FloatArray]:
    """The chosen rows in compressed form; those over several instances count each as often as it weighs."""
    entries = chosen[block.row]
    row, part, coefficient = block.row[entries], block.part[entries], block.coefficient[entries]
    of_many = block.instance[row] == COUPLING
    if np.any(of_many):
        weight = context.batch.weights[context.parts.instance_of(part)]
        coefficient = np.where(of_many, coefficient * weight, coefficient)
    return offsets_of(np.bincount(row, minlength=len(block))[chosen]), part, coefficient


def _refuse_impossible(
    block: Block, low: FloatArray, high: FloatArray, margin: FloatArray, name: str, strength: Strength, context: Context
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
    asked = block.sign * float(block.bound[row] + block.offset[row]) + 0.0
    # with sign −1 the reader's count is −φ: too large a φ is too small a count
    too_large = above == (block.sign > 0)
    wanted = "exactly" if block.equality else ("at most" if too_large else "at least")
    need = float(least[row])
    allowance = f" up to {strength.amount:g}" if strength.kind == Kind.SLACK else ""
    instance = int(block.instance[row])
    more = f" ({len(wrong) - 1} more like it)" if len(wrong) > 1 else ""
    raise InfeasibleError(
        f"constraint {name!r} cannot hold: it asks that {block.subject} be {wanted} {asked:.6g}{allowance}, but in "
        f"{block.where(row)}, it is {'at least' if too_large else 'at most'} {reach:.6g}{more}; "
        f"change the bound, or give the constraint a slack of {need:.6g} or a penalty",
        instances=(context.batch.first + instance,) if instance >= 0 else (),
        constraints=(name,),
        slack=need,
    )
