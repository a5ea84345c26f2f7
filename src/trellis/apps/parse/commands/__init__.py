"""The commands of tagging and parsing."""

from __future__ import annotations

import typer

from trellis.apps.parse.commands import induce_trees, parse, tag, transfer
from trellis.cli.commands import add_command


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    for module, name, text in (
        (tag, "tag", "Tags of words: learn them from a treebank, and tag text with it."),
        (parse, "parse", "Dependency trees: learn a parser from a treebank, and parse with it."),
    ):
        group = typer.Typer(help=text, no_args_is_help=True)
        program.add_typer(group, name=name)
        add_command(group, module.train, settings=module.SETTINGS)
        add_command(group, module.predict)
    add_command(program, induce_trees.induce_trees, settings=induce_trees.SETTINGS)
    add_command(program, transfer.transfer, settings=transfer.SETTINGS)
