"""What words say about labels beside the votes: a CRF on words, its view of each text learned from the other texts.

Labelling functions know some words. What else a text shows (endings, shapes, neighbours, classes of words that keep the
same company) is a second view of the same labels (Ganchev et al. 2010, sec. 6): CRFs learn it from what the votes gave,
each from all texts but one fold, and judge the texts of that fold. The two views are combined as their product,

    evidence_t[k] = weight · (log p_CRF(y_t = k) − log share of k)

at tokens where no function votes: a vote has looked at the word already, and the CRF learned from it. There, of
labels with an "O",

- words that no function ever votes on are not told apart (unless they are very common), but are known by their endings,
  shapes, classes and neighbours: else the CRF learns by heart that what the dictionaries lack is no entity;
- the evidence for an entity is the mean of what this occurrence says and what the word's occurrences say on average;
- ``lift`` is added to the evidence for an entity. The CRF was taught that whatever the functions miss is "O" (positive
  and unlabelled examples: Elkan and Noto 2008), so its odds are too low by the share that they miss.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.data.ragged import FloatArray
from trellis.data.voted import OUTSIDE
from trellis.errors import ConvergenceWarning, DataError
from trellis.models import CRF
from trellis.models.arrays import ArrayOf, check_arrays
from trellis.models.hints import check_hints
from trellis.models.saving import from_archive, to_archive
from trellis.tasks.word_company import word_company

LEAST_TEXTS = 20
LEAST_ENTITIES = 20
"""With fewer texts, or fewer tokens that are not "O", there is nothing to learn a view from."""
SMALLEST = 1e-7
OWN_SHARE = 0.5
"""Of what an occurrence says; the mean over the word's occurrences has the rest."""


Heard = Sequence[tuple[str, str]]
"""A text: each token with a vote that is cast on it, empty where none is."""


class _Names(TypedDict):
    """What a file keeps of a view beside the arrays."""

    labels: list[str]
    company: list[list[int]]
    words: list[str]
    told_apart: list[str]
    crfs: list[dict[str, Any]]


COMMON = 100
"""A word seen so often is told apart although no function ever votes on it: it is no entity that they all missed."""


ARRAYS = {
    "words": ArrayOf(np.float64, ("words",)),
    "shares": ArrayOf(np.float64, ("labels",), low=1e-300, high=1.0),
}


