"""Projected heads that are kept in predicted trees, and the η that they speak for (Ganchev et al. 2010, footnote 10).

Parsers are learned at each η from half of the sentence pairs; k_i(η) of the n_i words of pair i of the other half that
are given heads keep one. Most are kept at η*. Taken is the loosest η that is not worse by more than a standard error
of the difference,

    D(η) = Σ_i d_i / Σ_i n_i ≤ √(Σ_i (d_i − D(η) n_i)²) / Σ_i n_i,    d_i = k_i(η*) − k_i(η),

since η is to be no tighter than the text asks for: the one-standard-error rule of Breiman et al. 1984 over pairs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from trellis.apps.parse.projected_arcs import SentencePair, projected
from trellis.data.ragged import IntArray

ETAS = (0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""What is tried."""


def conserved(pairs: Sequence[SentencePair], trees: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Of each pair: words with given heads that keep one in its tree, and words with given heads."""
    kept, words = np.zeros((2, len(pairs)), dtype=np.int64)
    for i, (pair, heads) in enumerate(zip(pairs, trees, strict=True)):
        given = set(projected(pair))
        children = {c for _, c in given}
        words[i] = len(children)
        kept[i] = sum((heads[c - 1], c) in given for c in children)
    return kept, words


def loosest(kept: Mapping[float, IntArray], words: IntArray) -> float:
    """The η that is taken, of the words kept in each pair at every η that was tried."""
    best = max(kept.values(), key=np.sum)

    def is_no_worse(own: IntArray) -> bool:
        fewer = best - own
        share = fewer.sum() / max(words.sum(), 1)
        return bool(fewer.sum() <= np.sqrt(np.sum((fewer - share * words) ** 2)))

    return min(eta for eta, own in kept.items() if is_no_worse(own))
