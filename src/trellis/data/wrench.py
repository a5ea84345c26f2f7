"""WRENCH's JSON (Zhang et al. 2021): texts with the votes of labelling functions, and gold labels.

A data set is a folder with ``train.json``, ``valid.json`` and ``test.json``, each an object with one record per text.
``meta.json`` beside them names the functions (``lf``) and the recommended ones (``lf_rec``), ``label.json`` the labels
of whole texts. Three layouts are in use; which one a record has is seen from what its lists hold:

layout      data.text         weak_labels                                       label
spans       list of tokens    for each function its spans [first, end, type]    spans [first, end, type]
tokens      list of tokens    for each token one BIO label per function         one BIO label per token
texts       a string          one label number per function, -1: abstains       a label number

In the second layout ``O`` means that a function found nothing: it abstains, as it does outside its spans in the first.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from trellis.data.bio import everywhere, runs
from trellis.data.document import Document, check_documents
from trellis.data.files import FilePath, numbered_lines, shown, writing
from trellis.data.jsonlines import kind, parse_json
from trellis.data.voted import OUTSIDE, votes_of_spans
from trellis.errors import DataError, check_name, did_you_mean

SPLITS = ("train.json", "valid.json", "test.json")
Refusal = Callable[[str], DataError]
Votes = tuple[str | None, ...]


def is_wrench(path: FilePath) -> bool:
    """Whether a path is read as WRENCH's: a folder, or a file whose name ends in ``.json`` (before ``.gz``)."""
    return os.path.isdir(path) or os.fspath(path).lower().removesuffix(".gz").endswith(".json")


def holds_wrench(folder: FilePath) -> bool:
    """Whether a folder has one of the files of a data set."""
    return any(os.path.exists(os.path.join(folder, split)) for split in SPLITS)


def read_wrench(path: FilePath, *, all_functions: bool = False) -> Iterator[Document]:
    """Texts with votes of a file, or of a folder's files in the order of ``SPLITS``.

    all_functions : read every function, not only the recommended ones
    """
    for file in _files(path):
        functions, wanted, labels = _names(file, all_functions)
        for record in _records(file, needed=("data", "weak_labels")):
            votes = record.votes(functions, labels)
            chosen = {name: own for name, own in votes.items() if wanted is None or name in wanted}
            yield Document(record.tokens, votes=chosen, path=record.path)


def read_wrench_gold(path: FilePath) -> Iterator[Document]:
    """The same texts with their gold labels, BIO for lists of tokens; a record without ``label`` has none."""
    for file in _files(path):
        _, _, labels = _names(file, True)
        for record in _records(file, needed=("data",)):
            yield Document(record.tokens, record.gold(labels), path=record.path)


