"""Names and files that documentation speaks of exist: in pages, docstrings and comments."""

from __future__ import annotations

import ast
import dataclasses
import importlib
import inspect
import pkgutil
import re
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import trellis

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "trellis"
HISTORY = {"CHANGELOG.md", "history.md"}
"""Pages that name what no longer exists."""
PAGES = sorted(
    path
    for path in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    if path.name not in HISTORY
)
SOURCES = sorted(
    path
    for folder in ("src", "benchmarks", "examples", "tools", "tests")
    for path in (ROOT / folder).rglob("*.py")
    if path != Path(__file__).resolve()
)
DOTTED = re.compile(r"(?<![\w./@-])trellis(?:\.[A-Za-z_]\w*)+")
ROLE = re.compile(r":(?:class|func|meth|mod|attr|data|exc|obj):`~?([\w.]+)(?:\(\))?`")
MEMBER = re.compile(r"(?<!`)`{1,2}([A-Z]\w+)\.([a-z_]\w*)(?:\(.*?\))?`{1,2}(?!`)")
FILE = re.compile(r"`{1,2}((?:[\w-]+/)+[\w.-]+\.(?:py|toml|md|tsv|jsonl|json|txt|conllu|c|sh|ipynb))`{1,2}")
SUFFIXES = {"trellis", "tsv", "toml", "json"}
"""Ends of file names such as m.trellis, no attributes."""


@cache
def resolved(name: str) -> Any:
    """The object of a dotted name; raises where there is none."""
    parts = name.split(".")
    for n in range(len(parts), 0, -1):
        try:
            found: Any = importlib.import_module(".".join(parts[:n]))
        except ModuleNotFoundError:
            continue
        for part in parts[n:]:
            found = member(found, part)
        return found
    raise AttributeError(name)


def source_of(kind: type) -> str:
    """The text of a class; that of one made by a call is not to be had."""
    try:
        return inspect.getsource(kind)
    except (OSError, TypeError):
        return ""


def member(owner: Any, name: str) -> Any:
    """An attribute: also one that is annotated, a field, or set when an estimator learns."""
    if hasattr(owner, name):
        return getattr(owner, name)
    if isinstance(owner, type):
        kinds = owner.__mro__
        if any(name in getattr(kind, "__annotations__", {}) for kind in kinds):
            return None
        if dataclasses.is_dataclass(owner) and name in {field.name for field in dataclasses.fields(owner)}:
            return None
        if any(f"self.{name}" in source_of(kind) for kind in kinds if kind.__module__.startswith("trellis")):
            return None
    raise AttributeError(f"{owner!r} has no {name}")


@cache
def modules() -> dict[str, ModuleType]:
    found = {}
    for info in pkgutil.walk_packages(trellis.__path__, "trellis."):
        if info.name.endswith("__main__"):
            continue
        try:
            found[info.name] = importlib.import_module(info.name)
        except ModuleNotFoundError as error:
            if (error.name or "trellis").startswith("trellis"):
                raise  # others are optional dependencies that are not installed
    return found


@cache
def classes() -> dict[str, list[type]]:
    """All classes of the package by their names."""
    found: dict[str, list[type]] = {}
    for module in modules().values():
        for name, value in vars(module).items():
            if isinstance(value, type) and value.__module__.startswith("trellis") and value not in found.get(name, ()):
                found.setdefault(name, []).append(value)
    return found


def exists(name: str, module: str | None) -> bool:
    """Whether a name of a role is one of the module that speaks of it, of a class there, or of the package."""
    if module is not None and module not in modules():  # it needs a package that is not installed
        return True
    places = [name] if name.startswith("trellis") else [f"trellis.{name}"]
    if module is not None and not name.startswith("trellis"):
        places += [f"{module}.{name}", f"{module.rpartition('.')[0]}.{name}"]
        places += [f"{module}.{kind}.{name}" for kind in vars(modules()[module]) if kind in classes()]
    for place in places:
        try:
            resolved(place)
        except AttributeError:
            continue
        return True
    first, _, rest = name.partition(".")
    return any(_has(kind, rest) for kind in classes().get(first, ())) if rest else False


def _has(kind: type, name: str) -> bool:
    try:
        member(kind, name)
    except AttributeError:
        return False
    return True


