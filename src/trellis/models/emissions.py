"""Log-linear emissions: words with common features share parameters (Berg-Kirkpatrick et al. 2010, eq. 1).

    emission[w, k] = exp(f(w) · W[:, k]) / Z_k,      Z_k = Σ_w' exp(f(w') · W[:, k])

    M-step: minimise  Σ_k n_k log Z_k(W) − Σ_{w, k} c[w, k] f(w) · W[:, k] + (l2 / 2) ‖W‖²

c are the expected counts of words with labels, n_k their sums over words. The sums of Z are over the words of training;
a word that was not among them is scored by the same formula, so that its endings say what it is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine.blas import blas_at_one_thread
from trellis.models.features import feature_matrix, learn_features, named_values
from trellis.models.lbfgs import GaussianPrior, minimise

WordDescription = Callable[[str], Any]
"""word -> its features, in one of the forms of :mod:`trellis.models.features`."""

STEPS = 8
"""Rounds of L-BFGS in an M-step that goes on from the one before; the next round of EM goes on from there."""
ALONE, ALONE_TOL = 200, 1e-6
"""Rounds and tolerance of one that begins at W = 0: there is no next round to finish it."""

_ITSELF = "itself="


def word_features(word: str) -> dict[str, Any]:
    """Endings of one to three letters, digits, hyphens, capitals, marks: the basic features of the paper, and marks.

    >>> word_features("Re-reading")  # doctest: +NORMALIZE_WHITESPACE
    {'ends': ['g', 'ng', 'ing'], 'digit': False, 'hyphen': True, 'capital': True, 'capitals': False, 'marks': False}
    """
    low = word.lower()
    return {
        "ends": [low[-n:] for n in (1, 2, 3) if len(low) > n],
        "digit": any(letter.isdigit() for letter in word),
        "hyphen": "-" in word,
        "capital": word[:1].isupper(),
        "capitals": len(word) > 1 and word.isupper(),
        "marks": not any(letter.isalnum() for letter in word),
    }


class LogLinearEmissions:
    """The words of a model, their features, and what the M-step does with counts.

    words : those of training;  names : the features, see :meth:`learn`;  describe : word -> its features
    allowed : (n_words, n_labels) whether the word may have the label; None: all may
    """

    def __init__(
        self, words: Vocabulary, names: Vocabulary, describe: WordDescription, allowed: BoolArray | None, l2: float
    ) -> None:
        self.names, self.describe, self.allowed, self.l2 = names, describe, allowed, l2
        self.matrix = self.rows(words)

    @staticmethod
    def learn(words: Vocabulary, seen: IntArray, describe: WordDescription, min_count: int) -> Vocabulary:
        """Features that two words share, and the word itself of each that was ``seen`` at least ``min_count`` times."""
        shared = learn_features(map(named_values, map(describe, words)), 2)
        own = (_ITSELF + words[int(w)] for w in np.flatnonzero(seen >= min_count))
        return Vocabulary([*shared, *own], kind="feature")

    def rows(self, words: Iterable[str]) -> Any:
        """f(w) of words, old or new: a sparse row each."""
        return feature_matrix(map(self._named, words), self.names)

    def _named(self, word: str) -> Iterator[tuple[str, float]]:
        yield from named_values(self.describe(word))
        yield _ITSELF + word, 1.0

    @cached_property
    def _by_feature(self) -> Any:
        return self.matrix.T.tocsr()

    def probabilities(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """emission (n_words, n_labels) and log Z (n_labels,) of weights (n_features, n_labels)."""
        scores = np.asarray(self.matrix @ weights)
        if self.allowed is not None:
            scores[~self.allowed] = -np.inf
        largest = scores.max(axis=0)
        largest[~np.isfinite(largest)] = 0.0  # a label that no word may have
        found = np.exp(scores - largest)
        total = found.sum(axis=0)
        total[total == 0.0] = 1.0
        return found / total, largest + np.log(total)

    def of_new(self, words: Iterable[str], weights: FloatArray, log_z: FloatArray) -> FloatArray:
        """exp(f(w) · W[:, k]) / Z_k of words that were not in training."""
        return np.asarray(np.exp(self.rows(words) @ weights - log_z))

    def fit(self, counts: FloatArray, weights: FloatArray) -> FloatArray:
        """Weights after the M-step on counts (n_words, n_labels), which goes on from ``weights``."""
        total = counts.sum(axis=0)
        wanted = np.asarray(self._by_feature @ counts)

        def objective(flat: FloatArray) -> tuple[float, FloatArray]:
            at = flat.reshape(weights.shape)
            found, log_z = self.probabilities(at)
            found *= total
            gradient = self._by_feature @ found - wanted
            return float(total @ log_z - np.vdot(wanted, at)), gradient.ravel()

        begins = not weights.any()
        with blas_at_one_thread():
            found = minimise(
                objective, weights.ravel(), prior=GaussianPrior(self.l2),
                max_iter=ALONE if begins else STEPS, tol=ALONE_TOL if begins else 0.0,
            )  # fmt: skip
        return found.weights.reshape(weights.shape)

    def gradient(self, counts: FloatArray, weights: FloatArray, emission: FloatArray) -> FloatArray:
        """∂/∂W of Σ c log emission − (l2 / 2) ‖W‖²  (n_features, n_labels), at weights with those emissions."""
        return np.asarray(self._by_feature @ (counts - counts.sum(axis=0) * emission)) - self.l2 * weights

    def log_prior(self, weights: FloatArray) -> float:
        """−(l2 / 2) ‖W‖²."""
        return -0.5 * self.l2 * float(np.vdot(weights, weights))
