"""Matcher: whether two texts match, decided by their best alignment (Chang 2011, chapter 5).

    f(x) = max_h w · Φ(x, h) / κ(x) + bias,       yes if f(x) ≥ 0                                        (eq. 5.1)

kind         structure                                             features
"names"      characters side by side, none crossing                :mod:`trellis.models.matching.string_pairs`
"sentences"  words and edges of two graphs, mapped or deleted      :mod:`trellis.models.matching.graph_pairs`

Learned are the weights, by LCLR (:mod:`trellis.learn.margin.lclr`), from yes/no answers alone; the alignment comes with
the answer and says why.

What tells a good alignment need not be what tells a match: of sentences with as many words in common, those with whole
phrases in common match less often. So alignments of sentences are learned from another question first, whose answers
cost nothing: pairs that were given, whether they match or not, against random pairs of their sentences (Chang 2011,
sec. 6.1). That alignment is the guess that is kept while the answers are learned (``keep_guess``).
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.apps.parse.parser import Parser
from trellis.apps.parse.tagger import Tagger
from trellis.constraints import read_rules
from trellis.data.document import Document
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.tokens import tokenise
from trellis.errors import DataError
from trellis.learn.margin.indirect import both_signs, signs
from trellis.learn.margin.lclr import LCLR, METHODS
from trellis.learn.margin.negatives import random_pairs
from trellis.learn.margin.scorer import sizes_of
from trellis.metrics.ranking import RankingScores, score_ranking
from trellis.models.documentation import documented
from trellis.models.estimator import generator
from trellis.models.inference import Inference
from trellis.models.matching import GraphPairs, StringPairs, string_pairs
from trellis.models.matching.pair_model import Pair, check_pairs
from trellis.models.matching.similarity import read_similarity
from trellis.models.matching.word_pairs import DELETIONS, SentenceGraph, split_word
from trellis.models.saving import SavedEstimator
from trellis.models.state import Member

KINDS = ("names", "sentences")
DEFAULTS = {"names": (10.0, 1e-3, 0.05), "sentences": (0.1, 1e-4, 0.002)}
"""C, ``tol`` and ``inner_tol``, chosen on training data: docs/matching.md."""
TWICE = 0.5
"""Of C, for two stages of sentences with the first guess's features: each stands twice, which doubles C."""
ALIGNED = 1000
"""Pairs of sentences, at most, from which their alignment is learned,"""
UNRELATED = 2
"""against so many random pairs for each of them,"""
ALIGNING: dict[str, Any] = {"C": 0.1, "max_iter": 6, "tol": 1e-3, "inner_tol": 0.01}
"""by LCLR with these settings."""
PAIRS_AT_ONCE = 20_000
"""Pairs that are scored together when candidates are ranked."""


@dataclass(frozen=True)
class Match:
    """The answer for a pair: whether it matches, how clearly, and the alignment that says why.

    score : f(x), from 0 on a match
    alignment : what stands side by side, "" where it stands beside nothing
    worth : what each of these adds to the score (edges, the first guess's alignment and the bias add the rest)
    """

    is_match: bool
    score: float
    alignment: list[Pair]
    worth: list[float]

    def record(self, left: str, right: str) -> dict[str, Any]:
        """The JSON object of the answer for this pair."""
        return {
            "left": left, "right": right, "match": self.is_match, "score": round(self.score, 6),
            "alignment": self.alignment, "worth": [round(worth, 6) for worth in self.worth],
        }  # fmt: skip


def longest_of(kind: str) -> int:
    """Characters of a text at most."""
    return string_pairs.MOST if kind == "names" else 10_000


