"""``trellis extract suggest``: which texts to label next, and why."""

from __future__ import annotations

import json as _json
from typing import Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.options import (
    LABELLED,
    Force,
    Json,
    LabelColumn,
    Model,
    Output,
    Quiet,
    Threads,
    WordColumn,
    jobs,
    number_option,
    wants_json,
)
from trellis.errors import counted


def suggest(
    model: Model,
    text: Annotated[str, typer.Argument(help="Unlabelled texts; `-`: stdin.")] = "-",
    output: Output = "-",
    labelled: Annotated[list[str] | None, LABELLED] = None,
    number: Annotated[int, number_option("--texts", min=1, help="Suggest this many texts.")] = 10,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    json: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Suggest texts to label next, the least certain first, with the reasons.

    `trellis extract suggest -m fields.trellis text.txt -l few.tsv --texts 20 -o next.jsonl` writes each text with the
    predicted fields, its score and the reasons. Texts that are labelled in few.tsv are not suggested again.
    `trellis extract convert` turns this file into tasks for an annotation tool.
    """
    from trellis.apps.extract.extractor import Extractor
    from trellis.apps.extract.suggest import suggest as suggested
    from trellis.data.files import shown, writing
    from trellis.data.text_files import Extracted, read_labelled, read_texts
    from trellis.errors import DataError

    read = {"--model": model, "text": text, "--labelled": labelled}
    check_files(read, {"--output": output}, force=force)
    extractor = Extractor.load(model, n_jobs=jobs(threads))
    columns: dict[str, Any] = {"word_column": word_column, "tokeniser": extractor.tokeniser_}
    texts = read_texts(text, **columns)
    if not any(map(len, texts)):
        raise DataError("there is no text in it", path=shown(text))
    few = [t for path in labelled or () for t in read_labelled(path, label_column=label_column, **columns)]
    found = suggested(extractor, texts, number, labelled=few)
    if not found:
        typer.echo(f"Warning: every text of {shown(text)} is labelled already", err=True)
    elif not quiet:
        typer.echo(f"{len(found)} of {counted(len(texts), 'text')}", err=True)
    with writing(output) as out:
        for one in found:
            if wants_json(output, json):
                sure = [span.probability or 0.0 for span in one.document.spans or ()]
                remarks = {"score": round(one.score, 4), "reasons": one.reasons, "line": one.document.line}
                result = Extracted(one.document, [str(label) for label in one.document.labels or ()], remarks, sure)
                out.write(_json.dumps(result.record(), ensure_ascii=False) + "\n")
            else:
                why = "; ".join(one.reasons) or "the model is certain of all fields"
                out.write(f"{one.score:.2f}  {one.document.text}\n      {why}\n")
