"""``trellis tokens``: raw text cut into columns, ready for labels to be written beside the tokens."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from trellis.errors import DataError


def tokens(
    text: Annotated[str, typer.Argument(help="Texts, one a line; `-`: stdin.")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File to write to; `-`: stdout.")] = "-",
    lines: Annotated[int | None, typer.Option("--lines", "-n", min=1, help="The first so many texts alone.")] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace an output that exists already.")] = False,
) -> None:
    """Cut texts into tokens, one a line with `_` for its label: labelled examples are made by filling these in."""
    from dataclasses import replace

    from trellis.cli.checks import check_files
    from trellis.data.columns import write_columns
    from trellis.tasks.extract_files import read_texts

    check_files({"text": text}, {"--output": output})
    if not force and output != "-" and os.path.exists(output):
        raise DataError(
            f"{output} exists already, and labels written into it would be lost: choose another name, or --force"
        )
    texts = [t for t in read_texts(text) if len(t)]
    if not texts:
        raise DataError(f"{text}: there is no text in it")
    write_columns(output, (replace(t.sentence, labels=None, columns={}) for t in texts[:lines]))
