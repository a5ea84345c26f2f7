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
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

from trellis.data.bio import BEGINS, GOES_ON, NO_FIELD, where_needed
from trellis.data.document import Document, Relation, Span, check_document, check_documents, fields_of
from trellis.data.files import FilePath, numbered_lines, reason, shown, writing
from trellis.data.jsonlines import parse_json
from trellis.data.tokens import WORDS, Tokeniser, check_text
from trellis.errors import DataError, check_name

FORMATS = ("brackets", "prodigy", "doccano", "label-studio", "brat")
_BRACKET = re.compile(r"\[([^\s\[\]\\]+) ((?:[^\[\]\\]|\\.)+)\]")
_ESCAPED = re.compile(r"\\(.)")
Place = tuple[int, int, str]
"""First character, the one after the last, label."""


def spanned(document: Document, places: Iterable[Place]) -> Document:
    """The document with spans over characters, and labels for its tokens."""
    spans = []
    for start, end, label in places:
        if not 0 <= start < end <= len(document.text):
            raise DataError(
                f"the span [{start}, {end}, {label!r}] does not lie in its text of {len(document.text)} characters",
                path=document.path,
                line=document.line,
            )
        touched = [t for t, (low, high) in enumerate(document.offsets) if low < end and high > start]
        if touched:
            spans.append(document.span(touched[0], touched[-1] + 1, label))
    labels: list[str | None] = [NO_FIELD] * len(document)
    for span in sorted(spans, key=lambda one: (one.first - one.last, one.first)):
        if all(labels[t] == NO_FIELD for t in range(span.first, span.last)):
            labels[span.first : span.last] = [
                f"{BEGINS}{span.label}", *[f"{GOES_ON}{span.label}"] * (span.last - span.first - 1)
            ]  # fmt: skip
    return replace(document, labels=where_needed(labels), spans=spans)


def _cut(document: Document, places: Sequence[Place]) -> Document:
    """The same text with spans over characters; tokens are cut where they begin and end."""
    ends = sorted({place for start, end, _ in places for place in (start, end)})
    offsets: list[tuple[int, int]] = []
    for low, high in document.offsets:
        offsets += pairwise((low, *ends[bisect_right(ends, low) : bisect_left(ends, high)], high))
    if len(offsets) > len(document):
        tokens = tuple([document.text[low:high] for low, high in offsets])
        document = Document(tokens, text=document.text, offsets=tuple(offsets), path=document.path, line=document.line)
    return spanned(document, places)


def labelled_by_spans(document: Document) -> Document:
    """The document with labels from its spans, if it has only these.

    >>> labelled_by_spans(Document(("Ann", "ran"), spans=[Span("NAME", 0, 1)])).labels
    ('NAME', 'O')
    """
    if document.labels is not None or document.spans is None or any(span.label is None for span in document.spans):
        return document
    return spanned(document, _places(document))


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
    return _cut(tokeniser.cut(text + plain(line[at:])), places)


def to_brackets(document: Document) -> str:
    """The inverse; spans that overlap cannot be written."""
    made, at = "", 0
    check_document(document)
    for start, end, label in sorted(_places(document)):
        if start < at or not re.fullmatch(r"[^\s\[\]\\]+", label):
            why = "overlaps another" if start < at else f"has the label {label!r}, which is no single word"
            raise DataError(f"the span {document.text[start:end]!r} {why}: choose another format", path=document.path)
        made += f"{_escaped(document.text[at:start])}[{label} {_escaped(document.text[start:end])}]"
        at = end
    return made + _escaped(document.text[at:])


def _escaped(text: str) -> str:
    return re.sub(r"[\[\]\\]", r"\\\g<0>", text).replace("\n", "\\n")


def _is_labelled(document: Document) -> bool:
    """Whether something is known of its spans; a text without spans has been looked at."""
    return document.spans is not None or any(label is not None for label in document.labels or ())


def is_unlabelled(document: Document) -> bool:
    """Whether a text has tokens but no labels, which brackets cannot represent: without any, all tokens are "O"."""
    return len(document) > 0 and not _is_labelled(document)


def _spans(document: Document) -> Sequence[Span]:
    return fields_of(document, document.labels or ()) if document.spans is None else document.spans


