"""Measures of induced states against gold tags, from the counts of each state with each tag.

With the joint distribution P(s, g) of a token's state and tag, all entropies in bits:

    many-to-one    Σ_s max_g P(s, g)                                       every state takes its commonest tag
    one-to-one     Σ over pairs taken greedily, largest P first, no state and no tag twice  (Haghighi & Klein 2006)
    mutual information         I = H(S) + H(G) − H(S, G)
    variation of information   VI = H(S | G) + H(G | S)                                      (Meilă 2007)
    V-measure      harmonic mean of homogeneity I / H(G) and completeness I / H(S)    (Rosenberg & Hirschberg 2007)
    l1/linf        mean over words seen more than ten times of Σ_k max_t q(y_t = k)  (Graça et al. 2009, sec. 5)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import DataError

FREQUENT = 11
"""Words are looked at from so many occurrences on: more than ten."""


@dataclass(frozen=True)
class Contingency:
    """How often each state stands beside each tag.

    counts : (n_states, n_tags);  states, tags : their names, in order of first appearance
    """

    counts: IntArray
    states: tuple[Hashable, ...]
    tags: tuple[Hashable, ...]


@dataclass(frozen=True)
class InductionScores:
    """Shares of 1, and bits.

    state_sizes, tag_sizes : tokens of each, largest first (Graça et al. 2009, Figure 2 c)
    """

    many_to_one: float
    one_to_one: float
    mutual_information: float
    variation_of_information: float
    homogeneity: float
    completeness: float
    v_measure: float
    n_tokens: int
    state_sizes: IntArray
    tag_sizes: IntArray


def contingency(states: Iterable[Hashable], tags: Iterable[Hashable]) -> Contingency:
    """Count pairs of a token's state and its gold tag.

    >>> contingency([0, 0, 1], ["N", "V", "V"]).counts.tolist()
    [[1, 1], [0, 1]]
    """
    state_of: dict[Hashable, int] = {}
    tag_of: dict[Hashable, int] = {}
    rows = np.array([state_of.setdefault(s, len(state_of)) for s in states], np.int64)
    columns = np.array([tag_of.setdefault(g, len(tag_of)) for g in tags], np.int64)
    if len(rows) != len(columns):
        raise DataError(f"there are {len(rows)} induced states but {len(columns)} gold tags")
    if not len(rows):
        raise DataError("there are no tokens to compare")
    flat = np.bincount(rows * len(tag_of) + columns, minlength=len(state_of) * len(tag_of))
    return Contingency(flat.reshape(len(state_of), len(tag_of)), tuple(state_of), tuple(tag_of))


def ambiguous_accuracy(
    words: Iterable[str], tags: Iterable[str], found: Iterable[str], dictionary: Mapping[str, Sequence[str]]
) -> tuple[float, int]:
    """Share of the tokens with several possible tags that have the right one, and the number of these tokens.

    Possible are the tags of the dictionary; a word without an entry may have any.

    >>> ambiguous_accuracy(
    ...     ["the", "walk", "walk"], ["D", "N", "V"], ["D", "N", "N"], {"the": ["D"], "walk": ["N", "V"]}
    ... )
    (0.5, 2)
    """
    triples = zip(words, tags, found, strict=True)
    right = [tag == own for word, tag, own in triples if len(dictionary.get(word, ("", ""))) > 1]
    return (float(np.mean(right)), len(right)) if right else (1.0, 0)


def score_induction(states: Iterable[Hashable], tags: Iterable[Hashable]) -> InductionScores:
    """All measures of induced states beside gold tags, token by token.

    >>> scores = score_induction([0, 0, 1, 1], ["N", "N", "V", "V"])
    >>> scores.many_to_one, scores.one_to_one, scores.mutual_information, scores.v_measure
    (1.0, 1.0, 1.0, 1.0)
    """
    counts = contingency(states, tags).counts
    total = int(counts.sum())
    joint = _entropy(counts.reshape(-1))
    of_states, of_tags = _entropy(counts.sum(axis=1)), _entropy(counts.sum(axis=0))
    information = max(0.0, of_states + of_tags - joint)
    homogeneity = information / of_tags if of_tags > 0 else 1.0
    completeness = information / of_states if of_states > 0 else 1.0
    both = homogeneity + completeness
    return InductionScores(
        many_to_one=float(counts.max(axis=1).sum()) / total,
        one_to_one=greedy_one_to_one(counts) / total,
        mutual_information=information,
        variation_of_information=max(0.0, of_states + of_tags - 2 * information),
        homogeneity=homogeneity,
        completeness=completeness,
        v_measure=2 * homogeneity * completeness / both if both > 0 else 0.0,
        n_tokens=total,
        state_sizes=np.sort(counts.sum(axis=1))[::-1],
        tag_sizes=np.sort(counts.sum(axis=0))[::-1],
    )


def greedy_one_to_one(counts: IntArray) -> int:
    """Tokens right when states take tags greedily, the largest count first, none twice.

    >>> greedy_one_to_one(np.array([[5, 4], [4, 0]]))
    5
    """
    order = np.argsort(counts, axis=None, kind="stable")[::-1]
    free_state, free_tag = np.ones(counts.shape[0], bool), np.ones(counts.shape[1], bool)
    right = 0
    for s, g in zip(*np.unravel_index(order, counts.shape), strict=True):
        if free_state[s] and free_tag[g]:
            free_state[s] = free_tag[g] = False
            right += int(counts[s, g])
    return right


def add_maxima(words: NDArray[Any], posterior: FloatArray, largest: FloatArray) -> None:
    """largest[w] = max(largest[w], posterior rows of w): for posteriors that come shard by shard.

    words : (n_slots,) codes;  posterior : (n_slots, K) marginals, or one-hot rows of a hard tagging
    """
    order = np.argsort(words, kind="stable")
    sorted_words = words[order]
    first = np.flatnonzero(np.diff(sorted_words, prepend=-1))
    if len(first):
        found = np.maximum.reduceat(posterior[order], first, axis=0)
        at = sorted_words[first]
        largest[at] = np.maximum(largest[at], found)


def mean_labels(words: NDArray[Any], largest: FloatArray, *, at_least: int = FREQUENT) -> float:
    """The l1/linf statistic, how many labels a frequent word is given: the mean over words seen ``at_least`` times of
    Σ_k largest[w, k]."""
    seen = np.bincount(words, minlength=len(largest))
    frequent = seen >= at_least
    if not np.any(frequent):
        raise DataError(f"no word occurs {at_least} times, so there is no l1/linf statistic")
    return float(largest[frequent].sum(axis=1).mean())


def labels_a_word_of_tagging(
    sentences: Sequence[Sequence[str]], labels: Sequence[Sequence[str]], *, at_least: int = FREQUENT
) -> float | None:
    """The statistic of a hard tagging: distinct labels of a frequent word; None if no word is frequent."""
    seen: dict[str, int] = {}
    given: dict[str, set[str]] = {}
    for words, states in zip(sentences, labels, strict=True):
        for word, state in zip(words, states, strict=True):
            seen[word] = seen.get(word, 0) + 1
            given.setdefault(word, set()).add(state)
    counts = [len(given[word]) for word, n in seen.items() if n >= at_least]
    return float(np.mean(counts)) if counts else None


def _entropy(counts: NDArray[Any]) -> float:
    """In bits, of the distribution that counts are proportional to."""
    p = counts[counts > 0] / counts.sum()
    return max(0.0, float(-(p * np.log2(p)).sum()))
