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
from dataclasses import dataclass, field
from typing import Any

from trellis.data.checks import check_list
from trellis.data.columns import blocks
from trellis.data.files import STANDARD, FilePath, numbered_lines, shown, writing
from trellis.data.jsonlines import is_json_lines, json_lines
from trellis.data.tokens import tokenise
from trellis.errors import DataError, did_you_mean

NO_RELATION = "N"


@dataclass(frozen=True)
class Mention:
    """Tokens start..end−1, of a type that is known or None."""

    start: int
    end: int
    type: str | None = None
    probability: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class Relation:
    """Mention ``first`` stands in a relation to mention ``second``, by their places in the sentence's list."""

    first: int
    second: int
    type: str
    probability: float | None = field(default=None, compare=False)


@dataclass(frozen=True)
class RelatedText:
    """Tokens with mentions and relations.

    Parameters
    ----------
    tokens : tuple of str
        Tokens.
    mentions : tuple of Mention or None, default=None
        Mentions; None if they are to be found.
    relations : tuple of Relation or None, default=None
        Relations; None if unknown.
    path : str or None, default=None
        File the text was read from.
    line : int or None, default=None
        Line the text was read from.
    tags : tuple of str or None, default=None
        Part-of-speech tags.

    Examples
    --------
    >>> text = RelatedText(("Ann", "of", "Ely"), (Mention(0, 1, "Peop"), Mention(2, 3)), None)
    >>> text.labelled, [text.text_of(m) for m in text.mentions]
    (False, ['Ann', 'Ely'])
    """

    tokens: tuple[str, ...]
    mentions: tuple[Mention, ...] | None = None
    relations: tuple[Relation, ...] | None = None
    path: str | None = field(default=None, compare=False)
    line: int | None = field(default=None, compare=False)
    tags: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        def refuse(message: str) -> DataError:
            return DataError(message, path=self.path, line=self.line)

        if self.tags is not None and len(self.tags) != len(self.tokens):
            raise refuse(f"there are {len(self.tags)} tags but {len(self.tokens)} tokens")
        for number, m in enumerate(self.mentions or ()):
            if not 0 <= m.start < m.end <= len(self.tokens):
                raise refuse(f"mention {number} covers tokens {m.start}..{m.end - 1}, but there are {len(self.tokens)}")
        if len({(m.start, m.end) for m in self.mentions or ()}) < len(self.mentions or ()):
            raise refuse("two mentions cover the same tokens")
        seen = set()
        for r in self.relations or ():
            n = len(self.mentions or ())
            if not (0 <= r.first < n and 0 <= r.second < n) or r.first == r.second:
                raise refuse(f"a relation from mention {r.first} to mention {r.second}, but there are {n} mentions")
            if (r.first, r.second) in seen:
                raise refuse(f"two relations from mention {r.first} to mention {r.second}: there can be one")
            seen.add((r.first, r.second))

    @property
    def labelled(self) -> bool:
        """Whether everything is known of it."""
        return (
            self.mentions is not None and self.relations is not None and all(m.type is not None for m in self.mentions)
        )

    def text_of(self, mention: Mention) -> str:
        return " ".join(self.tokens[mention.start : mention.end])


def read_related(path: FilePath) -> Iterator[RelatedText]:
    """Sentences of a file, by its name: ``.jsonl`` is JSON lines, others are CoNLL04 columns or raw text."""
    if is_json_lines(path) or shown(path).lower().removesuffix(".gz").endswith(".json") or path == STANDARD:
        yield from _lines(path)
        return
    first = next((line for _, line in numbered_lines(path) if line.strip()), "")
    raw = "\t" not in first and not first.startswith("#doc")
    if raw:
        for number, line in numbered_lines(path):
            yield RelatedText(tokenise(line).tokens, path=shown(path), line=number)
    else:
        yield from _columns(path)


SentenceLike = RelatedText | Mapping[str, Any] | str
"""A sentence, the object of a JSON line, or a string that is cut into words."""


def as_related(texts: Iterable[SentenceLike]) -> list[RelatedText]:
    """Sentences in any of their forms.

    >>> one, two = as_related(["Ann lives in Ely.", {"tokens": ["Ely"], "mentions": []}])
    >>> one.tokens, two.mentions
    (('Ann', 'lives', 'in', 'Ely', '.'), ())
    """
    return [_as_related(text, number) for number, text in enumerate(check_list(texts, "sentences"))]


def _as_related(text: SentenceLike, number: int) -> RelatedText:
    if isinstance(text, RelatedText):
        return text
    if isinstance(text, str):
        return RelatedText(tokenise(text).tokens)
    try:
        return related_of(text)
    except DataError as error:
        error.add_note(f"(sentence {number})")
        raise


