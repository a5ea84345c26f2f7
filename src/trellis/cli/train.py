"""``trellis train``: an extractor of fields from a rules file, a few labelled texts and many unlabelled ones."""

from __future__ import annotations

import os
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

from trellis.cli.quiet import Quiet
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.tokens import Text


class Method(StrEnum):
    """How unlabelled text is learned from."""

    CODL = "codl"
    PR = "pr"
    UEM = "uem"
    HARD_EM = "hard-em"
    EM = "em"
    SUPERVISED = "supervised"


def train(
    rules: Annotated[str, typer.Argument(help="Rules file (TOML); docs/rules.md says what can stand in it.")],
    model: Annotated[str, typer.Option("--model", "-m", help="File to write the trained model to.")],
    labelled: Annotated[
        list[str] | None,
        typer.Option(
            "--labelled", "-l", help="Labelled texts: .tsv columns (token, tab, label) or .jsonl. Repeatable."
        ),
    ] = None,
    unlabelled: Annotated[
        list[str] | None,
        typer.Option(
            "--unlabelled", "-u", help="Unlabelled texts: raw text, one a line, or .tsv or .jsonl. Repeatable."
        ),
    ] = None,
    dev: Annotated[
        str | None, typer.Option(help="Labelled texts whose accuracy is shown after each round; not learned from.")
    ] = None,
    method: Annotated[
        Method, typer.Option(help="codl: best output under the rules; pr, uem: projected posteriors.")
    ] = Method.CODL,
    gamma: Annotated[
        float | None, typer.Option(min=0.0, help="Of --method uem; 1 is pr, 0 is hard. Default 0.5.")
    ] = None,
    beta: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Weight of the labelled texts' parameters after each round.")
    ] = 0.7,
    rounds: Annotated[int, typer.Option(min=0, help="Rounds over the unlabelled texts.")] = 5,
    hard: Annotated[
        bool, typer.Option("--hard", help='Rules of strength "learned" are obeyed wherever they can be.')
    ] = False,
    k_best: Annotated[int, typer.Option(min=1, help="Outputs of each text to learn from (codl, hard-em).")] = 1,
    beam: Annotated[int, typer.Option(min=1, help="Width of the search.")] = 50,
    min_count: Annotated[
        int | None, typer.Option(min=1, help="Words seen less often are known by their form. Default: by text size.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Of the random start where nothing is labelled.")] = 0,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Default: every core. Results do not depend on it.")
    ] = None,
    word_column: Annotated[int, typer.Option(min=0, help="Column of the token in .tsv files, from 0.")] = 0,
    label_column: Annotated[int, typer.Option(min=0, help="Column of the label in labelled .tsv files, from 0.")] = 1,
    quiet: Quiet = False,
) -> None:
    """Learn to extract fields from rules, a few labelled texts and unlabelled ones.

    `trellis train rules.toml --labelled few.tsv --unlabelled text.txt --model fields.trellis`
    """
    from trellis.cli.checks import check_files
    from trellis.constraints import parse_rules
    from trellis.tasks.explain import strict_rules_that_labels_break
    from trellis.tasks.extract import Extractor
    from trellis.tasks.extract_files import read_labelled, read_texts

    texts_read = {"--labelled": labelled, "--unlabelled": unlabelled, "--dev": dev}
    check_files({"rules": rules, **texts_read}, {"--model": model})
    extractor = Extractor.from_file(
        rules,
        method=method.value,
        gamma=gamma,
        beta=beta,
        rounds=rounds,
        hard=hard,
        k_best=k_best,
        beam=beam,
        min_count=min_count,
        random_state=seed,
        threads=threads,
        show_progress=not quiet,
    )
    parsed = parse_rules(extractor.rules, rules)  # a fault in the rules is told before files are read
    check_files({"dictionary": [os.path.join(os.path.dirname(rules), f) for f in parsed.files]}, {"--model": model})
    if not labelled and not unlabelled:
        raise DataError("there is nothing to learn from: give --labelled few.tsv, --unlabelled text.txt, or both")
    texts = {"word_column": word_column}
    few = [t for path in labelled or () for t in read_labelled(path, label_column=label_column, **texts)]
    many = [t for path in unlabelled or () for t in read_texts(path, **texts)]
    judged = None if dev is None else read_labelled(dev, label_column=label_column, **texts)
    if few and all(set(t.sentence.labels or (None,)) == {None} for t in few):
        raise DataError(
            f"{', '.join(labelled or ())}: no label is filled in. Write one in place of each `_`, in a few texts at "
            "least"
        )
    if labelled and not few:
        raise DataError(f"{', '.join(labelled)}: there is no text in it")
    extractor.fit(few, many, dev=judged)
    extractor.save(model)
    n_labelled = sum(t.sentence.labels is not None and None not in t.sentence.labels for t in few)
    if not quiet:
        typer.echo(
            f"{len(parsed)} rules, {n_labelled} labelled and {len(few) + len(many) - n_labelled} other texts, "
            f"{len(extractor.label_names_)} labels, {extractor.ccm_.n_rounds_} rounds of {method.value}: {model}",
            err=True,
        )
    if unlabelled and not many:
        typer.echo(f"Warning: there is no text in {', '.join(unlabelled)}: only labelled texts were used", err=True)
    _warn_of_unseen(extractor.label_names_.names, few)
    for name, n in strict_rules_that_labels_break(extractor, few).items():
        typer.echo(
            f"Warning: the labelled texts break the strict rule {name!r} in {n} places. Correct the labels or the "
            'rule, or let its price be learned: strength = "learned"',
            err=True,
        )


def _warn_of_unseen(names: tuple[str, ...], few: list[Text]) -> None:
    """Labels that no example shows are found by rules alone, or not at all."""
    seen = {label for t in few for label in t.sentence.labels or ()}
    unseen = [name for name in names if name not in seen]
    if few and unseen:
        typer.echo(
            f"Note: no labelled text shows {', '.join(unseen)}; label one, or give a rule whose words name it.",
            err=True,
        )
