"""``trellis extract convert``: labelled texts from one format to another."""

from __future__ import annotations

from dataclasses import replace
from enum import StrEnum
from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.options import Force, Json, Output, flag, name_option, wants_json
from trellis.errors import counted


class AnnotationFormat(StrEnum):
    """How annotated texts are written."""

    BRACKETS = "brackets"
    PRODIGY = "prodigy"
    DOCCANO = "doccano"
    LABEL_STUDIO = "label-studio"
    BRAT = "brat"
    COLUMNS = "columns"


def convert(
    labelled: Annotated[str, typer.Argument(help="Labelled texts in any supported format.")],
    output: Output = "-",
    to: Annotated[
        AnnotationFormat, name_option("--to", help="One of: brackets, prodigy, doccano, label-studio, brat, columns")
    ] = AnnotationFormat.COLUMNS,
    accept: Annotated[bool, flag("--accept", help="Accept predictions: write them as labels.")] = False,
    json: Json = False,
    force: Force = False,
) -> None:
    """Write labelled texts in another format.

    `trellis extract convert export.jsonl --to columns -o few.tsv` reads exports of Prodigy, doccano, Label Studio and
    brat, texts with `[LABEL words]` in brackets, columns and JSON lines. The format is recognised by file name and
    contents. Predictions stay predictions where the format has a place for them: JSON lines, Parquet, CSV, Prodigy and
    Label Studio.
    """
    from trellis.data.annotations import MARKED, is_unlabelled, write_annotations
    from trellis.data.brat import brat_text
    from trellis.data.columns import write_columns
    from trellis.data.files import shown
    from trellis.data.records import write_documents
    from trellis.data.tables import is_table, write_table
    from trellis.data.text_files import read_labelled
    from trellis.errors import DataError

    written = [output, brat_text(output)] if to is AnnotationFormat.BRAT else [output]
    if json and to is not AnnotationFormat.COLUMNS:
        raise DataError(f"--json writes all that is known of the texts, so --to {to} cannot be combined with it")
    check_files({"labelled": labelled}, {"--output": written}, labels=("--output",), tables=("--output",), force=force)
    texts = read_labelled(labelled, predictions=True)
    if accept:
        texts = [replace(text, predicted=False) for text in texts]
    if not any(map(len, texts)):
        raise DataError("there is no text in it", path=shown(labelled))
    if to is AnnotationFormat.BRACKETS:
        given, texts = len(texts), [text for text in texts if not is_unlabelled(text)]
        if not any(map(len, texts)):
            raise DataError(
                "no text is labelled, and brackets cannot represent unlabelled texts: choose another format",
                path=shown(labelled),
            )
        if len(texts) < given:
            typer.echo(
                f"Warning: {counted(given - len(texts), 'unlabelled text')} left out: brackets cannot represent them",
                err=True,
            )
    partly = [text for text in texts if {None} < set(text.labels or ())]
    if partly and to is not AnnotationFormat.COLUMNS:
        typer.echo(
            f"Warning: {counted(len(partly), 'text')} with some labels missing; {to} has no unknown labels: they are "
            "written as tokens outside of all spans",
            err=True,
        )
    is_marked = to.value in MARKED or (
        to is AnnotationFormat.COLUMNS and (wants_json(output, json) or is_table(output))
    )
    if (n := sum(text.predicted for text in texts)) and not is_marked:
        typer.echo(
            f"Warning: the labels of {counted(n, 'text')} are predictions, which {to} cannot represent. They will "
            "count as labels: correct them before training",
            err=True,
        )
    if to is not AnnotationFormat.COLUMNS:
        write_annotations(output, texts, to.value)
    elif wants_json(output, json):
        write_documents(output, texts)
    elif is_table(output):
        write_table(output, texts)
    else:
        write_columns(output, texts, keep_empty=True)
