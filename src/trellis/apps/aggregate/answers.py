"""Recorded answers, such as those of a language model, as a labelling function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from trellis.apps.aggregate.functions import ANSWERS, LabellingFunction, tokens_within
from trellis.data.document import Document
from trellis.data.files import FilePath, shown
from trellis.data.jsonlines import json_lines
from trellis.errors import DataError, check_name


def answers_function(path: FilePath, name: str = "answers", *, on: str = "spans") -> LabellingFunction:
    """Vote according to a file of answers, such as those of a language model; abstain on texts that are not in it.

    path : JSON lines, {"text": "..", "spans": [..]} with one object for each span, {"label": "..", "start": 0, "end":
        7} by characters or {"label": "..", "text": ".."} for every place of a string; {"text": "..", "label": ".."}
        for ``on="text"``; "spans": null is an answer that could not be read
    """
    check_name("kind of answers function", on, ANSWERS)
    known: dict[str, Any] = {}
    for line, record in json_lines(path):
        if not isinstance(record, Mapping) or not isinstance(record.get("text"), str):
            raise DataError("expected an object with the key 'text'", path=shown(path), line=line)
        key = "label" if on == "text" else next((k for k in ("spans", "fields", "entities") if k in record), None)
        if key is None or (on != "text" and not isinstance(record[key], list | None)):
            raise DataError("expected a list in 'spans', or null", path=shown(path), line=line)
        known[record["text"]] = record.get(key)
        if on != "text":
            for span in record[key] or ():
                if not isinstance(span, Mapping) or not isinstance(span.get("label"), str):
                    raise DataError(
                        f"expected a span with a 'label' but found {span!r:.60}", path=shown(path), line=line
                    )

    def spans(text: Document) -> Iterator[tuple[int, int, str]]:
        for span in known.get(text.text) or ():
            for start, end in _places(text.text, span):
                inside = tokens_within(text, start, end)
                if inside is not None:
                    yield *inside, span["label"]

    return LabellingFunction(known.get if on == "text" else spans, name, None, on)


def _places(text: str, span: Mapping[str, Any]) -> Iterator[tuple[int, int]]:
    if isinstance(span.get("start"), int) and isinstance(span.get("end"), int):
        yield span["start"], span["end"]
        return
    phrase, at = str(span.get("text") or ""), 0
    while phrase and (start := text.find(phrase, at)) >= 0:
        at = start + len(phrase)
        yield start, at
