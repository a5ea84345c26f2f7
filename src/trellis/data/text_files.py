"""Reading and writing texts for extraction. The file extension determines the format.

.tsv .conll .col      columns: a token a line, its label beside it, a blank line between texts
.jsonl .ndjson        JSON lines: {"text": .., "fields": [{"label", "start", "end"}]}, or tokens and labels as lists
.json, a folder       a WRENCH data set, with its gold labels (:mod:`trellis.data.wrench`)
                      also of Prodigy and doccano (:mod:`trellis.data.annotations`)
.json of Label Studio, .ann of brat
.csv .parquet         tables with a column "text", or (Parquet) "tokens" and perhaps "labels"
anything else         raw text, one a line
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

from trellis.data.annotations import from_brackets, is_studio, read_studio
from trellis.data.bio import everywhere
from trellis.data.brat import read_brat
from trellis.data.columns import BLANK, FILLER, blocks, check_cell, read_columns, write_columns, written_labels
from trellis.data.document import Document, without_predictions
from trellis.data.files import STANDARD, FilePath, lines_or_errors, numbered_lines, shown, writing
from trellis.data.json_texts import json_record, text_of_json
from trellis.data.jsonlines import ENDINGS, is_json_lines, parse_json
from trellis.data.tables import is_table, read_table, write_rows
from trellis.data.tokens import WORDS, Tokeniser, read_raw
from trellis.data.wrench import is_wrench, read_wrench_gold
from trellis.errors import DataError, counted

COLUMNS = (".tsv", ".conll", ".col")
Reader = Callable[[FilePath, int, Tokeniser], Iterator[Document | DataError]]
WHOLE: dict[str, Callable[[FilePath, Tokeniser], Iterable[Document]]] = {
    "table": read_table, "studio": read_studio, "brat": lambda path, tokeniser: [read_brat(path, tokeniser)],
}  # fmt: skip
"""Files that are read in one way, whatever is asked of them."""


def kind_of(path: FilePath) -> str:
    """ "columns", "json", "wrench" or "text", by the ending of the name (before .gz); a folder is WRENCH's."""
    if os.fspath(path).lower().removesuffix(".gz").endswith(COLUMNS):
        return "columns"
    if is_json_lines(path):
        return "json"
    if is_table(path):
        return "table"
    if os.fspath(path).lower().endswith(".ann"):
        return "brat"
    if is_studio(path):
        return "studio"
    return "wrench" if is_wrench(path) else "text"


def texts_or_errors(
    path: FilePath, *, word_column: int = 0, tokeniser: Tokeniser = WORDS
) -> Iterator[Document | DataError]:
    """Texts of any kind of file, one at a time, with the error itself in the place of one that cannot be read.

    If none at all could be, the first error is raised at the end.
    """
    readers: dict[str, Reader] = {"columns": _any_columns, "json": _any_json, "wrench": _any_wrench}
    kind = kind_of(path)
    reader = _any_whole if kind in WHOLE else readers.get(kind, _any_raw)
    first, some = None, False
    for text in reader(path, word_column, tokeniser):
        if isinstance(text, DataError):
            first = first or text
        elif len(text):
            some = True
        yield text
    if first is not None and not some:
        raise first


def read_texts(path: FilePath, *, word_column: int = 0, tokeniser: Tokeniser = WORDS) -> list[Document]:
    """Texts of any kind of file; labels beside them are not looked at, and text that is not cut yet is."""
    return list(stream_texts(path, word_column=word_column, tokeniser=tokeniser))


def stream_texts(path: FilePath, *, word_column: int = 0, tokeniser: Tokeniser = WORDS) -> Iterator[Document]:
    """The same, one at a time."""
    kind = kind_of(path)
    if kind == "columns":
        return read_columns(path, word=word_column, label=None)
    if kind == "wrench":
        return (replace(sentence, labels=None) for sentence in read_wrench_gold(path))
    if kind in WHOLE:
        return iter(WHOLE[kind](path, tokeniser))
    return _json_texts(path, tokeniser) if kind == "json" else read_raw(path, tokeniser)


def read_either(
    path: FilePath,
    *,
    word_column: int = 0,
    label_column: int = 1,
    tokeniser: Tokeniser = WORDS,
    predictions: bool = False,
) -> list[Document]:
    """Texts with their labels where the file has a place for them."""
    kind = kind_of(path)
    if kind == "columns":
        first = next((line for _, line in numbered_lines(path) if line.strip()), "")
        if first.count("\t") < label_column:
            return read_texts(path, word_column=word_column)
    if kind == "text":
        return read_texts(path, tokeniser=tokeniser)
    columns = {"word_column": word_column, "label_column": label_column}
    return read_labelled(path, **columns, tokeniser=tokeniser, predictions=predictions)


