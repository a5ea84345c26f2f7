"""Documents as tables of pandas, polars or Arrow, and as Hugging Face ``datasets``.

    to_frame        a row for each document, all layers; from_frame gives the documents again
    spans_frame     a row for each span: document, label, text, start, end, probability
    tokens_frame    a row for each token: document, token, start, end, label, probability, and columns and votes

Estimators take frames and columns of frames themselves: a column of texts, or a frame with "text" or "tokens".
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from trellis.data.checks import check_names, listed
from trellis.data.document import Document, check_documents
from trellis.data.records import document_of, document_record
from trellis.data.tokens import WORDS, Tokeniser
from trellis.errors import DataError, UnknownNameError, check_name
from trellis.interop.needed import needed

LIBRARIES = ("pandas", "polars", "pyarrow")
LAYERS = ("text", "tokens", "offsets", "labels", "probabilities", "spans", "relations", "columns", "votes", "predicted")


def frame_of(rows: Mapping[str, Sequence[Any]], library: str = "pandas") -> Any:
    """A table of columns; library : "pandas", "polars" or "pyarrow"."""
    check_name("library", library, LIBRARIES)
    module = needed(library, "frames")
    return module.table(dict(rows)) if library == "pyarrow" else module.DataFrame(dict(rows))


def to_frame(documents: Sequence[Document], library: str = "pandas") -> Any:
    """A row for each document, with a column for every layer that one of them has."""
    check_name("library", library, LIBRARIES)
    records = [document_record(one) for one in check_documents(documents)]
    for record in records:
        for name in ("columns", "votes"):  # tables have the same names in every row, documents need not
            if name in record:
                record[name] = [{"name": key, "values": cells} for key, cells in record[name].items()]
    used = [name for name in LAYERS if name in ("text", "tokens", "offsets") or any(name in one for one in records)]
    columns: dict[str, Any] = {name: [one.get(name) for one in records] for name in used}
    if library == "pandas":
        return frame_of(columns, library)
    arrow = needed("pyarrow", "frames")
    table = arrow.table({name: arrow.array(cells, _types(arrow)[name]) for name, cells in columns.items()})
    return table if library == "pyarrow" else needed("polars", "frames").from_arrow(table)


def from_frame(
    frame: Any,
    *,
    text: str = "text",
    tokens: str = "tokens",
    labels: str = "labels",
    votes: Sequence[str] = (),
    columns: Sequence[str] = (),
    tokeniser: Tokeniser = WORDS,
) -> list[Document]:
    """The documents of a table.

    Parameters
    ----------
    frame : pandas.DataFrame, polars.DataFrame or pyarrow.Table
        A row for each document.
    text, tokens, labels : str
        Names of the columns with texts, lists of tokens and lists of labels. One of the first two is needed.
    votes : list of str, default=()
        Columns with votes of labelling functions: a list for each token, or a label for the whole text.
    columns : list of str, default=()
        Further columns with a list of strings for the tokens.
    tokeniser : Tokeniser, default=WORDS
        How texts without tokens are cut.
    """
    found = []
    rows = listed(frame)
    if not isinstance(rows, list) or not all(isinstance(row, Mapping) for row in rows):
        raise DataError(f"expected a frame of pandas, polars or Arrow, got {type(frame).__name__}")
    for number, row in enumerate(rows):
        for name in (*votes, *columns):
            check_name("column", name, row)
        record = {name: row[name] for name in LAYERS if row.get(name) is not None}
        record |= {
            name: row[own]
            for name, own in (("text", text), ("tokens", tokens), ("labels", labels))
            if row.get(own) is not None
        }
        for name in ("columns", "votes"):
            record[name] = _table(record.get(name))
        if "tokens" not in record:
            if not isinstance(record.get("text"), str):
                raise DataError(
                    f"row {number} has neither a text in {text!r} nor tokens in {tokens!r}: columns are {list(row)}"
                )
            whole = bool(votes) and not any(isinstance(row[name], list) for name in votes)
            cut = Document((record["text"],)) if whole else tokeniser.cut(record["text"])
            record |= {"tokens": list(cut.tokens), "offsets": cut.offsets}
        record["votes"] |= {name: row[name] if isinstance(row[name], list) else [row[name]] for name in votes}
        record["columns"] |= {name: row[name] for name in columns}
        found.append(document_of(record))
    return found


def _table(cells: Any) -> dict[str, Any]:
    """Columns or votes of a document, as :func:`to_frame` writes them; any other column of that name is not ours."""
    rows = cells if isinstance(cells, list) else []
    if not all(isinstance(own, Mapping) and own.keys() == {"name", "values"} for own in rows):
        return {}
    return {own["name"]: own["values"] for own in rows}


def spans_frame(documents: Sequence[Document], library: str = "pandas") -> Any:
    """A row for each span of the documents."""
    spans = [
        (number, span) for number, document in enumerate(check_documents(documents)) for span in document.spans or ()
    ]
    keys = ("label", "text", "start", "end", "first", "last", "probability")
    return frame_of(
        {"document": [n for n, _ in spans], **{key: [getattr(span, key) for _, span in spans] for key in keys}}, library
    )


def tokens_frame(documents: Sequence[Document], library: str = "pandas") -> Any:
    """A row for each token of the documents, with its label, columns and votes."""
    documents = list(check_documents(documents))
    places = [(number, one, t) for number, one in enumerate(documents) for t in range(len(one))]
    rows: dict[str, list[Any]] = {
        "document": [number for number, _, _ in places],
        "token": [one.tokens[t] for _, one, t in places],
        "start": [one.offsets[t][0] for _, one, t in places],
        "end": [one.offsets[t][1] for _, one, t in places],
        "label": [one.labels[t] if one.labels is not None else None for _, one, t in places],
    }
    if any(one.probabilities is not None for one in documents):
        rows["probability"] = [one.probabilities[t] if one.probabilities is not None else None for _, one, t in places]
    for layer in ("columns", "votes"):
        for name in dict.fromkeys(name for one in documents for name in getattr(one, layer)):
            rows[name] = [own[t] if (own := getattr(one, layer).get(name)) else None for _, one, t in places]
    return frame_of(rows, library)


def from_dataset(
    dataset: Any, *, tokens: str = "tokens", labels: str | None = "labels", text: str | None = None
) -> list[Document]:
    """The documents of a Hugging Face dataset; a sequence of ``ClassLabel`` gives the names of its labels."""
    names = None
    if not isinstance(getattr(dataset, "features", None), Mapping):
        raise DataError(f"expected a Hugging Face dataset with features, got {type(dataset).__name__}")
    if labels is not None and labels not in dataset.features:
        raise UnknownNameError("column", labels, list(dataset.features))
    if labels is not None:
        names = getattr(getattr(dataset.features[labels], "feature", None), "names", None)
    found = []
    for row in dataset:
        given = None if labels is None else row[labels]
        if given is not None and names is not None:
            given = [None if code is None or code < 0 else names[code] for code in given]
        found.append(document_of({"tokens": row[tokens], "labels": given, "text": row[text] if text else ""}))
    return found


def to_dataset(documents: Sequence[Document], labels: Sequence[str] | None = None) -> Any:
    """A Hugging Face dataset with texts, tokens and a sequence of ``ClassLabel``, −1 where a label is unknown."""
    datasets = needed("datasets", "datasets")
    documents = list(check_documents(documents))
    names = (
        check_names(labels, "labels")
        if labels is not None
        else sorted({y for one in documents for y in one.labels or () if y is not None})
    )
    code = {name: k for k, name in enumerate(names)}
    if len(code) < len(names):
        raise DataError(f"a label is named twice in {names!r:.80}")
    for own in documents:
        for label in own.labels or ():
            if label is not None:
                check_name("label", label, code)
    features = {"text": datasets.Value("string"), "tokens": datasets.Sequence(datasets.Value("string"))}
    rows: dict[str, list[Any]] = {
        "text": [one.text for one in documents],
        "tokens": [list(one.tokens) for one in documents],
    }
    if names:
        features["labels"] = datasets.Sequence(datasets.ClassLabel(names=names))
        rows["labels"] = [[-1 if y is None else code[y] for y in one.labels or (None,) * len(one)] for one in documents]
    return datasets.Dataset.from_dict(rows, features=datasets.Features(features))


def _types(arrow: Any) -> dict[str, Any]:
    string, whole, share = arrow.string(), arrow.int64(), arrow.float64()
    span = {"label": string, "first": whole, "last": whole, "start": whole, "end": whole, "text": string}
    table = arrow.list_(arrow.struct({"name": string, "values": arrow.list_(string)}))
    relation = {"first": whole, "second": whole, "label": string, "probability": share}
    return {
        "text": string, "tokens": arrow.list_(string), "offsets": arrow.list_(arrow.list_(whole)),
        "labels": arrow.list_(string), "probabilities": arrow.list_(share),
        "spans": arrow.list_(arrow.struct({**span, "probability": share})),
        "relations": arrow.list_(arrow.struct(relation)), "columns": table, "votes": table, "predicted": arrow.bool_(),
    }  # fmt: skip


def feature_weights(model: Any, library: str = "pandas") -> Any:
    """A row for each feature and label of a log-linear model, largest weights first: feature, label, weight.

    model : a trained CRF or MaxEnt, or an estimator with one, such as Extractor or Tagger
    """
    inner = getattr(model, "crf_", None) or getattr(getattr(model, "ccm_", None), "model_", None) or model
    layout = getattr(inner, "layout_", None)
    if layout is not None and hasattr(inner, "feature_names_"):
        pairs = zip(
            np.repeat(np.arange(len(layout.first_pair) - 1), np.diff(layout.first_pair)), layout.pair_label, strict=True
        )
        features, labels = inner.feature_names_.names, inner.label_names_.names
        rows = [(features[f], labels[y], float(w)) for (f, y), w in zip(pairs, inner.weights_, strict=False)]
    elif hasattr(inner, "feature_weights_"):
        names = getattr(inner, "feature_names_in_", None)
        rows = [
            (str(f) if names is None else str(names[f]), str(inner.classes_[y]), float(w))
            for (f, y), w in np.ndenumerate(inner.feature_weights_)
        ]
    else:
        raise DataError(
            f"{type(model).__name__} has no weights of features: give a trained CRF, MaxEnt, Tagger or Extractor"
        )
    rows.sort(key=lambda row: -abs(row[2]))
    return frame_of({name: [row[k] for row in rows] for k, name in enumerate(("feature", "label", "weight"))}, library)