@dataclass(frozen=True)
class _Record:
    """One text of a file.

    tokens : of a text that is labelled as a whole, the text alone;  whole : whether it is such a text
    """

    key: str
    values: Mapping[str, Any]
    tokens: tuple[str, ...]
    whole: bool
    path: str

    def refuse(self, message: str) -> DataError:
        return DataError(f"record {self.key!r}: {message}", path=self.path)

    def votes(self, functions: Sequence[str], labels: Mapping[str, str]) -> dict[str, Votes]:
        """Votes of every function."""
        given = self.values["weak_labels"]
        if not isinstance(given, list):
            raise self.refuse(f"expected a list in 'weak_labels' but found {kind(given)}")
        if not self.whole and self._is_by_token(given):
            return self._votes_by_token(given, functions)
        names = list(functions) or [str(n) for n in range(len(given))]
        if len(given) != len(names):
            raise self.refuse(f"found the votes of {len(given)} functions, but meta.json names {len(names)}")
        if self.whole:
            return {name: (self._label(own, labels),) for name, own in zip(names, given, strict=True)}
        own_of = dict(zip(names, given, strict=True))
        return {n: span_votes(len(self.tokens), own, f"function {n!r}", self.refuse) for n, own in own_of.items()}

    def _is_by_token(self, given: list[Any]) -> bool:
        """Whether the lists hold labels (one list for each token) and not spans (one list for each function)."""
        for at, own in enumerate(given):
            if not isinstance(own, list):
                raise self.refuse(f"expected a list in 'weak_labels'[{at}] but found {kind(own)}")
        kinds = {isinstance(entry, list) for own in given for entry in own}
        if len(kinds) > 1:
            raise self.refuse(
                "'weak_labels' mixes spans and labels: expected either one list of spans [first, end, type] per "
                "function, or one list of labels per token"
            )
        return kinds == {False} or (not given and not self.tokens)

    def _votes_by_token(self, given: list[list[Any]], functions: Sequence[str]) -> dict[str, Votes]:
        if len(given) != len(self.tokens):
            raise self.refuse(
                f"'weak_labels' has {len(given)} lists of labels for {len(self.tokens)} tokens: expected one list per "
                "token, with the label of each function"
            )
        names = list(functions) or [str(n) for n in range(len(given[0]) if given else 0)]
        for at, own in enumerate(given):
            if len(own) != len(names):
                said = "meta.json names" if functions else "the first token has those of"
                raise self.refuse(f"token {at} has the labels of {len(own)} functions, but {said} {len(names)}")
            for entry in own:
                if entry is not None and (not isinstance(entry, str) or not entry):
                    raise self.refuse(f"token {at} has the vote {entry!r}: a vote is a label such as 'B-X', or 'O'")
        return {
            name: tuple(None if own[n] in (None, OUTSIDE) else own[n] for own in given) for n, name in enumerate(names)
        }

    def gold(self, labels: Mapping[str, str]) -> Votes | None:
        """Gold labels; None where the record has none."""
        given = self.values.get("label")
        if given is None:
            return None
        if self.whole:
            return (self._label(given, labels),)
        if not isinstance(given, list):
            raise self.refuse(f"expected a list in 'label' but found {kind(given)}")
        if any(isinstance(entry, str) for entry in given):
            if len(given) != len(self.tokens) or not all(isinstance(entry, str) and entry for entry in given):
                raise self.refuse(
                    f"'label' has {len(given)} entries for {len(self.tokens)} tokens: expected one label per token, or "
                    "spans [first, end, type]"
                )
            return tuple(given)
        found = span_votes(len(self.tokens), given, "'label'", self.refuse)
        return tuple(label or OUTSIDE for label in found)

    def _label(self, given: Any, labels: Mapping[str, str]) -> str | None:
        if given in (-1, None):
            return None
        if isinstance(given, list | dict):
            raise self.refuse(f"expected the number of a label, or -1, for the text but found {kind(given)}")
        return labels.get(str(given), str(given))


LAYOUTS = ("spans", "tokens", "texts")


def write_wrench(path: FilePath, documents: Sequence[Document], *, layout: str = "spans") -> None:
    """Write documents with votes, and their labels as gold, as one ``.json`` file of a data set.

    A new folder around it gets ``meta.json`` and, for whole texts, ``label.json``; those that are there must agree.

    layout : "spans" or "tokens" of BIO votes, or "texts" of documents that are one token
    """
    check_name("layout", layout, LAYOUTS)
    documents = list(check_documents(documents))
    functions = list(dict.fromkeys(name for text in documents for name in text.votes))
    every = {label for text in documents for own in (*text.votes.values(), text.labels or ()) for label in own}
    labels = sorted(label for label in every if label is not None) if layout == "texts" else []
    code = {label: k for k, label in enumerate(labels)}
    folder = os.path.dirname(os.fspath(path)) or "."
    beside: dict[str, Any] = {"meta.json": {"lf": functions, "lf_rec": functions}}
    if layout == "texts":
        beside["label.json"] = {str(k): label for label, k in code.items()}
    for name, values in beside.items():
        place = os.path.join(folder, name)
        if os.path.exists(place) and _object(place) != values:
            raise DataError(f"names other functions or labels than those of {os.fspath(path)}", path=place)
    records = {str(n): _written(text, functions, layout, code) for n, text in enumerate(documents)}
    made = {**{os.path.join(folder, name): own for name, own in beside.items()}, os.fspath(path): records}
    for name, values in made.items():
        with writing(name) as out:
            json.dump(values, out, ensure_ascii=False)


