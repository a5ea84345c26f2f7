"""What rows say before any score is known: that they always hold, never hold, or forbid parts.

A *cell* is a slot or a boundary: of its parts an output uses exactly one. With c_min, c_max the smallest and largest
coefficient of a row in a cell (0 for a part it does not name),

    Σ_cells c_min  ≤  φ(y)  ≤  Σ_cells c_max        for every output y.

So a row φ ≤ b always holds if b ≥ Σ c_max; never if b < Σ c_min; and if b = Σ c_min, then in every cell only parts with
coefficient c_min can be used: the others are forbidden. For one slot a cell this is exact; where a row names edges the
bounds may be loose, and what they miss is left to inference and projection.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.constraints.block import Block
from trellis.constraints.context import Context
from trellis.constraints.strength import Kind, Strength
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import InfeasibleError

TOLERANCE = 1e-9


@dataclass(frozen=True)
class Cells:
    """The cells that rows of a block name, in order of row and cell.

    of_entry : (n_entries,) cell of each entry
    row, cell : (n_cells,)  row, and slot (or n_slots + slot for the boundary before it)
    low, high : (n_cells,)  smallest and largest coefficient
    """

    of_entry: IntArray
    row: IntArray
    cell: IntArray
    low: FloatArray
    high: FloatArray

    @classmethod
    def of(cls, block: Block, context: Context) -> Cells:
        k, n_node = context.n_labels, context.parts.n_node_parts
        is_node = block.part < n_node
        slot = np.where(is_node, block.part // k, (block.part - n_node) // (k * k))
        cell = np.where(is_node, slot, slot + context.n_slots)
        if len(cell) == 0:
            nothing = np.zeros(0, dtype=np.int64)
            return cls(nothing, nothing, nothing, np.zeros(0), np.zeros(0))
        new = np.concatenate(([True], (np.diff(cell) != 0) | (np.diff(block.row) != 0)))
        first = np.flatnonzero(new)
        low, high = np.minimum.reduceat(block.coefficient, first), np.maximum.reduceat(block.coefficient, first)
        named = np.diff(np.append(first, len(cell)))
        partial = named < np.where(is_node[first], k, k * k)
        low[partial], high[partial] = np.minimum(low[partial], 0.0), np.maximum(high[partial], 0.0)
        return cls(np.cumsum(new) - 1, block.row[first], cell[first], low, high)


@dataclass(frozen=True)
class Reduced:
    """Rows of a block that say something about scores, and parts that it forbids."""

    keep: BoolArray
    forbidden: IntArray


def reduce_block(block: Block, context: Context, name: str, strength: Strength) -> Reduced:
    """Sort the rows of a block; an InfeasibleError for a row that no output can satisfy."""
    cells = Cells.of(block, context)
    n = len(block)
    low = np.bincount(cells.row, weights=cells.low, minlength=n)
    high = np.bincount(cells.row, weights=cells.high, minlength=n)
    margin = TOLERANCE * (1.0 + np.abs(block.bound) + np.abs(low) + np.abs(high))
    at_low = low >= block.bound - margin
    at_high = high <= block.bound + margin
    always = at_high & at_low if block.equality else at_high
    if strength.kind in (Kind.HARD, Kind.SLACK):
        _refuse_impossible(block, low, high, margin, name, strength, context)
    if strength.kind != Kind.HARD:
        return Reduced(~always, np.zeros(0, dtype=np.int64))
    tight_low = at_low & ~always
    tight_high = at_high & ~always if block.equality else np.zeros(n, dtype=np.bool_)
    forbidden = np.concatenate(
        [
            _parts_beyond(block, cells, context, tight_low, cells.low),
            _parts_beyond(block, cells, context, tight_high, cells.high),
        ]
    )
    return Reduced(~always & ~tight_low & ~tight_high, np.unique(forbidden))


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
    reach = block.sign * float((low if above else high)[row] + block.offset[row])
    asked = block.sign * float(block.bound[row] + block.offset[row])
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


def _parts_beyond(block: Block, cells: Cells, context: Context, tight: BoolArray, extreme: FloatArray) -> IntArray:
    """Parts of the cells of tight rows whose coefficient is not the cell's extreme one."""
    chosen = tight[cells.row] & (cells.high > cells.low)
    found = []
    k, n_node = context.n_labels, context.parts.n_node_parts
    number = np.cumsum(chosen) - 1
    at_extreme = chosen[cells.of_entry] & (block.coefficient == extreme[cells.of_entry])
    for is_edge, size in ((False, k), (True, k * k)):
        mine = chosen & ((cells.cell >= context.n_slots) == is_edge)
        if not mine.any():
            continue
        number = np.cumsum(mine) - 1
        first = n_node * is_edge + (cells.cell[mine] - context.n_slots * is_edge) * size
        # an unnamed part has coefficient 0
        beyond = np.repeat((extreme[mine] != 0.0)[:, None], size, axis=1)
        named = mine[cells.of_entry]
        place = number[cells.of_entry[named]]
        beyond[place, block.part[named] - first[place]] = ~at_extreme[named]
        which, within = np.nonzero(beyond)
        found.append(first[which] + within)
    return np.concatenate(found) if found else np.zeros(0, dtype=np.int64)
