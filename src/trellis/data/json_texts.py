"""Texts as JSON objects: "text" with "fields" by characters, "tokens" with "labels", documents, Prodigy, doccano.

    {"text": "in May", "fields": [{"label": "DATE", "start": 3, "end": 6, "probability": 0.9}], "predicted": true}

``predicted`` says that fields or labels are predictions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from trellis.data.annotations import annotated, is_annotated, place_of
from trellis.data.bio import BEGINS, split_bio, where_needed
from trellis.data.document import Document, fields_of
from trellis.data.places import labelled_by_spans, place, scored, scores_of, spanned
from trellis.data.records import document_of
from trellis.data.tokens import WORDS, Tokeniser
from trellis.errors import DataError, did_you_mean


def text_of_json(
    record: dict[str, Any], tokeniser: Tokeniser = WORDS, *, path: str | None = None, line: int | None = None
) -> Document:
    """The text of a JSON object with "text" and perhaps "fields", or with "tokens" and perhaps "labels".

    >>> text_of_json({"text": "Ann Lee 1999"}).tokens
    ('Ann', 'Lee', '1999')
    """
    text = _of_record(record, path, line, tokeniser)
    for string in (text.text, *text.tokens):
        if not string.isascii() and any("\ud800" <= letter <= "\udfff" for letter in string):
            raise DataError(f"found an unpaired surrogate in {string[:40]!r}", path=path, line=line)
    return text


def _of_record(record: dict[str, Any], name: str | None, line: int | None, tokeniser: Tokeniser) -> Document:
    if is_annotated(record):
        try:
            return replace(annotated(record, tokeniser), path=name, line=line)
        except DataError as error:
            raise DataError(str(error), path=name, line=line) from None
    if "tokens" in record:
        tokens, labels = record["tokens"], record.get("labels")
        if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
            raise DataError("expected a list of strings in 'tokens', none of them empty", path=name, line=line)
        if labels is not None and (not isinstance(labels, list) or len(labels) != len(tokens)):
            raise DataError("expected one label, or null, for each token in 'labels'", path=name, line=line)
        if isinstance(record.get("offsets"), list) and isinstance(record.get("text"), str):
            return labelled_by_spans(document_of(record, path=name, line=line))  # with all layers
        text = record.get("text")
        kept = {"tokens": tokens, "labels": labels, "text": text if isinstance(text, str) else ""}
        document = document_of(kept, path=name, line=line)
        if labels is None and isinstance(record.get("spans"), list):
            document = spanned(document, [place_of(span, document) for span in record["spans"]])
        return _predicted(document, record)
    if not isinstance(record.get("text"), str):
        known = did_you_mean("text", record)
        raise DataError(f"expected the key 'text' or 'tokens'{known}", path=name, line=line)
    cut = tokeniser.cut(record["text"], path=name, line=line)
    if "fields" not in record:
        return cut
    return _predicted(replace(cut, labels=_labels(cut, record["fields"], name, line)), record)


def _predicted(document: Document, record: Mapping[str, Any]) -> Document:
    """The document with what its object says of predictions."""
    if record.get("predicted") is not True:
        return document
    spans = fields_of(document, document.labels or ()) if document.spans is None else document.spans
    return scored(replace(document, spans=spans), scores_of(record.get("fields")))


def _labels(cut: Document, fields: Any, name: str | None, line: int | None) -> tuple[str | None, ...]:
    """A label for every token inside a field, with B- where one begins beside its like; None outside."""
    labels: list[str | None] = [None] * len(cut)
    try:
        places = [place(f["start"], f["end"], f["label"]) for f in fields]
    except (TypeError, KeyError, ValueError, OverflowError):
        message = 'expected \'fields\' to be a list of {"label": .., "start": .., "end": ..}'
        raise DataError(message, path=name, line=line) from None
    for start, end, label in places:
        if not 0 <= start < end <= len(cut.text):
            where = f"[{start}, {end}]"
            message = f"the field {label!r} at {where} does not lie in its text of {len(cut.text)} characters"
            raise DataError(message, path=name, line=line)
        inside = [i for i, (low, high) in enumerate(cut.offsets) if start <= low and high <= end]
        for i in inside:
            labels[i] = BEGINS + label if i == inside[0] else label
    return where_needed(labels, {label for _, _, label in places if split_bio(label)[1] != label})


def json_record(
    text: Document, labels: Sequence[str], probabilities: Sequence[float] | None = None, *, predicted: bool = True
) -> dict[str, Any]:
    """The text, its fields by characters of the text, with their probabilities where known, and tokens with labels."""
    fields: list[dict[str, Any]] = [
        {"label": f.label, "start": f.start, "end": f.end, "text": text.text[f.start : f.end]}
        for f in fields_of(text, labels)
    ]
    for one, probability in zip(fields, probabilities or (), strict=False):
        one["probability"] = round(probability, 4)
    record = {"text": text.text, "fields": fields, "tokens": list(text.tokens), "labels": list(labels)}
    return {**record, "predicted": True} if predicted else record