def _places(document: Document) -> list[Place]:
    return [(span.start, span.end, span.label or "") for span in _spans(document)]


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

    >>> annotated({"text": "Ann ran", "label": [[0, 3, "NAME"]]}).labels
    ('NAME', 'O')
    """
    text, tokens = str(record["text"]), record.get("tokens")
    try:
        if tokens is None:
            cut = tokeniser.cut(text)
        else:
            offsets = tuple([(int(token["start"]), int(token["end"])) for token in tokens])
            kept = tuple([(a, b) for a, b in offsets if not text[a:b].isspace()])
            cut = Document(tuple([text[a:b] for a, b in kept]), text=text, offsets=kept)
        if record.get("answer", "accept") != "accept":
            return cut
        given = next(record[key] for key in ("spans", "entities", "label", "labels") if record.get(key) is not None)
    except StopIteration:
        return cut
    except (KeyError, TypeError, ValueError):
        raise DataError("a token is malformed: expected start and end") from None
    places = [place_of(one, cut) for one in given]
    return _cut(cut, places) if tokens is None else spanned(cut, places)


def place_of(one: Any, document: Document) -> Place:
    """A span of Prodigy or doccano."""
    try:
        if isinstance(one, Mapping):
            start, end = (one.get(key, one.get(f"{key}_offset")) for key in ("start", "end"))
            return int(start), int(end), str(one["label"])
        return int(one[0]), int(one[1]), str(one[2])
    except (KeyError, TypeError, ValueError, IndexError):
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
    if _is_labelled(document):
        task["spans"] = [
            {"start": s.start, "end": s.end, "token_start": s.first, "token_end": s.last - 1, "label": s.label}
            for s in _spans(document)
        ]
    return task


def _to_doccano(document: Document) -> dict[str, Any]:
    labels = {"label": [list(place) for place in _places(document)]}
    return {"text": document.text, **(labels if _is_labelled(document) else {})}


def _to_studio(document: Document) -> dict[str, Any]:
    if not _is_labelled(document):
        return {"data": {"text": document.text}}
    result = [
        {"from_name": "label", "to_name": "text", "type": "labels",
         "value": {"start": start, "end": end, "text": document.text[start:end], "labels": [label]}}
        for start, end, label in _places(document)
    ]  # fmt: skip
    return {"data": {"text": document.text}, "annotations": [{"result": result}]}


# files


def brat_text(path: FilePath) -> str:
    """The file with the text of brat's annotations.

    >>> brat_text("a.ann")
    'a.txt'
    """
    stem, ending = os.path.splitext(os.fspath(path))
    if ending.lower() != ".ann":
        raise DataError(f"brat keeps annotations in NAME.ann and their text in NAME.txt, but got {shown(path)!r}")
    return f"{stem}.txt"


def is_studio(path: FilePath) -> bool:
    """Whether a ``.json`` file holds the list of Label Studio."""
    if os.path.isdir(path) or not os.fspath(path).lower().removesuffix(".gz").endswith(".json"):
        return False
    first = next((line.strip() for _, line in numbered_lines(path) if line.strip()), "")
    return first.startswith("[")


def read_studio(path: FilePath, tokeniser: Tokeniser = WORDS) -> Iterator[Document]:
    """Texts of a Label Studio export; of several annotations of a text the first that was not cancelled counts."""
    name = shown(path)
    for number, task in enumerate(parse_json("\n".join(line for _, line in numbered_lines(path)), name)):
        try:
            text = next(value for value in task["data"].values() if isinstance(value, str))
            cut = tokeniser.cut(text, path=name)
            given = [one for one in task.get("annotations") or () if not one.get("was_cancelled")]
            if not given:
                yield cut
                continue
            values = [one["value"] for one in given[0]["result"] if "labels" in one.get("value", {})]
            places = [(int(v["start"]), int(v["end"]), str(v["labels"][0])) for v in values]
        except (KeyError, TypeError, ValueError, AttributeError, StopIteration, IndexError):
            raise DataError(
                f"task {number} is not one of Label Studio's: expected 'data' and 'annotations'", path=name
            ) from None
        try:
            yield _cut(cut, places)
        except DataError as error:
            error.add_note(f"(task {number})")
            raise


def read_brat(path: FilePath, tokeniser: Tokeniser = WORDS) -> Document:
    """The document of an ``.ann`` file and the ``.txt`` beside it; spans in several pieces are one span each."""
    name = shown(path)
    try:
        with open(brat_text(path), encoding="utf-8", newline="") as file:
            text = file.read()
    except OSError as error:
        raise DataError(
            f"its text {brat_text(path)} cannot be read: {reason(error)}; brat keeps both in one folder", path=name
        ) from None
    except UnicodeDecodeError:
        raise DataError("expected UTF-8; convert the file", path=brat_text(path)) from None
    places, first, relations = list[Place](), dict[str, int](), list[tuple[str, str, str]]()
    for number, line in numbered_lines(path):
        key, _, rest = line.partition("\t")
        try:
            if key.startswith("T"):
                label, _, where = rest.partition("\t")[0].partition(" ")
                first[key] = len(places)
                places += [(int(a), int(b), label) for a, b in (piece.split() for piece in where.split(";"))]
            elif key.startswith("R"):
                kind, one, other = rest.split()[:3]
                relations.append((kind, one.partition(":")[2], other.partition(":")[2]))
        except ValueError:
            raise DataError(
                f"expected an annotation of brat but found {line!r:.60}", path=shown(path), line=number
            ) from None
    document = _cut(tokeniser.cut(text, path=name), places)
    if len(document.spans or ()) < len(places):
        return document
    tied = [Relation(first[a], first[b], kind) for kind, a, b in relations if a in first and b in first]
    return replace(document, relations=tied)


def write_annotations(path: FilePath, documents: Sequence[Document], format: str = "prodigy") -> None:
    """Write the spans of documents for an annotation tool; without spans the fields of their labels.

    format : "brackets", "prodigy", "doccano", "label-studio"; "brat" of one document, with its text beside it
    """
    check_name("format", format, FORMATS)
    documents = list(check_documents(documents))
    if format == "brat":
        if len(documents) != 1:
            raise DataError(f"brat has one text in a file, but there are {len(documents)}: choose another format")
        [document] = documents
        for _, _, label in _places(document):
            if not label or any(map(str.isspace, label)):
                raise DataError(f"brat has labels of one word, but found {label!r}: choose another format")
        with writing(brat_text(path)) as out:
            out.write(document.text)
        lines = [
            f"T{k}\t{label} {start} {end}\t{' '.join(document.text[start:end].split())}"
            for k, (start, end, label) in enumerate(_places(document), 1)
        ]
        lines += [
            f"R{k}\t{r.label} Arg1:T{r.first + 1} Arg2:T{r.second + 1}"
            for k, r in enumerate(document.relations or (), 1)
        ]
    elif format == "brackets":
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
