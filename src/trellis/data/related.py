"""A sentence with mentions of entities and relations between them, and its files.

JSON lines      {"tokens": [..], "mentions": [{"start": 0, "end": 2, "type": "Peop"}, ..],
                 "relations": [{"first": 0, "second": 1, "type": "Live_In"}, ..]}
                a mention covers tokens start..end−1, a relation names mentions by their place in the list; without a
                "type" it is not known, without "mentions" they are to be found, without "relations" none is known;
                "tags", if there are any, has one for each token
CoNLL04         index, token, BIO label, relations, heads: ``#doc`` lines between sentences; a relation stands on the
                last token of its first mention and points at the last token of its second (Roth & Yih 2004)
raw text        a sentence per line, without a TAB in the first of them: tokens alone
"""

from __future__ import annotations

import ast
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from trellis.data.bio import runs
from trellis.data.checks import check_list
from trellis.data.columns import blocks
from trellis.data.document import Document, Relation, Span
from trellis.data.files import STANDARD, FilePath, numbered_lines, shown, writing
from trellis.data.jsonlines import is_json_lines, json_lines
from trellis.data.tokens import WORDS, tokenise
from trellis.errors import DataError, did_you_mean

NO_RELATION = "N"


def is_labelled(document: Document) -> bool:
    """Whether the types of all mentions and all relations are known."""
    spans = document.spans
    return spans is not None and document.relations is not None and all(span.label is not None for span in spans)


def checked(document: Document) -> Document:
    """The document; two spans over the same tokens, and two relations between the same spans, are refused."""
    for what, places in (
        ("mentions cover the same tokens", [(m.first, m.last) for m in document.spans or ()]),
        ("relations hold between the same mentions", [(r.first, r.second) for r in document.relations or ()]),
    ):
        if len(set(places)) < len(places):
            raise DataError(f"two {what}: only one is allowed", path=document.path, line=document.line)
    return document


def read_related(path: FilePath) -> Iterator[Document]:
    """Sentences of a file, by its name: ``.jsonl`` is JSON lines, others are CoNLL04 columns or raw text."""
    if is_json_lines(path) or shown(path).lower().removesuffix(".gz").endswith(".json") or path == STANDARD:
        yield from _lines(path)
        return
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    raw = "\t" not in first and not first.startswith("#doc")
    if raw:
        for number, line in numbered_lines(path):
            yield WORDS.cut(line, path=shown(path), line=number)
    else:
        yield from _columns(path)


SentenceLike = Document | Mapping[str, Any] | str
"""A sentence, the object of a JSON line, or a string that is cut into words."""


def as_related(texts: Iterable[SentenceLike]) -> list[Document]:
    """Sentences in any of their forms.

    >>> one, two = as_related(["Ann lives in Ely.", {"tokens": ["Ely"], "mentions": []}])
    >>> one.tokens, two.spans
    (('Ann', 'lives', 'in', 'Ely', '.'), ())
    """
    return [_as_related(text, number) for number, text in enumerate(check_list(texts, "sentences"))]


def _as_related(text: SentenceLike, number: int) -> Document:
    if isinstance(text, Document):
        return checked(text)
    if isinstance(text, str):
        return tokenise(text)
    try:
        return related_of(text)
    except DataError as error:
        error.add_note(f"(sentence {number})")
        raise


def related_of(record: Any, *, path: str | None = None, line: int | None = None) -> Document:
    """A sentence of a JSON object."""

    def refuse(message: str) -> DataError:
        return DataError(message, path=path, line=line)

    if not isinstance(record, Mapping):
        raise refuse(f"expected a string, or an object with the key 'tokens', got {type(record).__name__}")
    if "tokens" not in record:
        raise refuse(f"expected the key 'tokens'{did_you_mean('tokens', record)}")
    tokens = record["tokens"]
    if not isinstance(tokens, list) or not all(isinstance(t, str) and t for t in tokens):
        raise refuse("expected strings that are not empty in 'tokens', a list with one for each token")
    mentions, relations, tags = record.get("mentions"), record.get("relations"), record.get("tags")
    if tags is not None and not (isinstance(tags, list) and all(isinstance(t, str) for t in tags)):
        raise refuse("expected strings in 'tags', a list with one for each token")
    made: tuple[Span, ...] | None = None
    if mentions is not None:
        made = tuple(
            Span(_type(m, refuse), _whole(m, "start", "mention", refuse), _whole(m, "end", "mention", refuse))
            for m in _listed(mentions, "mentions", refuse)
        )
    if relations is not None and made is None:
        raise refuse("there are 'relations' but no 'mentions' that they hold between")
    tied: tuple[Relation, ...] | None = None
    if relations is not None:
        found = []
        for r in _listed(relations, "relations", refuse):
            kind = _type(r, refuse)
            if kind is None:
                raise refuse(f"a relation needs a 'type'{did_you_mean('type', r)}")
            found.append(
                Relation(_whole(r, "first", "relation", refuse), _whole(r, "second", "relation", refuse), kind)
            )
        tied = tuple(found)
    columns = {} if tags is None else {"tag": tuple(tags)}
    return checked(Document(tuple(tokens), columns=columns, spans=made, relations=tied, path=path, line=line))


