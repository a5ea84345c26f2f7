"""Views of a word: classifiers of its company and of its form that have never seen the word itself.

Words are divided into folds, and a word is judged by a classifier that learned from the other folds (views: Ganchev et
al. 2010, sec. 6), for a dictionary that knows a word votes on it everywhere, right or wrong, and a classifier that saw
it would learn that by heart.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from typing import Any
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import engine_for
from trellis.errors import ConvergenceWarning, DataError
from trellis.models import MaxEnt
from trellis.models.features import feature_matrix, learn_features
from trellis.models.saving import from_archive, split_arrays, to_archive
from trellis.tasks.compounds import shape
from trellis.tasks.word_units import Heard, Unit, begins_sentence, head

FOLDS = 16
"""With four, F1 depended on how words happened to be divided (laptop-review, eight ways: 76.3 to 77.6)."""
L2 = 1.0


class WordView:
    """One view: a classifier for each fold, which never saw its words.

    describe : the features of a unit;  n_classes : of what is told apart
    """

    def __init__(self, name: str, n_classes: int, n_jobs: int | None = None) -> None:
        self.name, self.describe, self.n_classes, self.n_jobs = name, DESCRIBE[name], n_classes, n_jobs
        self.features = Vocabulary([], kind="feature")
        self.models: list[MaxEnt] = []

    def learn(self, texts: Sequence[Heard], units: Sequence[Unit], kinds: IntArray, weights: FloatArray) -> FloatArray:
        """Train, and give what is said of these units, (n_units, n_classes) log-probabilities."""
        rows = [self.describe(texts, unit) for unit in units]
        self.features = learn_features(([(name, 1.0) for name in row] for row in rows), 2)
        matrix, folds = self._matrix(rows), folds_of(texts, units)
        self.models = classifiers(matrix, kinds, folds, weights, self.n_classes, self.n_jobs)
        return judged(self.models, matrix, folds)

    def of(self, texts: Sequence[Heard], units: Sequence[Unit]) -> FloatArray:
        """The same of any units."""
        rows = [self.describe(texts, unit) for unit in units]
        return judged(self.models, self._matrix(rows), folds_of(texts, units))

    def _matrix(self, rows: Sequence[Sequence[str]]) -> Any:
        return feature_matrix(([(name, 1.0) for name in row] for row in rows), self.features)

    # parts of a model file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        archives = [to_archive(model) for model in self.models]
        arrays = {f"{n}/{key}": array for n, (_, own) in enumerate(archives) for key, array in own.items()}
        return {"features": list(self.features), "models": [header for header, _ in archives]}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        if set(names) != {"features", "models"} or len(names["models"]) != FOLDS:
            raise DataError(f"expected features and {FOLDS} classifiers of the {self.name} of words")
        self.features, self.models = Vocabulary(names["features"], kind="feature"), []
        own = split_arrays(arrays, [f"{n}/" for n in range(FOLDS)])
        for n, header in enumerate(names["models"]):
            model = from_archive(header, own[f"{n}/"], MaxEnt)
            if len(model.classes_) != self.n_classes or model.n_features_in_ != len(self.features):
                raise DataError(
                    f"classifier {n} of the {self.name} of words must be a MaxEnt over {self.n_classes} classes, "
                    "and is not"
                )
            self.models.append(model)


def classifiers(
    matrix: Any, kinds: IntArray, folds: IntArray, weights: FloatArray, n_classes: int, n_jobs: int | None
) -> list[MaxEnt]:
    """One for each fold, which learns from the others."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # it need not be at its optimum to be of use
        placed = engine_for(n_jobs).near.place(range(FOLDS))
        return list(placed.run(_without_fold, (matrix, kinds, folds, weights, n_classes)))


def _without_fold(
    given: tuple[Any, IntArray, IntArray, FloatArray, int], fold: int, state: None
) -> tuple[MaxEnt, None]:
    """Folds are what runs side by side: within one, cores would wait for each other at every step."""
    matrix, kinds, folds, weights, n_classes = given
    model, seen = MaxEnt(n_classes, l2=L2, max_iter=60, tol=1e-5, n_jobs=1), np.flatnonzero(folds != fold)
    return model.fit(matrix[seen], kinds[seen], weights[seen]), None


def judged(models: Sequence[MaxEnt], matrix: Any, folds: IntArray) -> FloatArray:
    """(n, n_classes) log-probabilities of rows, each by the classifier of its fold."""
    made = np.zeros((len(folds), len(models[0].classes_)))
    for fold, model in enumerate(models):
        own = np.flatnonzero(folds == fold)
        if len(own):
            made[own] = model.predict_log_proba(matrix[own])
    return made


def fold_of(word: str) -> int:
    """The same in any process."""
    return crc32(word.encode("utf-8", "replace")) % FOLDS


def folds_of(texts: Sequence[Heard], units: Sequence[Unit]) -> IntArray:
    """By the last word alone."""
    return np.array([fold_of(head(texts, unit)) for unit in units], np.int64)


def _context(texts: Sequence[Heard], unit: Unit) -> list[str]:
    """The two words on either side of a unit, alone, by their endings and shapes, and in pairs."""
    text = texts[unit.text]
    near = [unit.first - 2, unit.first - 1, unit.end, unit.end + 1]
    tokens = [text[at].token if 0 <= at < len(text) else "#" for at in near]
    far, before, after, beyond = (token.lower() for token in tokens)
    places = ("-2", "-1", "+1", "+2")
    found = [f"{place}={word}" for place, word in zip(places, (far, before, after, beyond), strict=True)]
    found += [f"x{name[:3]}{name[3:][-3:]}" for name in found]
    found += [f"s{place}={shape(token)}" for place, token in zip(places, tokens, strict=True)]
    return [*found, f"b={far} {before}", f"a={after} {beyond}", f"m={before} {after}"]


def _form(texts: Sequence[Heard], unit: Unit) -> list[str]:
    """Beginnings, endings, shape and length of a unit; of a token that is a whole text, its words."""
    text = texts[unit.text]
    first, last = text[unit.first].token.lower(), text[unit.end - 1].token.lower()
    if " " in last:
        return ["u=" + word for word in sorted(set(last.split()))]
    found = [f"x{n}={last[-n:]}" for n in (1, 2, 3, 4, 5) if len(last) > n]
    found += [f"p{n}={first[:n]}" for n in (2, 3, 4, 5) if len(first) > n]
    written = begins_sentence(text, unit.end - 1) * "^" + shape(text[unit.end - 1].token)
    return [*found, f"s={written}", f"l={min(len(last), 10)}"]


DESCRIBE = {"context": _context, "form": _form}
