"""What rows say before any score is known: that they always hold, never hold, or forbid parts.

With low = min_y φ(y) and high = max_y φ(y) over all outputs (shortest paths, :mod:`kernels.extremes`), a row φ ≤ b

    always holds      if b ≥ high      it is dropped
    never holds       if b < low       a hard one is refused, with the least slack low − b
    forbids parts     if b = low       E_q[φ] ≤ low only if q puts no mass on outputs of larger φ. Those are exactly
                                       the outputs that use a part which no output of least φ uses: along a path of
                                       parts that all lie on shortest paths every step adds what a shortest path adds.
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
"""Relative to the size of a row: sums of coefficients in different orders may differ by this much."""


@dataclass(frozen=True)
class Reduced:
    """Rows of a block that say something about scores, and parts that it forbids."""

    keep: BoolArray
    forbidden: IntArray


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
        return Reduced(~always, np.zeros(0, dtype=np.int64))
    tight_low = at_low & ~always
    tight_high = at_high & ~always if block.equality else np.zeros(len(block), dtype=np.bool_)
    forbidden = _forbidden(block, context, tight_low, tight_high, margin)
    return Reduced(~always & ~tight_low & ~tight_high, forbidden)


def extremes(block: Block, context: Context) -> tuple[FloatArray, FloatArray]:
    """(n_rows,) each: least and largest value of every row over all outputs."""
    from trellis.constraints.kernels.extremes import row_extremes

    low, high = np.zeros(len(block)), np.zeros(len(block))
    row_extremes(*_layout(block, context), low, high)
    return low, high


def _layout(block: Block, context: Context) -> tuple[IntArray | FloatArray | int, ...]:
    """Rows in the form that the kernels take."""
    length = np.bincount(block.row, minlength=len(block))
    start = np.concatenate(([0], np.cumsum(length))).astype(np.int64)
    is_node = block.part < context.parts.n_node_parts
    first_edge = start[:-1] + np.bincount(block.row[is_node], minlength=len(block))
    return (
        start,
        first_edge,
        block.part,
        block.coefficient,
        context.batch.offsets,
        context.instance,
        context.parts.n_node_parts,
        context.n_labels,
    )


def _forbidden(
    block: Block, context: Context, tight_low: BoolArray, tight_high: BoolArray, margin: FloatArray
) -> IntArray:
    """Parts that tight rows forbid, increasing."""
    from trellis.constraints.kernels.extremes import parts_never_least

    rows = np.concatenate((np.flatnonzero(tight_low), np.flatnonzero(tight_high)))
    if len(rows) == 0:
        return np.zeros(0, dtype=np.int64)
    sign = np.repeat((1.0, -1.0), (np.count_nonzero(tight_low), np.count_nonzero(tight_high)))
    layout = _layout(block, context)
    none = np.zeros(0, dtype=np.int64)
    n_nodes, n_edges = parts_never_least(rows, sign, margin[rows], *layout, none, none)
    found = np.zeros(n_nodes + n_edges, dtype=np.int64)
    parts_never_least(rows, sign, margin[rows], *layout, found[:n_nodes], found[n_nodes:])
    # rows of single tokens or instances come in order: sorting millions of edges is worth avoiding
    return found if np.all(found[1:] > found[:-1]) else np.unique(found)


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
