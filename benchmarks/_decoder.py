"""A small phrase-based decoder: stacks of hypotheses, a trigram model, limited reordering (Koehn et al. 2003).

    score = Σ_k w_k log of the four phrase scores + w_lm log p(target) + w_d · jump + w_n · words

Hypotheses that cover as many words are compared with an estimate of what the rest costs.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import nlargest
from typing import NamedTuple

WEIGHTS = {"phrase": 0.2, "lm": 0.5, "jump": -0.3, "words": 1.0}
"""Weights before tuning, as Moses has them."""
OPTIONS, STACK, JUMP, LONGEST = 10, 30, 4, 5
UNKNOWN = -10.0


class Trigrams:
    """p(w | u, v), interpolated with bigrams and unigrams by Witten and Bell's estimate."""

    def __init__(self, sentences: Iterable[Sequence[str]]) -> None:
        self.counts, self.contexts = Counter(), Counter()
        kinds = defaultdict(set)
        for words in sentences:
            row = ("<s>", "<s>", *words, "</s>")
            for k in range(2, len(row)):
                for n in range(3):
                    context = row[k - n : k]
                    self.counts[*context, row[k]] += 1
                    self.contexts[context] += 1
                    kinds[context].add(row[k])
        self.kinds = {context: len(own) for context, own in kinds.items()}
        self.known: dict[tuple[str, str, str], float] = {}

    def log(self, u: str, v: str, w: str) -> float:
        key = (u, v, w)
        if key not in self.known:
            p = 1.0 / (2 * self.kinds[()])
            for context in ((), (v,), (u, v)):
                n, kinds = self.contexts.get(context, 0), self.kinds.get(context, 0)
                if n:
                    p = (self.counts.get((*context, w), 0) + kinds * p) / (n + kinds)
            self.known[key] = math.log(p)
        return self.known[key]

    def sentence(self, words: Sequence[str], state: tuple[str, str]) -> tuple[float, tuple[str, str]]:
        total, (u, v) = 0.0, state
        for w in words:
            total += self.log(u, v, w)
            u, v = v, w
        return total, (u, v)


@dataclass(frozen=True)
class Option:
    """A translation of a source span: its words and its score apart from the language model."""

    words: tuple[str, ...]
    score: float


class Hypothesis(NamedTuple):
    total: float
    score: float
    covered: int
    last: int
    state: tuple[str, str]
    words: tuple[str, ...]


def read_table(path, sources: set[str]) -> dict[str, list[tuple[tuple[str, ...], float]]]:
    """Of each source phrase that is needed, its best translations and the sum of their log scores."""
    found: defaultdict[str, list] = defaultdict(list)
    with open(path, encoding="utf-8") as lines:
        for line in lines:
            source, target, scores, *_ = line.split(" ||| ")
            if source in sources:
                p = sum(math.log(max(float(one), 1e-9)) for one in scores.split())
                found[source].append((tuple(target.split(" ")), p))
    return {source: nlargest(2 * OPTIONS, rows, key=lambda row: row[1]) for source, rows in found.items()}


def spans_of(sentences: Iterable[Sequence[str]]) -> set[str]:
    return {
        " ".join(words[i:j]) for words in sentences for i in range(len(words)) for j in range(i + 1, i + LONGEST + 1)
    }


def translate(words: Sequence[str], table, lm: Trigrams, weights=WEIGHTS) -> tuple[str, ...]:
    """The best translation that the search finds."""
    n = len(words)
    options = _options(words, table, lm, weights)
    rest = _rest(n, options, lm, weights)
    stacks: list[dict] = [{} for _ in range(n + 1)]
    start = Hypothesis(0.0, 0.0, 0, -1, ("<s>", "<s>"), ())
    stacks[0][None] = start
    for stack in stacks[:-1]:
        for own in nlargest(STACK, stack.values()):
            first = next(i for i in range(n) if not own.covered >> i & 1)
            for i in range(first, min(n, first + JUMP + 1)):
                jump = abs(i - own.last - 1)
                for j in range(i + 1, min(n, i + LONGEST) + 1):
                    mask = ((1 << (j - i)) - 1) << i
                    if own.covered & mask:
                        break
                    for option in options.get((i, j), ()):
                        spoken, state = lm.sentence(option.words, own.state)
                        score = own.score + option.score + weights["lm"] * spoken + weights["jump"] * jump
                        covered = own.covered | mask
                        if covered == (1 << n) - 1:
                            score += weights["lm"] * lm.log(*state, "</s>")
                        made = Hypothesis(
                            score + rest[covered, n], score, covered, j - 1, state, own.words + option.words
                        )
                        beside = stacks[covered.bit_count()]
                        key = covered, j, state
                        if key not in beside or beside[key] < made:
                            beside[key] = made
    return max(stacks[n].values()).words


def _options(words, table, lm, weights):
    found = {}
    for i in range(len(words)):
        for j in range(i + 1, min(len(words), i + LONGEST) + 1):
            rows = table.get(" ".join(words[i:j]), ())
            own = [Option(target, weights["phrase"] * p + weights["words"] * len(target)) for target, p in rows]
            if not own and j == i + 1:
                own = [Option((words[i],), UNKNOWN)]
            if own:
                found[i, j] = nlargest(OPTIONS, own, key=lambda o: o.score + weights["lm"] * _alone(o.words, lm))
    return found


def _alone(words, lm):
    return lm.sentence(words, ("", ""))[0]


class _Rest(dict):
    """Estimated score of the words that are not covered, by what is covered."""

    def __init__(self, best) -> None:
        super().__init__()
        self.best = best

    def __missing__(self, key):
        covered, n = key
        total, i = 0.0, 0
        while i < n:
            if covered >> i & 1:
                i += 1
                continue
            j = i
            while j < n and not covered >> j & 1:
                j += 1
            total += self.best[i][j]
            i = j
        self[key] = total
        return total


def _rest(n, options, lm, weights):
    best = [[-math.inf] * (n + 1) for _ in range(n + 1)]
    for (i, j), own in options.items():
        best[i][j] = max(option.score + weights["lm"] * _alone(option.words, lm) for option in own)
    for length in range(2, n + 1):
        for i in range(n - length + 1):
            j = i + length
            best[i][j] = max([best[i][j], *(best[i][k] + best[k][j] for k in range(i + 1, j))])
    return _Rest(best)
