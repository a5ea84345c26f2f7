"""Labels and predictions of a project as files that others read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from trellis.data.document import Document, fields_of
from trellis.data.text_files import Extracted, json_record, write_extracted
from trellis.errors import DataError, check_name
from trellis.studio.models import Predictions
from trellis.studio.project import Project

FORMATS = {
    "jsonl": "application/x-ndjson", "tsv": "text/tab-separated-values", "csv": "text/csv",
    "spacy": "application/octet-stream",
}  # fmt: skip
WHAT = ("labels", "predictions", "both")

Row = tuple[Document, tuple[str | None, ...], tuple[float, ...] | None]


def exported(project: Project, predictions: Predictions, what: str, form: str) -> bytes:
    """A file with labels, with predictions, or with labels where there are any and predictions elsewhere."""
    check_name("format", form, FORMATS)
    check_name("part", what, WHAT)
    rows = list(_rows(project, predictions, what))
    if not rows:
        raise DataError(f"there are no {'labels' if what == 'labels' else 'predictions'} to export yet")
    writers = {"jsonl": _jsonl, "tsv": _columns, "csv": _csv, "spacy": _docbin}
    return writers[form](rows)


def _rows(project: Project, predictions: Predictions, what: str) -> Iterator[Row]:
    for key in project.ids:
        known, predicted = project.labels.get(key), predictions.of.get(key)
        if what != "predictions" and known is not None:
            yield known.text, known.labels, None
        elif what != "labels" and predicted is not None:
            text = project.text(key)
            if len(text) == len(predicted.labels):
                yield text, predicted.labels, predicted.probabilities


def _jsonl(rows: Iterable[Row]) -> bytes:
    lines = (json_record(text, labels, sure) for text, labels, sure in rows)  # type: ignore[arg-type]
    return "".join(json.dumps(one, ensure_ascii=False) + "\n" for one in lines).encode()


def _columns(rows: Iterable[Row]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "out.tsv"
        known: Any = (Extracted(text, labels) for text, labels, _ in rows)  # type: ignore[arg-type]
        write_extracted(path, known, "columns")
        return path.read_bytes()


def _csv(rows: Iterable[Row]) -> bytes:
    """A field a line; cells that a spreadsheet would take for a formula begin with an apostrophe."""
    out = io.StringIO()
    table = csv.writer(out)
    table.writerow(["text", "label", "start", "end", "field", "probability", "source"])
    for number, (text, labels, sure) in enumerate(rows, start=1):
        for at, one in enumerate(fields_of(text, labels)):
            share = "" if not sure else f"{sure[at]:.4f}"
            source = "labelled" if sure is None else "predicted"
            field = _harmless(text.text[one.start : one.end])
            table.writerow([number, _harmless(str(one.label)), one.start, one.end, field, share, source])
    return out.getvalue().encode()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _docbin(rows: Iterable[Row]) -> bytes:
    from trellis.interop.spacy import to_docbin

    made: bytes = to_docbin(replace(text, labels=labels) for text, labels, _ in rows).to_bytes()
    return made
