"""The commands of field extraction."""

from __future__ import annotations

import typer

from trellis.apps.extract.commands import check, convert, errors, explain, predict, propose, suggest, tokens, train
from trellis.cli.commands import add_command, group_of_commands


def register(program: typer.Typer) -> None:
    """Add the commands of this application."""
    group = group_of_commands("Extract fields from texts: train on rules and a few labels, predict, explain.")
    program.add_typer(group, name="extract")
    for function, answers, settings in (
        (check.check, None, None),
        (train.train, train.ANSWERS, train.SETTINGS),
        (predict.predict, predict.ANSWERS, None),
        (explain.explain, None, None),
        (errors.errors, None, None),
        (tokens.tokens, None, None),
        (propose.propose, None, None),
    ):
        add_command(group, function, answers, settings=settings)
        add_command(program, function, answers, settings=settings, former=f"extract {function.__name__}")
    add_command(group, suggest.suggest)
    add_command(group, convert.convert)
