"""``trellis induce-trees``: dependency trees for tagged text, learned without a treebank."""

from __future__ import annotations

from typing import Annotated

import typer

from trellis.cli.checks import check_files
from trellis.cli.quiet import Quiet
from trellis.errors import DataError


def induce_trees(
    text: Annotated[str, typer.Argument(help="Sentences, CoNLL-U with tags in UPOS; `-`: stdin.")],
    rules: Annotated[str | None, typer.Option(help="Rules about arcs (TOML), see docs/rules.md.")] = None,
    output: Annotated[str, typer.Option("--output", "-o", help="Where trees go, CoNLL-U; `-`: stdout.")] = "-",
    save: Annotated[str | None, typer.Option(help="Write the model here.")] = None,
    model: Annotated[str | None, typer.Option(help="Parse with this saved model, without learning.")] = None,
    longest: Annotated[int, typer.Option(min=1, help="Longer sentences are not learned from.")] = 10,
    rounds: Annotated[int, typer.Option("--rounds", "-I", min=1, help="Rounds of EM.")] = 40,
    gamma: Annotated[float, typer.Option(min=0.0, help="1: EM and PR; 0: hard EM; between: UEM.")] = 1.0,
    prior: Annotated[float, typer.Option(min=1.0, help="Dirichlet α of all distributions.")] = 1.0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: every core. The output does not depend on it.")
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Learn dependency trees from tagged text, and from rules about arcs if there are any.

    `trellis induce-trees text.conllu --rules rules.toml -o trees.conllu`
    """
    from trellis.data.conllu import NAMES, read_conllu, write_conllu
    from trellis.data.files import numbered_lines
    from trellis.models import load_model
    from trellis.tasks.induce_trees import TreeInducer

    check_files({"text": text, "--rules": rules, "--model": model}, {"--output": output, "--save": save})
    if model is not None and (rules or save):
        raise DataError("--model parses without learning: --rules and --save have no meaning beside it")
    others = [name for name in NAMES if name not in ("id", "form", "upos", "head", "deprel")]
    sentences = list(read_conllu(text, columns=others))
    if model is not None:
        inducer = load_model(model, threads=threads)
        if not isinstance(inducer, TreeInducer):
            raise DataError(f"{model} holds a {type(inducer).__name__}, not what induce-trees saves")
    else:
        written = "" if rules is None else "\n".join(line for _, line in numbered_lines(rules)) + "\n"
        inducer = TreeInducer(
            rules=written, rules_path=rules or "rules.toml", longest=longest,
            rounds=rounds, gamma=gamma, prior=prior, threads=threads, show_progress=not quiet,
        ).fit(sentences)  # fmt: skip
    if save is not None:
        inducer.save(save)
    write_conllu(output, inducer.predict(sentences))
