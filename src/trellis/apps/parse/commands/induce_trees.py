"""``trellis induce-trees``: dependency trees for tagged text, learned without a treebank."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import need_text
from trellis.cli.options import (
    KNOWLEDGE,
    History,
    Output,
    Quiet,
    Save,
    SomeModel,
    file_option,
)
from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

SETTINGS = FieldOptions(
    "trellis.apps.parse.tree_inducer:TreeInducer", learning="longest max_iter gamma prior", run="n_jobs engine"
)


def induce_trees(
    text: Annotated[str, typer.Argument(help="Sentences, CoNLL-U with tags in UPOS; `-`: stdin.")],
    rules: Annotated[
        str | None, file_option("--rules", help="Rules file (TOML), see docs/rules.md.", panel=KNOWLEDGE)
    ] = None,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn dependency trees from tagged text, and from rules about arcs if there are any.

    `trellis induce-trees text.conllu --rules rules.toml -o trees.conllu`
    """
    from trellis.apps.parse.tree_inducer import TreeInducer
    from trellis.data.conllu import NAMES, read_conllu, write_conllu
    from trellis.data.files import text_of

    check_files(
        {"text": text, "--rules": rules, "--model": model}, {"--output": output, "--save": save, "--history": history}
    )
    if model is not None and (rules or save or history):
        raise DataError("--model parses without learning: --rules, --save and --history have no meaning beside it")
    if model is not None:
        inducer = TreeInducer.load(model, n_jobs=settings["n_jobs"])
    else:
        text_of_rules = "" if rules is None else text_of(rules)
        inducer = TreeInducer(
            rules=text_of_rules, rules_path=rules or "rules.toml", verbose=not quiet, **settings
        )  # fmt: skip
    inducer.check_settings()
    others = [name for name in NAMES if name not in ("id", "form", "upos", "head", "deprel")]
    sentences = list(read_conllu(text, columns=others))
    need_text(text, sentences)
    if model is None:
        inducer.fit(sentences)
    if save is not None:
        inducer.save(save)
    if history is not None:
        inducer.history_.save(history)
    write_conllu(output, inducer.predict(sentences))
