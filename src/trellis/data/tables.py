"""Tables: CSV with a header, and Parquet, with one row for each text or pair.

texts   a column "text", or "tokens" with lists of strings and, where they are known, "labels" with lists of labels;
        "predicted" is true where these are predictions
votes   the same and a column for each labelling function (:func:`trellis.data.voted_files.read_voted`)
pairs   columns "source" and "target", or "left" and "right"

In CSV, which has no lists, tokens, labels and votes of tokens are separated by spaces; ``_`` is an unknown label.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trellis.data.columns import FILLER
from trellis.data.document import Document
from trellis.data.files import FilePath, numbered_lines, shown, writing, writing_bytes
from trellis.data.tokens import WORDS, Tokeniser, each_document
from trellis.errors import DataError, did_you_mean

TABLES = (".csv", ".parquet")


def is_table(path: FilePath) -> bool:
    """Whether a file is a table, by the ending of its name."""
    return os.fspath(path).lower().removesuffix(".gz").endswith(TABLES)


def table_rows(path: FilePath) -> Iterator[tuple[int, dict[str, Any]]]:
    """Rows by the names of their columns, with their lines (of Parquet, their numbers)."""
    yield from _parquet(path) if os.fspath(path).lower().endswith(".parquet") else _csv(path)


def read_table(path: FilePath, tokeniser: Tokeniser = WORDS) -> Iterator[Document]:
    """Documents of a table, by the ending of its name."""
    for line, row in table_rows(path):
        if "text" not in row and "tokens" not in row:
            hint = did_you_mean("text", row)
            raise DataError(
                f"expected a column 'text' or 'tokens' but found {list(row)}{hint}", path=shown(path), line=line
            )
        try:
            [document] = each_document([row], tokeniser)
        except DataError as error:
            raise DataError(str(error), path=shown(path), line=line) from None
        predicted = row.get("predicted") in (True, "true")
        yield replace(document, path=shown(path), line=line, predicted=predicted)


def _csv(path: FilePath) -> Iterator[tuple[int, dict[str, Any]]]:
    reader = csv.DictReader((line + "\n" for _, line in numbered_lines(path)), strict=True)
    try:
        for row in reader:
            if None in row or None in row.values():
                message = f"expected {len(reader.fieldnames or ())} cells in every row"
                raise DataError(message, path=shown(path), line=reader.line_num)
            for name in ("tokens", "labels"):
                if name in row:
                    row[name] = row[name].split() or None
            if row.get("labels") is not None:
                row["labels"] = [None if label == FILLER else label for label in row["labels"]]
            yield reader.line_num, dict(row)
    except csv.Error as error:
        raise DataError(f"is not CSV: {error}", path=shown(path), line=reader.line_num) from None


def _parquet(path: FilePath) -> Iterator[tuple[int, dict[str, Any]]]:
    arrow = _arrow(path)
    number = 0
    try:
        for batch in arrow.parquet.ParquetFile(path).iter_batches(batch_size=1024):
            for row in batch.to_pylist():
                number += 1
                yield number, row
    except (arrow.ArrowException, OSError) as error:
        raise DataError(f"cannot be read as Parquet: {error}", path=shown(path)) from None


def _arrow(path: FilePath) -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError:
        raise DataError("Parquet needs pyarrow: pip install 'trellis-learn[frames]'", path=shown(path)) from None
    return pyarrow


def write_rows(path: FilePath, names: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> None:
    """Write a table with these columns; in CSV, entries of lists are separated by spaces."""
    if os.fspath(path).lower().endswith(".parquet"):
        arrow, made = _arrow(path), list(rows)
        with writing_bytes(path) as raw:
            arrow.parquet.write_table(arrow.table({name: [row.get(name) for row in made] for name in names}), raw)
        return
    with writing(path) as out:
        table = csv.writer(out, lineterminator="\n")
        table.writerow(names)
        for row in rows:
            table.writerow([_cell(row.get(name), path) for name in names])


def _cell(value: Any, path: FilePath) -> Any:
    if isinstance(value, bool):
        return str(value).lower()
    if not isinstance(value, list | tuple):
        return value
    cells = [FILLER if one is None else str(one) for one in value]
    for cell in cells:
        if cell.split() != [cell]:
            raise DataError(f"CSV cannot hold a token with white space, {cell!r}: write .parquet", path=shown(path))
    return " ".join(cells)


def write_table(path: FilePath, documents: Iterable[Document]) -> None:
    """Write texts with their tokens and labels."""
    documents = list(documents)
    names = ("text", "tokens", "labels", *(("predicted",) if any(text.predicted for text in documents) else ()))
    rows = (
        {"text": text.text, "tokens": list(text.tokens), "labels": _listed(text.labels), "predicted": text.predicted}
        for text in documents
    )
    write_rows(path, names, rows)


def _listed(labels: Sequence[str | None] | None) -> list[str | None] | None:
    return None if labels is None else list(labels)
