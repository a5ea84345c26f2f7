"""Words of two sentences: which of them may be mapped to each other, why, and the features of that.

A pair of words may be mapped where there is something between them: they are the same, one is the other with another
ending, they are spelled similarly, both are numbers, or WordNet relates them; or, with a similarity of the user's,
where that is above 0. All other words can only be deleted, which keeps programs of two sentences small.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import linear_sum_assignment

from trellis.data.ragged import BoolArray
from trellis.data.tokens import tokenise
from trellis.models.matching.similarity import WordSimilarity
from trellis.models.matching.wordnet import WordNet
from trellis.structures import GraphPair

NEGATIONS = frozenset(("not", "no", "never", "nobody", "nothing", "neither", "nor", "none", "without", "cannot"))
COMMON = 0.02
"""Words in more than this share of the sentences, and in more than ``FEW`` of them, are function words."""
FEW = 10
SIMILAR = 0.74
"""1 − edit distance / length from which on two words count as spelled similarly."""
LIKENESS = {"same": 1.0, "ending": 0.8, "spelling": 0.7, "synonym": 0.7, "derived": 0.6, "kind of": 0.5,
            "contrary": 0.4, "beginning": 0.4, "numbers": 0.2}  # fmt: skip
"""How like two words are, for a first guess of alignments."""
FAR = 0.5
"""Function words whose places differ by more than this share of their sentences are not mapped."""

DELETIONS = ("all", "words", "none")
"""What may be deleted, with features of its own: words and edges, words, or nothing that can be mapped."""

Named = list[tuple[str, float]]
"""Names and values of features."""
Candidate = tuple[int, int, str, float]
"""Places of two words that may be mapped, how they are related, and how like they are."""


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
    """How two words in lower case are related: a name from ``LIKENESS``, or None.

    similarity : in place of all relations but "same"; then words are "similar" where it is above 0
    """

    def __init__(self, wordnet: WordNet | None, similarity: WordSimilarity | None = None) -> None:
        self.wordnet, self.similarity = wordnet, similarity
        self._known: dict[tuple[str, str], str | None] = {}
        self._keys_of: dict[str, tuple[object, ...]] = {}

    def candidates(self, one: Sequence[str], other: Sequence[str]) -> list[Candidate]:
        """Pairs of places whose words are related, and how; only words that share a key are compared."""
        if self.similarity is not None:
            return self._similar(one, other, self.similarity)
        places: dict[object, list[int]] = {}
        for j, word in enumerate(other):
            for key in self._keys(word):
                places.setdefault(key, []).append(j)
        found = []
        for i, word in enumerate(one):
            for j in sorted({j for key in self._keys(word) for j in places.get(key, ())}):
                relation = self.between(word, other[j])
                if relation is not None:
                    found.append((i, j, relation, LIKENESS[relation]))
        return found

    @staticmethod
    def _similar(one: Sequence[str], other: Sequence[str], similarity: WordSimilarity) -> list[Candidate]:
        values = [
            (i, j, a == b, 1.0 if a == b else similarity(a, b)) for i, a in enumerate(one) for j, b in enumerate(other)
        ]
        return [(i, j, "same" if same else "similar", value) for i, j, same, value in values if value > 0.0]

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
        if short >= 4 and 1.0 - edit_distance(one, other) / long >= SIMILAR:
            return "spelling"
        meaning = None if self.wordnet is None else self.wordnet.relation(one, other)
        return meaning or ("beginning" if shared >= 4 else None)

    def _keys(self, word: str) -> tuple[object, ...]:
        if word not in self._keys_of:
            keys: list[object] = [word, "0" if any(c.isdigit() for c in word) else word[:3], word[1:4]]
            if self.wordnet is not None:
                keys += [synset for synsets in self.wordnet.means(word).values() for synset in synsets]
            self._keys_of[word] = tuple(dict.fromkeys(keys))
        return self._keys_of[word]


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


class PairDescription:
    """Two sentences with the features of all parts of their alignments.

    deletions : as :data:`DELETIONS`
    """

    def __init__(
        self,
        pair: tuple[SentenceGraph, SentenceGraph],
        common: Commonness,
        own: frozenset[str],
        mapped: list[Candidate],
        deletions: str = "all",
    ) -> None:
        self.pair, self.own, self.deletions = pair, own, deletions
        self.kinds = [[common.kind(side, at) for at in range(len(side.words))] for side in pair]
        self.rarity = [[common.rarity(word) for word in side.lower] for side in pair]
        n, m = (len(side.words) for side in pair)
        near = [
            (i, j, abs(i / n - j / m), relation, likeness)
            for i, j, relation, likeness in mapped
            if self.kinds[0][i] != "function" or abs(i / n - j / m) <= FAR
        ]
        self.shared = self._shared([(i, j) for i, j, _, relation, _ in near if relation == "same"])
        self.mapped = [
            one for one in near if one[3] == "same" or not (one[0] in self.shared[0] or one[1] in self.shared[1])
        ]
        edges = [np.array(side.all_edges(), np.int64).reshape(-1, 2) for side in pair]
        self.graph = GraphPair.of((n, m), edges, [(i, j) for i, j, *_ in self.mapped])

    def _shared(self, same: list[tuple[int, int]]) -> tuple[set[int], set[int]]:
        """Places, in either sentence, of words that stand as often or more often in the other: each has a copy there.

        Words with a copy that is too far away to be mapped are left out.
        """
        copies = [Counter(side.lower) for side in self.pair]
        found: tuple[set[int], set[int]] = set(), set()
        near = Counter(self.pair[0].lower[i] for i, _ in same)
        for places in same:
            word = self.pair[0].lower[places[0]]
            often = [counted[word] for counted in copies]
            if near[word] == often[0] * often[1]:
                for side in (0, 1):
                    if often[side] <= often[1 - side]:
                        found[side].add(places[side])
        return found

    def closed(self) -> BoolArray:
        """(n_parts,): the deletion of words that have a copy in the other sentence or, without deletions, of as many
        words as can be mapped together."""
        closed = np.zeros(sum(self.graph.sizes), np.bool_)
        for side, places in enumerate(self._most() if self.deletions == "none" else self.shared):
            closed[len(self.mapped) + side * self.graph.words[0] + np.array(sorted(places), np.int64)] = True
        return closed

    def _most(self) -> tuple[set[int], set[int]]:
        """Places, in either sentence, that an alignment of most words maps: those with a copy, then the likest."""
        value = np.zeros(self.graph.words)
        for i, j, _, _, likeness in self.mapped:
            copies = (i in self.shared[0]) + (j in self.shared[1])
            value[i, j] = likeness + 2.0 * len(value) * (copies + 3.0 * len(value))
        rows, columns = linear_sum_assignment(value, maximize=True)
        used = value[rows, columns] > 0.0
        return set(rows[used].tolist()), set(columns[used].tolist())

    def features(self) -> Iterator[Named]:
        """Of every part, in their order."""
        for i, j, apart, relation, likeness in self.mapped:
            yield self._pair(i, j, apart, relation, likeness)
        for side in (0, 1):
            for at in range(len(self.pair[side].words)):
                yield [] if self.deletions == "none" else self._deleted(side, at)
        for edges, ends in zip(self.graph.edge_pairs.tolist(), self.graph.ends.tolist(), strict=True):
            yield self._edges(edges, ends)
        for side in (0, 1):
            relations = self._relations_of(side)
            for edge, relation in zip(self.graph.edges[side].tolist(), relations, strict=True):
                yield self._deleted_edge(side, edge, relation) if self.deletions == "all" else []

    def _pair(self, i: int, j: int, apart: float, relation: str, likeness: float) -> Named:
        one, two = self.pair
        kind, rare = self.kinds[0][i], (self.rarity[0][i] + self.rarity[1][j]) / 2.0
        named = [
            ("likeness", likeness * (0.3 + rare) - 0.05 * apart),
            (f"pair {relation}", 1.0),
            (f"pair {relation} {kind}", 1.0),
            (f"pair rarity {relation}", rare),
            ("pair apart", apart),
            (f"pair apart {kind}", apart),
        ]
        if relation != "same":
            named.append((f"pair {relation} {kind}-{self.kinds[1][j]}", 1.0))
            if relation == "similar":
                named.append(("pair similarity", likeness))
            named.append(("pair bigrams", bigram_likeness(one.lower[i], two.lower[j])))
        if one.lower[i] in self.own:
            named.append((f"pair word {one.lower[i]}", 1.0))
        if one.tags and two.tags:
            named.append((f"pair tags {one.tags[i]}-{two.tags[j]}", 1.0))
        return named

    def _deleted(self, side: int, at: int) -> Named:
        sentence, kind, rare = self.pair[side], self.kinds[side][at], self.rarity[side][at]
        named = [
            (f"deleted {kind}", 1.0),
            (f"deleted {side} {kind}", 1.0),
            (f"deleted {side} rarity", rare),
            (f"deleted rarity {kind}", rare),
        ]
        if sentence.lower[at] in self.own:
            named.append((f"deleted word {sentence.lower[at]}", 1.0))
        if at == 0:
            named.append((f"deleted {side} first", 1.0))
        if at == len(sentence.words) - 1:
            named.append((f"deleted {side} last", 1.0))
        if sentence.tags:
            named.append((f"deleted {side} tag {sentence.tags[at]}", 1.0))
        return named

    def _edges(self, edges: Sequence[int], ends: Sequence[int]) -> Named:
        head, child = (self.mapped[end] for end in ends)
        named = [
            ("edges", 1.0),
            ("edges " + " ".join(sorted((head[3], child[3]))), 1.0),
            (f"edges {self.kinds[0][head[0]]} {self.kinds[0][child[0]]}", 1.0),
        ]
        one, two = (self._relations_of(side) for side in (0, 1))
        if self.pair[0].is_tree and self.pair[1].is_tree:
            a, b = one[edges[0]], two[edges[1]]
            named.append((f"edges relation {a if a == b else 'another'}", 1.0))
        return named

    def _deleted_edge(self, side: int, edge: Sequence[int], relation: str) -> Named:
        head, child = (self.kinds[side][at] for at in edge)
        named = [(f"deleted edge {side}", 1.0), (f"deleted edge {head} {child}", 1.0)]
        if self.pair[side].is_tree:
            named.append((f"deleted edge relation {relation}", 1.0))
        return named

    def _relations_of(self, side: int) -> list[str]:
        """Relations of the graph's edges, which are sorted."""
        sentence = self.pair[side]
        if not sentence.is_tree:
            return [""] * len(self.graph.edges[side])
        known = dict(zip(sentence.edges, sentence.relations, strict=True))
        return [known[edge] for edge in map(tuple, self.graph.edges[side].tolist())]
