"""Defaults that are stated somewhere else than in the estimator are the estimator's."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

import pytest
import typer.main

import trellis
from tests.cli.tree import COMMANDS, TRAIN
from tests.docs.test_names import classes, exists
from trellis.cli.app import app
from trellis.cli.settings import OF_A_RUN, explained

DOCS = Path(__file__).resolve().parents[2] / "docs"


def settings(kind: Any) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }


def offered():
    """Commands that take settings of an estimator, and these."""
    commands = typer.main.get_command(app).commands.items()
    every = [one for _, command in commands for one in getattr(command, "commands", {"": command}).values()]
    return [(one, one.settings) for one in every if one.settings is not None and not one.hidden]


@pytest.mark.parametrize("command, named", offered(), ids=lambda one: getattr(one, "name", ""))
def test_options_are_fields_of_the_estimator_with_its_defaults_and_its_words(command, named):
    module, _, kind = named.estimator.partition(":")
    own = getattr(importlib.import_module(module), kind)
    options = {option.name: option for option in command.whole().params}
    for name in named.names:
        if name in OF_A_RUN:
            continue
        assert options[name].default == settings(own)[name]
        assert options[name].help == explained(own)[name]
        assert "None" not in options[name].help


def test_every_command_that_trains_takes_settings_of_an_estimator():
    assert len(offered()) == len(TRAIN)


def tables() -> list[tuple[str, str, str, str]]:
    """(page, class of the heading above, setting, default) of tables whose first column has `setting=default`."""
    found = []
    for page in sorted(DOCS.glob("*.md")):
        kind = ""
        for line in page.read_text(encoding="utf-8").splitlines():
            if line.startswith("#"):
                named = re.findall(r"`([A-Z]\w+)`", line)
                kind = named[-1] if named else ""
            cell = re.match(r"\| `(\w+)=([^`]+)` \|", line)
            if cell and kind:
                found.append((page.name, kind, *cell.groups()))
    return found


def test_defaults_in_tables_of_pages_are_true():
    stated = tables()
    assert len(stated) >= 3
    for page, kind, name, value in stated:
        default = settings(getattr(trellis, kind))[name]
        if value.startswith(("[", "{")):
            continue  # an example
        assert value == repr(default), f"{page}: {kind}({name}={value}), but the default is {default!r}"


SETTING = re.compile(r"`([A-Z]\w+)\((\w+)=[^`]*?\)`")


def test_settings_that_pages_name_exist():
    """`Name(setting=...)` of a class of the package."""
    wrong = []
    for page in sorted(set(DOCS.rglob("*.md")) - {DOCS / "notes" / "history.md"}):
        for kind, name in SETTING.findall(page.read_text(encoding="utf-8")):
            known = [own for own in classes().get(kind, ()) if dataclasses.is_dataclass(own) or exists(kind, None)]
            if known and not any(name in inspect.signature(own).parameters for own in known):
                wrong.append(f"{page.name}: {kind}({name}=...)")
    assert wrong == []


def test_what_help_says_of_defaults_is_true():
    """Defaults that help writes in words, since the flag's own is None."""
    from trellis.apps.align.aligner import THRESHOLD
    from trellis.apps.induce.inducer import EM_ROUNDS

    said = {f"{name} --{option.name}": option.help or "" for name, one in COMMANDS.items() for option in one.params}
    assert f"Default: {THRESHOLD:g}" in said["align --threshold"]
    assert f"with a table at most {EM_ROUNDS}" in said["induce --em_iter"]
    assert "Default: 1; vb: 0.1" in said["induce --emission_prior"]
