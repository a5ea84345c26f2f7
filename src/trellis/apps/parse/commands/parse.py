"""``trellis parse train`` and ``trellis parse predict``: dependency trees in CoNLL-U."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import need_text, warning_if_empty
from trellis.cli.options import (
    LEARNING,
    SAVE,
    Model,
    Output,
    Quiet,
    Threads,
    file_option,
    jobs,
)
from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

SETTINGS = FieldOptions(
    "trellis.apps.parse.parser:Parser",
    learning="encoder max_iter min_count bits random_state",
    run="device",
    flags={"max_iter": "--passes"},
)  # fmt: skip


def train(
    trees: Annotated[str, typer.Argument(help="Treebank, CoNLL-U: tags in UPOS, trees in HEAD and DEPREL.")],
    save: Annotated[str, SAVE],
    dev: Annotated[
        str | None,
        file_option("--dev", help="Development set; its accuracy is shown. A treebank.", panel=LEARNING),
    ] = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn a parser from a treebank.

    `trellis parse train train.conllu --dev dev.conllu --save parser.trellis`
    """
    from trellis.apps.parse.parser import Parser

    check_files({"trees": trees, "--dev": dev}, {"--save": save})
    parser = Parser(verbose=not quiet, **settings)
    parser.check_settings()
    held = None if dev is None else _read(dev)
    parser.fit(_read(trees))
    parser.save(save)
    left_out = parser.arcs_.n_left_out_
    if left_out and not quiet:
        typer.echo(f"{left_out} sentences with crossing arcs, or without a whole tree, were left out", err=True)
    if held is not None:
        scores = parser.attachment(held).plain
        typer.echo(f"{'UAS':<12}{100 * scores.uas:.2f}\n{'LAS':<12}{100 * scores.las:.2f}")


def predict(
    text: Annotated[str, typer.Argument(help="Sentences, CoNLL-U with tags in UPOS; `-`: stdin.")],
    model: Model,
    output: Output = "-",
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Parse sentences: HEAD and DEPREL are filled, the other columns stay.

    `trellis parse predict text.conllu --model parser.trellis -o trees.conllu`
    """
    from trellis.apps.parse.parser import Parser
    from trellis.apps.parse.transfer import Transfer
    from trellis.apps.parse.tree_inducer import TreeInducer
    from trellis.data.conllu import NAMES, read_conllu, write_conllu
    from trellis.engine import by_chunks
    from trellis.models import load_model

    check_files({"text": text, "--model": model}, {"--output": output})
    parser = load_model(model)
    if not isinstance(parser, Parser | TreeInducer | Transfer):
        raise DataError(f"holds {type(parser).__name__!r}, not a parser", path=model)
    parser.n_jobs = jobs(threads)
    others = [name for name in NAMES if name not in ("id", "form", "upos", "head", "deprel")]
    sentences = warning_if_empty(text, read_conllu(text, columns=others))
    write_conllu(output, by_chunks(parser.predict, sentences, parser.n_jobs))


def _read(path: str) -> list:  # type: ignore[type-arg]
    from trellis.data.conllu import TREE, read_conllu

    sentences = list(read_conllu(path, columns=TREE))
    need_text(path, sentences)
    return sentences
