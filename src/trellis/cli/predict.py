"""``trellis predict``: fields of new texts, as columns, as JSON lines with character spans, or coloured for reading."""

from __future__ import annotations

import sys
from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import Console

    from trellis.data.tokens import Text


class Format(StrEnum):
    """How extracted fields are written."""

    AUTO = "auto"
    COLUMNS = "columns"
    JSON = "json"
    VIEW = "view"


COLOURS = ("cyan", "green", "magenta", "yellow", "blue", "red", "bright_cyan", "bright_green", "bright_magenta")


def predict(
    model: Annotated[str, typer.Argument(help="Model that `trellis train` wrote.")],
    text: Annotated[str, typer.Argument(help="Texts, one a line; .tsv and .jsonl are read as such; `-`: stdin.")] = "-",
    output: Annotated[str, typer.Option("--output", "-o", help="File to write to; `-`: stdout.")] = "-",
    format: Annotated[
        Format,
        typer.Option(help="auto: by the name of the output; on a terminal a coloured view."),
    ] = Format.AUTO,
    rules: Annotated[bool, typer.Option("--rules/--no-rules", help="Obey the rules, or let the model alone.")] = True,
    beam: Annotated[int | None, typer.Option(min=1, help="Width of the search; default: that of training.")] = None,
    threads: Annotated[int | None, typer.Option(min=1, help="Default: every core.")] = None,
    word_column: Annotated[int, typer.Option(min=0, help="Column of the token in .tsv files, from 0.")] = 0,
) -> None:
    """Extract the fields of texts with a trained model."""
    from trellis.cli.checks import check_files
    from trellis.tasks.extract import Extractor
    from trellis.tasks.extract_files import check_writable, kind_of, read_texts, write_extracted

    check_files({"model": model, "text": text}, {"--output": output})
    settings: dict[str, int | None] = {"threads": threads}
    if beam is not None:
        settings["beam"] = beam
    extractor = Extractor.load(model, **settings)
    texts = read_texts(text, word_column=word_column)
    if not texts:
        typer.echo(f"Warning: there is no text in {text}", err=True)
    chosen = format
    if chosen is Format.AUTO:
        if output == "-":
            chosen = Format.VIEW if sys.stdout.isatty() else Format.COLUMNS
        else:
            chosen = {"columns": Format.COLUMNS, "json": Format.JSON, "text": Format.VIEW}[kind_of(output)]
    check_writable(texts, extractor.label_names_, chosen.value)
    labels = extractor.predict(texts, constrained=rules)
    pairs = list(zip(texts, labels, strict=True))
    if chosen is Format.VIEW:
        _view(output, pairs, extractor.label_names_.names)
    else:
        write_extracted(output, pairs, chosen.value)


def _view(output: str, pairs: list[tuple[Text, list[str]]], names: tuple[str, ...]) -> None:
    from trellis.cli.console import plain_console
    from trellis.data.files import writing

    if output == "-":
        console = plain_console(soft_wrap=True)
        for text, labels in pairs:
            _show(console, text, labels, names)
        return
    with writing(output) as out:
        console = plain_console(file=out, soft_wrap=True, color_system=None)
        for text, labels in pairs:
            _show(console, text, labels, names)


def _show(console: Console, text: Text, labels: Sequence[str], names: tuple[str, ...]) -> None:
    """A field a line, its label before it."""
    from rich.text import Text as Styled

    from trellis.cli.console import visible
    from trellis.data.tokens import fields_of

    width = max((len(visible(name)) for name in names), default=0)
    for field in fields_of(text, labels):
        colour = COLOURS[names.index(field.label) % len(COLOURS)]
        label, content = visible(field.label), visible(text.text[field.start : field.end])
        console.print(Styled.assemble((f"{label:>{width}}  ", f"bold {colour}"), (content, colour)))
    console.print()
