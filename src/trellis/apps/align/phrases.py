"""Phrase tables of aligned sentence pairs, as phrase-based translation uses them (Graça et al. 2010, sec. 5.1).

    φ(t | s) = c(s, t) / Σ_t' c(s, t')                    c: how often a phrase pair is extracted
    lex(t | s, a) = Π_j mean of w(t_j | s_i) over links (i, j) of a        w: the same of single words and their links

A target word without a link is translated from the word NULL. Counts are kept in a database on disk, so that memory
does not grow with the number of phrase pairs.

>>> with PhraseTable(max_length=2) as table:
...     table.add(["the", "house"], ["la", "maison"], [(0, 0), (1, 1)])
...     table.add(["the", "flower"], ["la", "fleur"], [(0, 0), (1, 1)])
...     for entry in table.entries():
...         print(entry.source, "|", entry.target, "|", entry.forward, entry.lexical_forward)
flower | fleur | 1.0 1.0
house | maison | 1.0 1.0
the | la | 1.0 1.0
the flower | la fleur | 1.0 1.0
the house | la maison | 1.0 1.0
"""

from __future__ import annotations

import sqlite3
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from math import inf, prod
from operator import itemgetter
from pathlib import Path
from typing import Self

import numpy as np

from trellis.apps.align.kernels.phrases import phrase_boxes
from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import DataError

CERTAIN = -60.0
"""log(1 − p) of a link that is given: small enough that no product of others makes up for it."""
HELD = 200_000
"""Distinct phrase pairs that are counted in memory before they are written to disk."""
NULL = "NULL"

Links = Iterable[tuple[int, int]] | Mapping[tuple[int, int], float]


@dataclass(frozen=True)
class PhraseBoxes:
    """Phrase pairs of one sentence pair.

    boxes : (n, 4) first and last source word, first and last target word, from 0;  weights : (n,) their probability
    orientations : (n, 2) 0 monotone, 1 swap, 2 other: towards the phrase before, and of the phrase after
    """

    boxes: IntArray
    weights: FloatArray
    orientations: IntArray


@dataclass(frozen=True)
class PhraseEntry:
    """A line of a phrase table.

    forward, backward : φ(target | source) and φ(source | target);  lexical_forward, lexical_backward : lexical weights
    links : the most frequent links inside;  n_source, n_target, n : how often either side and the pair occur
    orientations : (2, 3) counts of monotone, swap and other, before and after
    """

    source: str
    target: str
    forward: float
    backward: float
    lexical_forward: float
    lexical_backward: float
    links: tuple[tuple[int, int], ...]
    n_source: float
    n_target: float
    n: float
    orientations: tuple[tuple[float, float, float], tuple[float, float, float]]

    def moses(self) -> str:
        """The line as Moses' phrase tables have it, with the inverse probabilities first."""
        scores = f"{self.backward:.6g} {self.lexical_backward:.6g} {self.forward:.6g} {self.lexical_forward:.6g}"
        links = " ".join(f"{i}-{j}" for i, j in self.links)
        counts = f"{self.n_target:.6g} {self.n_source:.6g} {self.n:.6g}"
        return f"{self.source} ||| {self.target} ||| {scores} ||| {links} ||| {counts} ||| |||"

    def reordering(self, smoothing: float = 0.5) -> str:
        """The line of Moses' reordering table: three orientations before and three after, smoothed."""
        rows = ([(n + smoothing) / (sum(row) + 3 * smoothing) for n in row] for row in self.orientations)
        scores = " ".join(f"{p:.6g}" for row in rows for p in row)
        return f"{self.source} ||| {self.target} ||| {scores}"


def phrase_pairs(
    n_source: int, n_target: int, links: Links, *, max_length: int = 7, min_weight: float = 0.5
) -> PhraseBoxes:
    """Phrase pairs of one sentence pair of ``n_source`` and ``n_target`` words.

    links : places (i, j), or their probabilities;  max_length : words of a phrase;  min_weight : least weight of a pair
    """
    return _boxes(_log_free(n_source, n_target, links), max_length, min_weight)


