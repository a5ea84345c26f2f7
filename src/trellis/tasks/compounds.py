"""Compounds: which neighbouring words belong together, learned from the spans that were found.

    log-odds that words a b are of one span  =  first(a) + second(b) + intercept

where first and second are linear in a word itself, its last letters, its shape and its vector
(:mod:`trellis.tasks.word_vectors`). Learned from all neighbours of which at least one is in a found span. Words that
belong together are one span, or the last of them is one by itself, or there is none:

    evidence for the whole + Σ log p(belong together)          evidence for the last + log p(does not belong to it)
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from functools import lru_cache
from itertools import pairwise
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.data.ragged import FloatArray
from trellis.data.vocabulary import Vocabulary
from trellis.data.voted import Span
from trellis.errors import ConvergenceWarning
from trellis.models import MaxEnt
from trellis.models.arrays import ArrayOf, check_arrays
from trellis.models.features import feature_matrix, learn_features
from trellis.models.hints import check_hints

L2 = 1.0
NEVER = -1e6
"""Log-odds of belonging together where nothing was learned."""


PART = 20.0
"""What a part of a compound that is neither the whole nor its last word has against it, at least."""


class _Names(TypedDict):
    features: list[str]
    words: list[str]


ARRAYS = {
    "weights": ArrayOf(np.float64, ("features + 1",), low=-1e6, high=1e6),
    "sides": ArrayOf(np.float64, ("words", 2), low=-1e6, high=1e6),
}


class Compounds:
    """Which neighbours belong together; before training, none do."""

    def __init__(self, n_jobs: int | None = None) -> None:
        self.n_jobs = n_jobs
        self._set(Vocabulary([], kind="feature"), np.array([NEVER]), {})

    def _set(self, features: Vocabulary, weights: FloatArray, of_vector: Mapping[str, tuple[float, float]]) -> None:
        self._features, self._weights, self._of_vector = features, weights, dict(of_vector)
        self._weight: dict[str, float] = dict(zip(features, weights[:-1].tolist(), strict=True))
        self._known: dict[tuple[int, str], float] = {}

    def fit(
        self, texts: Sequence[Sequence[str]], spans: Sequence[Sequence[Span]], words: Sequence[str], vectors: FloatArray
    ) -> None:
        """Learn from texts and their spans; words have vectors, (n_words, size)."""
        number = {word: i for i, word in enumerate(words)}
        vectors = np.concatenate([vectors, np.zeros((1, vectors.shape[1]))])  # the last: of a word that has none
        rows, places, together = [], [], []
        for text, own in zip(texts, spans, strict=True):
            of = {t: k for k, (first, end, _) in enumerate(own) for t in range(first, end)}
            pairs = [(t, t + 1) for t in range(len(text) - 1) if t in of or t + 1 in of]
            for a, b in pairs:
                rows.append([*_described(0, text[a]), *_described(1, text[b]), _both(text[a], text[b])])
                places.append([number.get(text[t].lower(), -1) for t in (a, b)])
                together.append(int(of.get(a) == of.get(b)))
        if len(set(together)) < 2:
            return
        features = learn_features(([(name, 1.0) for name in row] for row in rows), 2)
        known = feature_matrix(([(name, 1.0) for name in row] for row in rows), features)
        beside = vectors[np.array(places)].reshape(len(places), -1)
        model = MaxEnt(2, l2=L2, max_iter=100, tol=1e-5, n_jobs=self.n_jobs)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # it need not be at its optimum to be of use
            model.fit(sparse.hstack([known, beside]).tocsr(), np.array(together))
        weights = model.feature_weights_[:, 1] - model.feature_weights_[:, 0]
        sides = vectors[:-1] @ weights[len(features) :].reshape(2, -1).T
        intercept = model.intercept_[1] - model.intercept_[0]
        of_vector = {word: (a, b) for word, (a, b) in zip(words, sides.tolist(), strict=True)}
        self._set(features, np.append(weights[: len(features)], intercept), of_vector)

    def together(self, first: str, second: str) -> float:
        """Log-odds that two neighbours are of one span."""
        both = self._weight.get(_both(first, second), 0.0)
        return self._side(0, first) + self._side(1, second) + both + float(self._weights[-1])

    def bonds(self, words: Sequence[str]) -> FloatArray:
        """(n_words − 1,) of each word and the next."""
        return np.array([self.together(*pair) for pair in pairwise(words)])

    def _side(self, side: int, word: str) -> float:
        if (side, word) not in self._known:
            told = self._of_vector.get(word.lower(), (0.0, 0.0))[side]
            self._known[side, word] = told + sum(self._weight.get(name, 0.0) for name in _described(side, word))
        return self._known[side, word]

    # parts of a model file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that :meth:`restore` takes back."""
        names = _Names(features=list(self._features), words=list(self._of_vector))
        sides = np.array(list(self._of_vector.values()), np.float64).reshape(-1, 2)
        return {**names}, {"weights": self._weights, "sides": sides}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`."""
        check_hints(_Names, dict(names), "part")
        features, words = Vocabulary(names["features"], kind="feature"), names["words"]
        own = check_arrays(ARRAYS, arrays, features=len(features), words=len(words))
        pairs = [(a, b) for a, b in own["sides"].tolist()]
        self._set(features, own["weights"], dict(zip(words, pairs, strict=True)))


def whole_or_last(
    evidence: FloatArray,
    score: FloatArray,
    bonds: FloatArray,
    begins: Sequence[int],
    goes_on: Sequence[int],
    inside: FloatArray,
) -> None:
    """Write the evidence of a compound over that of its words, of which the last one's stays.

    evidence : (n_words, n_labels);  score : (n_kinds,) for the whole;  bonds : (n_words − 1,) log-odds
    begins, goes_on : the labels of each kind;  inside : (2, n_kinds) what the second word gets, and what later ones get
    """
    against = PART + max(0.0, float(score.max()), float(evidence[-1, begins].max()))
    evidence[:-1, begins] = -against * len(bonds)
    evidence[0, begins] += score - np.logaddexp(0.0, -bonds).sum()
    evidence[0, goes_on] = -against * len(bonds)
    evidence[1:, goes_on] = against + inside[np.minimum(np.arange(len(bonds)), 1)]
    evidence[-1, begins] -= np.logaddexp(0.0, bonds[-1])


def _described(side: int, word: str) -> list[str]:
    return [f"{side} w={word.lower()}", f"{side} x={word[-3:].lower()}", f"{side} s={shape(word)}"]


def _both(first: str, second: str) -> str:
    return f"s={shape(first)} {shape(second)}"


@lru_cache(maxsize=2**16)
def shape(token: str) -> str:
    """The form of a token, runs cut to two.

    >>> shape("NTG"), shape("beta-2"), shape("Lithium")
    ('XX', 'xx-d', 'Xxx')
    """
    found = ""
    for sign in token:
        kind = "X" if sign.isupper() else "x" if sign.islower() else "d" if sign.isdigit() else sign
        if not found.endswith(kind * 2):
            found += kind
    return found
