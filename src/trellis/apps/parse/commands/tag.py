"""``trellis tag train`` and ``trellis tag predict``: tags of words, for the commands that read them in UPOS."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import need_text, warning_if_empty
from trellis.cli.options import (
    LEARNING,
    SAVE,
    TOKENISED,
    Model,
    Output,
    Quiet,
    Threads,
    file_option,
    jobs,
)
from trellis.cli.settings import FieldOptions

SETTINGS = FieldOptions("trellis.apps.parse.tagger:Tagger", learning="min_count", run="n_jobs engine")


def train(
    text: Annotated[str, typer.Argument(help="Tagged sentences, CoNLL-U with tags in UPOS.")],
    save: Annotated[str, SAVE],
    dev: Annotated[
        str | None,
        file_option("--dev", help="Development set; its accuracy is shown. Tagged sentences.", panel=LEARNING),
    ] = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn a tagger from tagged sentences.

    `trellis tag train train.conllu --save tagger.trellis`
    """
    from trellis.apps.parse.tagger import Tagger
    from trellis.data.conllu import read_conllu

    check_files({"text": text, "--dev": dev}, {"--save": save})
    tagger = Tagger(verbose=not quiet, **settings)
    tagger.check_settings()
    held = None if dev is None else list(read_conllu(dev))
    sentences = list(read_conllu(text))
    need_text(text, sentences)
    tagger.fit(sentences)
    tagger.save(save)
    if held is not None:
        typer.echo(f"{'accuracy':<12}{100 * tagger.score(held):.2f}")


def predict(
    text: Annotated[
        str, typer.Argument(help="Sentences: CoNLL-U (.conllu), or text with one sentence per line; `-`: stdin.")
    ],
    model: Model,
    tokenised: Annotated[bool, TOKENISED] = False,
    output: Output = "-",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Tag sentences: UPOS is filled, the other columns stay.

    `trellis tag predict text.txt --model tagger.trellis -o text.conllu`
    """
    from trellis.apps.parse.tagger import Tagger
    from trellis.data.conllu import NAMES, is_conllu, read_text, write_conllu
    from trellis.engine import by_chunks

    check_files({"text": text, "--model": model}, {"--output": output})
    tagger = Tagger.load(model, n_jobs=jobs(threads))
    others = [name for name in NAMES if name not in ("id", "form", "upos")]
    raw = not (tokenised or is_conllu(text))
    given = (tagger.tokenise(s) if raw else s for s in read_text(text, columns=others) if len(s))
    sentences = warning_if_empty(text, given)
    write_conllu(output, by_chunks(tagger.predict, sentences, tagger.n_jobs))
