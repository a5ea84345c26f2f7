"""Differences between predictions and gold: runs of tokens with one wrong label, most frequent confusions first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby

from trellis.data.bio import unmarked
from trellis.data.document import Document


@dataclass(frozen=True)
class Mistake:
    """Tokens first..last−1 of a text, which have one label in gold and another in the output."""

    text: int
    first: int
    last: int


@dataclass(frozen=True)
class Confusion:
    """All places where ``gold`` was taken for ``found``; tokens : how many those are."""

    gold: str
    found: str
    tokens: int
    mistakes: tuple[Mistake, ...]


def confusions(gold: Sequence[Document], output: Sequence[Document]) -> list[Confusion]:
    """Confusions in texts with the same tokens; tokens without a gold label are skipped.

    >>> from trellis.data.tokens import as_documents
    >>> truth = as_documents(["Ann Lee 1999"], [["NAME", "NAME", "YEAR"]])
    >>> found = as_documents(["Ann Lee 1999"], [["NAME", "YEAR", "YEAR"]])
    >>> confusions(truth, found)
    [Confusion(gold='NAME', found='YEAR', tokens=1, mistakes=(Mistake(text=0, first=1, last=2),))]
    """
    places: dict[tuple[str, str], list[Mistake]] = {}
    for number, (one, other) in enumerate(zip(gold, output, strict=True)):
        labels = unmarked(one.labels or (None,) * len(one))
        answers = unmarked(other.labels or (None,) * len(other))
        at = 0
        for (truth, answer), run in groupby(zip(labels, answers, strict=True)):
            end = at + len(list(run))
            if truth is not None and truth != answer:
                places.setdefault((truth, answer or "_"), []).append(Mistake(number, at, end))
            at = end
    found = [Confusion(*pair, sum(m.last - m.first for m in own), tuple(own)) for pair, own in places.items()]
    return sorted(found, key=lambda one: (-one.tokens, one.gold, one.found))
