"""The map of the papers names nothing that does not exist, and leaves no row without an answer."""

from __future__ import annotations

import importlib.util
import inspect
import re

import pytest

import trellis
from tests.cli.tree import COMMANDS
from tests.docs.sandbox import ROOT

PAGE = (ROOT / "docs" / "papers.md").read_text(encoding="utf-8")
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and not line.startswith(("| number", "| ---"))]
NAMED = sorted(set(re.findall(r"`([^`]+)`", PAGE)))


@pytest.mark.parametrize("name", [n for n in NAMED if n.startswith("trellis.")])
def test_modules_of_the_map_exist(name):
    assert importlib.util.find_spec(name) is not None


@pytest.mark.parametrize("name", [n for n in NAMED if n.startswith(("make bench-", "examples/", "tests/"))])
def test_benchmarks_and_examples_of_the_map_exist(name):
    path = f"benchmarks/{name.removeprefix('make bench-')}.py" if name.startswith("make") else name
    assert (ROOT / path).exists()


@pytest.mark.parametrize("name", [n for n in NAMED if re.match(r"[A-Z]\w+(\(|$)", n)])
def test_classes_and_settings_of_the_map_exist(name):
    own, _, setting = name.partition("(")
    found = inspect.signature(getattr(trellis, own)).parameters
    assert not setting or setting.partition("=")[0] in found


@pytest.mark.parametrize("name", [n.removeprefix("trellis ") for n in NAMED if n.startswith("trellis ")])
def test_commands_of_the_map_exist(name):
    assert any(f"{name} ".startswith(f"{command} ") for command in COMMANDS)


def test_no_row_of_the_map_is_empty():
    assert len(ROWS) > 90
    for row in ROWS:
        assert all(cell.strip() for cell in row.strip("|").split(" | ")), row
