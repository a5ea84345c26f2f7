"""``trellis induce-trees``: dependency trees for tagged text, learned without a treebank."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import need_text
from trellis.cli.options import (
    GAMMA,
    KNOWLEDGE,
    LEARNING,
    ROUNDS,
    Engine,
    History,
    Output,
    Quiet,
    Save,
    SomeModel,
    Threads,
    file_option,
    jobs,
    number_option,
)
from trellis.errors import DataError


def induce_trees(
    text: Annotated[str, typer.Argument(help="Sentences, CoNLL-U with tags in UPOS; `-`: stdin.")],
    rules: Annotated[
        str | None, file_option("--rules", help="Rules file (TOML), see docs/rules.md.", panel=KNOWLEDGE)
    ] = None,
    output: Output = "-",
    save: Save = None,
    model: SomeModel = None,
    longest: Annotated[
        int, number_option("--longest", min=1, help="Longer sentences are not learned from.", panel=LEARNING)
    ] = 10,
    rounds: Annotated[int, ROUNDS] = 40,
    gamma: Annotated[float, GAMMA] = 1.0,
    prior: Annotated[
        float, number_option("--prior", min=1.0, help="Dirichlet α of all distributions.", panel=LEARNING)
    ] = 1.0,
    history: History = None,
    threads: Threads = None,
    engine: Engine = None,
    quiet: Quiet = False,
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
    others = [name for name in NAMES if name not in ("id", "form", "upos", "head", "deprel")]
    sentences = list(read_conllu(text, columns=others))
    need_text(text, sentences)
    if model is not None:
        inducer = TreeInducer.load(model, n_jobs=jobs(threads))
    else:
        written = "" if rules is None else text_of(rules)
        inducer = TreeInducer(
            rules=written, rules_path=rules or "rules.toml", longest=longest,
            max_iter=rounds, gamma=gamma, prior=prior, n_jobs=jobs(threads), engine=engine, verbose=not quiet,
        ).fit(sentences)  # fmt: skip
    if save is not None:
        inducer.save(save)
    if history is not None:
        inducer.history_.save(history)
    write_conllu(output, inducer.predict(sentences))
