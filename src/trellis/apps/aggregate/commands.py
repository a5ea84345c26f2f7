"""``trellis aggregate``: combine the votes of several labelling functions into labels with probabilities.

There is one result for each text, in the order of the files. Results do not depend on the number of threads.
"""

from __future__ import annotations

import json as _json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files, refuse_beside
from trellis.cli.commands import add_command
from trellis.cli.console import plain_console, visible
from trellis.cli.options import (
    DECODING,
    KNOWLEDGE,
    RULES,
    Force,
    History,
    Json,
    Output,
    Quiet,
    Save,
    SomeModel,
    file_option,
    flag,
    name_option,
    wants_json,
)
from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.apps.aggregate.aggregator import Aggregator
    from trellis.apps.extract.extractor import Extractor
    from trellis.data.document import Document
    from trellis.data.ragged import FloatArray

ANSWERS = {"--functions": "the recommended ones of meta.json are read; use --all-functions for all"}
SETTINGS = FieldOptions(
    "trellis.apps.aggregate.aggregator:Aggregator",
    learning="encoder max_iter",
    decoding="entity_bias",
    knowledge="accuracy prior_strength",
    run="device n_jobs engine",
)
TRAINING = (
    "save", "rules", "labels", "coarse", "accuracy", "prior_strength", "entity_bias", "no_short_forms", "max_iter",
    "history", "encoder", "end_model",
)  # fmt: skip
"""Options of training only."""
EndModel = Annotated[
    str | None,
    file_option(
        "--end-model", help="Train an extractor on the labels, for texts without votes, and write it to this file."
    ),
]


def aggregate(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILES", help="Texts with votes: a WRENCH folder or .json, .jsonl, or columns (.tsv)."),
    ],
    output: Output = "-",
    accuracies: Annotated[
        str | None, file_option("--accuracies", help="Write the estimated accuracy of each function to this file.")
    ] = None,
    save: Save = None,
    model: SomeModel = None,
    end_model: EndModel = None,
    no_short_forms: Annotated[
        bool, flag("--no-short-forms", help="Do not use abbreviations defined in a text as votes.", panel=DECODING)
    ] = False,
    rules: Annotated[
        str | None,
        file_option("--rules", help=RULES, panel=KNOWLEDGE),
    ] = None,
    labels: Annotated[
        str | None,
        name_option("--labels", help="Labels or entity types, `A,B`. Default: those in the votes.", panel=KNOWLEDGE),
    ] = None,
    coarse: Annotated[
        list[str] | None,
        name_option("--coarse", help="Vote for any of several labels, `NAME=A,B`; repeatable.", panel=KNOWLEDGE),
    ] = None,
    all_functions: Annotated[
        bool, flag("--all-functions", help="Use all WRENCH functions, not only the recommended ones.", panel=KNOWLEDGE)
    ] = False,
    json: Json = False,
    force: Force = False,
    history: History = None,
    quiet: Quiet = False,
    **settings: Any,
) -> None:
    """Combine the votes of labelling functions into labels.

    `trellis aggregate train.jsonl -o labels.jsonl --save votes.trellis` learns from the votes and labels the texts;
    `trellis aggregate new.jsonl -m votes.trellis` labels new texts without training.
    """
    from trellis.apps.aggregate.aggregator import Aggregator
    from trellis.data.files import text_of
    from trellis.engine.progress import Progress

    if model is not None:
        refuse_beside(context, "--model", "labels without training", TRAINING)
    read = {"files": files, "--rules": rules, "--model": model}
    written = {"--output": output, "--save": save, "--accuracies": accuracies, "--history": history}
    check_files(read, {**written, "--end-model": end_model}, labels=("--output",), tables=("--output",), force=force)
    untrained = Aggregator(
        None if labels is None else _labels(labels), coarse=dict(map(_coarse, coarse or ())),
        short_forms=not no_short_forms, rules=None if rules is None else text_of(rules), rules_path=rules or "rules",
        verbose=not quiet, **settings,
    )  # fmt: skip
    untrained.check_settings()
    texts = _read(files, all_functions, quiet)
    if model is not None:
        made = Aggregator.load(model, n_jobs=settings["n_jobs"])
        with Progress("labelling", len(texts), not quiet, "texts") as progress:
            progress.advance(0)
            inference = made.infer(texts)
            found, probabilities = inference.labels, inference.marginals
            progress.advance(len(texts))
    else:
        made = untrained.fit(texts)
        found, probabilities = made.labels_, made.probabilities_
        if save is not None:
            made.save(save)
        if history is not None:
            made.history_.save(history)
    on_screen = output == "-" and sys.stdout.isatty()  # a progress bar would appear between the labels
    with Progress("writing", len(texts), not quiet and not on_screen, "texts") as progress:
        rows = progress.over(zip(texts, found, probabilities, strict=True))
        _write(output, rows, made.label_names_, wants_json(output, json))
    if accuracies is not None or (not quiet and model is None):
        _report_accuracies(made, accuracies, json)
    if end_model is not None:
        _train_end_model(made, texts).save(end_model)


