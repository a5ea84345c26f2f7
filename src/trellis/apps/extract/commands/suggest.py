"""``trellis extract suggest``: which texts to label next, and why."""

from __future__ import annotations

import json as _json
from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.options import Force, Json, Model, Output, Quiet, Threads, jobs, number_option, wants_json
from trellis.errors import counted


def suggest(
    model: Model,
    text: Annotated[str, typer.Argument(help="Unlabelled texts; `-`: stdin.")] = "-",
    output: Output = "-",
    number: Annotated[int, number_option("--texts", min=1, help="Suggest this many texts.")] = 10,
    json: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Suggest texts to label next, the least certain first, with the reasons.

    `trellis extract suggest -m fields.trellis text.txt --texts 20 -o next.jsonl` writes each text with the
    predicted fields, its score and the reasons. `trellis extract convert` turns this file into tasks for an annotation
    tool.
    """
    from trellis.apps.extract.extractor import Extractor
    from trellis.apps.extract.suggest import suggest as suggested
    from trellis.data.files import shown, writing
    from trellis.data.text_files import json_record, read_texts
    from trellis.errors import DataError

    check_files({"--model": model, "text": text}, {"--output": output}, force=force)
    extractor = Extractor.load(model, n_jobs=jobs(threads))
    texts = read_texts(text, tokeniser=extractor.tokeniser_)
    if not any(map(len, texts)):
        raise DataError("there is no text in it", path=shown(text))
    found = suggested(extractor, texts, number)
    if not quiet:
        typer.echo(f"{len(found)} of {counted(len(texts), 'text')}", err=True)
    with writing(output) as out:
        for one in found:
            if wants_json(output, json):
                sure = [span.probability or 0.0 for span in one.document.spans or ()]
                record = json_record(one.document, [str(label) for label in one.document.labels or ()], sure)
                record |= {"score": round(one.score, 4), "reasons": one.reasons, "line": one.document.line}
                out.write(_json.dumps(record, ensure_ascii=False) + "\n")
            else:
                why = "; ".join(one.reasons) or "the model is certain of all fields"
                out.write(f"{one.score:.2f}  {one.document.text}\n      {why}\n")
