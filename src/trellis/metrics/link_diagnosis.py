"""Diagnosis of an alignment error rate: curves, rare words, entropy (Graça et al. 2010, sec. 3.3 and 4).

one-to-one   share of links whose two words have no other link
entropy      −Σ_t w(t | s) log₂ w(t | s),   w(t | s) = expected links of s and t / expected links of s
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trellis.metrics.alignment import AlignmentScores, CurvePoint, GoldLinks, Link, precision_recall_curve, score_links

RARE = 5
"""A word that occurs this often or less is rare."""
RECALLS = (0.5, 0.6, 0.7, 0.8, 0.9)

Words = Sequence[str]


@dataclass(frozen=True)
class WordGroup:
    """Scores of the links of some source words, and the mean entropy of their translations in bits."""

    n_words: int
    scores: AlignmentScores
    entropy: float


def one_to_one(links: Iterable[Iterable[Link]]) -> float:
    """Share of links whose two words have no other link; 1 if there is none.

    >>> one_to_one([[(0, 0), (1, 1), (1, 2)]])
    0.3333
    """
    n = alone = 0
    for row in map(list, links):
        rows, columns = Counter(i for i, _ in row), Counter(j for _, j in row)
        n += len(row)
        alone += sum(rows[i] == columns[j] == 1 for i, j in row)
    return alone / n if n else 1.0


def curve_of(probabilities: Sequence[Mapping[Link, float]], gold: Sequence[GoldLinks]) -> list[CurvePoint]:
    """Scores at every hundredth of the probability, from the smallest that was written."""
    least = min((p for row in probabilities for p in row.values()), default=1.0)
    thresholds = sorted({least, *(k / 100 for k in range(math.ceil(100 * least), 101))})
    return precision_recall_curve(probabilities, gold, thresholds)


def precision_at(curve: Sequence[CurvePoint], recalls: Iterable[float] = RECALLS) -> dict[float, float | None]:
    """Best precision with at least each recall; None if the links never reach it."""
    return {
        recall: max((point.scores.precision for point in curve if point.scores.recall >= recall), default=None)
        for recall in recalls
    }


def by_frequency(
    source: Sequence[Words],
    target: Sequence[Words],
    links: Sequence[Mapping[Link, float]],
    gold: Sequence[GoldLinks],
    rare: int = RARE,
) -> dict[str, WordGroup]:
    """Scores and entropy of rare and of common source words.

    source, target, links : the whole text;  gold : links of its first pairs
    rare : number of occurrences in the text up to which a word is rare
    """
    occurs = Counter(word for words in source for word in words)
    entropies = translation_entropies(source, target, links)
    found: dict[str, WordGroup] = {}
    for name, is_rare in (("rare", True), ("common", False)):
        chosen = {word for word, n in occurs.items() if (n <= rare) == is_rare}
        places = [{i for i, word in enumerate(words) if word in chosen} for words in source[: len(gold)]]
        scores = score_links(
            ([link for link in row if link[0] in own] for row, own in zip(links, places, strict=False)),
            [_within(row, own) for row, own in zip(gold, places, strict=True)],
        )
        own = [entropies[word] for word in chosen if word in entropies]
        found[name] = WordGroup(len(chosen), scores, sum(own) / len(own) if own else 0.0)
    return found


def _within(gold: GoldLinks, places: set[int]) -> GoldLinks:
    return GoldLinks(*(frozenset(link for link in some if link[0] in places) for some in (gold.sure, gold.possible)))


def translation_entropies(
    source: Sequence[Words], target: Sequence[Words], links: Sequence[Mapping[Link, float]]
) -> dict[str, float]:
    """Entropy in bits of w(t | s) for each linked source word.

    >>> translation_entropies([["a"], ["a"]], [["x"], ["y"]], [{(0, 0): 1.0}, {(0, 0): 1.0}])
    {'a': 1.0}
    """
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for left, right, row in zip(source, target, links, strict=True):
        for (i, j), p in row.items():
            counts[left[i]][right[j]] += p  # type: ignore[assignment]
    return {word: _entropy(list(own.values())) for word, own in counts.items()}


def _entropy(counts: Sequence[float]) -> float:
    total = sum(counts)
    return -sum(n / total * math.log2(n / total) for n in counts if n > 0.0) + 0.0
