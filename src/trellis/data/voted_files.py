"""Files of texts with votes: WRENCH's JSON, JSON lines, and columns.

WRENCH          a folder, or a ``.json`` file of one (:mod:`trellis.data.wrench`)
CSV, Parquet    a column "text" (one label for the text) or "tokens", and a column of votes for each function; "label"
                or "labels", where there is one, is the truth
JSON lines      {"tokens": [..], "spans": {function: [[first, end, type], ..]}}          as skweak keeps them
                {"tokens": [..], "votes": {function: [label or null, ..]}}
                {"text": "..", "votes": {function: label or null}}                        one label for the text
columns         token TAB vote TAB vote ...; ``_`` or nothing where a function abstains; a first line
                ``# token TAB function TAB function ...`` names the functions
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from trellis.data.checks import check_list
from trellis.data.columns import FILLER, blocks
from trellis.data.document import Document
from trellis.data.files import FilePath, shown
from trellis.data.jsonlines import is_json_lines, json_lines, kind
from trellis.data.tables import is_table, table_rows
from trellis.data.wrench import is_wrench, read_wrench, span_votes
from trellis.errors import DataError, did_you_mean


def read_voted(path: FilePath, *, all_functions: bool = False) -> Iterator[Document]:
    """Texts of one file or folder, by its name: a folder and ``.json`` are WRENCH's, ``.csv`` and
    ``.parquet`` tables, ``.jsonl`` lines, others columns.

    all_functions : of WRENCH, read every function, not only the recommended ones
    """
    if is_wrench(path):
        yield from read_wrench(path, all_functions=all_functions)
    elif is_table(path):
        for number, row in table_rows(path):
            yield _of_row(row, path=shown(path), line=number)
    elif is_json_lines(path):
        yield from _lines(path)
    else:
        yield from _columns(path)


def voted_of(record: Any, *, what: str = "", path: str | None = None, line: int | None = None) -> Document:
    """A record with tokens (or text) and votes (or spans) of functions by name.

    >>> voted_of({"tokens": ["take", "aspirin"], "spans": {"f": [[1, 2, "DRUG"]]}}).votes
    {'f': (None, 'B-DRUG')}
    """

    def refuse(message: str) -> DataError:
        return DataError(f"{what}: {message}" if what else message, path=path, line=line)

    if not isinstance(record, Mapping):
        raise refuse(f"expected an object with the keys 'tokens' and 'votes' or 'spans', but found {kind(record)}")
    whole = "tokens" not in record and "text" in record
    if "tokens" not in record and not whole:
        hint = did_you_mean("tokens", record)
        raise refuse(f"expected the key 'tokens' (or 'text', for a text with one label){hint}")
    if "votes" not in record and "spans" not in record:
        hint = did_you_mean("votes", record)
        raise refuse(f"expected the key 'votes' or 'spans', with the votes of each function by its name{hint}")
    if whole and record.get("spans"):
        raise refuse("found 'spans' beside 'text', but they count tokens: give 'tokens', or 'votes' on the whole text")
    tokens = [record["text"]] if whole else record["tokens"]
    if not isinstance(tokens, Sequence) or isinstance(tokens, str) or not all(isinstance(t, str) for t in tokens):
        raise refuse("expected strings in 'tokens', a list with one for each token")
    votes: dict[str, tuple[str | None, ...]] = {}
    for key in ("spans", "votes"):
        table = record.get(key) or {}
        if not isinstance(table, Mapping):
            raise refuse(f"expected functions by name in {key!r}, but found {kind(table)}")
        for function, given in table.items():
            if function in votes:
                raise refuse(f"function {function!r} has spans and votes: give one of them")
            if key == "spans":
                votes[function] = span_votes(len(tokens), given, f"function {function!r}", refuse)
                continue
            own = [given] if whole and (given is None or isinstance(given, str)) else given
            if not isinstance(own, Sequence) or isinstance(own, str):
                raise refuse(f"expected a list of labels and nulls from function {function!r}, but found {kind(own)}")
            for vote in own:
                if vote is not None and (not isinstance(vote, str) or not vote):
                    raise refuse(f"function {function!r} votes {vote!r}: a vote is the name of a label, or null")
            votes[function] = tuple(own)
    try:
        return Document(tuple(tokens), votes=votes, path=path, line=line)
    except DataError as error:
        raise refuse(str(error)) if what else error from None


def as_voted(X: Iterable[Any]) -> list[Document]:
    """Texts with votes: documents, such records, or a table with a column of votes for each function."""
    if isinstance(X, Document):
        raise DataError("expected a list of texts with votes, got a single text: put it in brackets, [text]")
    given = check_list(X, "texts with votes")
    read = voted_of if given is X else _of_row
    return [x if isinstance(x, Document) else read(x, what=f"text {i}") for i, x in enumerate(given)]


def _of_row(row: Any, *, what: str = "", path: str | None = None, line: int | None = None) -> Document:
    """A row of a table: without a column "votes", all columns but those of text and labels are votes."""
    if not isinstance(row, Mapping):
        return voted_of(row, what=what)
    votes = {name: _vote(cell, row) for name, cell in row.items() if name not in ("text", "tokens", "labels", "label")}
    if "votes" in row:  # as to_frame writes them
        votes = {one["name"]: one["values"] for one in row["votes"] or ()}
    texts = {name: row[name] for name in ("text", "tokens") if row.get(name) is not None}
    found = voted_of({**texts, "votes": votes}, what=what, path=path, line=line)
    gold = row.get("labels") or row.get("label") or None
    return replace(found, labels=(gold,) if isinstance(gold, str) else gold if gold is None else tuple(gold))


def _vote(cell: Any, row: Mapping[str, Any]) -> Any:
    """A cell of CSV, which has no lists and no missing cells, is a string."""
    if isinstance(cell, str) and row.get("tokens") is not None:
        return [None if one == FILLER else one for one in cell.split()]
    return None if cell == "" else cell


def _lines(path: FilePath) -> Iterator[Document]:
    for number, record in json_lines(path):
        yield voted_of(record, path=shown(path), line=number)


def _columns(path: FilePath) -> Iterator[Document]:
    name = shown(path)
    functions: list[str] | None = None
    for block in blocks(path, separator="\t", comment=None):
        rows, numbers = block.rows, block.numbers
        if functions is None:
            functions = [f"function {n}" for n in range(1, len(rows[0]))]
            if rows[0][0].startswith("# "):
                functions, rows, numbers = rows[0][1:], rows[1:], numbers[1:]
            if not functions:
                raise DataError("expected a token, a tab and a vote for each function", path=name, line=numbers[0])
        for line, cells in zip(numbers, rows, strict=True):
            if len(cells) != len(functions) + 1:
                message = f"expected {len(functions) + 1} columns, a token and its votes, but found {len(cells)}"
                raise DataError(message, path=name, line=line)
            if not cells[0]:
                raise DataError("expected a token in the first column, but it is empty", path=name, line=line)
        if not rows:
            continue
        votes = {
            function: tuple(None if cells[n] in ("", FILLER) else cells[n] for cells in rows)
            for n, function in enumerate(functions, 1)
        }
        yield Document(tuple(cells[0] for cells in rows), votes=votes, path=name, line=numbers[0])
