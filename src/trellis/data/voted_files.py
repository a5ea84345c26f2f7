"""Files of texts with votes: WRENCH's JSON, JSON lines, and columns.

WRENCH          a folder with train.json, valid.json and test.json, or one such file; meta.json beside it names the
                functions (``lf``) and those that are recommended (``lf_rec``), label.json the labels of whole texts
JSON lines      {"tokens": [..], "spans": {function: [[first, end, type], ..]}}          as skweak keeps them
                {"tokens": [..], "votes": {function: [label or null, ..]}}
                {"text": "..", "votes": {function: label or null}}                        one label for the text
columns         token TAB vote TAB vote ...; ``_`` or nothing where a function abstains; a first line
                ``# token TAB function TAB function ...`` names the functions
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from trellis.data.columns import FILLER, blocks
from trellis.data.files import FilePath, numbered_lines, shown
from trellis.data.jsonlines import is_json_lines, json_lines, kind, parse_json
from trellis.data.voted import VotedText, votes_of_spans
from trellis.errors import DataError, UnknownNameError, did_you_mean

SPLITS = ("train.json", "valid.json", "test.json")


def read_voted(path: FilePath, *, all_functions: bool = False) -> Iterator[VotedText]:
    """Texts of one file or folder, by its name: a folder and ``.json`` are WRENCH's, ``.jsonl`` lines, others columns.

    all_functions : of WRENCH, not the recommended functions alone
    """
    name = os.fspath(path)
    if os.path.isdir(name):
        found = [os.path.join(name, split) for split in SPLITS if os.path.exists(os.path.join(name, split))]
        if not found:
            raise DataError(f"a folder of texts with votes holds {', '.join(SPLITS)}, but none is here", path=name)
        for split in found:
            yield from _wrench(split, all_functions)
        return
    if name.lower().removesuffix(".gz").endswith(".json"):
        yield from _wrench(name, all_functions)
    elif is_json_lines(path):
        yield from _lines(path)
    else:
        yield from _columns(path)


def voted_of(record: Any, *, what: str = "", path: str | None = None, line: int | None = None) -> VotedText:
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
        raise refuse(f"expected the key 'votes' or 'spans', with the guesses of each function by its name{hint}")
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
                votes[function] = _span_votes(len(tokens), given, function, refuse)
                continue
            own = [given] if whole and (given is None or isinstance(given, str)) else given
            if not isinstance(own, Sequence) or isinstance(own, str):
                raise refuse(f"expected a list of labels and nulls from function {function!r}, but found {kind(own)}")
            for vote in own:
                if vote is not None and (not isinstance(vote, str) or not vote):
                    raise refuse(f"function {function!r} votes {vote!r}: a vote is the name of a label, or null")
            votes[function] = tuple(own)
    return VotedText(tuple(tokens), votes, path=path, line=line)


def _span_votes(n_tokens: int, given: Any, function: str, refuse: Any) -> tuple[str | None, ...]:
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise refuse(f"expected a list of spans [first, end, type] from function {function!r}, found {kind(given)}")
    for span in given:
        fine = isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 3
        if not fine or type(span[0]) is not int or type(span[1]) is not int or not isinstance(span[2], str):
            raise refuse(f"function {function!r} gives {span!r}: a span is [first token, end, type]")
    try:
        return votes_of_spans(n_tokens, [(span[0], span[1], span[2]) for span in given])
    except DataError as error:
        raise refuse(f"function {function!r}: {error}") from None


def _lines(path: FilePath) -> Iterator[VotedText]:
    for number, record in json_lines(path):
        yield voted_of(record, path=shown(path), line=number)


def _columns(path: FilePath) -> Iterator[VotedText]:
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
        yield VotedText(tuple(cells[0] for cells in rows), votes, path=name, line=numbers[0])


def _wrench(path: str, all_functions: bool) -> Iterator[VotedText]:
    records = _object(path)
    functions, wanted, labels = _wrench_names(path, all_functions)
    for key, record in records.items():
        what = f"record {key!r}"
        if not isinstance(record, dict):
            raise DataError(f"{what}: expected an object but found {kind(record)}", path=path)
        for needed in ("data", "weak_labels"):
            if needed not in record:
                hint = did_you_mean(needed, record)
                raise DataError(
                    f"{what}: expected the key {needed!r}{hint}; WRENCH's records have 'data' and 'weak_labels'",
                    path=path,
                )
        text = record["data"].get("text") if isinstance(record["data"], dict) else None
        if text is None:
            raise DataError(f"{what}: expected the text, or a list of tokens, in 'data', 'text'", path=path)
        given = record["weak_labels"]
        names = functions or [str(n) for n in range(len(given))]
        if len(given) != len(names):
            raise DataError(
                f"{what}: found the guesses of {len(given)} functions, but meta.json names {len(names)}", path=path
            )
        chosen = {n: own for n, own in zip(names, given, strict=True) if wanted is None or n in wanted}
        if isinstance(text, str):
            votes = {n: None if own in (-1, None) else labels.get(str(own), str(own)) for n, own in chosen.items()}
            yield voted_of({"text": text, "votes": votes}, what=what, path=path)
        else:
            yield voted_of({"tokens": text, "spans": chosen}, what=what, path=path)


def _wrench_names(path: str, all_functions: bool) -> tuple[list[str], set[str] | None, dict[str, str]]:
    """Functions, those that are wanted (None: all), and names of the labels of whole texts."""
    folder = os.path.dirname(path)
    meta, names = os.path.join(folder, "meta.json"), os.path.join(folder, "label.json")
    labels = {str(k): str(v) for k, v in _object(names).items()} if os.path.exists(names) else {}
    if not os.path.exists(meta):
        return [], None, labels
    said = _object(meta)
    functions, recommended = said.get("lf", []), said.get("lf_rec", [])
    for function in recommended:
        if function not in functions:
            raise UnknownNameError("labelling function", function, functions, path=meta)
    return functions, None if all_functions or not recommended else set(recommended), labels


def _object(path: str) -> dict[str, Any]:
    found = parse_json("\n".join(line for _, line in numbered_lines(path)), path)
    if not isinstance(found, dict):
        raise DataError(f"expected a JSON object with a text for each key, but found {kind(found)}", path=path)
    return found
