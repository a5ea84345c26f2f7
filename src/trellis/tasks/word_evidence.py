"""What words say about labels beside the votes: the company a word keeps, how it is formed, and which words are alike.

Views of a word learn from what the votes gave (:mod:`trellis.tasks.word_views`): *context*, the words around a span,
*form*, its beginnings, endings and shape, and *kin*, the vector of its last word (:mod:`trellis.tasks.word_vectors`),
for which more text than the votes' own is of use. Rare words count as much as common ones do, nearly: an occurrence of
a word that occurs n times weighs n^−½.

Words are entities as a whole, mostly. So a view's log-odds l of an entity, with mean m over the n occurrences of a
word, are compared with those of found words of a type and of the others as random effects
(:mod:`trellis.tasks.random_effects`), and an occurrence counts as far as found words vary more than others do within:

    evidence for a type = told by context + told by form + told by kin + (1 − σ₀² / σ₁²) (l − m)

*Where nobody votes*, two things more are added to it: what the views give a type beyond its share, and the record of
the last word,

    log (h + 1) / (n + 1) + lift of the type      texts in which it ends an entity, and in which it is open

(Laplace's rule: a word of many texts on which nobody ever votes is one that the authors of the functions left out on
purpose). An *open* word is one without votes that is labelled "O". Open words that belong together are judged as one
too (:mod:`trellis.tasks.compounds`), and a span does not go on over those that do not. How many open words are entities
is the share by which all this is explained best, records counting 1 on average as all odds do (``share_of``); types are
as common among them as among what was found. The lifts bring that about and are found by whoever knows the votes.

*Of found words* (``doubt``) context alone tells, and that is bounded (``doubted``), for somebody chose the word, by its
form as a rule; and where one function votes alone, its share of right votes is that by which the company of these words
is explained best.

Of labels without "O", log p(label) − log share of context and form is added where no function votes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from itertools import chain
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray, IntArray
from trellis.data.voted import OUTSIDE, spans_of_labels
from trellis.errors import DataError
from trellis.models.arrays import ArrayOf, check_arrays
from trellis.models.hints import check_hints
from trellis.tasks.compounds import Compounds, whole_or_last
from trellis.tasks.random_effects import Spread, doubted, share_of, share_right, spreads_of, told
from trellis.tasks.word_units import Heard, Unit, head, joined_of, spellings_of, units_of, words_of
from trellis.tasks.word_vectors import word_vectors
from trellis.tasks.word_views import WordView, classifiers, fold_of, folds_of, judged

LEAST_TEXTS = 20
LEAST_ENTITIES = 20
"""With fewer texts, or fewer tokens that are not "O", there is nothing to learn a view from."""
COMMON = 5
"""Words of more text that occur so often are remembered."""
CAUTION = 0.75
"""So much of the share that words tell is taken: views of the same occurrences are surer together than they should."""
NEW = float(np.log(0.5))
"""The record of a word that was not seen: it is open in one text, the new one."""
VIEWS = ("context", "form")
N_VIEWS = len(VIEWS) + 1
"""And kin."""


class _Names(TypedDict):
    """What a file keeps beside the arrays."""

    labels: list[str]
    words: list[str]
    ends: list[str]
    kin: list[str]
    voters: list[str]
    compounds: dict[str, Any]
    views: list[dict[str, Any]]


ARRAYS = {
    "counts": ArrayOf(np.float64, ("words",), low=1.0, high=1e15),
    "means": ArrayOf(np.float64, ("words",), low=-1e6, high=1e6),
    "records": ArrayOf(np.float64, ("ends",), low=-50.0, high=50.0),
    "kin": ArrayOf(np.float64, ("kin", "classes"), low=-1e6, high=1.0),
    "alone": ArrayOf(np.float64, ("voters", "kinds"), low=-50.0, high=50.0),
    "lift": ArrayOf(np.float64, ("kinds",), low=-1e6, high=1e6),
    "shares": ArrayOf(np.float64, ("classes",), low=1e-300, high=1.0),
    "spreads": ArrayOf(np.float64, ("numbers",), low=-1e6, high=1e12),
}


@dataclass(frozen=True)
class _Said:
    """Of units: what context alone and all views tell of each type, (n_units, n_kinds), what each type has beyond its
    share, and what the occurrence itself says (n_units,)."""

    context: FloatArray
    views: FloatArray
    beyond: FloatArray
    here: FloatArray


class WordEvidence:
    """Classifiers of context, form and kin, and what they say of the tokens of a text.

    labels : names of all labels;  weight : what the evidence is multiplied by
    doubt : whether there is evidence about spans that were found too
    """

    def __init__(
        self, labels: Sequence[str], *, weight: float = 1.0, doubt: bool = False, n_jobs: int | None = None
    ) -> None:
        self.labels, self.weight, self.doubt, self.n_jobs = list(labels), weight, doubt, n_jobs
        self.bio = any(label.startswith("B-") for label in self.labels)
        kinds = [label[2:] for label in self.labels if label.startswith("B-")] if self.bio else self.labels
        self.kinds = [kind for kind in kinds if kind != OUTSIDE]
        self.classes = [*self.kinds, *[OUTSIDE][: OUTSIDE in self.labels]]
        self.lift, self.caution = np.zeros(len(self.kinds)), CAUTION
        self.compounds = Compounds(n_jobs)
        self.views = {name: WordView(name, len(self.classes), n_jobs) for name in VIEWS}
        self.spreads: list[Spread] = []
        self.words: dict[str, tuple[float, float]] = {}
        self.records: dict[str, float] = {}
        self.kin: dict[str, FloatArray] = {}
        self.alone: dict[str, FloatArray] = {}

    # learning

    def fit(
        self,
        texts: Sequence[Heard],
        labels: Sequence[Sequence[str]],
        found: Sequence[FloatArray],
        more: Sequence[Sequence[str]] = (),
    ) -> bool:
        """Learn from labelled texts, and from more text without votes; False: there is too little to learn from.

        found : P(label) of every token by the votes, (n_tokens, n_labels) for each text
        """
        if len(texts) < LEAST_TEXTS or sum(k != OUTSIDE for own in labels for k in own) < LEAST_ENTITIES:
            return False
        units = [unit for unit in units_of(texts, labels, bio=self.bio) if OUTSIDE in self.classes or unit.voted]
        if len(set(folds_of(texts, units).tolist())) < 2:
            return False
        names, word = words_of(texts, units)
        kinds = np.array([self.classes.index(unit.kind) for unit in units])
        heads = [head(texts, unit) for unit in units]
        times = Counter(zip(heads, kinds.tolist(), strict=True))
        often = [times[pair] for pair in zip(heads, kinds.tolist(), strict=True)]
        self.shares = (np.bincount(kinds, minlength=len(self.classes)) + 1.0) / (len(units) + len(self.classes))
        by_context = self.views["context"].learn(texts, units, kinds, np.array(often) ** -0.5)
        # form is the same for all occurrences of a word as it is written: one row for each, of its most common type
        written, spelling = spellings_of(texts, units)
        kind = _commonest(spelling, kinds, len(written), len(self.classes))
        by_form = self.views["form"].learn(texts, [units[i] for i in written], kind, np.ones(len(written)))
        if OUTSIDE not in self.classes:
            return True
        self.records = _records(units, heads)
        odds, of_form = _odds(by_context), _odds(by_form)
        single = np.array([units[i].end - units[i].first == 1 for i in written])
        seen = [(odds, word, kinds), (of_form, np.arange(len(written)), np.where(single, kind, -1))]
        tokens = [[heard.token for heard in text] for text in texts]
        always = {token.lower() for text in tokens for token in text}
        vocabulary, vectors = word_vectors(chain(tokens, more), min_count=COMMON, always=always)
        seen.append(self._learn_kin(heads, kinds, vocabulary, vectors))
        spreads = [spreads_of(*view, len(self.kinds)) for view in seen]
        if not all(spreads):
            return False
        self.spreads = [spread for own in spreads for spread in own]
        self.words = _means(names, word, odds)
        if self.bio:
            self.compounds.fit(tokens, [spans_of_labels(own) for own in labels], vocabulary, vectors)
            joined = joined_of(texts, units, self.compounds)
            if joined:
                of_joined = _odds(self.views["context"].of(texts, joined))
                names, word = words_of(texts, joined)
                self.words = {**_means(names, word, of_joined), **self.words}
        self._learn_alone(texts, units, found)
        return True

    def _learn_kin(
        self, heads: Sequence[str], kinds: IntArray, words: Sequence[str], vectors: FloatArray
    ) -> tuple[FloatArray, IntArray, IntArray]:
        """Judge all words by their vectors; log-odds of those that end a unit, which they are, and their types."""
        ends = {name: i for i, name in enumerate(dict.fromkeys(heads))}
        kind = _commonest(np.array([ends[name] for name in heads]), kinds, len(ends), len(self.classes))
        number = {word: i for i, word in enumerate(words)}
        rows, folds = np.array([number[name] for name in ends]), np.array([fold_of(word) for word in words])
        ones = np.ones(len(rows))
        models = classifiers(vectors[rows], kind, folds[rows], ones, len(self.classes), self.n_jobs)
        by_kin = judged(models, vectors, folds)
        self.kin = dict(zip(words, by_kin, strict=True))
        return _odds(by_kin[rows]), np.arange(len(rows)), kind

    def _learn_alone(self, texts: Sequence[Heard], units: Sequence[Unit], found: Sequence[FloatArray]) -> None:
        """How much more, or less, often a function is right where it votes alone than the votes themselves say."""
        lonely = [unit for unit in units if unit.alone and unit.kind != OUTSIDE]
        if not lonely:
            return
        said = self._said(texts, lonely)
        pairs = np.array([self.kinds.index(unit.kind) for unit in lonely])
        by_word = doubted(said.context[np.arange(len(lonely)), pairs])
        own = {kind: [i for i, name in enumerate(self.labels) if name[self.bio * 2 :] == kind] for kind in self.kinds}
        by_votes = np.array([found[u.text][u.first : u.end, own[u.kind]].sum(axis=1).min() for u in lonely])
        for voter in dict.fromkeys(unit.alone for unit in lonely):
            self.alone[voter] = np.zeros(len(self.kinds))
            for kind in range(len(self.kinds)):
                mine = np.array([u.alone == voter for u in lonely]) & (pairs == kind)
                if mine.any():
                    thought = float(np.clip(by_votes[mine].mean(), 1e-4, 1.0 - 1e-4))
                    right = share_right(by_word[mine], thought)
                    self.alone[voter][kind] = np.log(right / (1.0 - right)) - np.log(thought / (1.0 - thought))

    # what it says

    def evidence(self, texts: Sequence[Heard], labels: Sequence[Sequence[str]], inside: FloatArray) -> list[FloatArray]:
        """(n_tokens, n_labels) for each text, from the labels that the votes gave it.

        inside : (2, n_labels) what a second word without a vote, and later ones, get for every label if a span goes on
        """
        made = [np.zeros((len(text), len(self.labels))) for text in texts]
        units = units_of(texts, labels, bio=self.bio)
        if not units:
            return made
        if OUTSIDE not in self.classes:
            by_context, by_form = (self.views[name].of(texts, units) for name in VIEWS)
            for unit, own in zip(units, by_context + by_form - 2.0 * np.log(self.shares), strict=True):
                if not unit.voted:
                    made[unit.text][unit.first] = self.weight * own
            return made
        said = self._said(texts, units)
        of_open = self._open(texts, units, said)
        entities = [i for i, label in enumerate(self.labels) if label != OUTSIDE]
        begins = [self.labels.index(f"B-{kind}" if self.bio else kind) for kind in self.kinds]
        for number, unit in enumerate(units):
            if unit.open:
                made[unit.text][unit.first, begins] = of_open[number]
            elif unit.kind != OUTSIDE and self.doubt:
                kind = self.kinds.index(unit.kind)
                score = doubted(said.context[number, kind]) + said.here[number]
                score += self.alone[unit.alone][kind] if unit.alone in self.alone else 0.0
                made[unit.text][unit.first : unit.end, entities] = self.weight * score / (unit.end - unit.first)
        if self.bio:
            self._join(made, texts, labels, units, inside)
        return made

    def _join(
        self,
        made: Sequence[FloatArray],
        texts: Sequence[Heard],
        labels: Sequence[Sequence[str]],
        units: Sequence[Unit],
        inside: FloatArray,
    ) -> None:
        """Write what neighbours are into the evidence: which open words are one, and over which no span goes on."""
        begins, goes_on = ([self.labels.index(f"{prefix}-{kind}") for kind in self.kinds] for prefix in "BI")
        no_likelier = np.minimum(inside[:, goes_on].min(axis=0), 0.0)  # than to end there
        for unit in units:
            text, t = texts[unit.text], unit.end
            if unit.open and t < len(text) and not text[t].vote and labels[unit.text][t] == OUTSIDE:
                apart = min(0.0, self.compounds.together(text[t - 1].token, text[t].token))
                made[unit.text][t, goes_on] = no_likelier + apart
        wholes = joined_of(texts, units, self.compounds)
        if wholes:
            of_whole = self._open(texts, wholes, self._said(texts, wholes))
            for unit, score in zip(wholes, of_whole, strict=True):
                own = made[unit.text][unit.first : unit.end]
                bonds = self.compounds.bonds([heard.token for heard in texts[unit.text][unit.first : unit.end]])
                whole_or_last(own, score, bonds, begins, goes_on, inside[:, goes_on])

    def _records(self, texts: Sequence[Heard], units: Sequence[Unit]) -> FloatArray:
        return np.array([self.records.get(head(texts, unit), NEW) for unit in units])

    def _open(self, texts: Sequence[Heard], units: Sequence[Unit], said: _Said) -> FloatArray:
        """(n_units, n_kinds) evidence for each type where nobody votes."""
        records = self._records(texts, units)
        found: FloatArray = self.weight * (said.views + said.beyond + (said.here + records)[:, None]) + self.lift
        return found

    def open_words(
        self, texts: Sequence[Heard], labels: Sequence[Sequence[str]], least: float, most: float
    ) -> tuple[list[tuple[int, int]], FloatArray]:
        """Text and token of each, and how many entities of each type are among them, (n_kinds,), as words tell.

        least, most : bounds of their share. Types are as common among what is missed as among what was found.
        """
        all_units = units_of(texts, labels, bio=self.bio)
        units, found = [unit for unit in all_units if unit.open], Counter(unit.kind for unit in all_units)
        of_kinds = np.array([float(found[kind]) for kind in self.kinds])
        if not units or not of_kinds.any():
            return [], np.zeros(len(self.kinds))
        of_kinds /= of_kinds.sum()
        wholes = joined_of(texts, units, self.compounds)
        inner = {(unit.text, t) for unit in wholes for t in range(unit.first, unit.end)}
        judged_as_one = [*wholes, *(unit for unit in units if (unit.text, unit.first) not in inner)]
        records = self.weight * self._records(texts, judged_as_one)
        told = self._open(texts, judged_as_one, self._said(texts, judged_as_one)) - np.log(np.exp(records).mean())
        there = of_kinds > 0.0
        share = self.caution * share_of(np.logaddexp.reduce(told[:, there] + np.log(of_kinds[there]), axis=1))
        return [(unit.text, unit.first) for unit in units], np.clip(share, least, most) * len(judged_as_one) * of_kinds

    def _said(self, texts: Sequence[Heard], units: Sequence[Unit]) -> _Said:
        words, word = words_of(texts, units)
        # the form of a compound is that of its last word
        formed = [unit._replace(first=unit.end - 1) if unit.open else unit for unit in units]
        one, of = spellings_of(texts, formed)
        by_context = self.views["context"].of(texts, units)
        by_form = self.views["form"].of(texts, [formed[i] for i in one])[of]
        heads, usual = [head(texts, unit) for unit in units], np.log(self.shares)
        by_kin = np.array([self.kin.get(name, usual) for name in heads])
        odds, once = _odds(by_context), np.ones(len(units))
        n, mean = self._seen(units, words, word, odds)
        single = np.array([unit.end - unit.first == 1 for unit in formed])
        always, akin = np.ones(len(units), np.bool_), np.array([name in self.kin for name in heads])
        told_by, size = np.zeros((N_VIEWS, len(units), len(self.kinds))), len(self.classes)
        views = ((mean, n, always), (_odds(by_form), once, single), (_odds(by_kin), once, akin))
        for view, (own, times, known) in enumerate(views):
            of_kinds = self.spreads[view * size : (view + 1) * size]
            for kind, spread in enumerate(of_kinds[:-1]):
                told_by[view, :, kind] = np.where(known, told(own, times, spread, of_kinds[-1]), 0.0)
        # what each type has beyond its share among the entities
        shares = self.shares[:-1] / self.shares[:-1].sum()
        beyond = sum(
            view - np.logaddexp.reduce(view, axis=1)[:, None] - np.log(shares)
            for view in (by_context[:, :-1], by_form[:, :-1], by_kin[:, :-1])
        )
        return _Said(told_by[0], told_by.sum(axis=0), np.asarray(beyond), self._varies * (odds - mean))

    @property
    def _varies(self) -> float:
        """How much of the variance within a found word is of entities and others among its occurrences."""
        of_kinds = self.spreads[: len(self.classes)]
        within = float(np.average([own.within for own in of_kinds[:-1]], weights=self.shares[:-1]))
        return max(0.0, 1.0 - of_kinds[-1].within / max(within, 1e-12))

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

    # parts of a model file

    def _parts(self) -> dict[str, Compounds | WordView]:
        return {"compounds": self.compounds, **self.views}

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that :meth:`restore` takes back."""
        table = np.array(list(self.words.values()), np.float64).reshape(-1, 2)
        spreads = np.array([astuple(one) for one in self.spreads], np.float64).ravel()
        arrays = {"counts": table[:, 0].copy(), "means": table[:, 1].copy(), "shares": self.shares, "spreads": spreads}
        arrays |= {"records": np.array(list(self.records.values()), np.float64), "lift": self.lift}
        arrays["kin"] = np.array(list(self.kin.values()), np.float64).reshape(-1, len(self.classes))
        arrays["alone"] = np.array(list(self.alone.values()), np.float64).reshape(-1, len(self.kinds))
        of_parts = {name: part.learned() for name, part in self._parts().items()}
        arrays |= {f"{name}/{key}": array for name, (_, own) in of_parts.items() for key, array in own.items()}
        names = _Names(
            labels=self.labels,
            words=list(self.words),
            ends=list(self.records),
            kin=list(self.kin),
            voters=list(self.alone),
            compounds=of_parts["compounds"][0],
            views=[of_parts[name][0] for name in VIEWS],
        )
        return {**names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`."""
        check_hints(_Names, dict(names), "part")
        if names["labels"] != self.labels:
            raise DataError("the labels of its words are not its labels")
        sizes = {name: len(names[name]) for name in ("words", "ends", "kin", "voters")}
        sizes |= {"classes": len(self.classes), "kinds": len(self.kinds)}
        sizes["numbers"] = 3 * N_VIEWS * len(self.classes) if OUTSIDE in self.classes else 0
        own = check_arrays(ARRAYS, {name: array for name, array in arrays.items() if "/" not in name}, **sizes)
        self.shares, self.lift = own["shares"], own["lift"]
        pairs = zip(own["counts"].tolist(), own["means"].tolist(), strict=True)
        self.words = dict(zip(names["words"], pairs, strict=True))
        self.records = dict(zip(names["ends"], own["records"].tolist(), strict=True))
        self.kin = dict(zip(names["kin"], own["kin"], strict=True))
        self.alone = dict(zip(names["voters"], own["alone"], strict=True))
        self.spreads = [Spread(*row) for row in own["spreads"].reshape(-1, 3).tolist()]
        if any(one.between <= 0.0 or one.within < 0.0 for one in self.spreads):
            raise DataError("a spread of its words is a variance and must be positive")
        if len(names["views"]) != len(VIEWS):
            raise DataError(f"expected {len(VIEWS)} views of words, {' and '.join(VIEWS)}")
        headers = {"compounds": names["compounds"], **dict(zip(VIEWS, names["views"], strict=True))}
        for name, part in self._parts().items():
            mine = {key.partition("/")[2]: a for key, a in arrays.items() if key.startswith(f"{name}/")}
            part.restore(headers[name], mine)


def _means(names: Sequence[str], word: IntArray, odds: FloatArray) -> dict[str, tuple[float, float]]:
    """How often each word occurs, and its mean log-odds."""
    n = np.bincount(word).astype(np.float64)
    return dict(zip(names, zip(n.tolist(), (np.bincount(word, odds) / n).tolist(), strict=True), strict=True))


def _commonest(word: IntArray, kinds: IntArray, n_words: int, n_kinds: int) -> IntArray:
    """The commonest type of each word."""
    tally = np.zeros((n_words, n_kinds))
    np.add.at(tally, (word, kinds), 1.0)
    found: IntArray = tally.argmax(axis=1)
    return found


def _records(units: Sequence[Unit], heads: Sequence[str]) -> dict[str, float]:
    """log (h + 1) / (n + 1) of all words that end an entity or are open."""
    kept = [(unit, name) for unit, name in zip(units, heads, strict=True) if unit.open or unit.kind != OUTSIDE]
    times = Counter((name, found) for _, name, found in {(unit.text, name, not unit.open) for unit, name in kept})
    ends = dict.fromkeys(name for _, name in kept)
    return {name: float(np.log((times[name, True] + 1.0) / (times[name, False] + 1.0))) for name in ends}


def _odds(view: FloatArray) -> FloatArray:
    """Log-odds of an entity against "O", the last class."""
    found: FloatArray = np.logaddexp.reduce(view[:, :-1], axis=1) - view[:, -1]
    return found
