"""Words and moves of alignments as kernels read them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, LabelArray
from trellis.errors import DataError
from trellis.structures.alignment_parts import AlignmentParts
from trellis.structures.kernels.align_work import ALONE, HMM, Moves, Words

_NONE = np.zeros(0)
_NO_CODES = np.zeros(0, np.int32)
_NO_TABLE = np.zeros(0, np.float32)
NO_FACTORS = np.ones((1, 1))
WORDS_ALONE = Moves(ALONE, _NONE, _NONE, _NONE, NO_FACTORS, _NONE, _NONE, _NONE, 0.5, 1.0, 0.0)


def hmm_moves(
    jump: Any, first_place: Any, p_null: float, factors: Any = None, *, longest: int, negligible: float = 0.0
) -> Moves:
    """How places follow each other in an HMM; the weights are checked to suffice for sentences of ``longest`` words."""
    jump, first = np.ascontiguousarray(jump, np.float64), np.ascontiguousarray(first_place, np.float64)
    if len(jump) % 2 != 1 or len(jump) // 2 < longest or len(first) <= longest:
        raise DataError(
            f"for {longest} places, jump needs an odd number of weights, at least {2 * longest + 1}, and first_place "
            f"at least {longest + 1}, but they have {len(jump)} and {len(first)}"
        )
    if not (jump.min() > 0.0 and first.min() > 0.0 and 0.0 < p_null < 1.0):
        raise DataError("the weights of jumps and of first places must be positive, and p_null between 0 and 1")
    sums, firsts = (np.concatenate(([0.0], np.cumsum(weights))) for weights in (jump, first))
    factors = NO_FACTORS if factors is None else np.ascontiguousarray(factors, np.float64)
    if factors.ndim != 2 or not len(factors) or factors.shape[1] % 2 != 1 or factors.shape[1] > len(jump):
        raise DataError(
            f"factors must be rows of an odd number of weights, at most {len(jump)}, but have shape {factors.shape}"
        )
    if not factors.min(initial=1.0) > 0.0 or not np.all(factors[:1] == 1.0):
        raise DataError("the factors of jumps must be positive, and those of row 0 must be 1")
    return Moves(HMM, jump, np.log(jump), sums, factors, first, firsts, _NONE, float(p_null), 1.0, negligible)


def raised(moves: Moves, power: float) -> Moves:
    """The same moves under another power 1/γ. Above 1, paths that look negligible are often revived."""
    if power == moves.power:
        return moves
    jump = np.exp(power * moves.log_jump)
    return moves._replace(jump=jump, power=power, negligible=moves.negligible if power <= 1.0 else 0.0)


def scored(link: FloatArray, null: FloatArray, rows: LabelArray = _NO_CODES) -> Words:
    """Words of log-scores."""
    return Words(
        link, null, np.zeros((0, 2), np.float32), 0, _NO_CODES, _NO_CODES, _NO_CODES, _NO_TABLE, _NO_TABLE, _NO_TABLE,
        rows,
    )  # fmt: skip


def check_rows(rows: Any, parts: AlignmentParts, n_factors: int) -> LabelArray:
    """Rows of factors of the words at the places."""
    if rows is None:
        return _NO_CODES
    offsets = parts.source_offsets if parts.forward else parts.target_offsets
    found, n = np.ascontiguousarray(rows, np.int32), int(offsets[-1])
    if found.shape != (n,) or np.any((found < 0) | (found >= n_factors)):
        raise DataError(f"rows must be {n} numbers from 0 to {n_factors - 1}, one for each word at a place")
    return found
