"""What words are judged as: spans that were found, and the other words one by one.

A text is *heard*: tokens, each with a vote that is cast on it. Its *units* are the spans that the votes' labels have,
and every other token with a letter; an *open* one has no vote and is labelled "O".
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from trellis.data.ragged import IntArray
from trellis.data.voted import OUTSIDE, VotedText, spans_of_labels
from trellis.tasks.compounds import Compounds

SENTENCE_ENDS = frozenset((".", "!", "?", '"', "``", "“", "”", "''"))
"""After these a capital may be that of a sentence."""


class HeardToken(NamedTuple):
    """A token, a vote that is cast on it, empty where none is, and the function, where it votes alone."""

    token: str
    vote: str = ""
    alone: str = ""


Heard = Sequence[HeardToken]
"""A text."""


def heard_of(text: VotedText) -> Heard:
    """Tokens, each with the first vote that is cast on it, and the function that casts it if no other votes there."""
    made = []
    for t, token in enumerate(text.tokens):
        cast = [(own[t], name) for name, own in text.votes.items() if own[t] is not None]
        made.append(HeardToken(token, *(("", "") if not cast else (cast[0][0] or "", cast[0][1] * (len(cast) == 1)))))
    return made


class Unit(NamedTuple):
    """A span that is labelled as an entity, or another token or compound: its text, first to end, type (or "O").

    alone : the function, where no other votes on it
    """

    text: int
    first: int
    end: int
    kind: str
    voted: bool
    alone: str = ""

    @property
    def open(self) -> bool:
        return self.kind == OUTSIDE and not self.voted


def units_of(texts: Sequence[Heard], labels: Sequence[Sequence[str]], *, bio: bool) -> list[Unit]:
    """Spans, and other tokens, but none without a letter."""
    made = []
    for number, (text, own) in enumerate(zip(texts, labels, strict=True)):
        spans = {first: (end, kind) for first, end, kind in spans_of_labels(own)} if bio else {}
        at = 0
        while at < len(text):
            end, kind = spans.get(at, (at + 1, OUTSIDE if bio else own[at]))
            if kind != OUTSIDE or any(sign.isalpha() for sign in text[at].token):
                voters = {heard.alone for heard in text[at:end] if heard.vote}
                alone = voters.pop() if len(voters) == 1 else ""
                made.append(Unit(number, at, end, kind, any(heard.vote for heard in text[at:end]), alone))
            at = end
    return made


def joined_of(texts: Sequence[Heard], units: Sequence[Unit], compounds: Compounds) -> list[Unit]:
    """Compounds: open words, each of which is likelier to belong to the next than not."""
    made: list[Unit] = []
    for unit in units:
        last = made[-1] if made else None
        if last and unit.open and last.open and (unit.text, unit.first) == (last.text, last.end):
            text = texts[unit.text]
            if compounds.together(text[unit.first - 1].token, text[unit.first].token) > 0.0:
                made[-1] = last._replace(end=unit.end)
                continue
        made.append(unit)
    return [unit for unit in made if unit.open and unit.end - unit.first > 1]


def head(texts: Sequence[Heard], unit: Unit) -> str:
    """The last word of a unit."""
    return texts[unit.text][unit.end - 1].token.lower()


def written(texts: Sequence[Heard], unit: Unit) -> str:
    """All words of a unit."""
    return " ".join(heard.token for heard in texts[unit.text][unit.first : unit.end])


def begins_sentence(text: Heard, at: int) -> bool:
    """Whether the capital of a token may be that of a sentence."""
    return at == 0 or text[at - 1].token in SENTENCE_ENDS


def words_of(texts: Sequence[Heard], units: Sequence[Unit]) -> tuple[list[str], IntArray]:
    """The words of units (of a span all of them), and which one each unit is."""
    number: dict[str, int] = {}
    of = [number.setdefault(written(texts, unit).lower(), len(number)) for unit in units]
    return list(number), np.array(of, np.int64)


def spellings_of(texts: Sequence[Heard], units: Sequence[Unit]) -> tuple[list[int], IntArray]:
    """The first unit of each word as it is written inside of a sentence or at its beginning, and which each unit is."""
    number: dict[tuple[str, bool], int] = {}
    keys = [(written(texts, unit), begins_sentence(texts[unit.text], unit.end - 1)) for unit in units]
    of = np.array([number.setdefault(key, len(number)) for key in keys], np.int64)
    return np.unique(of, return_index=True)[1].tolist(), of