def _read(files: Sequence[str], all_functions: bool, quiet: bool) -> list[Document]:
    from trellis.data.voted_files import read_voted
    from trellis.engine.progress import Progress

    with Progress("reading", None, not quiet, "texts") as progress:
        texts = list(progress.over(text for path in files for text in read_voted(path, all_functions=all_functions)))
    if not texts:
        raise DataError("there is no text in " + ", ".join(files))
    return texts


def _train_end_model(made: Aggregator, texts: Sequence[Document]) -> Extractor:
    """An extractor that learned the labels of the texts from their words."""
    from trellis.apps.aggregate.words import check_tokens
    from trellis.apps.extract.extractor import Extractor

    check_tokens(texts, "--end-model")
    extractor = Extractor("", encoder=made.encoder, device=made.device, n_jobs=made.n_jobs, engine=made.engine)
    return extractor.fit([list(text.tokens) for text in texts], made.labels_)


def _listed(names: str, message: str) -> list[str]:
    """Names between commas; ``message`` if one is empty."""
    parts = [part.strip() for part in names.split(",")]
    if not all(parts):
        raise DataError(message)
    return parts


def _labels(given: str) -> list[str]:
    return _listed(given, f"--labels takes names with commas between them, `A,B`, but got {given!r}")


def _coarse(given: str) -> tuple[str, list[str]]:
    name, _, parts = given.partition("=")
    message = f"--coarse takes a name and what it may mean, `NAME=A,B`, but got {given!r}"
    return _listed(name, message)[0], _listed(parts, message)


def _write(
    output: str, found: Iterable[tuple[Document, Sequence[str], FloatArray]], names: Sequence[str], json: bool
) -> None:  # fmt: skip
    from trellis.apps.aggregate.aggregator import labelled_record
    from trellis.data.columns import write_columns
    from trellis.data.document import Document
    from trellis.data.files import writing
    from trellis.data.tables import is_table, write_rows

    number = {name: k for k, name in enumerate(names)}
    records = (labelled_record(text.tokens, own, node, number) for text, own, node in found)
    if is_table(output) and not json:
        write_rows(output, ("tokens", "labels", "probability"), records)
        return
    if not json:
        rows = (
            Document(
                one["tokens"], tuple(one["labels"]), {"probability": tuple(f"{p:.4f}" for p in one["probability"])}
            )
            for one in records
        )
        write_columns(output, rows, columns={"probability": 2}, keep_empty=True)
        return
    with writing(output) as out:
        for record in records:
            out.write(_json.dumps(record, ensure_ascii=False) + "\n")


def _report_accuracies(made: Aggregator, path: str | None, json: bool) -> None:
    """Write the table to a file, or show it on standard error: standard output may hold the labels."""
    from trellis.data.files import writing

    rows = [("function", "accuracy", "votes", "coverage")]
    for name, a in made.accuracies_.items():
        shown = "-" if a.accuracy is None else f"{a.accuracy:.4f}"
        rows.append((visible(name), shown, str(a.votes), f"{a.coverage:.4f}"))
    if path is None:
        console, width = plain_console(stderr=True, soft_wrap=True), max(len(row[0]) for row in rows)
        console.print("Estimated accuracy of each function; coverage: share of tokens it votes on")
        for name, accuracy, votes, coverage in rows:
            console.print(f"{name:<{width}}  {accuracy:>8}  {votes:>6}  {coverage:>8}")
        return
    with writing(path) as out:
        if json or path.lower().endswith(".json"):
            table = {name: asdict(a) for name, a in made.accuracies_.items()}
            out.write(_json.dumps(table, ensure_ascii=False, indent=1) + "\n")
        else:
            out.writelines("\t".join(row) + "\n" for row in rows)


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    add_command(program, aggregate, ANSWERS, settings=SETTINGS)
