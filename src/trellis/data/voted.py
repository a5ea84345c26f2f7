"""Texts with the votes of labelling functions: the input of weak supervision.

A *vote* is one function's guess at one token. It is the name of a label (``B-Disease``, ``O``, ``POSITIVE``), or None
where the function abstains. Spans become votes in the BIO way: the first token ``B-TYPE``, the others ``I-TYPE``.

    labels of types A, B     O, B-A, I-A, B-B, I-B
    valid                    I-A follows B-A or I-A, and nothing else
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from trellis.data.bio import BEGINS, GOES_ON, NO_FIELD, runs, split_bio
from trellis.data.document import Document
from trellis.data.ragged import BoolArray
from trellis.errors import DataError, counted

OUTSIDE = NO_FIELD
ANY = "*"
"""The type of a vote that says "some entity" and not which."""

Span = tuple[int, int, str]
"""First token, the one after the last, type."""


def begun(text: Document) -> Document:
    """The text with an ``I-`` vote that continues nothing read as ``B-``, as conlleval does."""
    found = {}
    for function, votes in text.votes.items():
        before = (None, *votes[:-1])
        found[function] = tuple(
            f"{BEGINS}{v[2:]}" if v is not None and v[:2] == GOES_ON and (b is None or b[1:] != v[1:]) else v
            for b, v in zip(before, votes, strict=False)
        )
    return replace(text, votes=found) if found != text.votes else text


def votes_of_spans(n_tokens: int, spans: Iterable[Span]) -> tuple[str | None, ...]:
    """Spans of one function as votes; of spans that overlap the first one stands.

    >>> votes_of_spans(4, [(1, 3, "DRUG")])
    (None, 'B-DRUG', 'I-DRUG', None)
    """
    votes: list[str | None] = [None] * n_tokens
    for start, end, kind in spans:
        if not 0 <= start < end <= n_tokens:
            raise DataError(
                f"the span [{start}, {end}, {kind!r}] does not lie in a text of {counted(n_tokens, 'token')}"
            )
        if all(vote is None for vote in votes[start:end]):
            votes[start:end] = [BEGINS + kind, *[GOES_ON + kind] * (end - start - 1)]
    return tuple(votes)


def spans_of_labels(labels: Sequence[str]) -> list[Span]:
    """BIO labels as spans; an ``I-`` that continues nothing begins a span, as conlleval has it.

    >>> spans_of_labels(["O", "B-A", "I-A", "I-B"])
    [(1, 3, 'A'), (3, 4, 'B')]
    """
    marked = [label if split_bio(label)[1] != label else OUTSIDE for label in labels]
    return [(first, last, kind) for kind, first, last in runs(marked)]


def follows(labels: Sequence[str]) -> BoolArray:
    """(n_labels + 1, n_labels): whether a label may follow another; the last row is the beginning of a text.

    Of labels that are not BIO all may.
    """
    allowed = np.ones((len(labels) + 1, len(labels)), dtype=np.bool_)
    for to, label in enumerate(labels):
        begins = BEGINS + label.removeprefix(GOES_ON)
        if label.startswith(GOES_ON) and begins in labels:
            before = [labels.index(label), labels.index(begins)]
            allowed[:, to] = False
            allowed[before, to] = True
    return allowed


def is_bio(votes: Iterable[str]) -> bool:
    """Whether votes are BIO labels: every one is ``O`` or begins with ``B-`` or ``I-``, and some begin so."""
    found = set(votes) - {OUTSIDE}
    return bool(found) and all(vote.startswith((BEGINS, GOES_ON)) for vote in found)


def kinds_of(votes: Iterable[str], coarse: Mapping[str, Any]) -> list[str]:
    """Types (of BIO votes) or labels, in the order in which they come, without the coarse ones and ``*``."""
    found = list(dict.fromkeys(votes))
    if is_bio(found):
        found = [str(split_bio(vote)[1]) for vote in found if vote != OUTSIDE]
    return [name for name in dict.fromkeys(found) if name != ANY and name not in coarse]
