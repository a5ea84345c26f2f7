"""Mentions of sentences: where they begin and end, and long sentences cut into runs of them.

A MentionFinder learns to find them by a CRF from sentences whose mentions are known.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from trellis.apps.parse.tagger import Tagger
from trellis.data.bio import runs
from trellis.data.document import Document, Relation, Span
from trellis.errors import DataError
from trellis.models.crf import CRF
from trellis.models.relation_features import shape

BEGIN, INSIDE, OUTSIDE = "B", "I", "O"
MOST_MENTIONS = 100
"""Mentions of a sentence that are read together: pairs, and their features, grow with the square of them."""


class MentionFinder:
    """Finds mentions, without their types.

    Learned: ``crf_``, over begin, inside and outside.
    """

    crf_: CRF

    def __init__(self, *, l2: float = 0.5, min_count: int = 2, max_iter: int = 60) -> None:
        self.l2, self.min_count, self.max_iter = l2, min_count, max_iter

    @classmethod
    def of(cls, crf: CRF) -> MentionFinder:
        """One with a CRF that is trained."""
        made = cls()
        if set(getattr(crf, "label_names_", ())) != {BEGIN, INSIDE, OUTSIDE}:
            raise DataError("a finder of mentions must be a CRF with the labels B, I and O")
        made.crf_ = crf
        return made

    def fit(self, texts: Sequence[Document]) -> Self:
        """Learn from sentences with mentions."""
        crf = CRF(
            [BEGIN, INSIDE, OUTSIDE], min_count=self.min_count, l2=self.l2, max_iter=self.max_iter, tol=1e-5
        )  # fmt: skip
        crf.fit([described(text.tokens) for text in texts], [_labels(text) for text in texts])
        self.crf_ = crf
        return self

    def find(self, texts: Sequence[Document]) -> list[Document]:
        """The sentences with the mentions that are found."""
        labels = self.crf_.predict([described(text.tokens) for text in texts])
        return [replace(text, spans=_mentions(own), relations=None) for text, own in zip(texts, labels, strict=True)]


def described(tokens: Sequence[str]) -> list[list[str]]:
    """Features of every token: its word, shape and affixes, and its neighbours'."""
    lower, shapes = [t.lower() for t in tokens], [shape(t) for t in tokens]

    def near(values: Sequence[str], place: int) -> str:
        return values[place] if 0 <= place < len(values) else "<>"

    found = []
    for t in range(len(tokens)):
        own = [f"w={lower[t]}", f"s={shapes[t]}", f"first={t == 0}"]
        own += [f"{n}{end}={part}" for n in (2, 3) for end, part in (("pre", lower[t][:n]), ("suf", lower[t][-n:]))]
        for d in (-2, -1, 1, 2):
            own += [f"w{d}={near(lower, t + d)}", f"s{d}={near(shapes, t + d)}"]
        own += [f"ss={near(shapes, t - 1)}_{shapes[t]}_{near(shapes, t + 1)}", f"ww={near(lower, t - 1)}_{lower[t]}"]
        found.append(own)
    return found


def _labels(text: Document) -> list[str]:
    labels = [OUTSIDE] * len(text.tokens)
    for m in text.spans or ():
        labels[m.first : m.last] = [BEGIN] + [INSIDE] * (m.last - m.first - 1)
    return labels


def _mentions(labels: Sequence[str]) -> tuple[Span, ...]:
    """An I that continues nothing begins a mention."""
    fields = runs([label if label == OUTSIDE else f"{label}-mention" for label in labels])
    return tuple(Span(None, first, last) for _, first, last in fields)


def with_mentions(texts: Sequence[Document], finder: MentionFinder | None) -> list[Document]:
    """The sentences, those without mentions with the ones that are found."""
    without = [number for number, text in enumerate(texts) if text.spans is None]
    if without and finder is None:
        text = texts[without[0]]
        raise DataError(
            f"sentence {without[0]} has no mentions, and the model was trained without a finder: give mentions, or "
            "train with finder=True",
            path=text.path,
            line=text.line,
        )
    made = list(texts)
    if finder is not None and without:
        for number, text in zip(without, finder.find([texts[n] for n in without]), strict=True):
            made[number] = text
    return made


def with_tags(texts: Sequence[Document], tagger: Tagger | None) -> list[Document]:
    """The sentences, those without tags with the tagger's."""
    if tagger is None:
        return list(texts)
    without = [text for text in texts if "tag" not in text.columns]
    found = iter(tagger.predict(Document(text.tokens) for text in without))
    return [
        text
        if "tag" in text.columns
        else replace(text, columns={**text.columns, "tag": tuple(map(str, next(found).labels or ()))})
        for text in texts
    ]


def split_long(texts: Sequence[Document]) -> tuple[list[Document], list[int]]:
    """Sentences, those with too many mentions as several with a run of these each; and the number of each one's own."""
    pieces: list[Document] = []
    owner: list[int] = []
    for number, text in enumerate(texts):
        mentions = text.spans or ()
        parts = [mentions[a : a + MOST_MENTIONS] for a in range(0, len(mentions), MOST_MENTIONS)] or [mentions]
        if len(parts) > 1:
            where = f"line {text.line} of {text.path}" if text.path is not None else f"sentence {number}"
            warnings.warn(
                f"{where} has {len(mentions)} mentions: relations are only found within groups of {MOST_MENTIONS} "
                "mentions; split the text into sentences",
                UserWarning,
                stacklevel=3,
            )
        for run in parts:
            pieces.append(replace(text, spans=run, relations=None) if len(parts) > 1 else text)
            owner.append(number)
    return pieces, owner


def joined(texts: Sequence[Document], pieces: Sequence[Document], owner: Sequence[int]) -> list[Document]:
    """The answer of each sentence from those of its runs of mentions."""
    if len(pieces) == len(texts):
        return list(pieces)
    mentions: list[list[Span]] = [[] for _ in texts]
    relations: list[list[Relation]] = [[] for _ in texts]
    for piece, number in zip(pieces, owner, strict=True):
        first = len(mentions[number])
        mentions[number] += piece.spans or ()
        relations[number] += [replace(r, first=r.first + first, second=r.second + first) for r in piece.relations or ()]
    return [
        replace(text, spans=tuple(found), relations=tuple(ties))
        for text, found, ties in zip(texts, mentions, relations, strict=True)
    ]
