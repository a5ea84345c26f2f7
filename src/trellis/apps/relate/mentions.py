"""MentionFinder: where mentions begin and end, learned by a CRF from sentences whose mentions are known."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Self

from trellis.data.document import Document, Span
from trellis.errors import DataError
from trellis.models.crf import CRF
from trellis.models.relation_features import shape

BEGIN, INSIDE, OUTSIDE = "B", "I", "O"


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
            raise DataError("a finder of mentions is a CRF over the labels B, I and O")
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
    found: list[Span] = []
    for at, label in enumerate(labels):
        if label == INSIDE and found and found[-1].last == at:
            found[-1] = Span(None, found[-1].first, at + 1)
        elif label != OUTSIDE:
            found.append(Span(None, at, at + 1))
    return tuple(found)