def _log_free(n_source: int, n_target: int, links: Links) -> FloatArray:
    """log(1 − p) of every link, (I, J)."""
    grid = np.zeros((n_source, n_target))
    known = links if isinstance(links, Mapping) else dict.fromkeys(links, 1.0)
    for (i, j), p in known.items():
        if not (0 <= i < n_source and 0 <= j < n_target):
            raise DataError(f"there is a link {i}-{j}, but the sentences have {n_source} and {n_target} words")
        if not 0.0 <= p <= 1.0:
            raise DataError(f"the link {i}-{j} has the probability {p}, which is not between 0 and 1")
        grid[i, j] = max(CERTAIN, np.log1p(-p)) if p < 1.0 else CERTAIN
    return grid


def _boxes(log_free: FloatArray, max_length: int, min_weight: float) -> PhraseBoxes:
    room = 16 * sum(log_free.shape)
    while True:
        boxes, orientations = np.empty((room, 4), np.int64), np.empty((room, 2), np.int64)
        weights = np.empty(room)
        n = phrase_boxes(log_free, max_length, min_weight, boxes, weights, orientations)
        if n <= room:
            return PhraseBoxes(boxes[:n], weights[:n], orientations[:n])
        room = n


class PhraseTable:
    """Phrase pairs of many sentence pairs, counted on disk.

    max_length : words of a phrase;  min_weight : smallest weight of a phrase pair, below 1 for links with probabilities
    folder : where the temporary database lies; it needs about 200 bytes per distinct phrase pair
    """

    def __init__(self, *, max_length: int = 7, min_weight: float = 0.5, folder: str | Path | None = None) -> None:
        if max_length < 1:
            raise DataError(f"max_length must be at least 1 word but is {max_length}")
        if not 0.0 < min_weight <= 1.0:
            raise DataError(f"min_weight must be above 0 and at most 1 but is {min_weight}")
        self.max_length, self.min_weight = max_length, min_weight
        self._folder = tempfile.TemporaryDirectory(prefix="trellis-phrases-", dir=folder)
        self._database = sqlite3.connect(Path(self._folder.name, "phrases.db"), isolation_level=None)
        self._database.executescript(
            "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF; PRAGMA temp_store = FILE; PRAGMA cache_size = -65536;"
            "CREATE TABLE part (source, target, links, n, b0, b1, b2, a0, a1, a2)"
        )
        self._counts: dict[tuple[str, str, str], list[float]] = {}
        self.words: defaultdict[tuple[str, str], float] = defaultdict(float)
        """Expected links of each source and target word; NULL where a word has none."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *ending: object) -> None:
        self.close()

    def close(self) -> None:
        """Remove the database."""
        self._database.close()
        self._folder.cleanup()

    def add(self, source: Sequence[str], target: Sequence[str], links: Links) -> None:
        """Count the phrase pairs of a sentence pair."""
        log_free = _log_free(len(source), len(target), links)
        p = -np.expm1(log_free)
        self._count_words(source, target, p, log_free)
        found, inside = _boxes(log_free, self.max_length, self.min_weight), np.argwhere(p >= 0.5)
        rows = zip(found.boxes.tolist(), found.weights.tolist(), found.orientations.tolist(), strict=True)
        for (i1, i2, j1, j2), weight, (before, after) in rows:
            own = inside[(inside >= (i1, j1)).all(1) & (inside <= (i2, j2)).all(1)] - (i1, j1)
            text = " ".join([f"{i}-{j}" for i, j in own.tolist()])
            key = " ".join(source[i1 : i2 + 1]), " ".join(target[j1 : j2 + 1]), text
            counts = self._counts.setdefault(key, [0.0] * 7)
            for at in (0, 1 + before, 4 + after):
                counts[at] += weight
        if len(self._counts) >= HELD:
            self._flush()

    def _count_words(self, source: Sequence[str], target: Sequence[str], p: FloatArray, log_free: FloatArray) -> None:
        for i, j in np.argwhere(p).tolist():
            self.words[source[i], target[j]] += float(p[i, j])
        # A word is free with the probability that none of its links is there, so that a word without a link inside a
        # phrase has a lexical weight above 0.
        for word, free in zip(source, log_free.sum(axis=1).tolist(), strict=True):
            if free > CERTAIN:
                self.words[word, NULL] += float(np.exp(free))
        for word, free in zip(target, log_free.sum(axis=0).tolist(), strict=True):
            if free > CERTAIN:
                self.words[NULL, word] += float(np.exp(free))

    def _flush(self) -> None:
        rows = ((*key, *counts) for key, counts in self._counts.items())
        self._database.execute("BEGIN")
        self._database.executemany("INSERT INTO part VALUES (?,?,?,?,?,?,?,?,?,?)", rows)
        self._database.execute("COMMIT")
        self._counts.clear()

    def word_translations(self) -> Iterator[tuple[str, str, float, float]]:
        """(source, target, w(target | source), w(source | target)), sorted; NULL stands for no word."""
        of_source, of_target = self._totals()
        for (left, right), n in sorted(self.words.items()):
            yield left, right, n / of_source[left], n / of_target[right]

    def _totals(self) -> tuple[dict[str, float], dict[str, float]]:
        of_source: defaultdict[str, float] = defaultdict(float)
        of_target: defaultdict[str, float] = defaultdict(float)
        for (left, right), n in self.words.items():
            of_source[left] += n
            of_target[right] += n
        return of_source, of_target

    def entries(self) -> Iterator[PhraseEntry]:
        """All phrase pairs with their probabilities, sorted by source and target phrase."""
        self._flush()
        self._database.executescript(
            "DROP TABLE IF EXISTS of_source; DROP TABLE IF EXISTS of_target;"
            "CREATE TABLE of_source (phrase PRIMARY KEY, n) WITHOUT ROWID;"
            "CREATE TABLE of_target (phrase PRIMARY KEY, n) WITHOUT ROWID;"
            "INSERT INTO of_source SELECT source, SUM(n) FROM part GROUP BY source;"
            "INSERT INTO of_target SELECT target, SUM(n) FROM part GROUP BY target;"
        )
        rows = self._database.execute(
            "SELECT p.source, p.target, s.n, t.n, p.links, p.n, b0, b1, b2, a0, a1, a2 FROM ("
            "  SELECT source, target, links, SUM(n) AS n, SUM(b0) AS b0, SUM(b1) AS b1, SUM(b2) AS b2,"
            "  SUM(a0) AS a0, SUM(a1) AS a1, SUM(a2) AS a2 FROM part GROUP BY source, target, links"
            ") p JOIN of_source s ON s.phrase = p.source JOIN of_target t ON t.phrase = p.target"
            " ORDER BY p.source, p.target, p.links"
        )
        totals = self._totals()
        for (source, target, n_source, n_target), group in groupby(rows, key=itemgetter(0, 1, 2, 3)):
            variants = [row[4:] for row in group]
            n, *counts = (sum(column) for column in zip(*(row[1:] for row in variants), strict=True))
            links = _parsed(max(variants, key=itemgetter(1))[0])
            ahead, back = self._lexical(source.split(" "), target.split(" "), links, totals)
            yield PhraseEntry(
                source, target, n / n_source, n / n_target, ahead, back, links, n_source, n_target, n,
                ((counts[0], counts[1], counts[2]), (counts[3], counts[4], counts[5])),
            )  # fmt: skip

    def _lexical(
        self,
        source: Sequence[str],
        target: Sequence[str],
        links: Sequence[tuple[int, int]],
        totals: tuple[Mapping[str, float], Mapping[str, float]],
    ) -> tuple[float, float]:
        """Lexical weights of the target given the source, and of the source given the target."""
        ahead = [[source[i] for i, at in links if at == j] or [NULL] for j in range(len(target))]
        back = [[target[j] for at, j in links if at == i] or [NULL] for i in range(len(source))]
        of_source, of_target = totals
        return (
            prod(sum(self.words.get((s, t), 0.0) / of_source.get(s, inf) for s in own) / len(own)
                 for t, own in zip(target, ahead, strict=True)),
            prod(sum(self.words.get((s, t), 0.0) / of_target.get(t, inf) for t in own) / len(own)
                 for s, own in zip(source, back, strict=True)),
        )  # fmt: skip


def _parsed(links: str) -> tuple[tuple[int, int], ...]:
    return tuple((int(i), int(j)) for i, _, j in (one.partition("-") for one in links.split()))
