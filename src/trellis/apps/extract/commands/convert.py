"""``trellis extract convert``: labelled texts from one format to another."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.options import Force, Json, Output, name_option, wants_json


class AnnotationFormat(StrEnum):
    """How annotated texts are written."""

    BRACKETS = "brackets"
    PRODIGY = "prodigy"
    DOCCANO = "doccano"
    LABEL_STUDIO = "label-studio"
    BRAT = "brat"
    COLUMNS = "columns"


def convert(
    labelled: Annotated[str, typer.Argument(help="Labelled texts of any format that can be read.")],
    output: Output = "-",
    to: Annotated[
        AnnotationFormat,
        name_option("--to", help="One of: brackets, prodigy, doccano, label-studio, brat, columns"),
    ] = AnnotationFormat.COLUMNS,
    json: Json = False,
    force: Force = False,
) -> None:
    """Write labelled texts in another format.

    `trellis extract convert export.jsonl --to columns -o few.tsv` reads exports of Prodigy, doccano, Label Studio and
    brat, texts with `[LABEL words]` in brackets, columns and JSON lines, by their names and contents.
    """
    from trellis.data.annotations import write_annotations
    from trellis.data.columns import write_columns
    from trellis.data.files import shown
    from trellis.data.records import write_documents
    from trellis.data.text_files import read_labelled
    from trellis.errors import DataError

    check_files({"labelled": labelled}, {"--output": output}, labels=("--output",), force=force)
    texts = read_labelled(labelled)
    if not any(map(len, texts)):
        raise DataError("there is no text in it", path=shown(labelled))
    if to is AnnotationFormat.BRAT and len(texts) != 1:
        raise DataError(f"brat has one text in a file, but there are {len(texts)}: write another format")
    if to is not AnnotationFormat.COLUMNS:
        write_annotations(output, texts, to.value)
    elif wants_json(output, json):
        write_documents(output, texts)
    else:
        write_columns(output, texts, keep_empty=True)
