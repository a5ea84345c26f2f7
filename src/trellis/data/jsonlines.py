"""JSON lines: one object per line, with a list of words and, if known, a list of labels.

    {"tokens": ["time", "flies"], "labels": ["NOUN", null]}

A null label, a null list and a missing list are labels that are not known. Other keys are left alone; blank
lines are skipped. This is the one format that holds every sentence: empty ones and words with white space too.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from trellis.data.document import Document
from trellis.data.files import FilePath, numbered_lines, shown, writing
from trellis.errors import DataError, did_you_mean

ENDINGS = (".jsonl", ".ndjson")


def read_jsonlines(
    path: FilePath, *, tokens: str = "tokens", labels: str | None = "labels", columns: Sequence[str] = ()
) -> Iterator[Document]:
    """Sentences of a JSON-lines file, one at a time.

    tokens, labels : the keys that hold them; ``labels=None``: do not look for labels
    columns : further keys, each with a list of one string a word, which every line must have
    """
    name = shown(path)
    for number, record in json_lines(path):
        if not isinstance(record, dict):
            raise DataError(f"expected a JSON object but found {kind(record)}", path=name, line=number)
        if tokens not in record:
            raise DataError(f"expected the key {tokens!r}{did_you_mean(tokens, record)}", path=name, line=number)
        words = _strings(record[tokens], tokens, name, number)
        found = None if labels is None else record.get(labels)
        known = None if found is None else _labels(found, str(labels), name, number)
        kept: dict[str, tuple[str, ...]] = {}
        for key in columns:
            if key not in record:
                raise DataError(f"expected the key {key!r}{did_you_mean(key, record)}", path=name, line=number)
            kept[key] = _strings(record[key], key, name, number)
        yield Document(words, known, kept, path=name, line=number)


def write_jsonlines(
    path: FilePath, sentences: Iterable[Document], *, tokens: str = "tokens", labels: str | None = "labels"
) -> None:
    """Write words, labels (where a sentence has any) and all columns, each column under its name."""
    with writing(path) as out:
        for sentence in sentences:
            record: dict[str, Any] = {tokens: sentence.tokens}
            if labels is not None and sentence.labels is not None:
                record[labels] = sentence.labels
            for key, cells in sentence.columns.items():
                if key in (tokens, labels):
                    raise DataError(f"the column {key!r} has the name of the words or labels; choose another key")
                record[key] = cells
            out.write(json.dumps(record, ensure_ascii=False) + "\n")


def json_lines(path: FilePath) -> Iterator[tuple[int, Any]]:
    """What stands on the lines of a file that are not blank, with their numbers."""
    for number, line in numbered_lines(path):
        if line.strip():
            yield number, parse_json(line, shown(path), number)


def is_json_lines(path: FilePath) -> bool:
    """Whether the name of a file says that it holds such lines."""
    return os.fspath(path).lower().removesuffix(".gz").endswith(ENDINGS)


def parse_json(text: str, name: str, number: int | None = None) -> Any:
    """The value of a JSON text: of line ``number`` of a file, or of a whole one."""
    try:
        return json.loads(text)
    except json.JSONDecodeError as error:
        line = error.lineno if number is None else number
        raise DataError(f"not JSON: {error.msg} at character {error.colno}", path=name, line=line) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; brackets thousands deep
        raise DataError(f"not JSON that can be read: {error}", path=name, line=number) from None


def kind(found: Any) -> str:
    """What a value is called in JSON."""
    kinds = {dict: "an object", list: "a list", str: "a string", bool: "a truth value", type(None): "null"}
    return kinds.get(type(found), "a number" if isinstance(found, int | float) else f"a {type(found).__name__}")


def _strings(found: Any, key: str, name: str, number: int) -> tuple[str, ...]:
    """A list of strings as a tuple."""
    if not isinstance(found, list):
        raise DataError(f"expected a list of strings in {key!r} but found {kind(found)}", path=name, line=number)
    return tuple([_string(entry, f"{key!r}[{at}]", name, number) for at, entry in enumerate(found)])


def _labels(found: Any, key: str, name: str, number: int) -> tuple[str | None, ...]:
    """A list of strings and nulls as a tuple."""
    if not isinstance(found, list):
        raise DataError(f"expected a list of labels in {key!r} but found {kind(found)}", path=name, line=number)
    return tuple(
        [None if entry is None else _string(entry, f"{key!r}[{at}]", name, number) for at, entry in enumerate(found)]
    )


def _string(entry: Any, what: str, name: str, number: int) -> str:
    if not isinstance(entry, str):
        raise DataError(f"expected a string in {what} but found {kind(entry)}", path=name, line=number)
    if not entry.isascii():
        _check_unicode(entry, what, name, number)
    return entry


def _check_unicode(entry: str, what: str, name: str, number: int) -> None:
    """JSON can spell half of a surrogate pair, which is no character and could never be written again."""
    try:
        entry.encode("utf-8")
    except UnicodeEncodeError:
        raise DataError(f"{what} contains an unpaired surrogate: {entry!r}", path=name, line=number) from None
