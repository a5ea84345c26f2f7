"""Words as random effects: what the mean log-odds of a word tell, beside those of words that are known.

Log-odds l of the occurrences of one kind of word vary about μ from word to word by τ, and by σ within a word:

    told(m, n) = log t(min(m, μ₁); μ₁, τ₁² + σ₁²/n) − log t(max(m, μ₀); μ₀, τ₀² + σ₀²/n)

of a word with mean m over n occurrences, found words (1) against others (0); more like an entity than entities usually
are is not less like one. t is Student's density with ν degrees of freedom: of one odd word a normal one would tell more
than all else does.

A word on which functions vote was chosen by somebody: with a share ε such words keep the company of the others and are
right nevertheless, which bounds what speaks against them,

    doubted = log ( (1 − ε) exp told + ε )

And what is doubted of all words that a function votes on tells how often it is right: the share π that explains them
best, by EM (the prior of a class in new data, Saerens et al. 2002),

    r = π exp doubted / (π exp doubted + 1 − π)        π = (Σ r + κ p) / (n + κ)

where κ occurrences stand for p, what was thought before; none, where how many entities are missed is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from trellis.data.ragged import FloatArray, IntArray

UNLIKE = 0.2
"""ε: right words on which one function votes alone are like the others a fifth as often as wrong ones are."""
THOUGHT = 20.0
"""κ"""
ROUNDS = 200
FIRST_SHARE = 0.01
"""Where EM for the share of entities among words begins."""
TAIL = 5.0
"""ν"""
LEAST_SPREAD = 0.01
"""Least τ²: all words alike are as much an accident of few words as they are a fact."""


@dataclass(frozen=True)
class Spread:
    """μ, τ² between words and σ² within a word, of log-odds."""

    mean: float
    between: float
    within: float

    @classmethod
    def of(cls, odds: FloatArray, word: IntArray) -> Self:
        """odds : (n,) of occurrences;  word : (n,) which word each is of"""
        _, of, n = np.unique(word, return_inverse=True, return_counts=True)
        mean = np.bincount(of, odds) / n
        within = float(((odds - mean[of]) ** 2).sum() / max(len(odds) - len(n), 1))
        middle = float(mean.mean())
        return cls(middle, max(float(((mean - middle) ** 2 - within / n).mean()), LEAST_SPREAD), within)

    def log_density(self, mean: FloatArray, n: FloatArray) -> FloatArray:
        """Of means over n occurrences, up to a constant."""
        variance = self.between + self.within / n
        far = np.log1p((mean - self.mean) ** 2 / (TAIL * variance))
        found: FloatArray = -0.5 * (TAIL + 1.0) * far - 0.5 * np.log(variance)
        return found


def spreads_of(odds: FloatArray, word: IntArray, kinds: IntArray, n_kinds: int) -> list[Spread]:
    """Of each type, and of the others, the last; a type without words is as all are; none where all are one thing.

    kinds : (n,) types, −1: not looked at
    """
    found, others = (kinds >= 0) & (kinds < n_kinds), kinds == n_kinds
    if not found.any() or not others.any():
        return []
    masks = [kinds == kind if np.any(kinds == kind) else found for kind in range(n_kinds)]
    return [Spread.of(odds[mask], word[mask]) for mask in (*masks, others)]


def told(mean: FloatArray, n: FloatArray, found: Spread, others: Spread) -> FloatArray:
    """Log-odds that a word is one of those that are found, from the mean of its log-odds over n occurrences.

    >>> told(np.array([-3.0, -1.0, 1.0, 9.0]), np.full(4, 5.0), Spread(1, 0.5, 1), Spread(-3, 0.5, 1)).round(1).tolist()
    [-5.2, 0.0, 5.2, 11.2]
    """
    if found.mean <= others.mean:  # the view tells nothing
        return np.zeros(len(mean))
    return found.log_density(np.minimum(mean, found.mean), n) - others.log_density(np.maximum(mean, others.mean), n)


def doubted(told: FloatArray) -> FloatArray:
    """The same of a word that functions vote on: of such words a share ``UNLIKE`` keeps the company of the others.

    >>> doubted(np.array([-9.0, 0.0, 9.0])).round(1).tolist()
    [-1.6, 0.0, 8.8]
    """
    found: FloatArray = np.logaddexp(np.log1p(-UNLIKE) + told, np.log(UNLIKE))
    return found


def share_right(doubted: FloatArray, thought: float, stands_for: float = THOUGHT) -> float:
    """π: how many of the occurrences of which this is told are right; before, it was thought to be so many.

    stands_for : κ, the occurrences that what was thought counts as

    >>> round(share_right(np.array([3.0] * 700 + [-1.6] * 300), 0.9), 2), round(share_right(np.zeros(9), 0.9), 2)
    (0.86, 0.9)
    """
    ratio, share = np.exp(np.clip(doubted, -50.0, 50.0)), thought
    for _ in range(ROUNDS):
        right = (share * ratio / (share * ratio + 1.0 - share)).sum()
        share = float((right + stands_for * thought) / (len(ratio) + stands_for))
    return share


def share_of(told: FloatArray) -> float:
    """π: how many of the words of which this is told are entities, of which nothing was thought before.

    >>> round(share_of(np.array([4.0] * 200 + [-4.0] * 800)), 2), round(share_of(np.full(9, -1.0)), 2)
    (0.19, 0.0)
    """
    return share_right(told, FIRST_SHARE, stands_for=0.0)
