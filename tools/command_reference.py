"""The reference of the command line as Markdown, generated from the program for docs/command-line.md."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer.main

from trellis.cli.app import app
from trellis.cli.commands import all_commands


def commands() -> Iterator[tuple[str, Any]]:
    """Visible commands with their full names, in the order of ``trellis --help``."""
    for name, command in all_commands(typer.main.get_command(app)):
        if not command.hidden:
            yield name, command.whole()


def reference() -> str:
    """A section per command: its help, its arguments and its options."""
    return "\n".join(line for name, command in commands() for line in _section(name, command))


def _section(name: str, command: Any) -> Iterator[str]:
    yield from (f"### trellis {name}", "", *(line.strip() for line in (command.help or "").splitlines()), "")
    yield from ("| argument or option | meaning | default |", "| --- | --- | --- |")
    for parameter in command.params:
        if not getattr(parameter, "hidden", False) and parameter.name != "help":
            yield f"| {_names(parameter)} | {_cell(parameter.help)} | {_default(parameter)} |"
    yield ""


def _names(parameter: Any) -> str:
    if parameter.param_type_name == "argument":
        return f"`{parameter.name.upper()}`"
    return ", ".join(f"`{one}`" for one in sorted(parameter.opts, key=len, reverse=True))


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    value = getattr(parameter.default, "value", parameter.default)
    shown = value is not None and value != () and not getattr(parameter, "is_flag", False)
    return f"`{value}`" if shown and not callable(value) else ""


def _cell(text: str | None) -> str:
    return " ".join((text or "").split()).replace("|", "\\|")