def read_beside(
    gold: str, output: str, *, word_column: int = 0, label_column: int = 1
) -> tuple[list[Document], list[Document]]:
    """Labelled texts of gold and of an output that must have the same tokens; blank ones are left out of both."""
    columns = {"word_column": word_column, "label_column": label_column}
    truth, found = (
        [t for t in read_labelled(path, **columns, predictions=True) if len(t)]  # type: ignore[arg-type]
        for path in (gold, output)
    )
    if truth and all(text.predicted for text in truth):
        raise DataError("has predictions and no labels: give the file with gold labels first", path=gold)
    truth = list(map(without_predictions, truth))
    for number, (one, other) in enumerate(zip(truth, found, strict=False)):
        if one.tokens != other.tokens:
            whole = 'with a label for a whole text as {"tokens": ["the text"], "labels": ["LABEL"]}'
            raise DataError(
                f"text {number + 1} is not the same in both: {_excerpt(gold, one)} and {_excerpt(output, other)}. "
                f"Predict from the tokens of {gold} itself{f', {whole}' if 1 in (len(one), len(other)) else ''}"
            )
    if len(truth) != len(found):
        raise DataError(
            f"{gold} has {counted(len(truth), 'text')} but {output} has {len(found)}: they must contain the same texts"
        )
    return truth, found


def _excerpt(path: str, text: Document) -> str:
    line = "" if text.line is None else f", line {text.line}"
    return f"{text.text[:40]!r} in {counted(len(text), 'token')} ({path}{line})"


def no_tokens(text: str, path: str | None, line: int | None) -> Document:
    """A text that nothing can be said about."""
    return Document((), text=text, path=path, line=line)


def emptied(text: Document) -> Document:
    """The text without its tokens."""
    return no_tokens(text.text, text.path, text.line)


def _any_raw(path: FilePath, _: int, tokeniser: Tokeniser) -> Iterator[Document | DataError]:
    for number, line in lines_or_errors(path):
        yield line if isinstance(line, DataError) else tokeniser.cut(line, path=shown(path), line=number)


def _any_json(path: FilePath, _: int, tokeniser: Tokeniser) -> Iterator[Document | DataError]:
    for number, line in lines_or_errors(path):
        if isinstance(line, DataError):
            yield line
        elif not line.strip():
            yield no_tokens(line, shown(path), number)
        else:
            try:
                yield _of_line(line, shown(path), number, tokeniser)
            except DataError as error:
                yield error


def _any_columns(path: FilePath, word_column: int, _: Tokeniser) -> Iterator[Document | DataError]:
    block: list[tuple[int, str | DataError]] = []
    for number, line in chain(lines_or_errors(path), [(0, "")]):
        if isinstance(line, DataError) or line.strip(BLANK):
            block.append((number, line))
        elif block:
            yield _of_block(block, word_column, shown(path))
            block = []


def _any_wrench(path: FilePath, _: int, __: Tokeniser) -> Iterator[Document | DataError]:
    return (replace(sentence, labels=None) for sentence in read_wrench_gold(path))


def _any_whole(path: FilePath, _: int, tokeniser: Tokeniser) -> Iterator[Document | DataError]:
    return iter(WHOLE[kind_of(path)](path, tokeniser))


def _of_block(block: list[tuple[int, str | DataError]], word_column: int, name: str) -> Document | DataError:
    words = []
    for number, line in block:
        if isinstance(line, DataError):
            return line
        cells = line.split("\t")
        if "\r" in line or len(cells) <= word_column or not cells[word_column]:
            found = "a carriage return" if "\r" in line else f"{counted(len(cells), 'column')}, and none in its place"
            return DataError(f"expected a token in column {word_column} but found {found}", path=name, line=number)
        words.append(cells[word_column])
    return Document(tuple(words), path=name, line=block[0][0])


def read_labelled(
    path: FilePath,
    *,
    word_column: int = 0,
    label_column: int = 1,
    tokeniser: Tokeniser = WORDS,
    predictions: bool = False,
) -> list[Document]:
    """Texts with labels, "_" or null where a label is not known; B-X and I-X say where fields begin.

    predictions : keep labels that the file marks as predictions; without it, these texts are unlabelled
    """
    found = _all_labelled(path, word_column, label_column, tokeniser)
    return found if predictions else list(map(without_predictions, found))