def spoken(path: Path) -> str:
    """The text of a page, or docstrings and comments of a program."""
    text = path.read_text(encoding="utf-8")
    if path.suffix == ".md":
        return text
    strings = [
        node.value.value
        for node in ast.walk(ast.parse(text))
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)
    ]
    return "\n".join([*strings, *re.findall(r"#.*", text)])


def module_of(path: Path) -> str | None:
    if not path.is_relative_to(PACKAGE):
        return None
    parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def is_there(name: str, page: Path) -> bool:
    places = (ROOT, PACKAGE, page.parent, ROOT / "docs", ROOT / "examples", ROOT / "benchmarks", ROOT / "build")
    return any((place / name).exists() for place in places)


def _is_local(name: str, program: str) -> bool:
    """Whether a program outside the package names it, in its code, or brings modules of its own."""
    last = name.rpartition(".")[2]
    return name.startswith("_") or re.search(rf"(?<![`.])\b{last}\b(?!`)", program) is not None


def missing_in(path: Path) -> list[str]:
    """Names and files that a page or program speaks of and that are not there."""
    text, module = spoken(path), module_of(path)
    own = "" if path.suffix == ".md" else path.read_text(encoding="utf-8")
    dotted = {name for name in DOTTED.findall(text) if name.rpartition(".")[2] not in SUFFIXES}
    roles = {name for name in ROLE.findall(text) if module or not _is_local(name, own)}
    missing = [name for name in sorted(dotted | roles) if not exists(name, module)]
    for owner, name in sorted({*MEMBER.findall(text)}):
        if owner in classes() and not any(_has(kind, name) for kind in classes()[owner]):
            missing.append(f"{owner}.{name}")
    return missing + [name for name in sorted({*FILE.findall(text)}) if "NAME" not in name and not is_there(name, path)]


@pytest.mark.parametrize("folder", ["docs", "src", "tests", "benchmarks", "examples", "tools", "."])
def test_names_and_files_that_are_spoken_of_exist(folder):
    inside = [path for path in (*PAGES, *SOURCES) if path.relative_to(ROOT).parts[0] == folder]
    inside = inside or [path for path in PAGES if path.parent == ROOT]
    assert inside
    missing = {str(path.relative_to(ROOT)): found for path in inside if (found := missing_in(path))}
    assert missing == {}


def test_every_module_says_what_n_jobs_none_means():
    """None is one thread, except where the default is another number."""
    said = re.compile(r"n_jobs[^\n]*None: every core")
    assert [path.name for path in SOURCES if path.is_relative_to(PACKAGE) and said.search(path.read_text())] == []


ATTRIBUTES = [
    (name, attribute)
    for name in trellis.__all__
    if isinstance(getattr(trellis, name), type)
    for part in re.findall(r"Attributes\n-+\n((?:(?!\n\n).|\n(?!\n))*)", inspect.getdoc(getattr(trellis, name)) or "")
    for attribute in re.findall(r"^(\w+) : ", part, flags=re.MULTILINE)
]


@pytest.mark.parametrize("name, attribute", ATTRIBUTES)
def test_attributes_that_docstrings_list_exist(name, attribute):
    member(getattr(trellis, name), attribute)


def test_there_are_attributes_to_look_at():
    assert len(ATTRIBUTES) > 40


def test_class_names_are_unique():
    files = [path for path in SOURCES if PACKAGE in path.parents]
    found = [
        node.name
        for path in files
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if isinstance(node, ast.ClassDef)
    ]
    assert len(found) > 300
    assert [name for name in set(found) if found.count(name) > 1] == []


def length(node: ast.AST) -> int:
    """Lines of a function, without its docstring."""
    assert isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    return (node.end_lineno or 0) - node.lineno + 1 - len((ast.get_docstring(node, clean=False) or "").splitlines())


def test_files_have_at_most_400_lines_and_functions_80():
    long = []
    for path in SOURCES:
        if PACKAGE not in path.parents or "kernels" in path.parts:
            continue
        text = path.read_text(encoding="utf-8")
        functions = [
            one for one in ast.walk(ast.parse(text)) if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        ]
        long += [path.name] * (len(text.splitlines()) > 400)
        long += [f"{path.name}: {one.name}" for one in functions if length(one) > 80]
    assert long == []
