"""What words say about labels beside the votes: the company a word keeps, how it is formed, and which words are alike.

Views of a word (Ganchev et al. 2010, sec. 6), classifiers that learn from what the votes gave: *context*, the words
around a span, *form*, its beginnings, endings and shape, and where there is more text than the votes' own, *kin*, the
vector of its last word (:mod:`trellis.tasks.word_vectors`). None has ever seen the word that it judges (words are
divided into folds), for a dictionary that knows a word votes on it everywhere, right or wrong, and a classifier that
saw it would learn that by heart. Rare words count as much as common ones do, nearly: an occurrence of a word that
occurs n times weighs n^−½.

Words are entities as a whole, mostly. So a view's log-odds l of an entity, with mean m over the n occurrences of a
word, are compared with those of found words and of the others as random effects (:mod:`trellis.tasks.random_effects`):

    evidence = told by context + told by form + told by kin + (l − m)

It is added to the log-odds of the votes where no function votes, and with ``doubt`` at all spans that were found, where
the first three together are bounded from below (``doubted``): the word was chosen by somebody, and (l − m) decides
between its occurrences. Where no function votes, words that belong together (:mod:`trellis.tasks.compounds`) are one
span, and two things more are added: what the views give a type beyond its share, and the record of its last word,

    log (h + 1) / (n + 1) + lift          texts in which it ends an entity, and in which it ends an open span

(Laplace's rule: a word of many texts on which nobody ever votes is one that the authors of the functions left out on
purpose). An *open* span is one without votes that is labelled "O"; ``lift`` is the same for all of them and is found by
whoever knows how many entities functions miss. Of labels without "O", log p(label) − log share of both views is added
where no function votes.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple
from itertools import chain
from typing import Any, NamedTuple, TypedDict
from zlib import crc32

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.data.voted import OUTSIDE, spans_of_labels
from trellis.errors import ConvergenceWarning, DataError
from trellis.models import MaxEnt
from trellis.models.arrays import ArrayOf, check_arrays
from trellis.models.features import feature_matrix, learn_features
from trellis.models.hints import check_hints
from trellis.models.saving import from_archive, to_archive
from trellis.tasks.compounds import Compounds, shape
from trellis.tasks.random_effects import Spread, doubted, told
from trellis.tasks.word_vectors import word_vectors

LEAST_TEXTS = 20
LEAST_ENTITIES = 20
"""With fewer texts, or fewer tokens that are not "O", there is nothing to learn a view from."""
FOLDS = 4
L2 = 1.0
COMMON = 5
"""Words of more text that occur so often are remembered."""
NEW = float(np.log(0.5))
"""The record of a word that was not seen: it is open in one text, the new one."""
VIEWS = ("context", "form")

Heard = Sequence[tuple[str, str]]
"""A text: each token with a vote that is cast on it, empty where none is."""


class Unit(NamedTuple):
    """A span that is labelled as an entity, or another token or compound: its text, first to end, type (or "O")."""

    text: int
    first: int
    end: int
    kind: str
    voted: bool

    @property
    def open(self) -> bool:
        return self.kind == OUTSIDE and not self.voted


class _Names(TypedDict):
    """What a file keeps beside the arrays."""

    labels: list[str]
    words: list[str]
    ends: list[str]
    kin: list[str]
    compounds: dict[str, Any]
    features: list[list[str]]
    models: list[dict[str, Any]]


ARRAYS = {
    "counts": ArrayOf(np.float64, ("words",), low=1.0, high=1e15),
    "means": ArrayOf(np.float64, ("words",), low=-1e6, high=1e6),
    "records": ArrayOf(np.float64, ("ends",), low=-50.0, high=50.0),
    "kin": ArrayOf(np.float64, ("kin", "classes"), low=-1e6, high=1.0),
    "lift": ArrayOf(np.float64, (1,), low=0.0, high=1e6),
    "shares": ArrayOf(np.float64, ("classes",), low=1e-300, high=1.0),
    "spreads": ArrayOf(np.float64, ("numbers",), low=-1e6, high=1e12),
}


class WordEvidence:
    """Classifiers of context, form and kin, and what they say of the tokens of a text.

    labels : names of all labels;  weight : what the evidence is multiplied by
    doubt : whether there is evidence about spans on which functions vote too
    """

    def __init__(
        self, labels: Sequence[str], *, weight: float = 1.0, doubt: bool = False, n_jobs: int | None = None
    ) -> None:
        self.labels, self.weight, self.doubt, self.n_jobs = list(labels), weight, doubt, n_jobs
        self.bio = any(label.startswith("B-") for label in self.labels)
        kinds = [label[2:] for label in self.labels if label.startswith("B-")] if self.bio else self.labels
        self.kinds = [kind for kind in kinds if kind != OUTSIDE]
        self.classes = [*self.kinds, *[OUTSIDE][: OUTSIDE in self.labels]]
        self.lift = 0.0
        self.compounds = Compounds(n_jobs)
        self.kin: dict[str, FloatArray] = {}
        self._features: dict[str, Vocabulary] = {}
        self._models: dict[str, list[MaxEnt]] = {}

    def fit(self, texts: Sequence[Heard], labels: Sequence[Sequence[str]], more: Sequence[Sequence[str]] = ()) -> bool:
        """Learn from labelled texts, and from more text without votes; False: there is too little to learn from."""
        if len(texts) < LEAST_TEXTS or sum(k != OUTSIDE for own in labels for k in own) < LEAST_ENTITIES:
            return False
        words: list[str] = []
        vectors = np.zeros((0, 1))
        if OUTSIDE in self.classes:
            tokens = [[token for token, _ in text] for text in texts]
            always = {token.lower() for text in tokens for token in text}
            words, vectors = word_vectors(chain(tokens, more), min_count=COMMON, always=always)
            if self.bio:
                self.compounds.fit(tokens, [spans_of_labels(own) for own in labels], words, vectors)
        units = [unit for unit in self._units(texts, labels) if OUTSIDE in self.classes or unit.voted]
        if len(set(_folds(texts, units).tolist())) < 2:
            return False
        names, one, word = _words(texts, units)
        kinds = np.array([self.classes.index(unit.kind) for unit in units])
        heads = [_head(texts, unit) for unit in units]
        times = Counter(zip(heads, kinds.tolist(), strict=True))
        often = [times[pair] for pair in zip(heads, kinds.tolist(), strict=True)]
        tally = np.zeros((len(names), len(self.classes)))
        np.add.at(tally, (word, kinds), 1.0)
        kind = tally.argmax(axis=1)
        self.shares = (np.bincount(kinds, minlength=len(self.classes)) + 1.0) / (len(units) + len(self.classes))
        by_context = self._learn("context", texts, units, kinds, np.array(often) ** -0.5)
        # form is the same for all occurrences of a word: one row for each, of its most common type
        by_form = self._learn("form", texts, [units[i] for i in one], kind, np.ones(len(one)))
        self.spreads, self.words, self.records, self.kin = [], {}, {}, {}
        if OUTSIDE not in self.classes:
            return True
        self.records = _records(units, heads)
        odds, of_form, each = _odds(by_context), _odds(by_form), np.arange(len(names))
        found, named = kinds < len(self.kinds), kind < len(self.kinds)
        single = np.array([units[i].end - units[i].first == 1 for i in one])
        groups = [(odds, word, found), (odds, word, ~found), (of_form, each, named & single), (of_form, each, ~named)]
        if more:
            groups += self._learn_kin(heads, kinds, words, vectors)
        if not all(mask.any() for _, _, mask in groups):
            return False
        self.spreads = [Spread.of(own[mask], of[mask]) for own, of, mask in groups]
        n = np.bincount(word).astype(np.float64)
        self.words = dict(zip(names, zip(n.tolist(), (np.bincount(word, odds) / n).tolist(), strict=True), strict=True))
        return True

    def _learn_kin(
        self, heads: Sequence[str], kinds: IntArray, words: Sequence[str], vectors: FloatArray
    ) -> list[tuple[FloatArray, IntArray, BoolArray]]:
        """Judge all words by their vectors; log-odds of those that end a unit, for found ones and for the others."""
        ends = {head: i for i, head in enumerate(dict.fromkeys(heads))}
        tally = np.zeros((len(ends), len(self.classes)))
        np.add.at(tally, (np.array([ends[head] for head in heads]), kinds), 1.0)
        kind = tally.argmax(axis=1)
        number = {word: i for i, word in enumerate(words)}
        rows, folds = np.array([number[head] for head in ends]), np.array([_fold(word) for word in words])
        by_kin = self._judge(self._classifiers(vectors[rows], kind, folds[rows], np.ones(len(rows))), vectors, folds)
        self.kin = dict(zip(words, by_kin, strict=True))
        odds, each, named = _odds(by_kin[rows]), np.arange(len(rows)), kind < len(self.kinds)
        return [(odds, each, named), (odds, each, ~named)]

    def evidence(self, texts: Sequence[Heard], labels: Sequence[Sequence[str]], inside: FloatArray) -> list[FloatArray]:
        """(n_tokens, n_labels) for each text, from the labels that the votes gave it.

        inside : (n_labels,) what the inner words of a compound get for every label, beside the log-odds of belonging
        """
        made = [np.zeros((len(text), len(self.labels))) for text in texts]
        units = self._units(texts, labels)
        if not units:
            return made
        words, one, word = _words(texts, units)
        by_context = self._view("context", texts, units)
        by_form = self._view("form", texts, [units[i] for i in one])[word]
        heads = [_head(texts, unit) for unit in units]
        if OUTSIDE not in self.classes:
            added = by_context + by_form - 2.0 * np.log(self.shares)
            for unit, own in zip(units, added, strict=True):
                if not unit.voted:
                    made[unit.text][unit.first] = self.weight * own
            return made
        odds, single = _odds(by_context), np.array([unit.end - unit.first == 1 for unit in units])
        n, mean = self._seen(units, words, word, odds)
        once, by_kin = np.ones(len(units)), np.array([self.kin.get(head, self._usual) for head in heads])
        views = told(mean, n, *self.spreads[:2])
        views += np.where(single, told(_odds(by_form), once, *self.spreads[2:4]), 0.0)
        if self.kin:
            known = np.array([head in self.kin for head in heads])
            views += np.where(known, told(_odds(by_kin), once, *self.spreads[4:]), 0.0)
        scores = odds - mean + np.where([unit.voted for unit in units], doubted(views), views)
        # what each type has beyond its share among the entities
        shares = self.shares[:-1] / self.shares[:-1].sum()
        beyond = sum(
            view - np.logaddexp.reduce(view, axis=1)[:, None] - np.log(shares)
            for view in (by_context[:, :-1], by_form[:, :-1], by_kin[:, :-1])
        )
        entities = [i for i, label in enumerate(self.labels) if label != OUTSIDE]
        begins = [self.labels.index(f"B-{kind}" if self.bio else kind) for kind in self.kinds]
        goes_on = [self.labels.index(f"I-{kind}") for kind in self.kinds if self.bio]
        for number, unit in enumerate(units):
            own, score = made[unit.text], self.weight * scores[number]
            if unit.open:
                score += self.weight * self.records.get(heads[number], NEW)
                own[unit.first, begins] = score + self.weight * beyond[number] + self.lift
                for t in range(unit.first + 1, unit.end):
                    pair = texts[unit.text][t - 1][0], texts[unit.text][t][0]
                    own[t, goes_on] = self.compounds.together(*pair) + inside[goes_on]
            elif unit.kind != OUTSIDE and (self.doubt or not unit.voted):
                own[unit.first : unit.end, entities] = score / (unit.end - unit.first)
        return made

    def open_words(self, texts: Sequence[Heard], labels: Sequence[Sequence[str]]) -> list[tuple[int, int]]:
        """Text and token of each."""
        return [(unit.text, unit.first) for unit in self._units(texts, labels) if unit.open]

    def _seen(
        self, units: Sequence[Unit], words: Sequence[str], word: IntArray, odds: FloatArray
    ) -> tuple[FloatArray, FloatArray]:
        """How often each unit's word was seen in training, and its mean log-odds; of a new word, those in the text."""
        pair = np.array([unit.text for unit in units]) * len(words) + word
        _, of, n = np.unique(pair, return_inverse=True, return_counts=True)
        here = np.stack([n, np.bincount(of, odds) / n], axis=1)[of]
        known = np.array([self.words.get(name, (0.0, 0.0)) for name in words])[word]
        chosen = np.where(known[:, :1] > 0, known, here)
        return chosen[:, 0], chosen[:, 1]

    @property
    def _usual(self) -> FloatArray:
        """Of a word without a vector: all types in proportion."""
        found: FloatArray = np.log(self.shares)
        return found

    def _kind(self, label: str) -> str:
        return label[2:] if self.bio and label != OUTSIDE else label

    def _units(self, texts: Sequence[Heard], labels: Sequence[Sequence[str]]) -> list[Unit]:
        """Spans, and what else there is: tokens, or compounds of tokens without votes; none without a letter."""
        made = []
        for number, (text, own) in enumerate(zip(texts, labels, strict=True)):
            spans = {first: (end, kind) for first, end, kind in spans_of_labels(own)} if self.bio else {}
            at = 0
            while at < len(text):
                end, kind = spans.get(at, (at + 1, OUTSIDE if self.bio else own[at]))
                if kind != OUTSIDE or _has_letter(text[at][0]):
                    while self.bio and kind == OUTSIDE and self._goes_on(text, end, spans):
                        end += 1
                    made.append(Unit(number, at, end, kind, any(vote for _, vote in text[at:end])))
                at = end
        return made

    def _goes_on(self, text: Heard, end: int, spans: Mapping[int, Any]) -> bool:
        """Whether a compound of tokens without votes reaches beyond ``end``."""
        if end >= len(text) or end in spans or text[end - 1][1] or text[end][1] or not _has_letter(text[end][0]):
            return False
        return self.compounds.together(text[end - 1][0], text[end][0]) > 0.0

    def _learn(
        self, view: str, texts: Sequence[Heard], units: Sequence[Unit], kinds: IntArray, weights: FloatArray
    ) -> FloatArray:
        """Train the classifiers of a view, and give what they say of these units."""
        rows = [DESCRIBE[view](texts, unit) for unit in units]
        self._features[view] = learn_features(([(name, 1.0) for name in row] for row in rows), 2)
        matrix, folds = self._matrix(view, rows), _folds(texts, units)
        self._models[view] = self._classifiers(matrix, kinds, folds, weights)
        return self._judge(self._models[view], matrix, folds)

    def _classifiers(self, matrix: Any, kinds: IntArray, folds: IntArray, weights: FloatArray) -> list[MaxEnt]:
        """One for each fold, which never saw its words."""
        made = []
        for fold in range(FOLDS):
            model = MaxEnt(len(self.classes), l2=L2, max_iter=60, tol=1e-5, n_jobs=self.n_jobs)
            seen = np.flatnonzero(folds != fold)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # it need not be at its optimum to be of use
                model.fit(matrix[seen], kinds[seen], weights[seen])
            made.append(model)
        return made

    def _view(self, view: str, texts: Sequence[Heard], units: Sequence[Unit]) -> FloatArray:
        """(n_units, n_classes) log-probabilities by the classifier that never saw the word."""
        rows = [DESCRIBE[view](texts, unit) for unit in units]
        return self._judge(self._models[view], self._matrix(view, rows), _folds(texts, units))

    def _matrix(self, view: str, rows: Sequence[Sequence[str]]) -> Any:
        return feature_matrix(([(name, 1.0) for name in row] for row in rows), self._features[view])

    def _judge(self, models: Sequence[MaxEnt], matrix: Any, folds: IntArray) -> FloatArray:
        made = np.zeros((len(folds), len(self.classes)))
        for fold, model in enumerate(models):
            own = np.flatnonzero(folds == fold)
            if len(own):
                made[own] = model.predict_log_proba(matrix[own])
        return made

    # parts of a model file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that :meth:`restore` takes back."""
        archives = [to_archive(model) for view in VIEWS for model in self._models[view]]
        arrays = {f"{n}/{key}": array for n, (_, own) in enumerate(archives) for key, array in own.items()}
        table = np.array(list(self.words.values()), np.float64).reshape(-1, 2)
        spreads = np.array([astuple(one) for one in self.spreads], np.float64).ravel()
        arrays |= {"counts": table[:, 0].copy(), "means": table[:, 1].copy(), "shares": self.shares, "spreads": spreads}
        arrays |= {"records": np.array(list(self.records.values()), np.float64), "lift": np.array([self.lift])}
        arrays["kin"] = np.array(list(self.kin.values()), np.float64).reshape(-1, len(self.classes))
        compounds, of_compounds = self.compounds.learned()
        arrays |= {f"compounds/{key}": array for key, array in of_compounds.items()}
        names = _Names(
            labels=self.labels,
            words=list(self.words),
            ends=list(self.records),
            kin=list(self.kin),
            compounds=compounds,
            features=[list(self._features[view]) for view in VIEWS],
            models=[header for header, _ in archives],
        )
        return {**names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`."""
        check_hints(_Names, dict(names), "part")
        words = names["words"]
        if names["labels"] != self.labels:
            raise DataError("the labels of its words are not its labels")
        sizes = {
            "words": len(words),
            "ends": len(names["ends"]),
            "kin": len(names["kin"]),
            "classes": len(self.classes),
            "numbers": (18 if names["kin"] else 12) if OUTSIDE in self.classes else 0,
        }
        own = check_arrays(ARRAYS, {name: array for name, array in arrays.items() if "/" not in name}, **sizes)
        self.shares, self.lift = own["shares"], float(own["lift"][0])
        self.records = dict(zip(names["ends"], own["records"].tolist(), strict=True))
        self.kin = dict(zip(names["kin"], own["kin"], strict=True))
        joined = {key.partition("/")[2]: a for key, a in arrays.items() if key.startswith("compounds/")}
        self.compounds.restore(names["compounds"], joined)
        self.words = dict(zip(words, zip(own["counts"].tolist(), own["means"].tolist(), strict=True), strict=True))
        self.spreads = [Spread(*row) for row in own["spreads"].reshape(-1, 3).tolist()]
        if any(one.between <= 0.0 or one.within < 0.0 for one in self.spreads):
            raise DataError("a spread of its words is a variance and must be positive")
        if len(names["features"]) != len(VIEWS) or len(names["models"]) != len(VIEWS) * FOLDS:
            raise DataError(f"expected {len(VIEWS)} lists of features and {len(VIEWS) * FOLDS} classifiers of words")
        self._features = {v: Vocabulary(own, kind="feature") for v, own in zip(VIEWS, names["features"], strict=True)}
        self._models = {view: [] for view in VIEWS}
        for n, header in enumerate(names["models"]):
            view = VIEWS[n // FOLDS]
            mine = {key.partition("/")[2]: a for key, a in arrays.items() if key.startswith(f"{n}/")}
            model = from_archive(header, mine)
            size = len(self._features[view])
            if (
                not isinstance(model, MaxEnt)
                or len(model.classes_) != len(self.classes)
                or model.n_features_in_ != size
            ):
                raise DataError(
                    f"classifier {n} of words must be a MaxEnt over {len(self.classes)} classes, and is not"
                )
            self._models[view].append(model)


def _words(texts: Sequence[Heard], units: Sequence[Unit]) -> tuple[list[str], list[int], IntArray]:
    """The words of units (of a span all of them), the first unit of each, and which one each unit is."""
    number: dict[str, int] = {}
    first, of = [], []
    for i, unit in enumerate(units):
        name = " ".join(token for token, _ in texts[unit.text][unit.first : unit.end]).lower()
        if name not in number:
            first.append(i)
        of.append(number.setdefault(name, len(number)))
    return list(number), first, np.array(of, np.int64)


def _has_letter(token: str) -> bool:
    return any(sign.isalpha() for sign in token)


def _records(units: Sequence[Unit], heads: Sequence[str]) -> dict[str, float]:
    """log (h + 1) / (n + 1) of all words that end an entity or an open span."""
    kept = [(unit, head) for unit, head in zip(units, heads, strict=True) if unit.open or unit.kind != OUTSIDE]
    times = Counter((head, found) for _, head, found in {(unit.text, head, not unit.open) for unit, head in kept})
    ends = dict.fromkeys(head for _, head in kept)
    return {head: float(np.log((times[head, True] + 1.0) / (times[head, False] + 1.0))) for head in ends}


def _head(texts: Sequence[Heard], unit: Unit) -> str:
    return texts[unit.text][unit.end - 1][0].lower()


def _fold(word: str) -> int:
    """The same in any process."""
    return crc32(word.encode("utf-8", "replace")) % FOLDS


def _folds(texts: Sequence[Heard], units: Sequence[Unit]) -> IntArray:
    """By the last word alone."""
    return np.array([_fold(_head(texts, unit)) for unit in units], np.int64)


def _odds(view: FloatArray) -> FloatArray:
    """Log-odds of an entity against "O", the last class."""
    found: FloatArray = np.logaddexp.reduce(view[:, :-1], axis=1) - view[:, -1]
    return found


def _context(texts: Sequence[Heard], unit: Unit) -> list[str]:
    """The two words on either side of a unit, alone, by their endings and in pairs."""
    text = texts[unit.text]
    near = [unit.first - 2, unit.first - 1, unit.end, unit.end + 1]
    far, before, after, beyond = (text[at][0].lower() if 0 <= at < len(text) else "#" for at in near)
    found = [
        f"{place}={word}" for place, word in zip(("-2", "-1", "+1", "+2"), (far, before, after, beyond), strict=True)
    ]
    found += [f"x{name[:3]}{name[3:][-3:]}" for name in found]
    return [*found, f"b={far} {before}", f"a={after} {beyond}", f"m={before} {after}"]


def _form(texts: Sequence[Heard], unit: Unit) -> list[str]:
    """Beginnings, endings, shape and length of a unit; of a token that is a whole text, its words."""
    text = texts[unit.text]
    first, last = text[unit.first][0].lower(), text[unit.end - 1][0].lower()
    if " " in last:
        return ["u=" + word for word in sorted(set(last.split()))]
    found = [f"x{n}={last[-n:]}" for n in (1, 2, 3, 4, 5) if len(last) > n]
    found += [f"p{n}={first[:n]}" for n in (2, 3, 4, 5) if len(first) > n]
    return [*found, f"s={shape(last)}", f"l={min(len(last), 10)}", f"n={min(unit.end - unit.first, 3)}"]


DESCRIBE = {"context": _context, "form": _form}
