"""``trellis tokens``: raw text cut into columns, ready for labels to be written beside the tokens."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.options import Force, Json, Output, number_option, wants_json
from trellis.data.files import shown
from trellis.errors import DataError


def tokens(
    text: Annotated[str, typer.Argument(help="Texts, one per line; `-`: stdin.")] = "-",
    output: Output = "-",
    lines: Annotated[int | None, number_option("--lines", "-n", min=1, help="So many texts, the first ones.")] = None,
    json: Json = False,
    force: Force = False,
) -> None:
    """Cut texts into tokens, one per line with `_` for its label, to be filled in.

    `trellis tokens text.txt -n 5 -o few.tsv` starts a file of labelled examples.
    """
    from dataclasses import replace

    from trellis.data.columns import write_columns
    from trellis.data.jsonlines import write_jsonlines
    from trellis.tasks.extract_files import read_texts

    check_files({"text": text}, {"--output": output}, labels=("--output",), force=force)
    texts = [t for t in read_texts(text) if len(t)]
    if not texts:
        raise DataError("there is no text in it", path=shown(text))
    if wants_json(output, json):
        blank = ((None,) * len(t) for t in texts[:lines])
        cut = (replace(t.sentence, labels=y, columns={}) for t, y in zip(texts[:lines], blank, strict=True))
        write_jsonlines(output, cut)
    else:
        write_columns(output, (replace(t.sentence, labels=None, columns={}) for t in texts[:lines]))
