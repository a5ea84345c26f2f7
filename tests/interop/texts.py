"""Documents with overlapping white space, emoji, combining characters and right-to-left text."""

from __future__ import annotations

from hypothesis import strategies as st

from trellis import Document, Relation, Span
from trellis.data.bio import where_needed

PIECES = ["a", "b-c", "👩‍👩‍👧", "e\u0301", "שלום", "مرحبا", "🇳🇱", "1.5", "(", "\u200d", "ﬁ", "ẞ"]
GAPS = ["", " ", "  ", "\t", "\n", " \n ", "\u00a0", "\u3000"]
LABELS = ["X", "Y-Z", "é"]


@st.composite
def documents(draw, *, labelled=True, spans=True, votes=True):
    tokens = draw(st.lists(st.sampled_from(PIECES), max_size=6))
    n, text, offsets = len(tokens), draw(st.sampled_from(GAPS)), []
    for token in tokens:
        offsets.append((len(text), len(text) + len(token)))
        text += token + draw(st.sampled_from(GAPS))
    layers = {}
    if labelled and n:
        layers["labels"] = draw(st.none() | st.builds(where_needed, _labels(n, ["O", None])))
        if layers["labels"] is not None and set(layers["labels"]) == {None}:
            layers["labels"] = None
    if spans and n:
        layers["spans"] = draw(st.none() | st.lists(_spans(n), max_size=3).map(tuple))
        m = len(layers["spans"] or ())
        if m > 1:
            layers["relations"] = draw(st.none() | st.just((Relation(0, 1, "R", 0.5), Relation(1, 0, "S"))))
    if votes and n:
        layers["votes"] = draw(st.dictionaries(st.sampled_from(["f", "g"]), _votes(n), max_size=2))
    return Document(tuple(tokens), text=text, offsets=tuple(offsets), **layers)


def _labels(n, others):
    return st.lists(st.sampled_from([*LABELS, *(f"B-{name}" for name in LABELS), *others]), min_size=n, max_size=n)


@st.composite
def _spans(draw, n):
    first = draw(st.integers(0, n - 1))
    last = draw(st.integers(first + 1, n))
    return Span(draw(st.sampled_from(LABELS) | st.none()), first, last, probability=draw(st.none() | st.just(0.25)))


@st.composite
def _votes(draw, n):
    votes, at = [], 0
    while at < n:
        length = draw(st.integers(1, n - at))
        name = draw(st.sampled_from(LABELS) | st.none())
        votes += [None] * length if name is None else [f"B-{name}", *[f"I-{name}"] * (length - 1)]
        at += length
    return tuple(votes)


def probabilities(document):
    """Parts that equality leaves out."""
    return [s.probability for s in document.spans or ()], [r.probability for r in document.relations or ()]
