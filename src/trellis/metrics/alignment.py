"""Measures of word alignments against gold links, sure (S) and possible (P ⊇ S)   (Och & Ney 2003).

    precision = |A ∩ P| / |A|,   recall = |A ∩ S| / |S|,   F = harmonic mean of the two
    AER = 1 − (|A ∩ S| + |A ∩ P|) / (|A| + |S|)

Counts are summed over sentences first. A gold line has ``i-j`` for sure and ``i?j`` for possible links, i on the
source side, counted from 0.

Diagnosis (Graça et al. 2010, sec. 3.3 and 4) adds curves, rare words, and

    one-to-one   share of links whose two words have no other link
    entropy      −Σ_t w(t | s) log₂ w(t | s),   w(t | s) = expected links of s and t / expected links of s
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from trellis.data.files import FilePath, numbered_lines, shown
from trellis.errors import DataError

Link = tuple[int, int]

_LINK = re.compile(r"(\d{1,18})([-?])(\d{1,18})(?::([0-9.eE+-]+))?")


@dataclass(frozen=True)
class GoldLinks:
    """sure and possible links of one pair; possible ones include the sure ones."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True)
class AlignmentScores:
    """precision, recall, f and aer as shares of 1; n_links predicted and n_sure gold links behind them."""

    precision: float
    recall: float
    f: float
    aer: float
    n_links: int
    n_sure: int


@dataclass(frozen=True)
class CurvePoint:
    """Scores of the links whose probability is at least ``threshold``."""

    threshold: float
    scores: AlignmentScores


def parse_links(line: str, *, path: str | None = None, number: int | None = None) -> GoldLinks:
    """Links of one line; ``i-j:0.93`` is taken with its score left out.

    >>> gold = parse_links("0-0 1?2")
    >>> sorted(gold.sure), sorted(gold.possible)
    ([(0, 0)], [(0, 0), (1, 2)])
    """
    sure, possible = set(), set()
    for token in line.split():
        match = _LINK.fullmatch(token)
        if match is None:
            wrong = f"{token[:40]!r} is not a link; expected i-j (sure), i?j (possible)"
            raise DataError(wrong, path=path, line=number)
        link = int(match[1]), int(match[3])
        possible.add(link)
        if match[2] == "-":
            sure.add(link)
    return GoldLinks(frozenset(sure), frozenset(possible))


def parse_probabilities(line: str, *, path: str | None = None, number: int | None = None) -> dict[Link, float | None]:
    """Links of one line with their probabilities, None for those written without.

    >>> parse_probabilities("0-0:0.93 1-2")
    {(0, 0): 0.93, (1, 2): None}
    """
    found: dict[Link, float | None] = {}
    for token in line.split():
        match = _LINK.fullmatch(token)
        try:
            p = None if match is None or match[4] is None else float(match[4])
        except ValueError:
            match = None
        if match is None or not 0.0 <= (p or 0.0) <= 1.0:
            raise DataError(f"{token[:40]!r} is not a link; expected i-j or i-j:probability", path=path, line=number)
        found[int(match[1]), int(match[3])] = p
    return found


def read_links(path: FilePath) -> list[GoldLinks]:
    """The links of every line of a file."""
    return [parse_links(line, path=shown(path), number=number) for number, line in numbered_lines(path)]


def read_probabilities(path: FilePath) -> list[dict[Link, float | None]]:
    """The links of every line of a file with their probabilities, None for those written without."""
    return [parse_probabilities(line, path=shown(path), number=number) for number, line in numbered_lines(path)]


def score_links(predicted: Iterable[Iterable[Link]], gold: Sequence[GoldLinks]) -> AlignmentScores:
    """Scores of predicted links, sentence by sentence against gold.

    >>> gold = [parse_links("0-0 1-1 1?2")]
    >>> scores = score_links([{(0, 0), (1, 2), (5, 5)}], gold)
    >>> scores.precision, scores.recall, scores.aer
    (0.6667, 0.5, 0.4)
    """
    n_links = n_sure = in_sure = in_possible = n = 0
    for n, links in enumerate(predicted, 1):
        if n > len(gold):
            raise DataError(f"there are more than the {len(gold)} sentences that gold has")
        found = frozenset(links)
        n_links += len(found)
        n_sure += len(gold[n - 1].sure)
        in_sure += len(found & gold[n - 1].sure)
        in_possible += len(found & gold[n - 1].possible)
    if n != len(gold):
        raise DataError(f"there are {n} sentences but gold has {len(gold)}")
    precision = in_possible / n_links if n_links else 1.0
    recall = in_sure / n_sure if n_sure else 1.0
    f = 2 * precision * recall / (precision + recall) if precision + recall > 0 else 0.0
    aer = 1.0 - (in_sure + in_possible) / (n_links + n_sure) if n_links + n_sure else 0.0
    return AlignmentScores(precision, recall, f, aer, n_links, n_sure)


def precision_recall_curve(
    probabilities: Sequence[Mapping[Link, float]], gold: Sequence[GoldLinks], thresholds: Iterable[float]
) -> list[CurvePoint]:
    """Scores at each threshold of link probabilities (those missing count as 0)."""
    return [
        CurvePoint(at, score_links(({link for link, p in row.items() if p >= at} for row in probabilities), gold))
        for at in thresholds
    ]


NEIGHBOURS = 2
"""Thresholds on either side over which AER is averaged."""


def best_threshold(curve: Sequence[CurvePoint]) -> float:
    """The threshold with the least AER, averaged over neighbouring thresholds; of equal ones, the middle.

    A small gold set gives a ragged curve whose lowest point is chance; the average of a few points is not.
    """
    if not curve:
        raise DataError("a curve without points has no best threshold")
    points = sorted(curve, key=lambda point: point.threshold)
    smooth = []
    for n in range(len(points)):
        near = points[max(0, n - NEIGHBOURS) : n + NEIGHBOURS + 1]
        smooth.append(sum(point.scores.aer for point in near) / len(near))
    tied = [point.threshold for point, aer in zip(points, smooth, strict=True) if aer <= min(smooth) + 1e-12]
    return tied[len(tied) // 2]


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
