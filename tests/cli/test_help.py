"""--help: 80 columns, no name cut short, the common path first and the rest by what it is about."""

from __future__ import annotations

import re

import pytest
from rich.cells import cell_len

from tests.cli.tree import COMMANDS, FORMER, SERVERS, flags
from tests.hostile.command import run
from trellis.cli.options import PANELS


@pytest.fixture
def help_of(monkeypatch, capfd):
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setenv("TERM", "dumb")

    def of(*command):
        assert run(*command, "--help") == 0
        return capfd.readouterr().out

    return of


@pytest.mark.slow
@pytest.mark.parametrize("command", ["", *COMMANDS, *SERVERS])
def test_help_fits_eighty_columns_without_a_cut_name(command, help_of):
    shown = help_of(*command.split())
    assert "…" not in shown
    assert "`" not in shown  # markup is rendered
    assert "docs/" not in shown  # an installed package has no such folder
    assert max(map(cell_len, shown.splitlines())) <= 80
    for name in flags(command) if command else {one.split()[0] for one in COMMANDS}:
        assert re.search(rf"(?<![\w-]){re.escape(name)}(?![\w-])", shown), name


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, *SERVERS])
def test_help_names_flags_and_no_arguments_of_python(command, help_of):
    shown = " ".join(re.sub(r"[│\s]+", " ", help_of(*command.split())).split())
    assert set(re.findall(r"(?<![\w./-])[a-z]+_[a-z_]+(?![\w.])", shown)) <= {"token_pattern"}  # a key of rules files
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+[a-z0-9]", shown)) <= {
        name for one in (*COMMANDS, *SERVERS) for flag in flags(one).values() for name in flag.names
    } | {"--help"}


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, *SERVERS])
def test_options_stand_in_panels_the_common_path_first(command, help_of):
    shown = help_of(*command.split())
    panels = re.findall(r"╭─ (.*?) ─", shown)
    names = [{None: "Options"}.get(panel, panel) for panel in PANELS]
    order = [names.index(panel) for panel in panels if panel != "Arguments"]
    assert order[0] == 0
    assert set(order) <= set(range(len(names)))
    own = flags(command).values()
    assert sum(flag.panel is None for flag in own) <= 6  # a short first panel
    assert len({flag.panel for flag in own}) >= (4 if len(own) > 11 else 1)
    first = shown.partition("Options ─")[2]
    for name in ("--output", "--model", "--save"):
        if name in flags(command):
            assert first.index(name) < first.index("--help")


@pytest.mark.slow
@pytest.mark.parametrize("command", [*COMMANDS, *SERVERS])
def test_the_help_gives_a_command_to_copy(command, help_of):
    assert f"trellis {command} " in help_of(*command.split()).partition("╭")[0].replace("Usage: trellis", "")


def test_former_names_work_the_same_and_are_not_listed(help_of):
    assert set(FORMER) == {"check", "train", "predict", "explain", "errors", "tokens", "propose"}
    listed = re.findall(r"^│ ([\w-]+)", help_of().partition("Commands ─")[2], re.MULTILINE)
    assert set(listed) == {name.split()[0] for name in (*COMMANDS, *SERVERS)}
    for name, command in FORMER.items():
        own, former = (
            [(p.name, p.opts, p.default) for p in one.params] for one in (COMMANDS[f"extract {name}"], command)
        )
        assert own == former
        assert f"Deprecated: use trellis extract {name}" in " ".join(help_of(name).split())
