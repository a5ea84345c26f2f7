"""Documents as JSON objects with all of their layers, and back without loss; several as JSON lines.

    {"text": .., "tokens": [..], "offsets": [[0, 3], ..], "labels": [..], "probabilities": [..],
     "columns": {name: [..]}, "spans": [{"label", "first", "last", "start", "end", "text", "probability"}, ..],
     "relations": [{"first", "second", "label", "probability"}, ..], "votes": {function: [..]}, "predicted": true}

Layers of which nothing is known are left out.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from trellis.data.checks import check_list
from trellis.data.document import Document, Relation, Span, check_documents
from trellis.data.files import FilePath, shown, writing
from trellis.data.jsonlines import json_lines, kind
from trellis.errors import DataError, did_you_mean

SPAN = ("label", "first", "last", "start", "end", "text", "probability")
RELATION = ("first", "second", "label", "probability")


def document_record(document: Document) -> dict[str, Any]:
    """A document as a JSON object.

    >>> document_record(Document(("a",), ("X",)))
    {'text': 'a', 'tokens': ['a'], 'offsets': [[0, 1]], 'labels': ['X']}
    """
    record: dict[str, Any] = {
        "text": document.text,
        "tokens": list(document.tokens),
        "offsets": [list(pair) for pair in document.offsets],
    }
    if document.labels is not None:
        record["labels"] = list(document.labels)
    if document.probabilities is not None:
        record["probabilities"] = list(document.probabilities)
    for name, keys, items in (("spans", SPAN, document.spans), ("relations", RELATION, document.relations)):
        if items is not None:
            record[name] = [{key: getattr(item, key) for key in keys} for item in items]
    for name, table in (("columns", document.columns), ("votes", document.votes)):
        if table:
            record[name] = {key: list(cells) for key, cells in table.items()}
    if document.predicted:
        record["predicted"] = True
    return record


def document_of(record: Any, *, path: str | None = None, line: int | None = None) -> Document:
    """The document of such an object."""
    if not isinstance(record, Mapping):
        raise DataError(f"expected an object with the key 'tokens' but found {kind(record)}", path=path, line=line)
    if not isinstance(record.get("tokens"), list):
        hint = did_you_mean("tokens", record)
        raise DataError(f"expected a list of strings in the key 'tokens'{hint}", path=path, line=line)

    def layer(name: str) -> Any:
        return record.get(name)

    try:
        spans, relations = layer("spans"), layer("relations")
        return Document(
            tuple(record["tokens"]),
            layer("labels"),
            {key: tuple(cells) for key, cells in (layer("columns") or {}).items()},
            layer("text") or "",
            tuple([(int(a), int(b)) for a, b in layer("offsets") or ()]),
            None if layer("probabilities") is None else tuple(layer("probabilities")),
            None if spans is None else [Span(**{key: own[key] for key in SPAN if key in own}) for own in spans],
            None
            if relations is None
            else [Relation(**{key: own[key] for key in RELATION if key in own}) for own in relations],
            {key: tuple(cells) for key, cells in (layer("votes") or {}).items()},
            path=path,
            line=line,
            predicted=layer("predicted") is True,
        )
    except DataError:
        raise
    except (TypeError, ValueError, AttributeError, KeyError) as error:
        raise DataError(f"a layer of the document is malformed: {error}", path=path, line=line) from None


def read_documents(path: FilePath) -> list[Document]:
    """Read documents with all of their layers from JSON lines."""
    return [document_of(record, path=shown(path), line=line) for line, record in json_lines(path)]


def write_documents(path: FilePath, documents: Iterable[Document | Mapping[str, Any]]) -> None:
    """Write documents as JSON lines with all of their layers.

    documents : documents, or mappings with tokens and votes as ``Aggregator.fit`` takes them
    """
    from trellis.data.voted_files import voted_of

    given = check_list(documents, "documents")
    read = (voted_of(one, what=f"entry {i}") if isinstance(one, Mapping) else one for i, one in enumerate(given))
    with writing(path) as out:
        for document in check_documents(read):
            out.write(json.dumps(document_record(document), ensure_ascii=False) + "\n")