@documented
@dataclass(eq=False, repr=False)
class Matcher(SavedEstimator):
    """Decide whether two texts match, learned from binary labels with latent alignments.

    Parameters
    ----------
    kind : {"names", "sentences"}, default="names"
        Kind of model to train. One of "names" (also for other short strings) or "sentences".
    method : {"joint", "approximate", "two-stage"}, default="joint"
        How to learn. One of "joint", "approximate" or "two-stage". See :class:`LCLR`.
    C : float or None, default=None
        Cost of errors in training. Default: 10 for names, 0.1 for sentences (two-stage: 0.05).
    negatives : int, default=25
        Random negative pairs per name, if the pairs have no labels.
    max_segment : int, default=1
        Maximum number of characters aligned as a unit.
    wordnet : str, default="auto"
        Folder of WordNet's files, "auto" or "none".
    first_guess : {"words", "edges"}, default="words"
        Heuristic for the initial alignments of sentences.
    keep_guess : bool, default=True
        Add the features of the initial alignment to those of the best one, for sentences.
    one_sided : bool or None, default=None
        Constrain the signs of weights for sentences: aligned parts support a match, deleted ones do not. By default, on
        if alignments are learned and ``keep_guess`` is set.
    deletions : {"all", "words", "none"}, default="all"
        Parts of sentences that have features where they are not aligned: words and edges ("all"), words, or neither
        ("none"; then as many words are aligned as possible).
    similarity : callable, dict, path or None, default=None
        Similarity of two words in lower case, from 0 to 1, for sentences: a function, a table {word: {word: value}} or
        a file with lines ``word TAB word TAB value``. Different words are aligned only if it is above 0. By default,
        words are related by their spelling and WordNet.
    parser : object, default=None
        Parser whose arcs are the edges of sentences. By default, edges connect neighbouring words.
    tagger : object, default=None
        Tagger of the words.
    tol : float or None, default=None
        Training stops when the objective decreases by less than this fraction. Default: 0.001 for names, 0.0001 for
        sentences.
    inner_tol : float or None, default=None
        Relative duality gap of each round. Default: 0.05 for names, 0.002 for sentences.
    rules : path or list of Constraint, default=()
        Constraints on alignments, in training and prediction: a rules file, or constraints such as
        ``links(source=each) <= 1``.
    random_state : int or None, default=0
        Seed of random pairs.

    Attributes
    ----------
    learner_ : LCLR
        The trained learner.
    history_ : History
        One entry per round.

    Examples
    --------
    >>> pairs = [
    ...     ("dana", "דנה"),
    ...     ("nadia", "נדיה"),
    ...     ("dina", "דינה"),
    ...     ("anna", "אנה"),
    ...     ("nina", "נינה"),
    ...     ("ada", "עדה"),
    ... ]
    >>> matcher = Matcher("names", negatives=3).fit(pairs)
    >>> [match.is_match for match in matcher.match([("nadin", "נדין"), ("adina", "נינה")])]
    [True, False]
    >>> matcher.match([("adina", "עדינה")])[0].alignment
    [('a', 'ע'), ('d', 'ד'), ('i', 'י'), ('n', 'נ'), ('a', 'ה')]
    """

    kind: str = "names"
    _: KW_ONLY
    method: str = "joint"
    C: float | None = None
    negatives: int = 25
    max_segment: int = 1
    wordnet: str = "auto"
    first_guess: str = "words"
    keep_guess: bool = True
    one_sided: bool | None = None
    deletions: str = "all"
    similarity: Any = None
    parser: Any = None
    tagger: Any = None
    max_iter: int = 10
    tol: float | None = None
    inner_tol: float | None = None
    rules: Any = ()
    random_state: int | None = 0
    n_jobs: int | None = None
    verbose: bool = False

    not_saved = (*SavedEstimator.not_saved, "parser", "tagger", "wordnet", "rules", "similarity")
    saved: ClassVar = {
        "learner": Member("learner_", LCLR, "learner_"),
        "parser": Member("parser", Parser, "parser_", optional=True),
        "tagger": Member("tagger", Tagger, "tagger_", optional=True),
    }

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def fit(self, X: Iterable[Pair], y: Any = None) -> Self:
        """Learn from pairs of texts and labels: 1 if they match, −1 if not. Without labels, all pairs match.

        Numbers between −1 and 1 have less weight.
        """
        self._check_types()
        self._check_settings()
        pairs = check_pairs(X)
        if y is None:
            if self.kind != "names":
                raise DataError(
                    "pairs of sentences need answers: random pairs that do not match are added for names only"
                )
            made = self._unrelated(pairs, self.negatives, self.random_state)
            pairs, answers = [*pairs, *made], np.repeat([1, -1], [len(pairs), len(made)])
        else:
            answers = both_signs(y, len(pairs))
        model: Any = StringPairs(longest=self.max_segment)
        if self.kind == "sentences":
            one_sided = self._aligns if self.one_sided is None else self.one_sided
            model = GraphPairs(
                wordnet=self.wordnet, first_guess=self.first_guess, keep_guess=self.keep_guess, one_sided=one_sided,
                deletions=self.deletions, similarity=_similarity(self.similarity),
            )  # fmt: skip
        rules = list(read_rules(self.rules)) if isinstance(self.rules, str | os.PathLike) else self.rules
        batch = self._guessed(model, pairs, answers, rules)
        C, tol, inner_tol = (
            usual if given is None else given
            for given, usual in zip((self.C, self.tol, self.inner_tol), DEFAULTS[self.kind], strict=True)
        )
        if self.C is None and self.kind == "sentences" and self.method == "two-stage" and self.keep_guess:
            C *= TWICE
        self.learner_ = LCLR(
            model, rules, C=C, method=self.method, start="model", max_iter=self.max_iter, tol=tol, inner_tol=inner_tol,
            n_jobs=self.n_jobs, verbose=self.verbose,
        ).fit(batch, answers)  # fmt: skip
        self.history_ = self.learner_.history_
        return self

    @property
    def _aligns(self) -> bool:
        """Whether alignments are learned before the answers."""
        return self.kind == "sentences" and self.keep_guess and self.method != "two-stage"

    def _guessed(self, model: Any, pairs: list[Pair], answers: FloatArray, rules: Any) -> Any:
        """The pairs as a batch; the model has weights of a first guess, by rule or learned without the answers."""
        rng = generator(self.random_state)
        some = np.sort(rng.permutation(len(pairs))[: ALIGNED if self._aligns else 0]).tolist()
        unrelated = self._unrelated([pairs[i] for i in some], UNRELATED, rng)
        prepared = self._prepared([*pairs, *unrelated])
        batch = model.encode(prepared[: len(pairs)], fit=True)
        model.guess(batch.take(np.flatnonzero(answers > 0)))
        if unrelated:
            aligned = model.encode([*(prepared[i] for i in some), *prepared[len(pairs) :]])
            related = np.repeat([1, -1], [len(some), len(unrelated)])
            learner = LCLR(model, rules, start="model", n_jobs=self.n_jobs, verbose=self.verbose, **ALIGNING)
            batch = model.take_as_guess(learner.fit(aligned, related).model_.weights_, batch)
            model.guess(batch)
        return batch

    def _unrelated(self, pairs: Sequence[Pair], per_pair: int, random_state: Any) -> list[Pair]:
        """Random pairs of what is given, as many as wanted or as there are."""
        left, right = ({pair[side] for pair in pairs} for side in (0, 1))
        n = min(per_pair * len(pairs), len(left) * len(right) - len(set(pairs)))
        return random_pairs(pairs, n, random_state=random_state)

    def infer(self, X: Iterable[Pair]) -> Inference:
        """Inference on pairs: outputs (alignments), their values, certificates, ..."""
        return self._learner().infer(self._prepared(check_pairs(X)))

    def decision_function(self, X: Iterable[Pair]) -> FloatArray:
        """f(x) of each pair (n,)."""
        return self._learner().answers(self.infer(X))

    def predict(self, X: Iterable[Pair]) -> IntArray:
        """1 where a pair matches, −1 where it does not."""
        return np.where(self.decision_function(X) >= 0.0, 1, -1)

    def score(self, X: Iterable[Pair], y: Any) -> float:
        """Accuracy of :meth:`predict`."""
        pairs = check_pairs(X)
        if not pairs:
            raise DataError("there are no pairs, so there is no accuracy")
        return float(np.mean(self.predict(pairs) == np.sign(signs(y, len(pairs)))))

    def match(self, X: Iterable[Pair]) -> list[Match]:
        """The decision for each pair, with its alignment."""
        learner, found = self._learner(), self.infer(X)
        scores, sizes = learner.answers(found), sizes_of(learner.model_, found.batch)
        aligned = learner.model_.decode(found.batch, found.outputs)
        return [
            Match(score >= 0.0, score, [(a, b) for a, b, _ in own], [worth / size for _, _, worth in own])
            for score, own, size in zip(scores.tolist(), aligned, sizes.tolist(), strict=True)
        ]

    def rank(self, left: Sequence[str], candidates: Sequence[str]) -> FloatArray:
        """Scores f(x) of every left text with every candidate: (n_left, n_candidates)."""
        learner, rows = self._learner(), max(1, PAIRS_AT_ONCE // max(len(candidates), 1))
        table = [np.zeros((0, len(candidates)))]
        for start in range(0, len(left), rows):
            some = left[start : start + rows]
            pairs = self._prepared([(text, candidate) for text in some for candidate in candidates])
            table.append(learner.decision_function(pairs).reshape(len(some), len(candidates)))
        return np.concatenate(table)

    def score_ranking(self, X: Iterable[Pair]) -> RankingScores:
        """Rank all right sides for each left one: accuracy and mean reciprocal rank of the correct ones."""
        pairs = check_pairs(X)
        left, right = (list(dict.fromkeys(pair[side] for pair in pairs)) for side in (0, 1))
        together = set(pairs)
        return score_ranking(self.rank(left, right), [[(a, b) in together for b in right] for a in left])

    def _learner(self) -> LCLR:
        self._check_fitted()
        self.learner_.n_jobs = self.n_jobs
        return self.learner_

    def _prepared(self, pairs: list[Pair]) -> Any:
        """Pairs as the model reads them: with a parser, graphs of their trees."""
        if self.kind == "names" or self.parser is None:
            return pairs
        texts = list(dict.fromkeys(text for pair in pairs for text in pair))
        graphs = dict(zip(texts, self._parsed(texts), strict=True))
        return [(graphs[one], graphs[two]) for one, two in pairs]

    def _parsed(self, texts: Sequence[str]) -> list[SentenceGraph]:
        tokens = [tokenise(text).tokens for text in texts]
        words = [[word for token in own for word in (split_word(token) or [token])] for own in tokens]
        tagged = self.tagger.predict(Document(tuple(own)) for own in words)
        return [_graph(tree) for tree in self.parser.predict(tagged)]

    def _check_settings(self) -> None:
        self._check_names(kind=KINDS, method=METHODS, deletions=DELETIONS)
        if self.similarity is not None and self.kind == "names":
            raise DataError("a similarity of words can be used with sentences only, not with names")
        self._check_whole(negatives=1)
        self._check_within(max_segment=(1, 8))
        if (self.parser is None) != (self.tagger is None):
            raise DataError("a parser needs tagged words: give a parser and a tagger, or neither")
        for name, wanted in (("parser", Parser), ("tagger", Tagger)):
            found = getattr(self, name)
            if found is not None and not isinstance(found, wanted):
                raise DataError(f"{name} must be a {wanted.__name__}, not a {type(found).__name__}")
        if self.parser is not None and self.kind == "names":
            raise DataError("a parser can be used with sentences only, not with names")

    # one file

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        expected = StringPairs if self.kind == "names" else GraphPairs
        model = self.learner_.model_
        if not isinstance(model, expected):
            raise DataError(f"a matcher of {self.kind} holds a model of the class {expected.__name__}")
        self.history_, self.rules = self.learner_.history_, self.learner_.constraints
        if isinstance(model, GraphPairs) and self.similarity is not None:
            model.similarity = _similarity(self.similarity)
        elif isinstance(model, GraphPairs):
            self.similarity = model.similarity


def _similarity(given: Any) -> Any:
    """A function or a table, which may be in a file."""
    return read_similarity(given) if isinstance(given, str | os.PathLike) else given


def _graph(tree: Document) -> SentenceGraph:
    """The words of a tree that are no punctuation, with the edges between them."""
    kept = [at for at, word in enumerate(tree.tokens) if any(c.isalnum() for c in word)]
    number = {at: new for new, at in enumerate(kept)}
    edges = []
    for at in kept:
        head = int(tree.columns["head"][at]) - 1
        if head in number:
            edges.append(((number[head], number[at]), tree.columns["deprel"][at]))
    tags = tree.labels or ()
    return SentenceGraph(
        tuple(tree.tokens[at] for at in kept), tuple(str(tags[at]) for at in kept),
        tuple(edge for edge, _ in edges), tuple(relation for _, relation in edges),
    )  # fmt: skip
