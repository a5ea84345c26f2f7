"""Outside structures, the models that build them and the fast paths that they register, only part numbers are known."""

from __future__ import annotations

import ast
from importlib import import_module
from pathlib import Path

import pytest

import trellis
from trellis.structures import Parts, Structure

PACKAGE = Path(trellis.__file__).parent
ARRAYS = {"node", "edge", "node_index", "edge_index", "edge_counts", "n_node_parts", "as_chain"}
"""Attributes by which one would know more of a structure than its parts."""


def knows_structures(path: Path) -> bool:
    """Whether a file may name a structure: it is one, builds one, or is a registered fast path."""
    inside = path.relative_to(PACKAGE).parts
    if inside == ("__init__.py",):  # the list of public names
        return True
    return inside[0] in ("structures", "models", "neural") or "kernels" in inside


def kinds_of_structures() -> set[str]:
    """Names of all classes of structures and of their parts, found by walking the layer."""
    found: set[str] = set()
    for path in (PACKAGE / "structures").glob("*.py"):
        module = import_module(f"trellis.structures.{path.stem}")
        for name, value in vars(module).items():
            if isinstance(value, type) and issubclass(value, Structure | Parts) and value not in (Structure, Parts):
                found.add(name)
    return found


ALLOWED = {"Joint", "JointParts"}
"""A joint of several structures says nothing of what they are."""
KINDS = kinds_of_structures() - ALLOWED
FILES = sorted(path for path in PACKAGE.rglob("*.py") if not knows_structures(path))


def names_in(tree: ast.AST) -> list[tuple[int, str]]:
    """Identifiers of a syntax tree: names, attributes and imports, with their lines."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.append((node.lineno, node.id))
        elif isinstance(node, ast.Attribute):
            found.append((node.lineno, node.attr))
        elif isinstance(node, ast.ImportFrom | ast.Import):
            found += [(node.lineno, alias.name.rpartition(".")[2]) for alias in node.names]
    return found


def breaches(source: str) -> list[str]:
    """What a file knows that it should not, as "line: what"."""
    tree = ast.parse(source)
    found = [f"{line}: names {name}" for line, name in names_in(tree) if name in KINDS]
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and node.attr in ARRAYS:
            found.append(f"{node.lineno}: reads .{node.attr}")
        if (
            isinstance(node, ast.Call)
            and isinstance(node.func, ast.Name)
            and node.func.id in ("isinstance", "issubclass")
        ):
            asked = {name for _, name in names_in(node.args[1])}
            found += [f"{node.lineno}: asks whether something is a {name}" for name in asked & {*KINDS, *ALLOWED}]
    return found


def test_the_layers_define_several_kinds_of_structures():
    assert {"Chain", "Categorical", "ChainParts"} <= KINDS


@pytest.mark.slow
@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_knows_part_numbers_alone(path):
    assert breaches(path.read_text(encoding="utf-8")) == []


@pytest.mark.parametrize(
    "source",
    [
        "from trellis.structures import Chain",
        "from trellis.structures.chain import Chain as C",
        "def f(scores):\n    return scores.edge_counts",
        "def f(scores):\n    return isinstance(scores, Joint)",
        "def f(scores):\n    return trellis.structures.Categorical(scores)",
    ],
)
def test_a_breach_is_found(source):
    assert breaches(source)


@pytest.mark.slow
def test_models_and_structures_may_ask_what_a_structure_is_only_inside_structures():
    """isinstance on a structure has no place even in models and fast paths."""
    for path in PACKAGE.rglob("*.py"):
        if path.relative_to(PACKAGE).parts[0] == "structures":
            continue
        found = [breach for breach in breaches(path.read_text(encoding="utf-8")) if "asks whether" in breach]
        assert found == [], path
