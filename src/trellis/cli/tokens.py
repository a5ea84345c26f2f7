"""``trellis tokens``: raw text cut into columns, ready for labels to be written beside the tokens."""

from __future__ import annotations

from typing import Annotated

import typer


def tokens(
    text: Annotated[str, typer.Argument(help="Texts, one a line; `-`: stdin.")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File to write to; `-`: stdout.")] = "-",
    lines: Annotated[int | None, typer.Option("--lines", "-n", min=1, help="The first so many texts alone.")] = None,
) -> None:
    """Cut texts into tokens, one a line with `_` for its label: labelled examples are made by filling these in."""
    from dataclasses import replace

    from trellis.data.columns import write_columns
    from trellis.tasks.extract_files import read_texts

    texts = [t for t in read_texts(text) if len(t)]
    write_columns(output, (replace(t.sentence, labels=None, columns={}) for t in texts[:lines]))
