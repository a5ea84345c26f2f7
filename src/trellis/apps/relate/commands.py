"""``trellis relate train``, ``predict`` and ``explain``: entities and the relations between them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.commands import add_command, group_of_commands
from trellis.cli.console import need_text, print_lines, visible, warning_if_empty
from trellis.cli.options import (
    DECODING,
    KNOWLEDGE,
    LABELLED_SENTENCES,
    SAVE,
    UNLABELLED,
    History,
    Json,
    Model,
    Output,
    Quiet,
    Threads,
    file_option,
    flag,
    jobs,
    wants_json,
)
from trellis.cli.settings import FieldOptions
from trellis.cli.tuning import TuneGamma, file_of, with_best_gamma
from trellis.errors import DataError, counted

if TYPE_CHECKING:
    from trellis.apps.relate.relater import Relater
    from trellis.data.document import Document


SETTINGS = FieldOptions(
    "trellis.apps.relate.relater:Relater",
    learning="method encoder max_iter gamma unlabelled_weight exact min_count",
    run="device n_jobs engine",
)


def train(
    rules: Annotated[str, typer.Argument(help="Rules file (TOML); see 'Entities and relations' in the documentation.")],
    save: Annotated[str, SAVE],
    labelled: Annotated[list[str] | None, LABELLED_SENTENCES] = None,
    unlabelled: Annotated[list[str] | None, UNLABELLED] = None,
    no_finder: Annotated[
        bool, flag("--no-finder", help="Do not learn to find mentions; all texts must contain them.", panel=DECODING)
    ] = False,
    tagger: Annotated[
        str | None, file_option("--tagger", help="Tagger of the words (`trellis tag train`).", panel=KNOWLEDGE)
    ] = None,
    tune: TuneGamma = None,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Learn types of mentions and relations between them from rules, labelled and unlabelled sentences.

    `trellis relate train rules.toml -l few.jsonl -u many.jsonl --save relations.trellis`

    Sentences are JSON lines (.jsonl: tokens, mentions with their positions, relations between mentions) or the columns
    of CoNLL04. Missing mentions of unlabelled sentences are found automatically.
    """
    from trellis.apps.parse.tagger import Tagger
    from trellis.apps.relate.relater import Relater

    check_files(
        {
            "rules": rules,
            "--labelled": labelled,
            "--unlabelled": unlabelled,
            "--tagger": tagger,
            "--tune": file_of(tune),
        },
        {"--save": save, "--history": history},
    )
    relater = Relater.from_file(
        rules,
        finder=not no_finder,
        tagger=None if tagger is None else Tagger.load(tagger),
        verbose=not quiet,
        **settings,
    )
    relater.check_settings()
    few = _read(labelled or ())
    if not few:
        raise DataError(
            f"{', '.join(labelled)}: there is no text in it" if labelled
            else "there are no labelled sentences to learn from: give some with --labelled"
        )  # fmt: skip
    many = _read(unlabelled or ())
    if tune is None:
        relater.fit(few, unlabelled=many)
    else:
        relater = with_best_gamma(relater, few, None, tune, lambda path: (_read([path]), None), unlabelled=many)
    relater.save(save)
    if history is not None:
        relater.history_.save(history)


def predict(
    model: Model,
    text: Annotated[str, typer.Argument(help="Sentences: .jsonl, or CoNLL04 columns; `-`: stdin, JSON lines.")] = "-",
    output: Output = "-",
    no_rules: Annotated[bool, flag("--no-rules", help="Predict without the rules.", panel=DECODING)] = False,
    json: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Find the types of mentions and the relations between them, with a probability for each.

    `trellis relate predict text.jsonl -m relations.trellis -o out.jsonl`

    Missing mentions are found automatically. The output is JSON lines, or columns if its name ends in .txt or .tsv.
    """
    from trellis.data.related import read_related, write_related
    from trellis.engine import by_chunks

    check_files({"text": text, "--model": model}, {"--output": output})
    relater = _load(model, threads)
    texts = warning_if_empty(text, read_related(text))
    found = by_chunks(
        lambda some: relater.predict(some, constrained=not no_rules), texts, relater.n_jobs, lambda one: len(one.tokens)
    )
    write_related(output, found, columns=False if json else None)


def explain(
    model: Model,
    text: Annotated[str, typer.Argument(help="Sentences: .jsonl, or CoNLL04 columns; `-`: stdin, JSON lines.")] = "-",
    output: Output = "-",
    json: Json = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Show the rules in words, and how each of them changes the model's predictions.

    `trellis relate explain text.jsonl -m relations.trellis`
    """
    from dataclasses import asdict
    from json import dumps

    check_files({"text": text, "--model": model}, {"--output": output})
    relater = _load(model, threads)
    texts = relater.with_mentions(_read([text]))
    need_text(text, [one.tokens for one in texts])
    changes = relater.explain(texts)
    if wants_json(output, json):
        print_lines(output, [dumps(asdict(change), ensure_ascii=False) for change in changes])
        return
    lines = [f"{rule.name}: {rule.describe()}" for rule in relater.constraints_]
    among = f"{len({c.sentence for c in changes})} of {counted(len(texts), 'sentence')}"
    lines += ["", f"{counted(len(changes), 'change')} in {among}"]
    for change in changes:
        own = texts[change.sentence]
        what = " , ".join((own.spans or ())[m].text for m in change.what)
        why = ", ".join(change.rules) or "follows from the others"
        lines.append(f"sentence {change.sentence + 1}: {what}: {change.before} -> {change.after}  ({why})")
    print_lines(output, [visible(line) for line in lines])


def _load(path: str, threads: int | None) -> Relater:
    from trellis.apps.relate.relater import Relater

    return Relater.load(path, n_jobs=jobs(threads))


def _read(paths: list[str] | tuple[()]) -> list[Document]:
    from trellis.data.related import read_related

    return [text for path in paths for text in read_related(path)]


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    group = group_of_commands("Find entities and relations: train on rules and sentences, and predict.")
    program.add_typer(group, name="relate")
    add_command(group, train, settings=SETTINGS)
    add_command(group, predict)
    add_command(group, explain)
