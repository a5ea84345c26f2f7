"""``trellis predict``: fields of new texts, as columns, as JSON lines with character spans, or coloured for reading.

As many results come out as texts went in. A text that cannot be read has an empty one, a text that cannot obey the
rules breaks as little of them as can be; JSON lines say so beside it (``odd``, ``relaxed``), and how many there were is
told at the end. Fields come with their probability in JSON and for reading, but for texts whose rules were relaxed.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated, Any

import typer

from trellis.cli.checks import check_files
from trellis.cli.console import plain_console, visible
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

    from trellis.data.tokens import Text

    Result = tuple[Text, list[str]]

ANSWERS = {
    "--rules": "they are obeyed unless --no-rules is given: leave it out",
    "--format json": "say --json",
}
SHOWN = 5
"""So many odd texts are named one by one."""


class Format(StrEnum):
    """How extracted fields are written."""

    AUTO = "auto"
    COLUMNS = "columns"
    VIEW = "view"


COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")


def predict(
    model: Model,
    text: Annotated[
        str, typer.Argument(help="Texts, one per line; .tsv and .jsonl are read as such; `-`: stdin.")
    ] = "-",
    output: Output = "-",
    no_rules: Annotated[bool, flag("--no-rules", help="Let the model alone decide.", panel=DECODING)] = False,
    beam: Beam = None,
    word_column: WordColumn = 0,
    format: Annotated[
        Format,
        name_option(
            "--format", help=f"{FORMAT} One of: columns, view, auto (by the name; on a terminal a view)", panel=RUN
        ),
    ] = Format.AUTO,
    bio: Annotated[
        bool, flag("--bio", help="Columns with B- and I- before labels. Where fields begin and go on.", panel=RUN)
    ] = False,
    json: Json = False,
    force: Force = False,
    threads: Threads = None,
    quiet: Quiet = False,
) -> None:
    """Extract the fields of texts with a trained model.

    `trellis predict -m fields.trellis new.txt -o fields.jsonl`
    """
    from trellis.data.files import shown
    from trellis.tasks.confidence import field_probabilities
    from trellis.tasks.extract import Extractor
    from trellis.tasks.extract_files import check_labels_writable, no_tokens, read_texts, unwritable, write_extracted
    from trellis.tasks.relaxed import predict_relaxed

    kind = _kind(output, format, json)
    if bio and kind != "columns":
        raise DataError("--bio goes with columns: write to a .tsv file, or say --format columns")
    labels = () if kind == "view" else ("--output",)
    check_files({"--model": model, "text": text}, {"--output": output}, labels=labels, force=force)
    settings: dict[str, int | None] = {"n_jobs": jobs(threads)}
    if beam is not None:
        settings["beam"] = beam
    extractor = Extractor.load(model, **settings)
    check_labels_writable(extractor.label_names_, kind)
    odd: dict[int, str] = {}
    texts = read_texts(text, word_column=word_column, odd=odd, tokeniser=extractor.tokeniser_)
    if not texts:
        typer.echo(f"Warning: there is no text in {shown(text)}", err=True)
    for number, one in enumerate(texts):
        reason = unwritable(one, kind)
        if reason is not None:
            odd[number] = reason
            texts[number] = no_tokens(one.text, one.sentence.path, one.sentence.line)
    found = predict_relaxed(extractor, texts, constrained=not no_rules)
    for number, reason in found.lost.items():
        odd[number] = _place(texts[number], number) + reason
        texts[number] = no_tokens(texts[number].text, texts[number].sentence.path, texts[number].sentence.line)
    results = list(zip(texts, found.labels, strict=True))
    relaxed = {**found.broken, **{number: [reason] for number, reason in found.unruled.items()}}
    remarks = _remarks(odd, relaxed)
    sure: dict[int, list[float]] = {}
    if kind != "columns":
        fine = [number for number in range(len(texts)) if len(texts[number]) and number not in relaxed]
        some = [texts[number] for number in fine], [found.labels[number] for number in fine]
        sure = dict(zip(fine, field_probabilities(extractor, *some, constrained=not no_rules), strict=True))
    if kind == "view":
        _view(output, results, extractor.label_names_.names, remarks, sure)
    else:
        write_extracted(output, results, kind, remarks, sure, bio)
    _tell(len(texts), dict(sorted(odd.items())), "could not be read and got an empty result")
    why = {**{number: ", ".join(map(repr, names)) for number, names in found.broken.items()}, **found.unruled}
    named = {number: _place(texts[number], number) + why[number] for number in sorted(why)}
    _tell(len(texts), named, "cannot obey these rules, which were relaxed")


def _kind(output: str, format: Format, json: bool) -> str:
    """ "columns", "json" or "view"."""
    from trellis.tasks.extract_files import kind_of

    if json or (format is Format.AUTO and wants_json(output, json)):
        return "json"
    if format is not Format.AUTO:
        return format.value
    if output == "-":
        return "view" if sys.stdout.isatty() else "columns"
    return "view" if kind_of(output) == "text" else "columns"


def _place(text: Text, number: int) -> str:
    sentence = text.sentence
    return f"text {number + 1}: " if sentence.path is None else f"{sentence.path}, line {sentence.line}: "


def _remarks(odd: Mapping[int, str], relaxed: Mapping[int, Sequence[str]]) -> dict[int, dict[str, Any]]:
    return {**{n: {"odd": why} for n, why in odd.items()}, **{n: {"relaxed": list(why)} for n, why in relaxed.items()}}


def _tell(total: int, which: Mapping[int, str], what: str) -> None:
    """Say at the end how many texts were out of the ordinary, and name the first ones."""
    if not which:
        return
    lines = [f"  {why}" for why in list(which.values())[:SHOWN]]
    if len(which) > SHOWN:
        lines.append(f"  ... and {len(which) - SHOWN} more (--json marks every one)")
    typer.echo(visible("\n".join([f"Warning: {len(which)} of {total} texts {what}:", *lines])), err=True)


Sure = Mapping[int, Sequence[float]]
"""Probabilities of the fields of texts, by number."""


def _view(
    output: str,
    results: list[Result],
    names: tuple[str, ...],
    remarks: Mapping[int, Mapping[str, Any]],
    sure: Sure,
) -> None:
    from trellis.data.files import writing

    if output == "-":
        _show_all(plain_console(soft_wrap=True), results, names, remarks, sure)
        return
    with writing(output) as out:
        _show_all(plain_console(file=out, soft_wrap=True, color_system=None), results, names, remarks, sure)


def _show_all(
    console: Console,
    results: list[Result],
    names: tuple[str, ...],
    remarks: Mapping[int, Mapping[str, Any]],
    sure: Sure,
) -> None:
    for number, (text, labels) in enumerate(results):
        _show(console, text, labels, names, sure.get(number))
        for kind, why in remarks.get(number, {}).items():
            said = why if kind == "odd" else f"relaxed: {', '.join(why)}"
            console.print(visible(f"({said})"), style="dim")
        console.print()


def _show(
    console: Console, text: Text, labels: Sequence[str], names: tuple[str, ...], sure: Sequence[float] | None
) -> None:
    """A field per line, its label before it and its probability after it."""
    from rich.text import Text as Styled

    from trellis.data.bio import told
    from trellis.data.tokens import fields_of

    width = max((len(visible(name)) for name in names), default=0)
    colours = {told(name)[1]: COLOURS[number % len(COLOURS)] for number, name in enumerate(names)}
    for number, field in enumerate(fields_of(text, labels)):
        colour = colours[field.label]
        label, content = visible(field.label), visible(text.text[field.start : field.end])
        share = "" if not sure else f"  {100 * sure[number]:.0f} %"
        console.print(Styled.assemble((f"{label:>{width}}  ", f"bold {colour}"), (content, colour), (share, "dim")))