class WordEvidence:
    """CRFs on words, and what they say of a token.

    labels : names of all labels;  weight, lift : see above;  folds : CRFs, each of which does not see one fold
    l2 : of the CRFs
    """

    def __init__(
        self,
        labels: Sequence[str],
        *,
        weight: float,
        lift: float,
        folds: int,
        l2: float = 3.0,
        random_state: int | None = 0,
        n_jobs: int | None = None,
    ) -> None:
        self.labels, self.weight, self.lift, self.folds = list(labels), weight, lift, folds
        self.l2, self.random_state, self.n_jobs = l2, random_state, n_jobs

    def fit(self, texts: Sequence[Heard], labels: Sequence[Sequence[str]]) -> list[FloatArray] | None:
        """Learn from labelled texts, and give the log-probabilities of each by the CRF that did not see it.


        None: there is too little to learn from.
        """
        named = [k for own in labels for k in own]
        if len(texts) < max(LEAST_TEXTS, 2 * self.folds) or sum(k != OUTSIDE for k in named) < LEAST_ENTITIES:
            return None
        self.told_apart = _told_apart(texts)
        self.company = word_company([[word for word, _ in text] for text in texts], random_state=self.random_state)
        self.shares = np.array([(named.count(k) + 1.0) / (len(named) + len(self.labels)) for k in self.labels])
        fold = np.arange(len(texts)) % self.folds
        self.crfs: list[CRF] = []
        found: list[FloatArray] = [np.zeros((0, len(self.labels)))] * len(texts)
        for number in range(self.folds):
            crf = self._crf()
            seen = np.flatnonzero(fold != number).tolist()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)  # it need not be at its optimum to be of use
                crf.fit([texts[i] for i in seen], [labels[i] for i in seen])
            self.crfs.append(crf)
            rest = np.flatnonzero(fold == number).tolist()
            for i, node in zip(rest, crf.predict_proba([texts[i] for i in rest]), strict=True):
                found[i] = np.log(node + SMALLEST)
        self._learn_words(texts, found)
        return found

    def view(self, texts: Sequence[Heard]) -> list[FloatArray]:
        """Log-probabilities of new texts: the mean over all CRFs."""
        views = [crf.predict_proba(texts) for crf in self.crfs]
        return [np.mean([np.log(node + SMALLEST) for node in own], axis=0) for own in zip(*views, strict=True)]

    def evidence(self, text: Heard, view: FloatArray) -> FloatArray:
        """(n_tokens, n_labels) for a text, from its view; nothing where a function votes."""
        if not len(text):
            return np.zeros((0, len(self.labels)))
        scores = self.weight * (view - np.log(self.shares))
        quiet = np.array([not vote for _, vote in text])[:, None]
        if OUTSIDE not in self.labels:
            return np.where(quiet, scores, 0.0)
        outside = self.labels.index(OUTSIDE)
        scores = scores - scores[:, [outside]]
        own = self._odds(view)
        words = np.array([self.words.get(token.lower(), np.nan) for token, _ in text])
        usual = np.where(np.isnan(words), own, words)
        change = self.weight * (1.0 - OWN_SHARE) * (usual - own) + self.lift
        scores = scores + np.where(np.arange(len(self.labels)) == outside, 0.0, change[:, None])
        return np.where(quiet, scores, 0.0)

    def _crf(self) -> CRF:
        return CRF(self.labels, l2=self.l2, max_iter=60, tol=1e-4, features=self.describe, n_jobs=self.n_jobs)

    def _odds(self, view: FloatArray) -> FloatArray:
        """(n_tokens,) log-odds of an entity against "O"."""
        if OUTSIDE not in self.labels:
            return np.zeros(len(view))
        not_entity = np.exp(view[:, self.labels.index(OUTSIDE)]).clip(0.0, 1.0)
        return np.asarray(np.log(1.0 - not_entity + 1e-4) - np.log(not_entity + 1e-4))

    def _learn_words(self, texts: Sequence[Heard], views: Sequence[FloatArray]) -> None:
        total: dict[str, float] = {}
        number: dict[str, int] = {}
        for text, view in zip(texts, views, strict=True):
            for (token, _), odds in zip(text, self._odds(view).tolist() if len(text) else (), strict=True):
                key = token.lower()
                total[key], number[key] = total.get(key, 0.0) + odds, number.get(key, 0) + 1
        self.words = {key: total[key] / number[key] for key in total}

    def describe(self, text: Heard, at: int) -> list[str]:
        """Features of a token; of a text that is one token, its words. Of votes, those of its neighbours alone."""
        token = text[at][0]
        word = token.lower()
        found = ["bias", "s=" + shape(token)]
        if " " in token:
            return ["bias", *("u=" + part for part in sorted(set(word.split())))]
        known = word in self.told_apart
        if known:
            found.append("w=" + word)
        found += [f"p{n}={word[:n]}" for n in (3, 4)] + [f"x{n}={word[-n:]}" for n in (2, 3, 4)]
        for step in (-2, 2):
            if 0 <= at + step < len(text) and text[at + step][1]:
                found.append(f"v{step}={text[at + step][1]} {text[at + step // 2][0].lower()}")
        for step in (-1, 1):
            place = at + step
            if not 0 <= place < len(text):
                found.append(f"w{step}=#")
                continue
            near = text[place][0].lower()
            found += [f"w{step}={near}", f"x{step}={near[-3:]}", f"s{step}={shape(text[place][0])}"]
            if known:
                found.append(f"b{step}={near} {word}")
            found += [f"c{n}{step}={code}" for n, code in enumerate(self.company.get(near, ()))]
        return found + [f"c{n}={code}" for n, code in enumerate(self.company.get(word, ()))]

    # parts of a model file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """JSON and arrays that :meth:`restored` takes back."""
        archives = [to_archive(crf) for crf in self.crfs]
        arrays = {f"{n}/{key}": array for n, (_, own) in enumerate(archives) for key, array in own.items()}
        arrays |= {"words": np.array(list(self.words.values()), np.float64), "shares": self.shares}
        names = _Names(
            labels=self.labels,
            words=list(self.words),
            told_apart=sorted(self.told_apart),
            company=[list(self.company.get(w, ())) for w in self.words],
            crfs=[header for header, _ in archives],
        )
        return {**names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`learned`."""
        check_hints(_Names, dict(names), "part")
        words, company = names["words"], names["company"]
        if names["labels"] != self.labels:
            raise DataError("the labels of its words are not its labels")
        if len(words) != len(company):
            raise DataError("expected as many words as classes of words")
        own = {name: array for name, array in arrays.items() if "/" not in name}
        own = check_arrays(ARRAYS, own, words=len(words), labels=len(self.labels))
        self.shares = own["shares"]
        self.words = dict(zip(words, own["words"].tolist(), strict=True))
        self.told_apart = frozenset(names["told_apart"])
        self.company = {w: tuple(codes) for w, codes in zip(words, company, strict=True) if codes}
        if not names["crfs"]:
            raise DataError("a view of words needs at least one CRF")
        self.crfs = []
        for n, header in enumerate(names["crfs"]):
            mine = {key.partition("/")[2]: a for key, a in arrays.items() if key.startswith(f"{n}/")}
            crf = from_archive(header, mine, features=self.describe)
            if not isinstance(crf, CRF) or list(crf.label_names_.names) != self.labels:
                raise DataError(f"the model of words in it must be a CRF over {self.labels}, and is not")
            self.crfs.append(crf)


def _told_apart(texts: Sequence[Heard]) -> frozenset[str]:
    """Words that some function votes on somewhere, and the common ones."""
    counts = Counter(token.lower() for text in texts for token, _ in text)
    voted = {token.lower() for text in texts for token, vote in text if vote}
    return frozenset(voted | {word for word, n in counts.items() if n >= COMMON})


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