def _all_labelled(path: FilePath, word_column: int, label_column: int, tokeniser: Tokeniser) -> list[Document]:
    kind = kind_of(path)
    if kind == "text" and path != STANDARD:
        if not os.path.exists(path):
            raise DataError("cannot be read: No such file or directory", path=shown(path))
        found = [replace(from_brackets(line, tokeniser), path=shown(path), line=n) for n, line in numbered_lines(path)]
        if any(text.spans for text in found):
            return found
        raise DataError(
            f"labelled examples must be columns ({' '.join(COLUMNS)}), JSON lines ({' '.join(ENDINGS)}), WRENCH's "
            ".json, or text with [LABEL words], but the file name has another ending. `trellis extract tokens TEXT "
            "-o few.tsv` tokenises raw text into columns for labels",
            path=shown(path),
        )
    if kind == "json":
        return list(_json_texts(path, tokeniser))
    if kind in WHOLE:
        return list(WHOLE[kind](path, tokeniser))
    if kind == "wrench":
        return list(read_wrench_gold(path))
    _check_columns(path, word_column, label_column)
    return list(read_columns(path, word=word_column, label=label_column))


def _check_columns(path: FilePath, word_column: int, label_column: int) -> None:
    """Say what to do where the first line has no column for the label: options, not arguments of a function."""
    if path == STANDARD:
        return
    for block in blocks(path, separator="\t", comment=None):
        n, line = len(block.rows[0]), block.numbers[0]
        if n <= max(word_column, label_column):
            found = f"{counted(n, 'column')}, separated by tabs"
            spaced = n == 1 and " " in block.rows[0][0].strip()
            found += " (the line contains spaces: should they be tabs?)" if spaced else ""
            raise DataError(
                f"expected the token in column {word_column + 1} and its label in column {label_column + 1} but found "
                f"{found}. Write token, tab, label on each line, or set the columns: --word-column and --label-column",
                path=shown(path),
                line=line,
            )
        return


def _json_texts(path: FilePath, tokeniser: Tokeniser) -> Iterator[Document]:
    name = shown(path)
    for number, line in numbered_lines(path):
        if line.strip():
            yield _of_line(line, name, number, tokeniser)


def _of_line(line: str, name: str, number: int, tokeniser: Tokeniser) -> Document:
    record = parse_json(line, name, number)
    if not isinstance(record, dict):
        raise DataError("expected a JSON object on each line", path=name, line=number)
    return text_of_json(record, tokeniser, path=name, line=number)


def check_labels_writable(names: Iterable[str], kind: str) -> None:
    """Refuse before any work labels that :func:`write_extracted` would refuse after it: columns hold no tabs."""
    if kind != "columns":
        return
    instead = "write JSON lines (.jsonl) in place of columns: "
    labels = tuple(names)
    for label in written_labels(Document(labels, labels), FILLER, instead):
        check_cell(label, "\t", instead)


def unwritable(text: Document, kind: str) -> str | None:
    """Why columns cannot hold a text, where they cannot."""
    if kind != "columns":
        return None
    for word in text.tokens:
        if not word.isprintable():
            try:
                check_cell(word, "\t", "write JSON lines (.jsonl) in place of columns: ")
            except DataError as error:
                return f"{text.path}, line {text.line}: {error}"
    return None


@dataclass(frozen=True)
class Extracted:
    """A text with a label for each of its tokens.

    remarks : further keys of its JSON;  probabilities : of its fields, None where they are not known
    predicted : by a model, not given
    """

    text: Document
    labels: Sequence[str]
    remarks: Mapping[str, Any] = field(default_factory=dict)
    probabilities: Sequence[float] | None = None
    predicted: bool = True

    def record(self) -> dict[str, Any]:
        """It as a JSON object."""
        record = json_record(self.text, self.labels, self.probabilities, predicted=self.predicted)
        return {**record, **self.remarks}


def write_extracted(path: FilePath, results: Iterable[Extracted], kind: str, bio: bool = False) -> None:
    """Write texts with labels as columns (a blank line if there are no tokens), JSON lines or a table of fields.

    bio : labels of columns have B- or I- before them, or are O
    """
    if kind == "table":
        write_rows(path, FIELD, field_rows(results))
        return
    if kind == "columns":
        labelled = (
            replace(r.text, labels=(everywhere if bio else tuple)(r.labels), columns={}, comments=()) for r in results
        )
        write_columns(path, labelled, keep_empty=True)
        return
    with writing(path) as out:
        for r in results:
            out.write(json.dumps(r.record(), ensure_ascii=False) + "\n")


FIELD = ("text", "label", "start", "end", "field", "probability")
"""Columns of a table of fields; texts are numbered from 1."""


def field_rows(results: Iterable[Extracted]) -> Iterator[dict[str, Any]]:
    """A row for each field of the texts."""
    for number, r in enumerate(results, start=1):
        for one in r.record()["fields"]:
            yield {"probability": None, **one, "text": number, "field": one["text"]}
