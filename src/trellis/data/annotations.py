"""Spans as annotation tools keep them: Prodigy, doccano, Label Studio, brat, and brackets in the text.

brackets       [QTY 2] [UNIT cups] flour             a text a line; \\[ \\] \\\\ \\n are literal, the last a new line
Prodigy        {"text", "tokens", "spans": [{"start", "end", "label"}], "answer"}                   JSON lines
doccano        {"text", "label": [[start, end, label], ..]}, or "entities" with offsets             JSON lines
Label Studio   [{"data": {"text"}, "annotations": [{"result": [{"value": {"start", "end", "labels"}}]}]}]
brat           NAME.ann beside NAME.txt               T1<TAB>Label 0 5<TAB>text;  R1<TAB>Type Arg1:T1 Arg2:T2

Texts are cut into tokens where a span begins or ends, too; of tokens that are given, those that a span touches are in
it. Tokens in no span are labelled "O"; of overlapping spans the longest has them.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any

from trellis.data.brat import write_brat
from trellis.data.document import Document, Span, check_document, check_documents
from trellis.data.files import FilePath, numbered_lines, shown, writing
from trellis.data.jsonlines import kind, parse_json
from trellis.data.places import Place, cut_at, is_labelled, place, places_of, scored, scores_of, spanned, spans_of
from trellis.data.tokens import WORDS, Tokeniser, check_text
from trellis.errors import DataError, check_name

FORMATS = ("brackets", "prodigy", "doccano", "label-studio", "brat")
MARKED = ("prodigy", "label-studio")
"""Formats that represent the difference between labels and predictions."""
_BRACKET = re.compile(r"\[([^\s\[\]\\]+) ((?:[^\[\]\\]|\\.)+)\]")
_ESCAPED = re.compile(r"\\(.)")

# one text


def from_brackets(line: str, tokeniser: Tokeniser = WORDS) -> Document:
    """A text with labels in brackets.

    >>> found = from_brackets("[QTY 2] [UNIT cups] flour")
    >>> found.text, found.labels
    ('2 cups flour', ('QTY', 'UNIT', 'O'))
    """
    check_text(line)
    text, places, at = "", list[Place](), 0

    def plain(given: str) -> str:
        return _ESCAPED.sub(lambda found: "\n" if found[1] == "n" else found[1], given)

    position = 0
    while position < len(line):
        found = None if line[position] == "\\" else _BRACKET.match(line, position)
        if found:
            text += plain(line[at:position])
            inside = plain(found[2])
            places.append((len(text), len(text) + len(inside), found[1]))
            text += inside
            position = at = found.end()
        else:
            position += 2 if line[position] == "\\" else 1
    return cut_at(tokeniser.cut(text + plain(line[at:])), places)


def to_brackets(document: Document) -> str:
    """The inverse; spans that overlap cannot be written."""
    made, at = "", 0
    check_document(document)
    for start, end, label in sorted(places_of(document)):
        if start < at or not re.fullmatch(r"[^\s\[\]\\]+", label):
            why = "overlaps another" if start < at else f"has the label {label!r}, which is no single word"
            raise DataError(f"the span {document.text[start:end]!r} {why}: choose another format", path=document.path)
        made += f"{_escaped(document.text[at:start])}[{label} {_escaped(document.text[start:end])}]"
        at = end
    return made + _escaped(document.text[at:])


def _escaped(text: str) -> str:
    return re.sub(r"[\[\]\\]", r"\\\g<0>", text).replace("\n", "\\n")


def is_unlabelled(document: Document) -> bool:
    """Whether a text has tokens but no labels, which brackets cannot represent: without any, all tokens are "O"."""
    return len(document) > 0 and not is_labelled(document)


def is_annotated(record: Mapping[str, Any]) -> bool:
    """Whether a JSON object is of Prodigy or doccano."""
    tokens = record.get("tokens")
    of_prodigy = isinstance(tokens, list) and any(isinstance(token, dict) for token in tokens)
    keys = ("label", "labels", "entities", "spans")
    return of_prodigy or (
        isinstance(record.get("text"), str)
        and tokens is None
        and any(isinstance(record.get(key), list) for key in keys)
    )


def annotated(record: Mapping[str, Any], tokeniser: Tokeniser = WORDS) -> Document:
    """A text of Prodigy or doccano; one that was not accepted has no labels.

    A prediction that was written for Prodigy is one until the task has an answer.

    >>> annotated({"text": "Ann ran", "label": [[0, 3, "NAME"]]}).labels
    ('NAME', 'O')
    """
    text, tokens = record.get("text"), record.get("tokens")
    if not isinstance(text, str):
        raise DataError(f"expected a string in 'text' but found {kind(text)}")
    try:
        if tokens is None:
            cut = tokeniser.cut(text)
        else:
            offsets = tuple([place(token["start"], token["end"], "token")[:2] for token in tokens])
            if any(not 0 <= a < b <= len(text) for a, b in offsets) or list(offsets) != sorted(offsets):
                raise DataError(f"tokens do not lie in their text of {len(text)} characters, one after the other")
            kept = tuple([(a, b) for a, b in offsets if not text[a:b].isspace()])
            cut = Document(tuple([text[a:b] for a, b in kept]), text=text, offsets=kept)
        if record.get("answer", "accept") != "accept":
            return cut
        predicted = record.get("predicted") is True and "answer" not in record
        given = next(record[key] for key in ("spans", "entities", "label", "labels") if record.get(key) is not None)
    except StopIteration:
        return cut
    except DataError:
        raise
    except (KeyError, TypeError, ValueError, OverflowError):
        raise DataError("a token is malformed: expected start and end") from None
    if not isinstance(given, list):
        raise DataError(f"expected a list of spans but found {kind(given)}")
    places = [place_of(one, cut) for one in given]
    document = cut_at(cut, places) if tokens is None else spanned(cut, places)
    return scored(document, scores_of(given)) if predicted else document


def place_of(one: Any, document: Document) -> Place:
    """A span of Prodigy or doccano."""
    try:
        if isinstance(one, Mapping):
            start, end = (one.get(key, one.get(f"{key}_offset")) for key in ("start", "end"))
            return place(start, end, one["label"])
        return place(one[0], one[1], one[2])
    except (KeyError, TypeError, ValueError, IndexError, OverflowError):
        message = f"the span {one!r:.60} is malformed: expected start, end and label"
        raise DataError(message, path=document.path, line=document.line) from None


def to_prodigy(document: Document) -> dict[str, Any]:
    """A task of Prodigy."""
    task: dict[str, Any] = {
        "text": document.text,
        "tokens": [
            {"text": token, "start": start, "end": end, "id": number}
            for number, (token, (start, end)) in enumerate(zip(document.tokens, document.offsets, strict=True))
        ],
    }
    if is_labelled(document):
        task["spans"] = [
            {"start": s.start, "end": s.end, "token_start": s.first, "token_end": s.last - 1, "label": s.label,
             **_score(s)}
            for s in spans_of(document)
        ]  # fmt: skip
        if document.predicted:
            task["predicted"] = True
    return task


def _score(span: Span) -> dict[str, float]:
    return {} if span.probability is None else {"score": round(span.probability, 4)}


def _to_doccano(document: Document) -> dict[str, Any]:
    labels = {"label": [list(place) for place in places_of(document)]}
    return {"text": document.text, **(labels if is_labelled(document) else {})}


def _to_studio(document: Document) -> dict[str, Any]:
    if not is_labelled(document):
        return {"data": {"text": document.text}}
    units = _units(document.text)
    result = [
        {"from_name": "label", "to_name": "text", "type": "labels",
         "value": {"start": units[s.start], "end": units[s.end], "text": s.text, "labels": [s.label or ""]},
         **(_score(s) if document.predicted else {})}
        for s in spans_of(document)
    ]  # fmt: skip
    if not document.predicted:
        return {"data": {"text": document.text}, "annotations": [{"result": result}]}
    scores = [round(s.probability, 4) for s in spans_of(document) if s.probability is not None]
    prediction = {"model_version": "trellis", **({"score": min(scores)} if scores else {}), "result": result}
    return {"data": {"text": document.text}, "predictions": [prediction]}


# files


def is_studio(path: FilePath) -> bool:
    """Whether a ``.json`` file holds the list of Label Studio."""
    if os.path.isdir(path) or not os.fspath(path).lower().removesuffix(".gz").endswith(".json"):
        return False
    first = next((line.strip() for _, line in numbered_lines(path) if line.strip()), "")
    return first.startswith("[")


def _of_units(text: str, values: Sequence[Mapping[str, Any]]) -> list[Place]:
    """Spans of Label Studio, which counts UTF-16 code units, unless their texts show that characters were counted."""
    places = [place(v["start"], v["end"], v["labels"][0]) for v in values]
    if max(text, default="") <= "\uffff":
        return places
    character = {unit: number for number, unit in enumerate(_units(text))}
    of_units = [(character.get(start, len(text)), character.get(end, 0), label) for start, end, label in places]
    fits = (text[a:b] == v.get("text") for (a, b, _), v in zip(of_units, values, strict=True))
    return of_units if all(fits) else places


def _units(text: str) -> list[int]:
    """The UTF-16 code units before each character and before the end of a text.

    >>> _units("a👍b")
    [0, 1, 3, 4]
    """
    return list(accumulate((1 + (letter > "\uffff") for letter in text), initial=0))


def read_studio(path: FilePath, tokeniser: Tokeniser = WORDS) -> Iterator[Document]:
    """Texts of a Label Studio export; of several annotations of a text the first that was not cancelled counts.

    Without any, the first prediction does, as such.
    """
    name = shown(path)
    for number, task in enumerate(parse_json("\n".join(line for _, line in numbered_lines(path)), name)):
        try:
            text = next(value for value in task["data"].values() if isinstance(value, str))
            cut = tokeniser.cut(text, path=name)
            given = [one for one in task.get("annotations") or () if not one.get("was_cancelled")]
            guessed = [one for one in task.get("predictions") or () if isinstance(one, Mapping) and "result" in one]
            if not given and not guessed:
                yield cut
                continue
            results = [one for one in (given or guessed)[0]["result"] if "labels" in one.get("value", {})]
            values = [one["value"] for one in results]
            places = _of_units(text, values)
            scores = scores_of(
                [
                    {"start": start, "end": end, "label": label, "score": one.get("score")}
                    for (start, end, label), one in zip(places, results, strict=True)
                ]
            )
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration, IndexError, OverflowError):
            raise DataError(
                f"task {number} is not one of Label Studio's: expected 'data' and 'annotations'", path=name
            ) from None
        try:
            document = cut_at(cut, places)
            yield document if given else scored(document, scores)
        except DataError as error:
            error.add_note(f"(task {number})")
            raise


def write_annotations(path: FilePath, documents: Sequence[Document], format: str = "prodigy") -> None:
    """Write the spans of documents for an annotation tool; without spans the fields of their labels.

    Predictions are marked as such for Prodigy and Label Studio; the other formats cannot represent the difference.

    format : "brackets", "prodigy", "doccano", "label-studio"; "brat" of one document, with its text beside it
    """
    check_name("format", format, FORMATS)
    documents = list(check_documents(documents))
    if format == "brat":
        write_brat(path, documents)
        return
    if format == "brackets":
        if any(map(is_unlabelled, documents)):
            raise DataError("brackets cannot represent unlabelled texts: leave them out, or choose another format")
        lines = [to_brackets(document) for document in documents]
    elif format == "label-studio":
        lines = [json.dumps([_to_studio(document) for document in documents], ensure_ascii=False)]
    else:
        made = to_prodigy if format == "prodigy" else _to_doccano
        lines = [json.dumps(made(document), ensure_ascii=False) for document in documents]
    with writing(path) as out:
        out.writelines(line + "\n" for line in lines)
