"""``trellis extract train``: an extractor of fields from a rules file, a few labelled and many unlabelled texts."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.apps.extract.commands.token_checks import warn_of_labels, warn_of_tokens
from trellis.cli.console import SHOWN, Few
from trellis.cli.options import (
    LABELLED,
    LEARNING,
    RULES,
    SAVE,
    UNLABELLED,
    History,
    LabelColumn,
    Quiet,
    WordColumn,
    file_option,
)
from trellis.cli.settings import FieldOptions
from trellis.cli.tuning import TuneGamma, file_of, with_best_gamma
from trellis.errors import DataError, counted

if TYPE_CHECKING:
    from trellis.apps.extract.extractor import Extractor
    from trellis.constraints import RulesFile
    from trellis.data.document import Document
    from trellis.data.vocabulary import Vocabulary


ANSWERS = {
    "--model": "it reads a model, but train writes one: use --save",
    "-m": "it reads a model, but train writes one: use --save",
    "-o": "train writes a model: use --save",
    "--output": "train writes a model: use --save",
}


SETTINGS = FieldOptions(
    "trellis.apps.extract.extractor:Extractor",
    learning="method model_kind encoder max_iter gamma beta hard k_best min_count random_state",
    decoding="beam search",
    run="device n_jobs engine memory",
)


def train(
    rules: Annotated[str, typer.Argument(help=RULES)],
    save: Annotated[str, SAVE],
    labelled: Annotated[list[str] | None, LABELLED] = None,
    unlabelled: Annotated[list[str] | None, UNLABELLED] = None,
    dev: Annotated[
        str | None,
        file_option("--dev", help="Development set. Its accuracy is shown after each round.", panel=LEARNING),
    ] = None,
    tune: TuneGamma = None,
    word_column: WordColumn = 0,
    label_column: LabelColumn = 1,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn to extract fields from rules, a few labelled texts and unlabelled ones.

    `trellis extract train rules.toml -l few.tsv -u text.txt --save fields.trellis`

    Texts are columns (.tsv: token TAB label, a blank line between texts), JSON lines (.jsonl) or, without labels, raw
    text, one per line. `--seed` has an effect only if no text is labelled, `--gamma` only with `--method uem`.
    """
    from trellis.apps.extract.extractor import Extractor
    from trellis.cli.checks import check_files
    from trellis.constraints import parse_rules
    from trellis.data.files import text_of
    from trellis.data.text_files import read_labelled, stream_texts

    text = text_of(rules)
    parsed = parse_rules(text, rules)  # errors in the rules are reported before files are read
    extractor = Extractor(text, rules_path=rules, verbose=not quiet, **settings)
    extractor.check_settings()
    named = [os.path.join(os.path.dirname(rules), name) for name in parsed.files]
    read = {"rules": rules, "--labelled": labelled, "--unlabelled": unlabelled, "--dev": dev, "--tune": file_of(tune),
            "dictionary": named}  # fmt: skip
    check_files(read, {"--save": save, "--history": history})
    if dev is not None and tune is not None:
        raise DataError("--dev and --tune both evaluate the training: give only one of them")
    if not labelled and not unlabelled:
        raise DataError("there is nothing to learn from: give --labelled few.tsv, --unlabelled text.txt, or both")
    columns: dict[str, Any] = {"word_column": word_column, "tokeniser": parsed.tokeniser}
    few = _labelled_texts(labelled or (), label_column=label_column, **columns)
    warn_of_tokens(few, parsed.tokeniser, rules)
    warn_of_labels(few, parsed)
    n_many = 0

    def many() -> Iterator[Document]:
        nonlocal n_many
        for path in unlabelled or ():
            for text in stream_texts(path, **columns):
                n_many += 1
                yield text

    judged = None if dev is None else read_labelled(dev, label_column=label_column, **columns)
    if tune is None:
        extractor.fit(few, unlabelled=many(), dev=judged)
    else:
        extractor = with_best_gamma(
            extractor, few, None, tune,
            lambda path: (list(read_labelled(path, label_column=label_column, **columns)), None),
            unlabelled=list(many()),
        )  # fmt: skip
    extractor.save(save)
    if history is not None:
        extractor.ccm_.history_.save(history)
    if not quiet:
        n_labelled = sum(t.labels is not None and None not in t.labels for t in few)
        _tell_of_training(extractor, len(parsed), n_labelled, len(few) + n_many - n_labelled, save)
    if unlabelled and not n_many:
        typer.echo(f"Warning: there is no text in {', '.join(unlabelled)}: only labelled texts were used", err=True)
    _tell_of_partly_labelled(few)
    _warn_of_unseen(extractor.label_names_.names, few)
    _tell_of_rules(parsed, few, extractor.label_names_, quiet)


