"""Subwords of Hugging Face tokenizers aligned with the tokens of documents by characters."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from trellis.data.checks import check_label_lists
from trellis.data.document import Document, Labels, check_document
from trellis.data.tokens import check_text
from trellis.errors import DataError


def cut_with(tokenizer: Any, text: str) -> Document:
    """A document whose tokens are the subwords of a tokenizer; those without characters are left out.

    tokenizer : of ``tokenizers``, or a fast one of ``transformers``
    """
    offsets = tuple([(start, end) for start, end in offsets_of(tokenizer, text) if end > start])
    at = 0
    kept = []
    for start, end in offsets:  # several subwords of one character share it
        if start >= at:
            kept.append((start, end))
            at = end
    return Document(tuple([text[start:end] for start, end in kept]), text=text, offsets=tuple(kept))


def offsets_of(tokenizer: Any, text: str) -> list[tuple[int, int]]:
    """First character of each subword and the one after the last; (0, 0) of special ones."""
    check_text(text)
    if hasattr(tokenizer, "encode_batch"):
        return [tuple(pair) for pair in tokenizer.encode(text).offsets]
    if getattr(tokenizer, "is_fast", False):
        found = tokenizer(text, return_offsets_mapping=True)["offset_mapping"]
        return [tuple(pair) for pair in found]
    raise DataError(
        f"expected a tokenizer that returns character offsets, got {type(tokenizer).__name__}: use a fast tokenizer"
    )


def align_subwords(document: Document, offsets: Sequence[tuple[int, int]]) -> list[int]:
    """The token of each subword: the first that it shares a character with, −1 where there is none.

    >>> align_subwords(Document(("Ann", "left")), [(0, 0), (0, 2), (2, 3), (4, 8)])
    [-1, 0, 0, 1]
    """
    check_document(document)
    found, t = [], 0
    for start, end in _pairs(offsets):
        if end > start:
            while t < len(document) and document.offsets[t][1] <= start:
                t += 1
            while t > 0 and document.offsets[t - 1][1] > start:
                t -= 1
        inside = end > start and t < len(document) and document.offsets[t][0] < end
        found.append(t if inside else -1)
    return found


def _pairs(offsets: Any) -> list[tuple[int, int]]:
    try:
        return [(int(start), int(end)) for start, end in offsets]
    except (TypeError, ValueError):
        raise DataError(f"offsets must be a list of pairs (start, end), got {offsets!r:.60}") from None


def subword_labels(document: Document, offsets: Sequence[tuple[int, int]], *, every: bool = False) -> Labels:
    """The label of each subword: that of its token for the first one, None for the others unless ``every``."""
    check_document(document)
    labels, before = document.labels or (None,) * len(document), -1
    found: list[str | None] = []
    for t in align_subwords(document, offsets):
        found.append(labels[t] if t >= 0 and (every or t != before) else None)
        before = t
    return tuple(found)


def token_labels(document: Document, offsets: Sequence[tuple[int, int]], labels: Sequence[str | None]) -> Labels:
    """Labels of subwords as labels of tokens: that of the first subword of each token that has one."""
    of_token = align_subwords(document, offsets)
    given = check_label_lists([labels])
    if given is None or given[0] is None or len(given[0]) != len(of_token):
        raise DataError(f"expected a label, or None, for each of {len(of_token)} subwords, got {labels!r:.60}")
    found: list[str | None] = [None] * len(document)
    for t, label in zip(of_token, given[0], strict=True):
        if t >= 0 and found[t] is None:
            found[t] = label
    return tuple(found)
