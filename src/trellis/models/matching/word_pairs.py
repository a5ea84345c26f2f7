"""Words of two sentences: which of them may be mapped to each other, and why.

A pair of words may be mapped where there is something between them: they are the same, one is the other with another
ending, they are spelled alike, both are numbers, or WordNet relates them. All other words can only be deleted, which
keeps programs of two sentences small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from trellis.data.tokens import tokenise
from trellis.models.matching.wordnet import WordNet

NEGATIONS = frozenset(("not", "no", "never", "nobody", "nothing", "neither", "nor", "none", "without", "cannot"))
COMMON = 0.02
"""Words in more than this share of the sentences, and in more than ``FEW`` of them, are function words."""
FEW = 10
ALIKE = 0.74
"""1 − edit distance / length from which on two words are spelled alike."""
LIKENESS = {"same": 1.0, "ending": 0.8, "spelling": 0.7, "synonym": 0.7, "derived": 0.6, "kind of": 0.5,
            "contrary": 0.4, "beginning": 0.4, "numbers": 0.2}  # fmt: skip
"""How like two words are, for a first guess of alignments."""


@dataclass(frozen=True)
class SentenceGraph:
    """Words of a sentence, without punctuation, and edges between them.

    words : as they are written;  tags : parts of speech, or nothing
    edges : (head, child) numbers of words, or nothing: each word and the next;  relations : of each edge, or nothing
    """

    words: tuple[str, ...]
    tags: tuple[str, ...] = ()
    edges: tuple[tuple[int, int], ...] = ()
    relations: tuple[str, ...] = ()
    lower: tuple[str, ...] = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "lower", tuple(word.lower() for word in self.words))

    @property
    def is_tree(self) -> bool:
        """Whether edges were given."""
        return bool(self.relations)

    def all_edges(self) -> tuple[tuple[int, int], ...]:
        """The edges given or, if none are, of each word to the next."""
        return self.edges if self.is_tree else tuple((i, i + 1) for i in range(len(self.words) - 1))

    @classmethod
    def of(cls, text: str) -> SentenceGraph:
        """The words of a text; "n't" and "'s" at their end are cut off."""
        return cls(tuple(word for token in tokenise(text).tokens for word in split_word(token)))


def split_word(token: str) -> list[str]:
    """The words of a token: none of punctuation.

    >>> split_word("couldn't"), split_word("Ann’s"), split_word("?")
    (['could', 'not'], ['Ann'], [])
    """
    word = token.replace("’", "'")
    low = word.lower()
    if low.endswith("n't") and len(word) > 3:
        return ["can" if low == "can't" else word[:-3], "not"]
    word = word[:-2] if low.endswith("'s") else word.rstrip("'")
    return [word] if any(c.isalnum() for c in word) else []


class Commonness:
    """How common words are in the sentences that were learned from.

    count : word in lower case -> in how many of ``total`` sentences it stands
    """

    def __init__(self, count: dict[str, int], total: int) -> None:
        self.count, self.total = count, total

    @classmethod
    def of(cls, sentences: Iterable[SentenceGraph]) -> Commonness:
        """Counted in sentences; words met once are as rare as those never met."""
        counted, total = Counter[str](), 0
        for sentence in sentences:
            counted.update(set(sentence.lower))
            total += 1
        return cls({word: n for word, n in sorted(counted.items()) if n > 1}, total)

    def rarity(self, word: str) -> float:
        """log(sentences / sentences with the word), in tenths."""
        return math.log(max(self.total, 1) / self.count.get(word, 1)) / 10.0

    def kind(self, sentence: SentenceGraph, at: int) -> str:
        """number, negation, function word, name or other word."""
        word, low = sentence.words[at], sentence.lower[at]
        if any(c.isdigit() for c in word):
            return "number"
        if low in NEGATIONS:
            return "negation"
        if self.count.get(low, 0) > max(COMMON * self.total, FEW):
            return "function"
        written = word[0].isupper() and at > 0
        return "name" if written or any(c.isupper() for c in word[1:]) else "word"

    def most_common(self, n: int) -> list[str]:
        return sorted(self.count, key=lambda word: (-self.count[word], word))[:n]


class Relations:
    """How two words in lower case are related: a name from ``LIKENESS``, or None."""

    def __init__(self, wordnet: WordNet | None) -> None:
        self.wordnet = wordnet
        self._known: dict[tuple[str, str], str | None] = {}
        self._keys = lru_cache(maxsize=1 << 16)(self._make_keys)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_keys"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._keys = lru_cache(maxsize=1 << 16)(self._make_keys)

    def candidates(self, one: Sequence[str], other: Sequence[str]) -> list[tuple[int, int, str]]:
        """Pairs of places whose words are related, and how; only words that share a key are compared."""
        places: dict[object, list[int]] = {}
        for j, word in enumerate(other):
            for key in self._keys(word):
                places.setdefault(key, []).append(j)
        found = []
        for i, word in enumerate(one):
            for j in sorted({j for key in self._keys(word) for j in places.get(key, ())}):
                relation = self.between(word, other[j])
                if relation is not None:
                    found.append((i, j, relation))
        return found

    def between(self, one: str, other: str) -> str | None:
        if one == other:
            return "same"
        pair = (one, other) if one < other else (other, one)
        if pair not in self._known:
            self._known[pair] = self._find(*pair)
        return self._known[pair]

    def _find(self, one: str, other: str) -> str | None:
        digits = [any(c.isdigit() for c in word) for word in (one, other)]
        if any(digits):
            return "numbers" if all(digits) else None
        short, long = sorted((len(one), len(other)))
        shared = next((k for k in range(short) if one[k] != other[k]), short)
        if (shared >= 4 and shared >= 0.6 * long) or (shared >= 3 and shared == short and long - short <= 3):
            return "ending"
        if short >= 4 and 1.0 - edit_distance(one, other) / long >= ALIKE:
            return "spelling"
        meaning = None if self.wordnet is None else self.wordnet.relation(one, other)
        return meaning or ("beginning" if shared >= 4 else None)

    def _make_keys(self, word: str) -> tuple[object, ...]:
        keys: list[object] = [word, "0" if any(c.isdigit() for c in word) else word[:3], word[1:4]]
        if self.wordnet is not None:
            keys += [synset for synsets in self.wordnet.means(word).values() for synset in synsets]
        return tuple(dict.fromkeys(keys))


def edit_distance(one: str, other: str) -> int:
    """Letters to insert, delete or replace.

    >>> edit_distance("kitten", "sitting")
    3
    """
    row = list(range(len(other) + 1))
    for i, x in enumerate(one, start=1):
        before, row[0] = row[0], i
        for j, y in enumerate(other, start=1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (x != y))
    return row[-1]


def bigram_likeness(one: str, other: str) -> float:
    """Dice coefficient of the character bigrams of two words, ends included."""
    a, b = ({f"^{w}$"[k : k + 2] for k in range(len(w) + 1)} for w in (one, other))
    return 2.0 * len(a & b) / (len(a) + len(b))
