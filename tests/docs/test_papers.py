"""The map of the papers names nothing that does not exist, and leaves no row without an answer."""

from __future__ import annotations

import importlib.util
import re

import pytest

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


def test_no_row_of_the_map_is_empty():
    assert len(ROWS) > 90
    for row in ROWS:
        assert all(cell.strip() for cell in row.strip("|").split(" | ")), row
