"""Texts of extraction, from and to files. The ending of a name says what a file holds.

.tsv .conll .col      columns: a token a line, its label beside it, a blank line between texts
.jsonl .ndjson        JSON lines: {"text": .., "fields": [{"label", "start", "end"}]}, or tokens and labels as lists
anything else         raw text, one a line
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

from trellis.data.columns import FILLER, blocks, check_cell, read_columns, write_columns, written_labels
from trellis.data.files import STANDARD, FilePath, numbered_lines, shown, writing
from trellis.data.sentence import Sentence
from trellis.data.tokens import Text, fields_of, joined, read_raw, tokenise
from trellis.errors import DataError, did_you_mean

COLUMNS = (".tsv", ".conll", ".col")
JSON_LINES = (".jsonl", ".ndjson")


def kind_of(path: FilePath) -> str:
    """ "columns", "json" or "text", by the ending of the name (before .gz)."""
    name = os.fspath(path).lower().removesuffix(".gz")
    if name.endswith(COLUMNS):
        return "columns"
    return "json" if name.endswith(JSON_LINES) else "text"


def read_texts(path: FilePath, *, word_column: int = 0) -> list[Text]:
    """Texts of any kind of file; labels beside them are not looked at."""
    kind = kind_of(path)
    if kind == "columns":
        return [joined(sentence) for sentence in read_columns(path, word=word_column, label=None)]
    return list(_json_texts(path)) if kind == "json" else list(read_raw(path))


def read_labelled(path: FilePath, *, word_column: int = 0, label_column: int = 1) -> list[Text]:
    """Texts with labels, "_" or null where a label is not known."""
    kind = kind_of(path)
    if kind == "text" and path != STANDARD:
        raise DataError(
            f"labelled examples are columns ({' '.join(COLUMNS)}) or JSON lines ({' '.join(JSON_LINES)}), but the name "
            "ends otherwise. `trellis tokens TEXT -o few.tsv` cuts raw text into columns, ready for labels",
            path=shown(path),
        )
    if kind == "json":
        return list(_json_texts(path))
    _check_columns(path, word_column, label_column)
    return [joined(s) for s in read_columns(path, word=word_column, label=label_column)]


def _check_columns(path: FilePath, word_column: int, label_column: int) -> None:
    """Say what to do where the first line has no column for the label: options, not arguments of a function."""
    if path == STANDARD:
        return
    for block in blocks(path, separator="\t", comment=None):
        n, line = len(block.rows[0]), block.numbers[0]
        if n <= max(word_column, label_column):
            found = f"{n} column{'s' if n > 1 else ''}, separated by tabs"
            hint = " (there are spaces in it: are they tabs?)" if n == 1 and " " in block.rows[0][0].strip() else ""
            raise DataError(
                f"expected the token in column {word_column + 1} and its label in column {label_column + 1} but found "
                f"{found}{hint}. Write token, tab, label on each line, or say where they are: --word-column and "
                "--label-column",
                path=shown(path),
                line=line,
            )
        return


def _json_texts(path: FilePath) -> Iterator[Text]:
    name = shown(path)
    for number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            record = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(f"not JSON: {error}", path=name, line=number) from None
        if not isinstance(record, dict):
            raise DataError("expected a JSON object on each line", path=name, line=number)
        yield _of_record(record, name, number)


def _of_record(record: dict[str, Any], name: str, line: int) -> Text:
    if "tokens" in record:
        tokens, labels = record["tokens"], record.get("labels")
        if not isinstance(tokens, list) or not all(isinstance(token, str) and token for token in tokens):
            raise DataError("expected a list of strings in 'tokens', none of them empty", path=name, line=line)
        if labels is not None and (not isinstance(labels, list) or len(labels) != len(tokens)):
            raise DataError("expected one label, or null, for each token in 'labels'", path=name, line=line)
        sentence = Sentence(tuple(tokens), None if labels is None else tuple(labels), path=name, line=line)
        text = record.get("text")
        return _placed(sentence, text) if isinstance(text, str) else joined(sentence)
    if not isinstance(record.get("text"), str):
        known = did_you_mean("text", record)
        raise DataError(f"expected the key 'text' or 'tokens'{known}", path=name, line=line)
    cut = tokenise(record["text"], path=name, line=line)
    if "fields" not in record:
        return cut
    return replace(cut, sentence=replace(cut.sentence, labels=_labels(cut, record["fields"], name, line)))


def _placed(sentence: Sentence, text: str) -> Text:
    """Tokens at their places in the text they were cut from."""
    spans, at = [], 0
    for word in sentence.words:
        start = text.find(word, at)
        if start < 0:
            raise DataError(f"token {word!r} is not in the text in its order", path=sentence.path, line=sentence.line)
        at = start + len(word)
        spans.append((start, at))
    return Text(sentence, text, tuple(spans))


def _labels(cut: Text, fields: Any, name: str, line: int) -> tuple[str | None, ...]:
    """A label for every token inside a field; None outside."""
    labels: list[str | None] = [None] * len(cut)
    try:
        places = [(str(f["label"]), int(f["start"]), int(f["end"])) for f in fields]
    except (TypeError, KeyError, ValueError):
        message = 'expected \'fields\' to be a list of {"label": .., "start": .., "end": ..}'
        raise DataError(message, path=name, line=line) from None
    for label, start, end in places:
        for i, (low, high) in enumerate(cut.spans):
            if start <= low and high <= end:
                labels[i] = label
    return tuple(labels)


def check_writable(texts: Sequence[Text], names: Iterable[str], kind: str) -> None:
    """Refuse before any work what :func:`write_extracted` would refuse after it: columns cannot hold every string."""
    if kind != "columns":
        return
    instead = "write JSON lines (.jsonl) in place of columns: "
    labels = tuple(names)
    for label in written_labels(Sentence(labels, labels), FILLER, instead):
        check_cell(label, "\t", instead)
    for text in texts:
        for word in text.sentence.words:
            if not word.isprintable():
                check_cell(word, "\t", f"{text.sentence.path}, line {text.sentence.line}: {instead}")


def write_extracted(path: FilePath, texts: Iterable[tuple[Text, Sequence[str]]], kind: str) -> None:
    """Write texts with labels as columns (texts without tokens have no place there) or as JSON lines."""
    if kind == "columns":
        labelled = (replace(t.sentence, labels=tuple(y), columns={}, comments=()) for t, y in texts if len(t))
        write_columns(path, labelled)
        return
    with writing(path) as out:
        for text, labels in texts:
            out.write(json.dumps(json_record(text, labels), ensure_ascii=False) + "\n")


def json_record(text: Text, labels: Sequence[str]) -> dict[str, Any]:
    """The text, its fields by characters of the text, and tokens with labels."""
    fields = [
        {"label": f.label, "start": f.start, "end": f.end, "text": text.text[f.start : f.end]}
        for f in fields_of(text, labels)
    ]
    return {"text": text.text, "fields": fields, "tokens": list(text.sentence.words), "labels": list(labels)}