def _tell_of_training(extractor: Extractor, n_rules: int, n_labelled: int, n_other: int, save: str) -> None:
    """What the model has learned from."""
    n_repeated = extractor.n_repeated_
    repeated = f" (without {n_repeated} that repeat a labelled one)" if n_repeated else ""
    typer.echo(
        f"{counted(n_rules, 'rule')}, {counted(n_labelled, 'labelled text')}, "
        f"{counted(n_other - n_repeated, 'other text')}{repeated}, {counted(len(extractor.label_names_), 'label')}, "
        f"{counted(extractor.ccm_.n_iter_, 'round')} of {extractor.method_}: {save}",
        err=True,
    )


def _labelled_texts(paths: Sequence[str], **columns: Any) -> list[Document]:
    """The texts of the files, of which some must have labels; predictions are left out, with a warning."""
    from trellis.data.document import without_predictions
    from trellis.data.text_files import read_labelled

    few: list[Document] = []
    n_predicted = 0
    for path in paths:
        read = read_labelled(path, **columns, predictions=True)
        n = sum(text.predicted for text in read)
        n_predicted += n
        if n:
            typer.echo(
                f"Warning: the labels of {counted(n, 'text')} in {path} are predictions, so they count as unlabelled. "
                "Correct them in an annotation tool, or accept them: `trellis extract convert FILE --accept`",
                err=True,
            )
        few += map(without_predictions, read)
    if few and all(set(t.labels or (None,)) == {None} for t in few):
        remedy = "Replace each `_` by a label, in at least a few texts"
        if n_predicted:
            remedy = "Correct or accept the predictions of at least a few texts"
        raise DataError(f"{', '.join(paths)}: no label is filled in. {remedy}")
    if paths and not few:
        raise DataError(f"{', '.join(paths)}: there is no text in it")
    return few


def _tell_of_rules(rules: RulesFile, few: list[Document], names: Vocabulary, quiet: bool) -> None:
    """Report rules that the labels contradict, each with an example, and rules that they never test.

    A rule is contradicted if it is hard and violated anywhere, or violated in at least half of its tests.
    """
    from trellis.apps.extract.check import check_rules
    from trellis.constraints.strength import Kind

    whole = [t for t in few if len(t) and t.labels is not None and None not in t.labels]
    if not whole or not len(rules):
        return
    broken = Few()
    untested = []
    for rule, one in zip(rules, check_rules(rules, whole, names, examples=1), strict=True):
        is_hard = rule.strength.kind == Kind.HARD
        if one.broken and (is_hard or 2 * one.broken >= one.tested):
            kind = "hard rule" if is_hard else "rule"
            broken.add(f"{kind} {one.name!r} in {one.broken} of {one.tested} tests, first {one.broken_at[0]}")
        elif not one.tested:
            untested.append(repr(one.name))
    broken.tell(
        "Warning: the labelled texts violate these rules. Correct the labels or the rule, or let its penalty be "
        'learned (strength = "learned"); `trellis extract check` lists the violations'
    )
    if untested and not quiet:
        shown = ", ".join(untested[:SHOWN]) + (f" and {len(untested) - SHOWN} more" if len(untested) > SHOWN else "")
        which, hold = ("rule", "it holds") if len(untested) == 1 else ("rules", "they hold")
        typer.echo(f"Note: no labelled text tests the {which} {shown}, so labels do not show whether {hold}.", err=True)


def _tell_of_partly_labelled(few: list[Document]) -> None:
    """Report texts in which only some labels are filled in, which is often a mistake."""
    partly = [t for t in few if t.labels is not None and None in t.labels and set(t.labels) != {None}]
    if partly:
        first = partly[0]
        place = (first.labels or ()).index(None)
        typer.echo(
            f"Note: {counted(len(partly), 'text')} with some labels missing; the first missing label is that of "
            f"{first.tokens[place]!r}, line {first.line_of(place)} of {first.path}. The missing labels are predicted.",
            err=True,
        )


def _warn_of_unseen(names: tuple[str, ...], few: list[Document]) -> None:
    """Warn of labels without an example: only rules can find them."""
    from trellis.data.bio import unmarked

    seen = {label for t in few for label in unmarked(t.labels or (), names)}
    unseen = [name for name in names if name not in seen]
    if few and unseen:
        shown = ", ".join(unseen[:8]) + (f" and {len(unseen) - 8} more of the labels" if len(unseen) > 8 else "")
        typer.echo(
            f"Note: no labelled text contains {shown}; label one, or add a rule with words that indicate it.", err=True
        )
