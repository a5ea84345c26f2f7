"""A decoding under way: for each instance the best output so far and a bound on all of them.

Values and bounds here are of the scores with what factors folded in, which differ from true values by a constant an
instance; gaps are the same.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.search.kernels import layout
from trellis.search.kernels.arguments import Scores, Terms
from trellis.search.plan import Plan, arrays_of, prices
from trellis.search.result import PROOF, gaps
from trellis.search.single import scores_of
from trellis.structures.chain import Chain


@dataclass
class Progress:
    """State of a decoding.

    scores : with what factors folded in
    labels : (n_slots,) the best output so far
    value : (n_instances,) its value, −∞ if it breaks a hard row
    bound : (n_instances,) no output has a larger value
    proof : (n_instances,) relative gap that counts as none
    method : (n_instances,) what gave the output
    seeds : (n_instances,) for random choices among equals, 0: none
    """

    scores: Chain
    plan: Plan
    labels: LabelArray
    value: FloatArray
    bound: FloatArray
    proof: FloatArray
    method: NDArray[np.str_]
    seeds: NDArray[np.uint64]

    @classmethod
    def begin(cls, scores: Chain, plan: Plan, rng: np.random.Generator | None) -> Progress:
        """Viterbi on the folded scores; where that violates none of the remaining rows it is the answer."""
        first = scores.argmax(rng)
        n = len(scores)
        value = first.score - prices(plan.terms, scores.offsets, first.labels, np.flatnonzero(plan.is_searched))
        seeds = np.zeros(n, np.uint64) if rng is None else rng.integers(1, 2**63, n, dtype=np.uint64)
        return cls(
            scores=scores,
            plan=plan,
            labels=first.labels,
            value=value,
            bound=first.score,
            proof=np.full(n, PROOF),
            method=np.full(n, "viterbi", dtype="<U10"),
            seeds=seeds,
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

    def value_of(self, instance: int, labels: LabelArray) -> float:
        """Value of one output of an instance."""
        terms, price, unused = self.plan.terms, np.empty(1), np.empty(1)
        free = np.zeros(int(terms.row_start[instance + 1] - terms.row_start[instance]))
        layout.price_list(terms, instance, int(self.scores.offsets[instance]), labels[None], free, price, unused)
        return float(scores_of(self.scores, instance).score(labels)[0] - price[0])

    def replace(self, instance: int, labels: LabelArray, value: float) -> None:
        """Take over another output of an instance."""
        self.labels[self.scores.offsets[instance] : self.scores.offsets[instance + 1]] = labels
        self.value[instance] = value

    def arrays(self) -> tuple[Scores, Terms]:
        """Scores and rows as the kernels take them."""
        return arrays_of(self.scores), self.plan.terms
