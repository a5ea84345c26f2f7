"""Abbreviations as a labelling function: "nitric oxide ( NO )" defines NO for the whole text.

The letters of the short form are matched backwards in the words before the bracket, and the first letter must begin a
word (Schwartz and Hearst 2003). If other functions vote for the long form, this one votes for every occurrence of the
short form.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from trellis.apps.aggregate.majority import span_vote
from trellis.data.document import Document
from trellis.data.voted import Span, spans_of_labels, votes_of_spans
from trellis.errors import DataError

SHORT_FORMS = "short forms"
"""Name of the function."""
OPENING, CLOSING = ("(", "["), (")", "]", ";", ",")
LONGEST = 10
"""Maximum number of letters of a short form; the minimum is two."""


def with_short_forms(text: Document) -> Document:
    """The text with the votes of this function, if it has any.

    >>> text = Document(("nitric", "oxide", "(", "NO", ")"), votes={"f": ("B-DRUG", "I-DRUG", None, None, None)})
    >>> with_short_forms(text).votes["short forms"]
    (None, None, None, 'B-DRUG', None)
    """
    if SHORT_FORMS in text.votes:
        message = f"a labelling function cannot be called {SHORT_FORMS!r}: that name is taken. Give it another one"
        raise DataError(message, path=text.path, line=text.line)
    explained = list(short_forms(text.tokens))
    if not explained:
        return text
    [labels] = span_vote([text])
    entity = {end: (first, kind) for first, end, kind in spans_of_labels(labels)}
    kinds = {short: entity[end][1] for first, end, short in explained if end in entity and entity[end][0] <= first}
    spans: list[Span] = [(t, t + 1, kinds[token]) for t, token in enumerate(text.tokens) if token in kinds]
    if not spans:
        return text
    return replace(text, votes={**text.votes, SHORT_FORMS: votes_of_spans(len(text), spans)})


def short_forms(tokens: Sequence[str]) -> Iterator[tuple[int, int, str]]:
    """First token of the long form, the one after its last, and the short form.

    >>> list(short_forms("effects of nitric oxide ( NO ) on rats ( UK )".split()))
    [(2, 4, 'NO')]
    """
    for at in range(1, len(tokens) - 2):
        short = tokens[at + 1]
        if tokens[at] not in OPENING or tokens[at + 2] not in CLOSING or not _may_be_short(short):
            continue
        first = max(0, at - min(len(short) + 5, 2 * len(short)))
        begin = _begins(short, tokens[first:at])
        if begin is not None and list(tokens[first + begin : at]) != [short]:
            yield first + begin, at, short


def _may_be_short(token: str) -> bool:
    return 2 <= len(token) <= LONGEST and token[0].isalnum() and any(sign.isupper() for sign in token)


def _begins(short: str, words: Sequence[str]) -> int | None:
    """Index of the word at which its long form begins, or None."""
    text = "\n".join(words).lower()
    at = len(text)
    letters = [sign for sign in short.lower() if sign.isalnum()]
    for number in range(len(letters) - 1, -1, -1):
        at -= 1
        while at >= 0 and (text[at] != letters[number] or (number == 0 and at > 0 and text[at - 1].isalnum())):
            at -= 1
        if at < 0:
            return None
    return text.count("\n", 0, at)
