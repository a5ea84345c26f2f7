"""Labelled spans over characters of a text: their tokens, the labels of these, and probabilities of predicted spans."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite
from typing import Any

from trellis.data.bio import BEGINS, GOES_ON, NO_FIELD, where_needed
from trellis.data.checks import is_whole
from trellis.data.document import Document, Span, fields_of
from trellis.errors import DataError

Place = tuple[int, int, str]
"""First character, the one after the last, label."""


def place(start: Any, end: Any, label: Any) -> Place:
    """A place with its numbers and label checked.

    >>> place(0, 3.0, "NAME")
    (0, 3, 'NAME')
    """
    if not isinstance(label, str | int) or isinstance(label, bool) or label == "":
        raise ValueError(label)
    found = tuple(int(one) if isinstance(one, float | str) and float(one).is_integer() else one for one in (start, end))
    if not all(map(is_whole, found)):
        raise ValueError(found)
    return int(found[0]), int(found[1]), str(label)


def check_places(text: str, places: Iterable[Place]) -> None:
    """Refuse places outside of a text."""
    for start, end, label in places:
        if not 0 <= start < end <= len(text):
            raise DataError(f"the span [{start}, {end}, {label!r}] does not lie in its text of {len(text)} characters")


def spanned(document: Document, places: Iterable[Place]) -> Document:
    """The document with spans over characters, and labels for its tokens."""
    spans = []
    try:
        places = list(places)
        check_places(document.text, places)
    except DataError as error:
        raise DataError(str(error), path=document.path, line=document.line) from None
    for start, end, label in places:
        touched = [t for t, (low, high) in enumerate(document.offsets) if low < end and high > start]
        if touched:
            spans.append(document.span(touched[0], touched[-1] + 1, label))
    return replace(document, labels=_labels(document, spans), spans=spans)


def _labels(document: Document, spans: Sequence[Span]) -> tuple[str | None, ...]:
    labels: list[str | None] = [NO_FIELD] * len(document)
    for span in sorted(spans, key=lambda one: (one.first - one.last, one.first)):
        if all(labels[t] == NO_FIELD for t in range(span.first, span.last)):
            labels[span.first : span.last] = [
                f"{BEGINS}{span.label}", *[f"{GOES_ON}{span.label}"] * (span.last - span.first - 1)
            ]  # fmt: skip
    return where_needed(labels)


def cut_at(document: Document, places: Sequence[Place]) -> Document:
    """The same text with spans over characters; tokens are cut where they begin and end."""
    ends = sorted({place for start, end, _ in places for place in (start, end)})
    offsets: list[tuple[int, int]] = []
    for low, high in document.offsets:
        offsets += pairwise((low, *ends[bisect_right(ends, low) : bisect_left(ends, high)], high))
    if len(offsets) > len(document):
        tokens = tuple([document.text[low:high] for low, high in offsets])
        document = Document(tokens, text=document.text, offsets=tuple(offsets), path=document.path, line=document.line)
    return spanned(document, places)


def labelled_by_spans(document: Document) -> Document:
    """The document with labels from its spans, if it has only these.

    >>> labelled_by_spans(Document(("Ann", "ran"), spans=[Span("NAME", 0, 1)])).labels
    ('NAME', 'O')
    """
    if document.labels is not None or document.spans is None or any(span.label is None for span in document.spans):
        return document
    return replace(document, labels=_labels(document, document.spans))


def scores_of(given: Any) -> dict[Place, float]:
    """Probabilities of spans of a JSON list, by their places; entries without any are left out."""
    found = dict[Place, float]()
    for one in given if isinstance(given, list) else ():
        score = one.get("probability", one.get("score")) if isinstance(one, Mapping) else None
        if isinstance(score, int | float) and isfinite(score):
            found[one.get("start"), one.get("end"), one.get("label")] = float(score)
    return found


def scored(document: Document, scores: Mapping[Place, float]) -> Document:
    """The document with its spans as predictions, with these probabilities."""
    spans = [replace(s, probability=scores.get((s.start, s.end, s.label or ""))) for s in document.spans or ()]
    return replace(document, spans=spans, predicted=True)


def is_labelled(document: Document) -> bool:
    """Whether something is known of its spans; a text without spans has been looked at."""
    return document.spans is not None or any(label is not None for label in document.labels or ())


def spans_of(document: Document) -> Sequence[Span]:
    """The spans of a document; without any, the fields of its labels."""
    return fields_of(document, document.labels or ()) if document.spans is None else document.spans


def places_of(document: Document) -> list[Place]:
    """The same, by characters."""
    return [(span.start, span.end, span.label or "") for span in spans_of(document)]