def _listed(value: Any, key: str, refuse: Any) -> list[Mapping[str, Any]]:
    if not isinstance(value, list) or not all(isinstance(item, Mapping) for item in value):
        raise refuse(f"expected a list of objects in {key!r}")
    return value


def _whole(record: Mapping[str, Any], key: str, what: str, refuse: Any) -> int:
    if key not in record:
        raise refuse(f"a {what} needs the key {key!r}{did_you_mean(key, record)}")
    value = record[key]
    if not isinstance(value, int) or isinstance(value, bool):
        raise refuse(f"{key!r} of a {what} must be a whole number, got {value!r}")
    return value


def _type(record: Mapping[str, Any], refuse: Any) -> str | None:
    value = record.get("type")
    if value is not None and (not isinstance(value, str) or not value):
        raise refuse(f"'type' must be a text, got {value!r}")
    return value


def _lines(path: FilePath) -> Iterator[Document]:
    for number, record in json_lines(path):
        yield related_of(record, path=shown(path), line=number)


def _columns(path: FilePath) -> Iterator[Document]:
    name = shown(path)
    for block in blocks(path, separator="\t", comment="#doc"):
        if not block.rows:
            continue
        rows, numbers = block.rows, block.numbers
        for cells, line in zip(rows, numbers, strict=True):
            if len(cells) != 5:
                message = f"expected index, token, label, relations and heads but found {len(cells)} columns"
                raise DataError(message, path=name, line=line)
        mentions, ends = (
            tuple(Span(kind, first, last) for kind, first, last in runs([cells[2] for cells in rows])),
            dict[int, int](),
        )
        for number, m in enumerate(mentions):
            ends[m.last - 1] = number
        relations = []
        for at, (cells, line) in enumerate(zip(rows, numbers, strict=True)):
            kinds, heads = _cell(cells[3], str, name, line), _cell(cells[4], int, name, line)
            if len(kinds) != len(heads):
                raise DataError(f"found {len(kinds)} relations but {len(heads)} heads", path=name, line=line)
            for kind, head in zip(kinds, heads, strict=True):
                # a few lines of the corpus have relations that no mention ends at: they hold between nothing
                if kind != NO_RELATION and at in ends and head in ends and at != head:
                    relations.append(Relation(ends[at], ends[head], kind))
        yield Document(
            tuple(cells[1] for cells in rows), spans=mentions, relations=tuple(relations), path=name, line=numbers[0]
        )


def _cell(text: str, kind: type, path: str, line: int) -> list[Any]:
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        value = None
    if not isinstance(value, list) or not all(type(item) is kind for item in value):
        raise DataError(
            f"expected a list of {kind.__name__} such as {[kind(0)]!r}, found {text[:40]!r}", path=path, line=line
        )
    return value


def write_related(path: FilePath, texts: Iterable[Document], *, columns: bool | None = None) -> None:
    """Write sentences with the probabilities that they have, or as CoNLL04 columns.

    columns : None: where the name ends in .txt, .tsv or .conll
    """
    if columns is None:
        columns = os.fspath(path).lower().endswith((".txt", ".tsv", ".conll"))
    with writing(path) as out:
        for number, text in enumerate(texts):
            out.write(_as_columns(text, number) if columns else json.dumps(record_of(text), ensure_ascii=False) + "\n")


def record_of(text: Document) -> dict[str, Any]:
    """The JSON object of a sentence, the inverse of :func:`related_of`."""
    record: dict[str, Any] = {"tokens": text.tokens}
    if "tag" in text.columns:
        record["tags"] = text.columns["tag"]
    if text.spans is not None:
        record["mentions"] = [_bare({"start": m.first, "end": m.last}, m) for m in text.spans]
    if text.relations is not None:
        record["relations"] = [_bare({"first": r.first, "second": r.second}, r) for r in text.relations]
    return record


def _bare(record: dict[str, Any], item: Span | Relation) -> dict[str, Any]:
    if item.label is not None:
        record["type"] = item.label
    if item.probability is not None:
        record["probability"] = round(item.probability, 6)
    return record


def _as_columns(text: Document, number: int) -> str:
    labels, mentions = ["O"] * len(text.tokens), text.spans or ()
    for m in mentions:
        for at in range(m.first, m.last):
            labels[at] = f"{'B' if at == m.first else 'I'}-{m.label or 'None'}"
    kinds: list[list[str]] = [[] for _ in text.tokens]
    heads: list[list[int]] = [[] for _ in text.tokens]
    for r in text.relations or ():
        kinds[mentions[r.first].last - 1].append(r.label)
        heads[mentions[r.first].last - 1].append(mentions[r.second].last - 1)
    rows = (
        f"{i}\t{token}\t{labels[i]}\t{kinds[i] or [NO_RELATION]}\t{heads[i] or [i]}\n"
        for i, token in enumerate(text.tokens)
    )
    return f"#doc {number}\n" + "".join(rows)
