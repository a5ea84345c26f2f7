"""The commands as the program itself has them: which flags, and what their help says they mean."""

from __future__ import annotations

from dataclasses import dataclass

import typer

from trellis.cli.app import app
from trellis.cli.commands import all_commands

COMMANDS, SERVERS, FORMER = {}, {}, {}
"""Name -> command; those that serve until they are stopped; the former names of some, which are not listed."""
SERVE = ("serve", "studio")
for _name, _command in all_commands(typer.main.get_command(app)):
    (FORMER if _command.hidden else SERVERS if _name in SERVE else COMMANDS)[_name] = _command.whole()
TRAIN = ("align", "induce", "induce-trees", "transfer", "aggregate", *(c for c in COMMANDS if c.split()[-1] == "train"))


@dataclass(frozen=True)
class Flag:
    """One flag of one command."""

    names: tuple[str, ...]
    meaning: str
    panel: str | None
    takes_value: bool


def flags(command):
    """Long name -> flag, of a command; ``--help`` is left out."""
    found = {}
    for parameter in (COMMANDS.get(command) or SERVERS[command]).params:
        if parameter.param_type_name != "option":
            continue
        names = tuple(sorted(parameter.opts, key=len, reverse=True))
        panel = getattr(parameter, "rich_help_panel", None)
        found[names[0]] = Flag(names, meaning(parameter.help), panel, not parameter.is_flag)
    return found


def meaning(text):
    """The first sentence of a help text."""
    return text.split(". ")[0].rstrip(".")
