"""Short forms that a text explains: "nitric oxide ( NO )" says what NO means wherever the text has it.

The letters of the short form are looked for in the words before the bracket, from the end, the first of them at the
beginning of a word (Schwartz and Hearst 2003).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.data.voted import OUTSIDE, VotedText, spans_of_labels

OPENING, CLOSING = ("(", "["), (")", "]", ";", ",")
RIGHT = 0.9
"""How often a short form is what its long form is, where that is certain: as often as functions are right."""
LONGEST = 10
"""Letters of a short form at most; it has two at least."""


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


def short_form_evidence(text: VotedText, own: Sequence[str], node: FloatArray, labels: Sequence[str]) -> FloatArray:
    """(n_tokens, n_labels) evidence that brings P(B-k) of a short form to ``RIGHT`` times that of its long form.

    Where all of the long form is one span, and at short forms that no function votes on.
    own : the labels of the text;  node : (n_tokens, n_labels) P(label)
    """
    evidence, spans = np.zeros_like(node), {end: (first, kind) for first, end, kind in spans_of_labels(own)}
    for first, end, short in short_forms(text.tokens):
        begin, kind = spans.get(end, (end, ""))
        if begin > first:
            continue
        both = [labels.index(f"B-{kind}"), labels.index(f"I-{kind}")]
        p = RIGHT * float(node[first:end, both].sum(axis=1).min())
        for t, token in enumerate(text.tokens):
            if token == short and all(votes[t] is None for votes in text.votes.values()):
                beside = node[t, labels.index(OUTSIDE)] / max(node[t, both[0]], 1e-12)
                evidence[t, both[0]] = np.log(max(p / (1.0 - p) * beside, 1.0))
    return evidence


def _may_be_short(token: str) -> bool:
    return 2 <= len(token) <= LONGEST and token[0].isalnum() and any(sign.isupper() for sign in token)


def _begins(short: str, words: Sequence[str]) -> int | None:
    """The word with which a long form of it begins, None: there is none."""
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
