"""The library knows no application, and no application another but through its public class: the sources are walked."""

from __future__ import annotations

import ast
import re
import tomllib
from pathlib import Path

import pytest

import trellis
from trellis.apps import applications, declared

PACKAGE = Path(trellis.__file__).parent
LIBRARY = ("data", "engine", "structures", "constraints", "projection", "search", "models", "loop", "learn", "neural",
           "metrics", "report", "cli")  # fmt: skip
LONGEST_FILE, LONGEST_FUNCTION = 400, 80
"""Lines."""
PUBLIC = set(trellis._EXPORTS.values())
"""Modules that define public names."""


def imported(path: Path) -> set[str]:
    """Modules that a file imports, anywhere in it, and names that look like modules of ours in its strings."""
    found = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            found |= {node.module or "", *(f"{node.module}.{alias.name}" for alias in node.names)}
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value:
            found.add(node.value.partition(":")[0])
    return {name for name in found if name.startswith("trellis.")}


@pytest.mark.parametrize("layer", LIBRARY)
def test_the_library_names_no_application(layer):
    for path in (PACKAGE / layer).rglob("*.py"):
        named = {name.split(".")[2] for name in imported(path) if name.startswith("trellis.apps.")}
        assert not named & set(applications()), path


@pytest.mark.parametrize("application", applications())
def test_an_application_knows_others_by_their_public_modules(application):
    for path in (PACKAGE / "apps" / application).rglob("*.py"):
        for name in imported(path):
            parts = name.split(".")
            if name.startswith("trellis.apps.") and parts[2] != application:
                assert name in PUBLIC or name.rpartition(".")[0] in PUBLIC, f"{path}: {name}"


def test_every_folder_is_a_layer_or_the_applications():
    folders = {path.name for path in PACKAGE.iterdir() if (path / "__init__.py").exists()}
    assert folders == {*LIBRARY, "apps", "interop", "serve", "studio"}


def test_what_applications_declare_exists():
    for name in ("CLASSES", "SECTIONS", "READERS"):
        assert declared(name)
        for kind, where in declared(name).items():
            module, _, function = where.partition(":")
            assert hasattr(__import__(module, fromlist=["_"]), function or kind)


def test_files_and_functions_are_short():
    """Kernels are exempt: a compiled loop that is cut into functions is slower."""
    long = []
    for path in PACKAGE.rglob("*.py"):
        name, source = path.relative_to(PACKAGE), path.read_text(encoding="utf-8")
        if "kernels" in name.parts:
            continue
        long += [str(name)] if source.count("\n") > LONGEST_FILE else []
        for node in ast.walk(ast.parse(source)):
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
                lines = (node.end_lineno or 0) - node.lineno + 1
                long += [f"{name}: {node.name}"] if lines > LONGEST_FUNCTION else []
    assert not long


def test_the_page_on_architecture_lists_the_layers_that_are_held():
    root = Path(__file__).parents[1]
    contracts = tomllib.loads((root / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["importlinter"][
        "contracts"
    ]
    held = [re.findall(r"\w+", layer) for layer in contracts[0]["layers"]]
    page = (root / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Layers")[2].partition("##")[0]
    listed = re.findall(r"^    (\w+) ", page, re.MULTILINE)
    assert sorted(listed) == sorted(name for layer in held for name in layer)
    level = {name: depth for depth, layer in enumerate(held) for name in layer}
    assert [level[name] for name in listed] == sorted(level.values())
