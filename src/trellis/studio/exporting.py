"""Labels and predictions of a project as files that others read."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory

from trellis.data.text_files import FIELD, Extracted, field_rows, write_extracted
from trellis.errors import DataError, check_name
from trellis.studio.models import Predictions
from trellis.studio.project import Project

FORMATS = {
    "jsonl": "application/x-ndjson", "tsv": "text/tab-separated-values", "csv": "text/csv",
    "spacy": "application/octet-stream",
}  # fmt: skip
WHAT = ("labels", "predictions", "both")


def exported(project: Project, predictions: Predictions, what: str, form: str) -> bytes:
    """A file with labels, with predictions, or with labels where there are any and predictions elsewhere."""
    check_name("format", form, FORMATS)
    check_name("part", what, WHAT)
    rows = list(_rows(project, predictions, what))
    if not rows:
        raise DataError(f"there are no {'labels' if what == 'labels' else 'predictions'} to export yet")
    writers = {"jsonl": _jsonl, "tsv": _columns, "csv": _csv, "spacy": _docbin}
    return writers[form](rows)


def _rows(project: Project, predictions: Predictions, what: str) -> Iterator[Extracted]:
    """Texts that are labelled or predicted."""
    for key in project.ids:
        known, predicted = project.labels.get(key), predictions.of.get(key)
        if what != "predictions" and known is not None:
            yield Extracted(known.text, known.labels, predicted=False)  # type: ignore[arg-type]
        elif what != "labels" and predicted is not None:
            text = project.cut(project.texts[project.place[key]])
            if len(text) == len(predicted.labels):
                yield Extracted(text, predicted.labels, {}, predicted.probabilities or ())


def _jsonl(rows: Sequence[Extracted]) -> bytes:
    return "".join(json.dumps(row.record(), ensure_ascii=False) + "\n" for row in rows).encode()


def _columns(rows: Sequence[Extracted]) -> bytes:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "out.tsv"
        write_extracted(path, rows, "columns")
        return path.read_bytes()


def _csv(rows: Sequence[Extracted]) -> bytes:
    """A field a line; cells that a spreadsheet would take for a formula begin with an apostrophe."""
    out = io.StringIO()
    table = csv.DictWriter(out, (*FIELD, "source"), lineterminator="\n")
    table.writeheader()
    for row in field_rows(rows):
        source = "predicted" if rows[row["text"] - 1].predicted else "labelled"
        table.writerow({**row, "label": _harmless(row["label"]), "field": _harmless(row["field"]), "source": source})
    return out.getvalue().encode()


def _harmless(cell: str) -> str:
    return f"'{cell}" if cell[:1] in ("=", "+", "-", "@", "\t", "\r") else cell


def _docbin(rows: Sequence[Extracted]) -> bytes:
    from trellis.interop.spacy import to_docbin

    made: bytes = to_docbin(replace(r.text, labels=tuple(r.labels), predicted=r.predicted) for r in rows).to_bytes()
    return made
