"""What users read is standard English in one spelling: pages, help, messages and docstrings of public names."""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import trellis
from tests.cli.tree import COMMANDS, SERVERS
from tests.docs.sandbox import ROOT

COINED = {
    "likeliest": "most probable, or marginal argmax",
    "farthest": "maximum",
    "heard": "votes",
    "told": "given, or log-odds",
    "kin": "similar words",
    "doubt": "veto, or uncertainty",
    "taught": "trained, pseudo-labelled",
    "teach(?:es)?": "train",
    "strangers?": "untrusted",
    "tenants?": "applications",
    "the house": "package",
    "pulls_": "mean_duals_",
    "gone on from": "resumed from",
    "goes on": "continues",
    "free instances": "unlabelled instances",
    "same bits": "bit-identical",
    "blanks": "whitespace",
    "speaks? (?:for|against|of)": "supports, contradicts, is about",
    "as people do": "usually",
    "of no account": "ignored",
    "nothing (?:asked|is said)": "(say who does what)",
    "asked (?:was|were)": "(leave out)",
    "likelier": "more probable",
    "knows? nothing": "does not support",
    "prices the": "penalises",
    "is at hand": "is available",
    "not at hand": "not available",
    "somebody": "someone, or a user",
}
"""Pattern -> what to write instead."""
AMERICAN = {
    "(?:un)?label(?:ed|ing)": "labelled, labelling",
    "behaviors?": "behaviour",
    "colors?": "colour",
    "neighbors?": "neighbour",
    "model(?:ed|ing)": "modelling",
    "analyz\\w+": "analyse",
    "centers?": "centre",
    "tokeniz(?!er)\\w+": "tokenise",
    "(?:normal|penal|recogn|optim|minim|initial|summar|custom)iz\\w+": "-ise",
    "gener?aliz(?!ed expectation)\\w+": "generalise",
    "maximiz(?!ation)\\w+": "maximise",
    "regulariz(?!ation)\\w+": "regularise",
}
"""British spelling throughout; names of methods (posterior regularization) keep that of the papers."""
HISTORY = {
    "earlier versions?": "",
    "previous versions?": "",
    "formerly": "",
    "used to be": "",
    "until now": "",
    "issue (?:#|\\d)": "",
    "acceptance": "",
    "(?:was|were) (?:asked|wanted|demanded)": "",
    "target of \\d": "",
    "test sets? (?:was|were) (?:read|looked at|seen)": "",
}
"""What only those who made the project know; it belongs to the notes."""

PATHS = {r"docs/[\w/-]+": "the title of the page: an installed package has no folder docs"}

USER_PAGES = sorted(
    path
    for path in (ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md"))
    if not {"notes", "decisions"} & set(path.parts)
)
OTHER_PAGES = [ROOT / name for name in ("CONTRIBUTING.md", "SECURITY.md", "RELEASING.md", "CHANGELOG.md")]
SHOWN = {"warn", "echo", "print", "refuse", "file_option", "number_option", "name_option", "flag", "Typer", "Argument"}
"""Functions whose text is shown to users, with every class of errors."""


def found_in(text: str, *patterns: dict[str, str]) -> list[str]:
    """Sentences to mend: what stands there, and what to write instead."""
    return [
        f"{match[0]!r} in {text[max(0, match.start() - 40) : match.end() + 30]!r}; write {better or 'it in the notes'}"
        for table in patterns
        for pattern, better in table.items()
        for match in re.finditer(rf"\b{pattern}\b", text, flags=re.IGNORECASE)
    ]


def prose(path: Path) -> str:
    """A page without code, formulas and links' targets, as one line."""
    text = re.sub(r"^( *)```.*?^\1```", "", path.read_text(encoding="utf-8"), flags=re.M | re.S)
    text = re.sub(r"^    .*$", "", re.sub(r"`[^`\n]*`", "`", text), flags=re.M)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


@pytest.mark.parametrize("path", USER_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_user_pages_are_in_standard_words_without_history(path):
    assert found_in(prose(path), COINED, AMERICAN, HISTORY) == []


@pytest.mark.parametrize("path", OTHER_PAGES, ids=lambda path: path.name)
def test_pages_for_contributors_are_in_standard_words(path):
    assert found_in(prose(path), COINED, AMERICAN) == []


def texts_of(node: ast.AST) -> Iterator[str]:
    """Text of a call's arguments, with … for what is put in."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        yield node.value
    elif isinstance(node, ast.JoinedStr):
        yield "".join(part.value if isinstance(part, ast.Constant) else "…" for part in node.values)  # type: ignore[misc]
    elif isinstance(node, ast.BinOp | ast.IfExp):
        for child in ast.iter_child_nodes(node):
            yield from texts_of(child)


def messages_of(path: Path) -> Iterator[str]:
    """Errors, warnings, help and what is printed."""
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call):
            name = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if name in SHOWN or name.endswith(("Error", "Warning")):
                for argument in (*node.args, *(one.value for one in node.keywords)):
                    yield from texts_of(argument)


def test_messages_and_help_are_in_standard_words():
    wrong, n = {}, 0
    for path in sorted((ROOT / "src" / "trellis").rglob("*.py")):
        own = [re.sub(r"`[^`]*`", "`", text) for text in messages_of(path)]
        n += len(own)
        if found := [each for text in own for each in found_in(text, COINED, AMERICAN, HISTORY, PATHS)]:
            wrong[path.name] = found
    assert n > 800
    assert wrong == {}


def _public() -> dict[str, Any]:
    made: dict[str, Any] = {}
    for name in trellis.__all__:
        kind = made[name] = getattr(trellis, name)
        if isinstance(kind, type):
            methods = [one for one in vars(kind) if not one.startswith("_") and callable(getattr(kind, one))]
            made |= {f"{name}.{one}": getattr(kind, one) for one in methods}
    return made


def test_docstrings_of_public_names_are_in_standard_words():
    wrong = {}
    for name, value in _public().items():
        text = re.sub(r"`[^`]*`", "`", " ".join((inspect.getdoc(value) or "").partition("\n>>> ")[0].split()))
        if found := found_in(text, COINED, AMERICAN, HISTORY):
            wrong[name] = found
    assert wrong == {}


def test_docstrings_of_commands_are_in_standard_words():
    wrong = {}
    for name, command in {**COMMANDS, **SERVERS}.items():
        texts = [command.help or "", *(getattr(one, "help", None) or "" for one in command.params)]
        if found := [each for text in texts for each in found_in(re.sub(r"`[^`]*`", "`", text), COINED, AMERICAN)]:
            wrong[name] = found
    assert wrong == {}


OTHER_PROGRAMS = re.compile(r"make |bench|pip |ARGS|--draws|`--small`")
"""Lines about other programs, with options of their own."""


@pytest.mark.parametrize("path", USER_PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_options_that_pages_name_exist(path):
    known = {flag for one in (*COMMANDS.values(), *SERVERS.values()) for p in one.params for flag in p.opts}
    lines = [line for line in path.read_text(encoding="utf-8").splitlines() if not OTHER_PROGRAMS.search(line)]
    named = {flag for line in lines for flag in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]+", line)}
    assert named <= known | {"--help", "--version"}


def test_a_coined_word_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# A page\nThe likeliest label, `told`, is labeled\n\n    as heard\n\nin an earlier version.\n")
    assert [one.partition(" in ")[0] for one in found_in(prose(page), COINED, AMERICAN, HISTORY)] == [
        "'likeliest'", "'labeled'", "'earlier version'",
    ]  # fmt: skip
