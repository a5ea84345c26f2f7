"""A decoding under way, and what it returns: for each instance the best output so far and a bound on all of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.search.plan import Plan
from trellis.search.prices import prices
from trellis.structures.structure import Structure

PROOF = 1e-9
"""An answer counts as proved when its bound is no farther than this, relative to 1 + |value|."""


@dataclass(frozen=True)
class Decoded:
    """An output of each instance, and how sure it is that no other has a larger value.

    outputs : in the form of the structure's ``argmax``
    score : (n_instances,)      score(y)
    value : (n_instances,)      score(y) − price of what y violates; −∞ where nothing was found that meets the hard rows
    proved : (n_instances,)     whether no output has a larger value
    gap : (n_instances,)        no output has a value above value + gap; 0 where proved
    method : (n_instances,)     what gave the answer: "argmax", "beam", "astar", "ilp"
    """

    outputs: Any
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

    outputs : k of them, each an output of every instance; one that has fewer has its best again for the rest
    score, value : (k, n_instances), −∞ where there is none
    proved : (n_instances,)     whether no other output has a larger value than the last of them
    """

    outputs: tuple[Any, ...]
    score: FloatArray
    value: FloatArray
    proved: BoolArray


@dataclass
class SearchProgress:
    """State of a decoding. Values and bounds are those of the scores with what factors folded in, which differ from
    true values by a constant per instance; gaps are the same.

    scores : with what factors folded in
    outputs : the best so far
    value : (n_instances,) their values, −∞ if they break a hard row
    bound : (n_instances,) no output has a larger value
    proof : (n_instances,) relative gap that counts as none
    method : (n_instances,) what gave the output
    seeds : (n_instances,) for random choices among equals, 0: none
    """

    scores: Structure
    plan: Plan
    outputs: Any
    value: FloatArray
    bound: FloatArray
    proof: FloatArray
    method: NDArray[np.str_]
    seeds: NDArray[np.uint64]

    @classmethod
    def begin(cls, scores: Structure, plan: Plan, rng: np.random.Generator | None) -> SearchProgress:
        """The argmax of scores with what factors folded in: where it violates no other row it is the answer."""
        folded = plan.fold(scores)
        first = folded.argmax(rng)
        n = len(scores)
        return cls(
            scores=folded,
            plan=plan,
            outputs=first.outputs,
            value=first.score - prices(plan.remaining.rows, first.outputs),
            bound=first.score,
            proof=np.full(n, PROOF),
            method=np.full(n, "argmax", dtype="<U10"),
            seeds=np.zeros(n, np.uint64) if rng is None else rng.integers(1, 2**63, n, dtype=np.uint64),
        )

    def unproved(self) -> IntArray:
        """Instances whose output may not be the best."""
        return np.flatnonzero(~gaps(self.value, self.bound, self.proof)[0])

    def missing(self) -> IntArray:
        """Instances of which no output is known that meets the hard rows, though there may be one."""
        return np.flatnonzero((self.value == -np.inf) & (self.bound > -np.inf))

    def infeasible(self) -> IntArray:
        """Instances that have no output which meets the hard rows."""
        return np.flatnonzero((self.value == -np.inf) & (self.bound == -np.inf))

    def tighten(self, todo: IntArray, bound: FloatArray) -> None:
        """Take over bounds (n_instances,) of the instances ``todo`` where they are lower."""
        self.bound[todo] = np.minimum(self.bound[todo], bound[todo])

    def replace(self, outputs: Mapping[int, Any]) -> None:
        """Take over other outputs of some instances, each by itself."""
        if outputs:
            pieces = self.scores.parts.split_outputs(self.outputs)
            for instance, output in outputs.items():
                pieces[instance] = output
            self.outputs = self.scores.parts.join_outputs(pieces)


def gaps(value: FloatArray, bound: FloatArray, proof: float | FloatArray = PROOF) -> tuple[BoolArray, FloatArray]:
    """Which values are proved by their bounds, and the gaps."""
    known = value > -np.inf
    gap = np.full(value.shape, np.inf)
    np.subtract(bound, value, out=gap, where=known)
    proved = known & (gap <= proof * (1.0 + np.abs(np.where(known, value, 0.0))))
    return proved, np.where(proved, 0.0, np.maximum(gap, 0.0))
