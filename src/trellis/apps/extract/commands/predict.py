"""``trellis extract predict``: fields of new texts, as columns, JSON lines with character spans, a table, or coloured.

There is one result for each text. It is empty if the text cannot be read; if a text cannot satisfy the rules, its
result violates as few of them as possible. JSON lines mark such texts (keys ``invalid`` and ``relaxed``), and their
number is reported at the end. JSON and coloured output give the probability of each field, unless rules were relaxed.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.apps.extract.commands.token_checks import PredictedTokens
from trellis.cli.checks import check_files
from trellis.cli.console import Few, plain_console, visible
from trellis.cli.options import (
    DECODING,
    FORMAT,
    RUN,
    Beam,
    Force,
    Json,
    Model,
    Output,
    Quiet,
    Search,
    Threads,
    WordColumn,
    flag,
    jobs,
    name_option,
    wants_json,
)
from trellis.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

    from trellis.apps.extract.extractor import Extractor
    from trellis.data.document import Document
    from trellis.data.text_files import Extracted

ANSWERS = {"--rules": "the rules are in the model: leave it out, or use --no-rules", "--format json": "use --json"}


class FieldFormat(StrEnum):
    """How extracted fields are written."""

    AUTO = "auto"
    COLUMNS = "columns"
    VIEW = "view"


COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")


def predict(
    model: Model,
    text: Annotated[str, typer.Argument(help="Texts: raw (one per line), .tsv or .jsonl; `-`: stdin.")] = "-",
    output: Output = "-",
    no_rules: Annotated[bool, flag("--no-rules", help="Predict without the rules.", panel=DECODING)] = False,
    beam: Beam = None,
    search: Search = None,
    word_column: WordColumn = 0,
    format: Annotated[
        FieldFormat,
        name_option(
            "--format", help=f"{FORMAT} One of: columns, view, auto (by file name; `view` on a terminal)", panel=RUN
        ),
    ] = FieldFormat.AUTO,
    bio: Annotated[
        bool, flag("--bio", help="Write BIO labels in columns. B- begins a field, I- continues it.", panel=RUN)
    ] = False,
    json: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Extract the fields of texts with a trained model.

    `trellis extract predict -m fields.trellis new.txt -o fields.jsonl`
    """
    from trellis.apps.extract.extractor import Extractor
    from trellis.data.files import shown
    from trellis.data.text_files import check_labels_writable, kind_of, texts_or_errors, write_extracted

    kind = _kind(output, format, json)
    if bio and kind != "columns":
        raise DataError("--bio needs columns: write to a .tsv file, or use --format columns")
    labels = () if kind == "view" else ("--output",)
    check_files(
        {"--model": model, "text": text}, {"--output": output}, labels=labels, tables=("--output",), force=force
    )
    settings: dict[str, Any] = {"n_jobs": jobs(threads)}
    if beam is not None:
        settings["beam"] = beam
    if search is not None:
        settings["search"] = search
    extractor = Extractor.load(model, **settings)
    check_labels_writable(extractor.label_names_, kind)
    texts = texts_or_errors(text, word_column=word_column, tokeniser=extractor.tokeniser_)
    notices = Notices(PredictedTokens(extractor, is_cut=kind_of(text) == "text"))
    results = _extracted(extractor, texts, kind, not no_rules, notices)
    if kind == "view":
        _view(output, results, extractor.label_names_.names)
    else:
        write_extracted(output, results, kind, bio)
    if not notices.n_texts:
        typer.echo(f"Warning: there is no text in {shown(text)}", err=True)
    notices.tokens.warn(shown(text))
    more = " (--json marks every one)"
    notices.odd.tell(
        f"Warning: {notices.odd.n} of {notices.n_texts} texts could not be read and got an empty result", more
    )
    notices.relaxed.tell(
        f"Warning: {notices.relaxed.n} of {notices.n_texts} texts cannot satisfy these rules, which were relaxed", more
    )


@dataclass
class Notices:
    """Warnings that are printed at the end."""

    tokens: PredictedTokens
    n_texts: int = 0
    odd: Few = field(default_factory=Few)
    relaxed: Few = field(default_factory=Few)


def _extracted(
    extractor: Extractor, given: Iterable[Document | DataError], kind: str, constrained: bool, notices: Notices
) -> Iterator[Extracted]:
    """Results of the texts, which are processed in chunks."""
    from trellis.apps.extract.results import extracted
    from trellis.data.text_files import emptied, no_tokens, unwritable
    from trellis.engine import chunks

    for chunk in chunks(given, extractor.n_jobs, lambda one: 0 if isinstance(one, DataError) else len(one)):
        odd: dict[int, str] = {}
        texts: list[Document] = []
        for one in chunk:
            text = no_tokens("", one.path, one.line) if isinstance(one, DataError) else one
            reason = str(one) if isinstance(one, DataError) else unwritable(text, kind)
            if reason is not None:
                odd[len(texts)] = reason
            texts.append(text if reason is None else emptied(text))
        notices.tokens.look_at(texts)
        found = extracted(extractor, texts, constrained=constrained, probabilities=kind != "columns")
        for number, reason in found.lost.items():
            odd[number] = _place(texts[number], notices.n_texts + number) + reason
        for number, result in enumerate(found.results):
            yield replace(result, remarks={"invalid": odd[number]}) if number in odd else result
        for number in sorted(odd):
            notices.odd.add(odd[number])
        for number in sorted(found.relaxed):
            notices.relaxed.add(_place(texts[number], notices.n_texts + number) + found.relaxed[number])
        notices.n_texts += len(texts)


def _kind(output: str, format: FieldFormat, json: bool) -> str:
    """ "columns", "json", "table" or "view"."""
    from trellis.data.text_files import kind_of

    if json or (format is FieldFormat.AUTO and wants_json(output, json)):
        return "json"
    if format is not FieldFormat.AUTO:
        return format.value
    if output == "-":
        return "view" if sys.stdout.isatty() else "columns"
    return {"text": "view", "table": "table"}.get(kind_of(output), "columns")


def _place(text: Document, number: int) -> str:
    return f"text {number + 1}: " if text.path is None else f"{text.path}, line {text.line}: "


def _view(output: str, results: Iterable[Extracted], names: tuple[str, ...]) -> None:
    from trellis.data.files import writing

    if output == "-":
        _show_all(plain_console(soft_wrap=True), results, names)
        return
    with writing(output) as out:
        _show_all(plain_console(file=out, soft_wrap=True, color_system=None), results, names)


def _show_all(console: Console, results: Iterable[Extracted], names: tuple[str, ...]) -> None:
    for result in results:
        _show(console, result.text, result.labels, names, result.probabilities)
        for kind, why in result.remarks.items():
            said = why if kind == "invalid" else f"relaxed: {', '.join(why)}"
            console.print(visible(f"({said})"), style="dim")
        console.print()


def _show(
    console: Console, text: Document, labels: Sequence[str], names: tuple[str, ...], sure: Sequence[float] | None
) -> None:
    """A field per line, its label before it and its probability after it."""
    from rich.text import Text as Styled

    from trellis.data.bio import split_bio
    from trellis.data.document import fields_of

    width = max((len(visible(name)) for name in names), default=0)
    colours = {split_bio(name)[1]: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    for number, one in enumerate(fields_of(text, labels)):
        colour = colours[one.label]
        label, content = visible(str(one.label)), visible(one.text)
        share = "" if not sure else f"  {100 * sure[number]:.0f} %"
        console.print(Styled.assemble((f"{label:>{width}}  ", f"bold {colour}"), (content, colour), (share, "dim")))
