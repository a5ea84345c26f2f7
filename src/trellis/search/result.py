"""What decoding returns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import BoolArray, FloatArray, LabelArray

PROOF = 1e-9
"""An answer counts as proved when its bound is no farther than this, relative to 1 + |value|."""


@dataclass(frozen=True)
class Decoded:
    """An output of each instance, and how sure it is that no other has a larger value.

    labels : (n_slots,) int32
    score : (n_instances,)      score(y)
    value : (n_instances,)      score(y) − price of what y violates; −∞ where nothing was found that meets the hard rows
    proved : (n_instances,)     whether no output has a larger value
    gap : (n_instances,)        no output has a value above value + gap; 0 where proved
    method : (n_instances,)     what gave the answer: "viterbi", "beam", "astar", "ilp", "relaxation"
    """

    labels: LabelArray
    score: FloatArray
    value: FloatArray
    proved: BoolArray
    gap: FloatArray
    method: NDArray[np.str_]

    @property
    def bound(self) -> FloatArray:
        """(n_instances,): no output has a larger value."""
        return np.where(self.gap == np.inf, np.inf, self.value + self.gap)


@dataclass(frozen=True)
class DecodedKBest:
    """The k best outputs found of each instance, best first.

    labels : (k, n_slots) int32, −1 where there is none
    score, value : (k, n_instances), −∞ where there is none
    proved : (n_instances,)     whether no other output has a larger value than the last of them
    """

    labels: LabelArray
    score: FloatArray
    value: FloatArray
    proved: BoolArray


def gaps(value: FloatArray, bound: FloatArray, proof: float | FloatArray = PROOF) -> tuple[BoolArray, FloatArray]:
    """Which values are proved by their bounds, and the gaps."""
    known = value > -np.inf
    gap = np.full(value.shape, np.inf)
    np.subtract(bound, value, out=gap, where=known)
    proved = known & (gap <= proof * (1.0 + np.abs(np.where(known, value, 0.0))))
    return proved, np.where(proved, 0.0, np.maximum(gap, 0.0))