def _written(text: Document, functions: Sequence[str], layout: str, code: Mapping[str, int]) -> dict[str, Any]:
    votes = [text.votes.get(name) or (None,) * len(text) for name in functions]
    if layout == "texts":
        if len(text) != 1:
            raise DataError(
                f"a text with one label is a document of one token, but one has {len(text)}", path=text.path
            )
        numbers = [-1 if own[0] is None else code[own[0]] for own in votes]
        gold = {} if text.labels is None or text.labels[0] is None else {"label": code[text.labels[0]]}
        return {**gold, "data": {"text": text.tokens[0]}, "weak_labels": numbers}
    known = text.labels if text.labels is not None and None not in text.labels else None
    marked = None if known is None else everywhere(known)
    if layout == "tokens":
        label: Any = marked
        weak: list[Any] = [[own[t] or OUTSIDE for own in votes] for t in range(len(text))]
    else:
        label = None if marked is None else _as_spans(marked)
        weak = [_as_spans(own) for own in votes]
    return {**({} if label is None else {"label": label}), "data": {"text": text.tokens}, "weak_labels": weak}


def _as_spans(labels: Sequence[str | None]) -> list[list[Any]]:
    return [[first, last, kind] for kind, first, last in runs(labels)]


def span_votes(n_tokens: int, given: Any, what: str, refuse: Refusal) -> Votes:
    """Spans as votes; what : whose they are, for messages."""
    if not isinstance(given, Sequence) or isinstance(given, str):
        raise refuse(f"{what}: expected a list of spans [first, end, type] but found {kind(given)}")
    for span in given:
        fine = isinstance(span, Sequence) and not isinstance(span, str) and len(span) == 3
        if not fine or type(span[0]) is not int or type(span[1]) is not int or not isinstance(span[2], str):
            raise refuse(f"{what} gives {span!r}: a span is [first token, end, type]")
    try:
        return votes_of_spans(n_tokens, [(span[0], span[1], span[2]) for span in given])
    except DataError as error:
        raise refuse(f"{what}: {error}") from None


def _files(path: FilePath) -> list[str]:
    name = os.fspath(path)
    if not os.path.isdir(name):
        return [name]
    found = [file for file in (os.path.join(name, split) for split in SPLITS) if os.path.exists(file)]
    if not found:
        raise DataError(
            f"is a folder without {SPLITS[0]}, {SPLITS[1]} or {SPLITS[2]}, which a WRENCH data set has: name a file",
            path=name,
        )
    return found


def _records(path: str, needed: Sequence[str]) -> Iterator[_Record]:
    for key, values in _object(path).items():
        what = f"record {key!r}"
        if not isinstance(values, dict):
            raise DataError(f"{what}: expected an object but found {kind(values)}", path=path)
        for name in needed:
            if name not in values:
                hint = did_you_mean(name, values)
                raise DataError(
                    f"{what}: expected the key {name!r}{hint}; WRENCH's records have 'data' and 'weak_labels'",
                    path=path,
                )
        text: Any = values["data"].get("text") if isinstance(values["data"], dict) else None
        whole = isinstance(text, str)
        if not whole and not (isinstance(text, list) and all(isinstance(token, str) for token in text)):
            raise DataError(f"{what}: expected the text, or a list of tokens, in 'data', 'text'", path=path)
        yield _Record(key, values, (text,) if whole else tuple(text), whole, path)


def _names(path: str, all_functions: bool) -> tuple[list[str], set[str] | None, dict[str, str]]:
    """Functions, those that are wanted (None: all), and names of the labels of whole texts."""
    folder = os.path.dirname(path)
    meta, names = os.path.join(folder, "meta.json"), os.path.join(folder, "label.json")
    labels = {str(k): str(v) for k, v in _object(names).items()} if os.path.exists(names) else {}
    if not os.path.exists(meta):
        return [], None, labels
    said = _object(meta)
    lists = []
    for key in ("lf", "lf_rec"):
        own = said.get(key, [])
        if not isinstance(own, list) or not all(isinstance(name, str) for name in own):
            raise DataError(f"expected a list of names in {key!r}", path=meta)
        lists.append(own)
    functions, recommended = lists
    for function in recommended:
        check_name("labelling function", function, functions, path=meta)
    return functions, None if all_functions or not recommended else set(recommended), labels


def _object(path: str) -> dict[str, Any]:
    try:
        found = parse_json("\n".join(line for _, line in numbered_lines(path)), shown(path))
    except DataError as error:
        if "Extra data" in str(error):
            error.add_note("(a .json file is read as WRENCH's; name a file with one object per line .jsonl)")
        raise
    if not isinstance(found, dict):
        raise DataError(f"expected a JSON object with one record per text, but found {kind(found)}", path=path)
    return found