def related_of(record: Any, *, path: str | None = None, line: int | None = None) -> RelatedText:
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
    made: tuple[Mention, ...] | None = None
    if mentions is not None:
        made = tuple(
            Mention(_whole(m, "start", "mention", refuse), _whole(m, "end", "mention", refuse), _type(m, refuse))
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
    return RelatedText(tuple(tokens), made, tied, path, line, None if tags is None else tuple(tags))


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


def _lines(path: FilePath) -> Iterator[RelatedText]:
    for number, record in json_lines(path):
        yield related_of(record, path=shown(path), line=number)


def _columns(path: FilePath) -> Iterator[RelatedText]:
    name = shown(path)
    for block in blocks(path, separator="\t", comment="#doc"):
        if not block.rows:
            continue
        rows, numbers = block.rows, block.numbers
        for cells, line in zip(rows, numbers, strict=True):
            if len(cells) != 5:
                message = f"expected index, token, label, relations and heads but found {len(cells)} columns"
                raise DataError(message, path=name, line=line)
        mentions, ends = _mentions([cells[2] for cells in rows]), dict[int, int]()
        for number, m in enumerate(mentions):
            ends[m.end - 1] = number
        relations = []
        for at, (cells, line) in enumerate(zip(rows, numbers, strict=True)):
            kinds, heads = _cell(cells[3], str, name, line), _cell(cells[4], int, name, line)
            if len(kinds) != len(heads):
                raise DataError(f"found {len(kinds)} relations but {len(heads)} heads", path=name, line=line)
            for kind, head in zip(kinds, heads, strict=True):
                # a few lines of the corpus have relations that no mention ends at: they hold between nothing
                if kind != NO_RELATION and at in ends and head in ends and at != head:
                    relations.append(Relation(ends[at], ends[head], kind))
        yield RelatedText(tuple(cells[1] for cells in rows), mentions, tuple(relations), name, numbers[0])


def _mentions(labels: list[str]) -> tuple[Mention, ...]:
    """Mentions of BIO labels; an I that continues nothing begins one."""
    found: list[Mention] = []
    for at, label in enumerate(labels):
        sign, _, kind = label.partition("-")
        if sign == "I" and found and found[-1].end == at and found[-1].type == kind:
            found[-1] = Mention(found[-1].start, at + 1, kind)
        elif sign in ("B", "I"):
            found.append(Mention(at, at + 1, kind or None))
    return tuple(found)


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


def write_related(path: FilePath, texts: Iterable[RelatedText], *, columns: bool | None = None) -> None:
    """Write sentences with the probabilities that they have, or as CoNLL04 columns.

    columns : None: where the name ends in .txt, .tsv or .conll
    """
    if columns is None:
        columns = os.fspath(path).lower().endswith((".txt", ".tsv", ".conll"))
    with writing(path) as out:
        for number, text in enumerate(texts):
            out.write(_as_columns(text, number) if columns else json.dumps(record_of(text), ensure_ascii=False) + "\n")


def record_of(text: RelatedText) -> dict[str, Any]:
    """The JSON object of a sentence, the inverse of :func:`related_of`."""
    record: dict[str, Any] = {"tokens": text.tokens}
    if text.tags is not None:
        record["tags"] = text.tags
    if text.mentions is not None:
        record["mentions"] = [_bare({"start": m.start, "end": m.end}, m) for m in text.mentions]
    if text.relations is not None:
        record["relations"] = [_bare({"first": r.first, "second": r.second}, r) for r in text.relations]
    return record


def _bare(record: dict[str, Any], item: Mention | Relation) -> dict[str, Any]:
    if item.type is not None:
        record["type"] = item.type
    if item.probability is not None:
        record["probability"] = round(item.probability, 6)
    return record


def _as_columns(text: RelatedText, number: int) -> str:
    labels, mentions = ["O"] * len(text.tokens), text.mentions or ()
    for m in mentions:
        for at in range(m.start, m.end):
            labels[at] = f"{'B' if at == m.start else 'I'}-{m.type or 'None'}"
    kinds: list[list[str]] = [[] for _ in text.tokens]
    heads: list[list[int]] = [[] for _ in text.tokens]
    for r in text.relations or ():
        kinds[mentions[r.first].end - 1].append(r.type)
        heads[mentions[r.first].end - 1].append(mentions[r.second].end - 1)
    rows = (
        f"{i}\t{token}\t{labels[i]}\t{kinds[i] or [NO_RELATION]}\t{heads[i] or [i]}\n"
        for i, token in enumerate(text.tokens)
    )
    return f"#doc {number}\n" + "".join(rows)
