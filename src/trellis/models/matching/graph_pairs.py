"""GraphPairs: two sentences, aligned by their words and by the edges between them (Chang 2011, sec. 5.3, table 5.2).

    score(x, h) = Σ_{words and edges mapped or deleted in h} w · φ(word pair, deleted word, edge pair or deleted edge)

    word pair       how the words are related, and of what kind they are; how rare; how far apart their places;
                    the word itself where it is common; parts of speech where they are known
    deleted word    its kind, its side, how rare it is; the word itself where it is common
    edge pair       how the words at both ends are related, their kinds; whether relations agree where there are any
    deleted edge    the kinds at its ends, its side; its relation
    the pair        all of these once more, summed over the alignment of a first guess

The last are the same for every alignment h. What speaks against a match is learned there: were it on parts of h alone,
the best alignment would go around it (words of a phrase that both share would be deleted, only to break its edges).
With ``one_sided`` the parts of h keep to what they mean: what is mapped may not speak against a match, nor what is
deleted or far apart for one. The best alignment is then a good one, whatever it is that tells a match.
The thesis has none of them (``keep_guess=False``). Its first guess goes by the likeness of words alone
(``first_guess="words"``); a better one can be learned and take its place (:meth:`GraphPairs.take_as_guess`).

Edges are those of a dependency tree where one is given, and otherwise lead from each word to the next. A word of which
the other sentence has as many copies or more is mapped to one of them, and to nothing else: no alignment says that it
is gone here and new there, nor that it has become another word which is there as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.checks import check_list, check_sample_weight, sides_of
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.models.matching.pair_model import Pair, PairBatch, PairModel
from trellis.models.matching.similarity import WordSimilarity
from trellis.models.matching.word_pairs import (
    DELETIONS,
    LIKENESS,
    Commonness,
    Named,
    PairDescription,
    Relations,
    SentenceGraph,
)
from trellis.models.matching.wordnet import WordNet, find_wordnet
from trellis.models.saving import missing_function
from trellis.models.state import SavedVocabulary, vocabulary_from_json, vocabulary_to_json
from trellis.structures import GraphMatch, GraphMatchParts, GraphPair
from trellis.structures.flat import chosen

MOST = 400
"""Longer texts are no sentences: their programs would take minutes."""
N_COMMON = 150
"""So many of the commonest words have features of their own."""
WORDNETS = ("auto", "none")
GUESSED = {"likeness": 1.0, "edges": 0.1}
"""Features that a first guess of alignments goes by, and their weights there."""
GUESSES = ("edges", "words")
OF_GUESS = "guessed "
"""Before the names of features of the first guess."""

AGAINST = ("deleted", "pair apart")
"""How the names of features begin that a good alignment has little of."""


@dataclass(frozen=True)
class GraphPairBatch(PairBatch):
    """graphs : what may be mapped in each pair;  sides : (n, 2) words
    features : sparse (n_parts, n_weights); those of a pair as a whole stand at its first word, mapped or deleted
    closed : (n_parts,) bools, parts that no alignment may use.
    """

    graphs: tuple[GraphPair, ...] = ()
    features: Any = None
    sides: IntArray = None  # type: ignore[assignment]
    closed: BoolArray = None  # type: ignore[assignment]

    def _taken(self, numbers: IntArray) -> dict[str, Any]:
        rows = chosen(self.offsets, numbers)
        graphs = tuple(self.graphs[i] for i in numbers.tolist())
        return {
            "graphs": graphs, "features": self.features[rows], "sides": self.sides[numbers], "closed": self.closed[rows]
        }  # fmt: skip

    def words(self, side: int) -> Batch:
        return Batch.from_sentences([pair[side].split(" ") for pair in self.pairs])


class _GraphPairsHeader(TypedDict):
    """What a file keeps beside the arrays."""

    features: SavedVocabulary
    count: dict[str, int]
    sentences: int
    wordnet: bool


class GraphPairs(PairModel):
    """Linear model of the alignments of two sentences.

    min_count : features of fewer parts than this in training are left out
    wordnet : "auto": use WordNet's files where they are installed; "none"; or the folder they are in
    first_guess : how alignments are guessed at first: "words": by the likeness of words alone; "edges": rare ones
        first, at like places and with their edges, by weights that were set by hand
    keep_guess : whether the features of the first guess's alignment are there beside those of the best one
    one_sided : whether weights of mapped words and edges are held at 0 or above, of deletions and distances at 0 or
        below; those of the guess are free
    deletions : what has features where it is deleted (Chang 2011, table 5.4): "all": words and edges; "words"; "none":
        neither, and words that can be mapped together are
    similarity : of two words in lower case, from 0 to 1, a function or a table {word: {word: value}}: words that are
        not the same are mapped by it alone (:mod:`trellis.models.matching.similarity`)

    Learned: ``weights_`` and ``feature_names_``, in the same order; ``guess_``, the guess's weights of parts.

    >>> model = GraphPairs(min_count=1, wordnet="none")
    >>> batch = model.encode([("Ann sold the old house", "The house was sold by Ann")], fit=True)
    >>> model.guess(batch)
    >>> [(one.left, one.right) for one in model.decode(batch, model.scores(batch).argmax().outputs)[0]]
    [('Ann', 'Ann'), ('sold', 'sold'), ('the', 'The'), ('old', ''), ('house', 'house'), ('', 'was'), ('', 'by')]
    """

    not_saved = (*PairModel.not_saved, "wordnet")
    learned_names = _GraphPairsHeader
    ARRAYS: ClassVar = {**PairModel.ARRAYS, "guess": ArrayOf(np.float64, ("features",))}
    feature_names_: Vocabulary
    guess_: FloatArray
    _relations: Relations | None

    def __init__(
        self,
        *,
        min_count: int = 5,
        wordnet: str = "auto",
        first_guess: str = "words",
        keep_guess: bool = True,
        one_sided: bool = False,
        deletions: str = "all",
        similarity: Callable[[str, str], float] | Mapping[str, Mapping[str, float]] | None = None,
    ) -> None:
        self.min_count = min_count
        self.wordnet = wordnet
        self.first_guess = first_guess
        self.keep_guess = keep_guess
        self.one_sided = one_sided
        self.deletions = deletions
        self.similarity = similarity

    # text in

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> GraphPairBatch:
        """X : pairs of texts or of :class:`SentenceGraph`, or a batch of them, which is itself;  weights : (n,).

        y : alignments as numbers (i, j) of words that are mapped, from 0; None where one is not given
        """
        if isinstance(X, GraphPairBatch):
            same = X if weights is None else replace(X, weights=check_sample_weight(weights, len(X)))
            return self._with_given(same, y)
        pairs = [_sentences(i, pair) for i, pair in enumerate(check_list(X, "pairs of sentences"))]
        if fit:
            self._check_settings()
            self._open_wordnet()
            self._common = Commonness.of(sentence for pair in pairs for sentence in pair)
        elif self._relations is None:  # it came from a file that was written where there was WordNet
            self._open_wordnet(needed=True)
        assert self._relations is not None
        own = frozenset(self._common.most_common(N_COMMON))
        graphs, named, closed = [], list[Named](), list[BoolArray]()
        for pair in pairs:
            mapped = self._relations.candidates(pair[0].lower, pair[1].lower)
            described = PairDescription(pair, self._common, own, mapped, self.deletions)
            graphs.append(described.graph)
            named.extend(described.features())
            closed.append(described.closed())
        if fit:
            self._name(named)
        sides = np.array([graph.words for graph in graphs], np.int64).reshape(-1, 2)
        texts = [(" ".join(one.words), " ".join(two.words)) for one, two in pairs]
        batch = GraphPairBatch(
            texts, offsets_of(sum(graph.sizes) for graph in graphs),
            check_sample_weight(weights, len(pairs)), graphs=tuple(graphs), features=self._matrix(named), sides=sides,
            closed=np.concatenate([np.zeros(0, np.bool_), *closed]),
        )  # fmt: skip
        return self._with_given(self._with_guess(batch), y)

    def _output(self, batch: GraphPairBatch, number: int, alignment: Any) -> IntArray:
        to = np.full(int(batch.sides[number, 0]), -1, np.int64)
        allowed = set(map(tuple, batch.graphs[number].pairs.tolist()))
        for one in map(tuple, alignment):
            if one not in allowed or to[one[0]] >= 0 or one[1] in to:
                raise DataError(
                    f"pair {number}: the words of the link {one!r:.40} given cannot be mapped to each other: links are "
                    "(i, j), numbers of words from 0, a word has one link, and something must relate the two words"
                )
            to[one[0]] = one[1]
        return to

    def _with_guess(self, batch: GraphPairBatch) -> GraphPairBatch:
        """The batch with the features of the guess's alignment, in place of those that it has."""
        if not self.keep_guess:
            return batch
        own = batch.features[:, : len(self.guess_)]
        return replace(batch, features=sparse.hstack([own, self._of_guess(replace(batch, features=own))], format="csr"))

    def _check_settings(self) -> None:
        self._check_whole(min_count=1)
        self._check_names(first_guess=GUESSES, deletions=DELETIONS)

    def _name(self, named: Sequence[Named]) -> None:
        counts: dict[str, int] = dict.fromkeys(GUESSED, self.min_count)
        for part in named:
            for name, _ in part:
                counts[name] = counts.get(name, 0) + 1
        self._name_all([f for f, n in counts.items() if n >= self.min_count])

    def _name_all(self, of_parts: list[str]) -> None:
        of_guess = [OF_GUESS + name for name in of_parts] if self.keep_guess else []
        self.feature_names_ = Vocabulary([*of_parts, *of_guess], kind="feature")
        by_words = {f"pair {relation}": likeness for relation, likeness in LIKENESS.items()}
        by_words["pair similarity"] = 1.0
        weight = GUESSED if self.first_guess == "edges" else by_words
        self.guess_ = np.array([weight.get(name, 0.0) for name in of_parts])
        self._begin()

    @property
    def _of_parts(self) -> list[str]:
        """Names of the features of parts; those of the first guess follow, where they are kept."""
        names = list(self.feature_names_)
        return names[: len(names) // 2] if self.keep_guess else names

    def _of_guess(self, batch: GraphPairBatch) -> Any:
        """(n_parts, n): features of the guess's alignment, on all parts of the first word.

        Every alignment maps or deletes that word, so every one has them, once.
        """
        parts = self.parts(batch)
        value = np.where(batch.closed, -np.inf, batch.features @ self.guess_)
        guessed = self.phi(batch, GraphMatch(parts, value).argmax().outputs)
        f, first = parts.flat, offsets_of(batch.sides[:, 0])[:-1]
        holders = np.concatenate((f.one[first], f.pair[np.isin(f.words[:, 0], first)]))
        at = (np.ones(len(holders)), (holders, parts.instance_of(holders)))
        return sparse.csr_matrix(at, shape=(parts.n_parts, len(batch))) @ guessed

    def _matrix(self, named: Sequence[Named]) -> Any:
        number = {name: i for i, name in enumerate(self._of_parts)}
        found = [(number[name], value) for part in named for name, value in part if name in number]
        start = offsets_of(sum(name in number for name, _ in part) for part in named)
        columns = np.array([column for column, _ in found], np.int64)
        values = np.array([value for _, value in found], np.float64)
        return sparse.csr_matrix((values, columns, start), shape=(len(named), len(number)))

    def _open_wordnet(self, *, needed: bool = False) -> None:
        if self.similarity is not None:
            missing = missing_function(self.similarity)
            if missing is not None:
                raise DataError(
                    f"this model was trained with the similarity of words {missing}, which its file cannot hold: load "
                    "it with similarity=... and that function"
                )
            self._relations = Relations(None, WordSimilarity(self.similarity))
            return
        if self.wordnet == "none" and not needed:
            self._relations = Relations(None)
            return
        folder = find_wordnet() if self.wordnet in WORDNETS else self.wordnet
        if folder is None and needed:
            raise DataError(
                "this model was trained with WordNet, which is not installed here: install it, or say where its files "
                "are (wordnet=FOLDER, or WNSEARCHDIR in the environment)"
            )
        self._relations = Relations(None if folder is None else WordNet(folder))

    # a scorer

    def parts(self, batch: GraphPairBatch) -> GraphMatchParts:
        return GraphMatchParts(batch.graphs)

    def scores(self, batch: GraphPairBatch) -> GraphMatch:
        """Scores of all parts of the pairs' alignments."""
        value = np.where(batch.closed, -np.inf, batch.features @ self.weights_)
        return GraphMatch(self.parts(batch), value, first=batch.first)

    def part_features(self, batch: GraphPairBatch, used: IntArray) -> Any:
        return batch.features[used]

    def _worth(self, batch: GraphPairBatch, used: IntArray) -> FloatArray:
        n = len(self._of_parts)
        return np.asarray(batch.features[used][:, :n] @ self.weights_[:n])

    def weight_bounds(self) -> tuple[FloatArray, FloatArray] | None:
        """The least and the largest value of each weight, where they are one-sided."""
        if not self.one_sided:
            return None
        low, high = np.full(self._n_weights(), -np.inf), np.full(self._n_weights(), np.inf)
        against = np.array([name.startswith(AGAINST) for name in self._of_parts], np.bool_)
        low[: len(against)][~against] = 0.0
        high[: len(against)][against] = 0.0
        return low, high

    def sizes(self, batch: GraphPairBatch) -> FloatArray:
        """κ(x): the square root of the number of words."""
        return np.asarray(np.sqrt(batch.sides.sum(axis=1)))

    def _shown(self, batch: GraphPairBatch, outputs: Any) -> tuple[list[list[Pair]], list[IntArray]]:
        """Words of the first sentence and their partners; then deleted ones of the second."""
        made, parts = [], []
        for (one, two), graph, to, first in zip(
            batch.pairs, batch.graphs, outputs, batch.offsets.tolist(), strict=False
        ):
            source, target, partner = one.split(" "), two.split(" "), to.tolist()
            number = {pair: k for k, pair in enumerate(map(tuple, graph.pairs.tolist()))}
            left = [j for j in range(len(target)) if j not in set(partner)]
            mapped = [(word, target[j] if j >= 0 else "") for word, j in zip(source, partner, strict=True)]
            made.append(mapped + [("", target[j]) for j in left])
            own = [number.get((i, j), len(number) + i) for i, j in enumerate(partner)]
            parts.append(first + np.array(own + [len(number) + len(source) + j for j in left], np.int64))
        return made, parts

    def guess(self, batch: GraphPairBatch) -> None:
        """Weights of a first guess of alignments."""
        self.weights_ = np.append(self.guess_, np.zeros(self._n_weights() - len(self.guess_)))

    def take_as_guess(self, weights: FloatArray, batch: GraphPairBatch) -> GraphPairBatch:
        """Guess by these weights (n_weights,) of parts from now on; the batch with the features of that guess."""
        self.guess_ = weights[: len(self.guess_)].copy()
        return self._with_guess(batch)

    # one file

    def _n_weights(self) -> int:
        return len(self.feature_names_)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        names = {
            "features": vocabulary_to_json(Vocabulary(self._of_parts, kind="feature")),
            "count": self._common.count,
            "sentences": self._common.total,
            "wordnet": self._relations is None or self._relations.wordnet is not None,
        }
        return names, {"weights": self.weights_, "guess": self.guess_}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self._common = Commonness(dict(names["count"]), names["sentences"])
        if not all(1 <= n <= self._common.total for n in self._common.count.values()):
            raise DataError("a word stands in no sentence, or in more than there are")
        self._name_all(list(vocabulary_from_json(names["features"])))
        sizes = {"weights": len(self.feature_names_), "features": len(self.guess_)}
        self.guess_ = check_arrays(self.ARRAYS, arrays, **sizes)["guess"]
        self.set_parameters({"weights": arrays["weights"]})
        self._relations = None if names["wordnet"] or self.similarity is not None else Relations(None)


def _sentences(number: int, pair: Any) -> tuple[SentenceGraph, SentenceGraph]:
    sides, made = sides_of(pair), []
    if len(sides) != 2:
        raise DataError(f"pair {number}: expected two sentences, got {pair!r:.80}")
    for side in sides:
        if not isinstance(side, str | SentenceGraph):
            raise DataError(f"pair {number}: expected two sentences, got {pair!r:.80}")
        sentence = SentenceGraph.of(side) if isinstance(side, str) else side
        if not 0 < len(sentence.words) <= MOST:
            what = "has no words" if not sentence.words else f"has {len(sentence.words)} words; they have up to {MOST}"
            raise DataError(f"pair {number}: a sentence {what}")
        made.append(sentence)
    return made[0], made[1]
