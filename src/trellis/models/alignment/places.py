"""Where the next link goes: jump widths and first places, with an M-step in closed form that never loses.

    p(i | a) = c(i − a) / Σ_{k=0..I} c(k − a),      place I is the end of the sentence     (Vogel et al. 1996)
    p(i | none yet) = f(i) / Σ_{k=0..I} f(k)

c(d) is that of all words, times a factor r(d) of the word at a for jumps of at most ``NEAR`` words, if the word is
frequent (cf. He 2007): function words are often followed by a second link, or by a jump over a word.

The normaliser depends on the sentence, so expected counts alone do not give the maximum. But log Σ c ≤ its tangent
at the old c, and with that bound the M-step is  c(d) = n(d) / (Σ_contexts N(context) / Σ_old c),  the sum over
contexts where d is possible: a minorise-maximise step, under which the objective does not fall, taken for c and then
for r. Factors have the prior Σ κ(d) (log r − r + 1), which is largest at 1. Jumps wider than
``WINDOW`` share one weight per side. A prior adds Σ_d κ(d) log(c(d)/Σ c) to the objective, with pseudo-counts κ that
fall with the distance from a jump of one word: in a text of short sentences nothing else speaks against wide jumps.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from trellis.data.bitext import LONGEST
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.structures.alignment import PlaceCounts
from trellis.structures.alignment_moves import WORDS_ALONE, hmm_moves
from trellis.structures.kernels.align_work import MODEL1, Moves

WINDOW = 40
NEAR = 3
"""Jumps of more words have no factors."""
FREQUENT = 3000
"""Words of each language that have factors of their own: those that meet the most words of the other language."""
FACTOR_PSEUDO_COUNT = 10.0
"""Σ κ of a word's factors, over jumps of any width."""
LARGEST_FACTOR = 1e3
SMALLEST_SHARE = 1e-8
"""No weight falls below this share of the largest: powers 1/γ of it must stay numbers."""
SPAN = LONGEST + 1
"""Jumps from −SPAN to SPAN have a weight: longer than any sentence, and the same for every text."""

_JUMP_CLASS = np.clip(np.arange(-SPAN, SPAN + 1), -WINDOW, WINDOW) + WINDOW
_FIRST_CLASS = np.minimum(np.arange(SPAN + 1), WINDOW)
_JUMP_PRIOR = np.exp(-0.5 * np.minimum(np.abs(np.arange(-WINDOW, WINDOW + 1) - 1), 16))
_FIRST_PRIOR = np.exp(-0.5 * np.minimum(np.arange(WINDOW + 1), 16))
_FACTOR_PRIOR = FACTOR_PSEUDO_COUNT * (_JUMP_PRIOR / _JUMP_PRIOR.sum())[WINDOW - NEAR : WINDOW + NEAR + 1]


@dataclass(frozen=True)
class Places:
    """jump : (2 WINDOW + 1,) weights c by class of jump;  first : (WINDOW + 1,) weights f by class of first place

    factors : (K, 2 NEAR + 1) factors r; row 0 is that of words without their own, and holds ones
    """

    jump: FloatArray
    first: FloatArray
    factors: FloatArray

    @classmethod
    def initial(cls, n_rows: int) -> Places:
        """Weights that fall with the distance from a jump of one word, and factors of 1."""
        jump = np.exp(-0.3 * np.minimum(np.abs(np.arange(-WINDOW, WINDOW + 1) - 1), 12))
        first = np.exp(-0.3 * np.minimum(np.arange(WINDOW + 1), 12))
        return cls(jump / jump.sum(), first / first.sum(), np.ones((n_rows, 2 * NEAR + 1)))

    def moves(self, p_null: float, negligible: float) -> Moves:
        """The HMM's moves as kernels read them."""
        return hmm_moves(
            self.jump[_JUMP_CLASS], self.first[_FIRST_CLASS], p_null, self.factors, longest=LONGEST,
            negligible=negligible,
        )  # fmt: skip

    def updated(self, counts: PlaceCounts, pseudo: float) -> Places:
        """The M-step; pseudo : Σ κ of jumps, and of first places."""
        jump_prior, first_prior = (pseudo * prior / prior.sum() for prior in (_JUMP_PRIOR, _FIRST_PRIOR))
        weight = counts.jump_weight.copy()
        weight[SPAN - NEAR : SPAN + NEAR + 1] += np.sum((self.factors - 1.0) * counts.near_weight, axis=0)
        jump = _ratio(_JUMP_CLASS, counts.jumps, weight, self.jump, jump_prior)
        first = _ratio(_FIRST_CLASS, counts.firsts, counts.first_weight, self.first, first_prior)
        near = jump[WINDOW - NEAR : WINDOW + NEAR + 1]
        factors = (counts.near + _FACTOR_PRIOR) / (near * np.maximum(counts.near_weight, 0.0) + _FACTOR_PRIOR)
        factors = np.clip(factors, 1.0 / LARGEST_FACTOR, LARGEST_FACTOR)
        factors[0] = 1.0
        return Places(jump / jump.sum(), first / first.sum(), factors)

    def log_prior(self, pseudo: float) -> float:
        """Σ κ log(c / Σ c) over classes of jumps and of first places, and the prior of factors.

        pseudo : Σ κ of jumps, and of first places
        """
        total = float(np.sum(_FACTOR_PRIOR * (np.log(self.factors) - self.factors + 1.0)))
        for weights, prior in ((self.jump, _JUMP_PRIOR), (self.first, _FIRST_PRIOR)):
            total += pseudo * float(prior @ np.log(weights / weights.sum())) / float(prior.sum())
        return total


def model1_moves(p_null: float, reach: float) -> Moves:
    """Places of Model 1: all alike, or with a finite ``reach``, in words, rather near the diagonal."""
    pull = np.exp((np.arange(SPAN + 1) + 0.5) / reach) if reach < np.inf else WORDS_ALONE.pull
    return WORDS_ALONE._replace(kind=MODEL1, pull=pull, p_null=p_null)


def _ratio(
    classes: IntArray, counts: FloatArray, weight: FloatArray, old: FloatArray, pseudo: FloatArray
) -> FloatArray:
    # Weights are running sums of differences, so that rounding can leave a trace below zero.
    weight = np.maximum(weight, 0.0)
    numerator = np.bincount(classes, counts, minlength=len(old)) + pseudo
    denominator = np.bincount(classes, weight, minlength=len(old)) + pseudo.sum() / old.sum()
    new: FloatArray = numerator / denominator
    floored: FloatArray = np.maximum(new, SMALLEST_SHARE * new.max())
    return floored


def rows_of_words(opposite: IntArray) -> LabelArray:
    """(V + 1,) the row of factors of each word, by how many words it meets; 0 for an unknown word, at the end."""
    rows = np.zeros(len(opposite) + 1, np.int32)
    frequent = np.argsort(-opposite, kind="stable")[:FREQUENT]
    rows[frequent] = 1 + np.arange(len(frequent))
    return rows
