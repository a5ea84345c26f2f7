"""Requests and responses of each kind of model: one JSON object for each input.

A result is the JSON object that the command line writes for the same input:

kind        command                          a result
extract     trellis extract predict --json   text, fields with places and probabilities, tokens, labels
tag         trellis tag predict              tokens, tags (UPOS of its CoNLL-U)
parse       trellis parse predict            tokens, tags, heads, relations (HEAD and DEPREL of its CoNLL-U)
relate      trellis relate predict --json    tokens, mentions, relations
match       trellis match predict --json     left, right, match, score, alignment, worth
align       trellis align --json --scores    links, scores
aggregate   trellis aggregate --json         tokens, labels, probability
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from trellis.data.document import Document
from trellis.data.jsonlines import kind as kind_of_json
from trellis.errors import DataError, counted, did_you_mean

Record = dict[str, Any]
LONGEST = 100_000
"""Characters of a text at most."""


@dataclass(frozen=True)
class ServedKind:
    """How one kind of model is served.

    read : the model and an input of a request -> what ``answer`` takes; a DataError says what is wrong with the input
    answer : the model and what was read of a batch -> a record each
    schema, result : JSON schemas of an input and of a result;  example : an input
    """

    name: str
    does: str
    read: Callable[[Any, Any], Any]
    answer: Callable[[Any, list[Any]], list[Record]]
    schema: Record
    result: Record
    example: Any


# reading


def _text(model: Any, given: Any) -> Any:
    from trellis.data.json_texts import text_of_json

    record = {"text": given} if isinstance(given, str) else _object(given, ("text", "tokens"))
    return text_of_json(record, model.tokeniser_)


def _words(model: Any, given: Any) -> Document:
    if isinstance(given, str):
        return Document(tuple(model.tokeniser_.split(given)))
    return Document(_strings(_object(given, ("tokens",)), "tokens"))


def _tagged(model: Any, given: Any) -> Document:
    record = _object(given, ("tokens", "tags"))
    tokens, tags = _strings(record, "tokens"), _strings(record, "tags")
    if len(tokens) != len(tags):
        raise DataError(
            f"expected a tag for each token but found {counted(len(tokens), 'token')} and {counted(len(tags), 'tag')}"
        )
    return Document(tokens, tags)


def _related(model: Any, given: Any) -> Any:
    from trellis.data.related import as_related, related_of

    [text] = as_related([given]) if isinstance(given, str) else [related_of(given)]
    return text


def _matched(model: Any, given: Any) -> tuple[str, str]:
    from trellis.apps.match.matcher import longest_of

    pair = _sides(given, "left", "right")
    sides = []
    for name, side in zip(("left", "right"), pair, strict=True):
        text = side.strip() if isinstance(side, str) else ""
        if not text:
            raise DataError(f"the {name} side must be a non-empty string, but found {kind_of_json(side)}")
        if len(text) > longest_of(model.kind):
            raise DataError(f"the {name} side has {len(text)} characters; at most {longest_of(model.kind)} are allowed")
        sides.append(text)
    return sides[0], sides[1]


def _sentences(model: Any, given: Any) -> tuple[tuple[str, ...], tuple[str, ...]]:
    one, other = (
        tuple(side.split()) if isinstance(side, str) else _strings({name: side}, name)
        for name, side in zip(("source", "target"), _sides(given, "source", "target"), strict=True)
    )
    return one, other


def _voted(model: Any, given: Any) -> Any:
    from trellis.data.voted_files import voted_of

    return voted_of(given)


def _object(given: Any, keys: Sequence[str]) -> Record:
    if not isinstance(given, dict):
        raise DataError(f"expected an object with {_listed(keys)} but found {kind_of_json(given)}")
    if not any(key in given for key in keys):
        raise DataError(f"expected the key {_listed(keys)}{did_you_mean(keys[0], given)}")
    return given


def _strings(record: Record, key: str) -> tuple[str, ...]:
    found = record.get(key)
    if not isinstance(found, list) or not all(isinstance(one, str) and one for one in found):
        raise DataError(f"expected a list of non-empty strings in {key!r}, one for each token")
    return tuple(found)


def _sides(given: Any, left: str, right: str) -> tuple[Any, Any]:
    if isinstance(given, list) and len(given) == 2:
        return given[0], given[1]
    record = _object(given, (left, right))
    if not (left in record and right in record):
        raise DataError(f"expected the keys {left!r} and {right!r}, or a list of both sides")
    return record[left], record[right]


def _listed(keys: Sequence[str]) -> str:
    return " or ".join(map(repr, keys))


# answering


def _fields(model: Any, texts: list[Any]) -> list[Record]:
    from trellis.apps.extract.results import extracted

    return [one.record() for one in extracted(model, texts).results]


def _tags(model: Any, sentences: list[Any]) -> list[Record]:
    return [{"tokens": one.tokens, "tags": one.labels} for one in _where_words(model, sentences)]


def _trees(model: Any, sentences: list[Any]) -> list[Record]:
    from trellis.data.conllu import heads

    return [
        {"tokens": one.tokens, "tags": one.labels, "heads": heads(one), "relations": one.columns["deprel"]}
        if len(one)
        else {"tokens": [], "tags": [], "heads": [], "relations": []}
        for one in _where_words(model, sentences)
    ]


def _where_words(model: Any, sentences: list[Document]) -> list[Document]:
    """Predictions, of sentences that have words."""
    found = iter(model.predict([one for one in sentences if len(one)]))
    return [next(found) if len(one) else Document((), ()) for one in sentences]


def _relations(model: Any, texts: list[Any]) -> list[Record]:
    from trellis.data.related import record_of

    return [record_of(one) for one in model.predict(texts)]


def _matches(model: Any, pairs: list[Any]) -> list[Record]:
    found: list[Record] = [one.record(*pair) for pair, one in zip(pairs, model.match(pairs), strict=True)]
    return found


def _links(model: Any, pairs: list[Any]) -> list[Record]:
    return [one.record(scores=True) for one in model.align(pairs)]


def _labels(model: Any, texts: list[Any]) -> list[Record]:
    from trellis.apps.aggregate.aggregator import labelled_record

    found = model.infer(texts)
    number = {name: k for k, name in enumerate(model.label_names_)}
    rows = zip(texts, found.labels, found.marginals, strict=True)
    return [labelled_record(text.tokens, own, node, number) for text, own, node in rows]


# schemas


def _list(of: Record) -> Record:
    return {"type": "array", "items": of}


def _record(required: str, **properties: Record) -> Record:
    return {"type": "object", "properties": properties, "required": required.split()}


STRING, NUMBER, WHOLE = {"type": "string"}, {"type": "number"}, {"type": "integer"}
STRINGS = _list(STRING)
FIELD = _record("label start end text", label=STRING, start=WHOLE, end=WHOLE, text=STRING, probability=NUMBER)
MENTION = _record("start end", start=WHOLE, end=WHOLE, type=STRING, probability=NUMBER)
RELATION = _record("first second type", first=WHOLE, second=WHOLE, type=STRING, probability=NUMBER)
RELATED = {"tokens": STRINGS, "tags": STRINGS, "mentions": _list(MENTION), "relations": _list(RELATION)}
SIDE = {"oneOf": [STRING, STRINGS]}
VOTES = {"type": "object", "additionalProperties": _list({"type": ["string", "null"]})}
SPANS = {"type": "object", "additionalProperties": _list(_list({}))}

EXTRACT = ServedKind(
    "extract", "Fields of texts, with their places and probabilities", _text, _fields,
    {"oneOf": [STRING, _record("text", text=STRING), _record("tokens", tokens=STRINGS, text=STRING)]},
    _record("text fields tokens labels", text=STRING, fields=_list(FIELD), tokens=STRINGS, labels=STRINGS,
            relaxed=STRINGS, invalid=STRING),
    "A text.",
)  # fmt: skip
TAG = ServedKind(
    "tag", "A part of speech for every word", _words, _tags,
    {"oneOf": [STRING, _record("tokens", tokens=STRINGS)]}, _record("tokens tags", tokens=STRINGS, tags=STRINGS),
    "A sentence .",
)  # fmt: skip
PARSE = ServedKind(
    "parse", "A dependency tree for every tagged sentence", _tagged, _trees,
    _record("tokens tags", tokens=STRINGS, tags=STRINGS),
    _record("tokens tags heads relations", tokens=STRINGS, tags=STRINGS, heads=_list(WHOLE), relations=STRINGS),
    {"tokens": ["dogs", "bark"], "tags": ["NOUN", "VERB"]},
)  # fmt: skip
RELATE = ServedKind(
    "relate", "Entities and the relations between them", _related, _relations,
    {"oneOf": [STRING, _record("tokens", **RELATED)]}, _record("tokens", **RELATED), "Ann lives in Ely .",
)  # fmt: skip
MATCH = ServedKind(
    "match", "Whether the two texts of a pair belong together", _matched, _matches,
    {"oneOf": [STRINGS, _record("left right", left=STRING, right=STRING)]},
    _record("left right match score alignment worth", left=STRING, right=STRING, match={"type": "boolean"},
            score=NUMBER, alignment=_list(STRINGS), worth=_list(NUMBER)),
    {"left": "a text", "right": "another"},
)  # fmt: skip
ALIGN = ServedKind(
    "align", "Links between the words of two sentences", _sentences, _links,
    {"oneOf": [STRINGS, _record("source target", source=SIDE, target=SIDE)]},
    _record("links scores", links=_list(_list(WHOLE)), scores=_list(NUMBER)),
    {"source": "the rose", "target": "la rose"},
)  # fmt: skip
AGGREGATE = ServedKind(
    "aggregate", "One labelling from the votes of labelling functions", _voted, _labels,
    _record("", tokens=STRINGS, text=STRING, votes=VOTES, spans=SPANS),
    _record("tokens labels probability", tokens=STRINGS, labels=STRINGS, probability=_list(NUMBER)),
    {"tokens": ["a", "token"], "votes": {}},
)  # fmt: skip

KINDS = {
    "Extractor": EXTRACT, "Tagger": TAG, "Parser": PARSE, "TreeInducer": PARSE, "Transfer": PARSE, "Relater": RELATE,
    "Matcher": MATCH, "Aligner": ALIGN, "Aggregator": AGGREGATE,
}  # fmt: skip
"""Class of a model -> how it is served."""


def kind_of(model: Any, path: str) -> ServedKind:
    """How a model is served; one that is not is refused."""
    name = type(model).__name__
    if name not in KINDS:
        raise DataError(f"{path}: holds a {name}, which is not served; models that are: {', '.join(KINDS)}")
    return KINDS[name]


def check_text(given: Any) -> None:
    """Refuse strings that are no text, or too long, anywhere in an input."""
    pending = [given]
    while pending:
        one = pending.pop()
        if isinstance(one, str):
            if len(one) > LONGEST:
                raise DataError(f"a text has {len(one)} characters; at most {LONGEST} are allowed: split it")
            if not one.isascii() and any("\ud800" <= letter <= "\udfff" for letter in one):
                raise DataError(f"found an unpaired surrogate in {one[:40]!r}")
        elif isinstance(one, dict):
            pending.extend(one)
            pending.extend(one.values())
        elif isinstance(one, list):
            pending.extend(one)
