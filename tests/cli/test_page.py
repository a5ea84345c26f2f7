"""docs/command-line.md is held to the program, and the program to one meaning per flag."""

from __future__ import annotations

import importlib
import re
import runpy
import shlex
from pathlib import Path

import pytest

from tests.cli.tree import COMMANDS, SERVERS, TRAIN, flags
from trellis.cli.commands import pieces

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "command-line.md").read_text(encoding="utf-8")
ALL = {name: flags(name) for name in (*COMMANDS, *SERVERS)}
TREES = {"parse predict", "induce-trees", "transfer"}
NAMES = sorted({flag for own in ALL.values() for flag in own})


def test_the_generated_reference_has_every_command_and_option_with_a_meaning(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "tools"))
    text = importlib.import_module("command_reference").reference()
    sections = dict(part.split("\n", 1) for part in text.split("### trellis ")[1:])
    assert len(sections) > 20
    for command, section in sections.items():
        for name, flag in ALL[command].items():
            assert f"`{name}`" in section
            assert flag.meaning.replace("|", "\\|") in section
    assert "`make docs` lists all commands and options here.\n" in PAGE


def test_the_page_names_every_command():
    for command in ALL:
        assert f"trellis {command.split()[0]}" in PAGE


@pytest.mark.parametrize("name", NAMES)
def test_a_flag_means_the_same_and_is_spelt_the_same_in_every_command(name):
    own = [found[name] for found in ALL.values() if name in found]
    assert len({flag.meaning for flag in own}) == 1
    assert len({flag.names for flag in own}) == 1
    assert len({flag.takes_value for flag in own}) == 1


def test_a_short_flag_belongs_to_one_long_one():
    of = {}
    for found in ALL.values():
        for name, flag in found.items():
            for short in flag.names[1:]:
                assert of.setdefault(short, name) == name
    assert of["-o"] == "--output"
    assert of["-m"] == "--model"


def having(flag):
    return {command for command in COMMANDS if flag in ALL[command]}


PREDICT = [name for name in COMMANDS if name.split()[-1] == "predict"]


def test_model_reads_and_save_writes_everywhere():
    assert having("--save") == set(TRAIN)
    reading = {
        "align",
        "extract explain",
        "extract suggest",
        "report",
        "relate explain",
        "induce",
        "info",
        "induce-trees",
        "aggregate",
        *PREDICT,
    }
    assert having("--model") == reading
    for command in COMMANDS:
        positional = [p.name for p in COMMANDS[command].params if p.param_type_name == "argument"]
        assert "model" not in positional


def test_what_prints_has_output_and_json_and_what_works_long_is_quiet_and_has_threads():
    printing = {name for name in COMMANDS if name.split()[-1] != "train"}
    assert having("--output") == printing
    assert having("--json") == printing - TREES - {
        "tag predict",
        "report",
        "align map",
        "align phrases",
    }  # which have formats of their own
    assert having("--threads") == {
        *TRAIN,
        *PREDICT,
        "extract explain",
        "extract suggest",
        "relate explain",
        "report",
    } - {"parse train"}
    at_once = {
        "evaluate",
        "extract errors",
        "extract tokens",
        "extract convert",
        "extract propose",
    }  # which compile nothing and work for a moment
    assert having("--quiet") == set(COMMANDS) - at_once
    in_rounds = set(TRAIN) - {"parse train", "tag train"}  # which makes passes of single steps, or steps of L-BFGS
    assert having("--rounds") == in_rounds
    assert having("--gamma") == in_rounds - {"match train", "aggregate"}  # margins have no temperature
    assert having("--history") == in_rounds - {"transfer"}
    assert not any("iter" in flag for flag in NAMES)


def test_a_seed_is_where_something_is_random():
    assert having("--seed") == {"extract train", "induce", "parse train", "match train"}


def command_lines():
    """Every command of the docs, where it stands, as a list of words."""
    for path in [ROOT / "README.md", ROOT / "SECURITY.md", *sorted((ROOT / "docs").rglob("*.md"))]:
        for line in path.read_text(encoding="utf-8").splitlines():
            for found in re.findall(rf"trellis +((?:{'|'.join(ALL)}) +[^`#]*)", line):
                if line.startswith(("    ", "trellis")) or f"`trellis {found}`" in line:
                    cut = re.split(r" [|>] ", found)[0].replace("...", "")
                    yield path.name, shlex.split(cut)


@pytest.mark.parametrize("where, words", list(command_lines()))
def test_commands_in_the_docs_have_flags_that_exist(where, words):
    if words[0] == "align" and {"-d", "-r"} & set(words):
        return  # habits of others, tried in test_habits.py
    name = " ".join(words[:2]) if " ".join(words[:2]) in COMMANDS else words[0]
    options = {one: flag.takes_value for flag in ALL[name].values() for one in flag.names}
    unknown = [typed for typed in pieces(words[1:], options) if typed.startswith("-") and " " not in typed]
    assert unknown == []


def recorded():
    """Command lines of tools/record_kernels.py."""
    uses = runpy.run_path(str(ROOT / "tools" / "record_kernels.py"))["USES"]
    return [shlex.split(use)[1:] for use in uses.values() if use.startswith("trellis ")]


@pytest.mark.parametrize("words", recorded())
def test_commands_whose_kernels_are_recorded_have_flags_that_exist(words):
    test_commands_in_the_docs_have_flags_that_exist("tools", words)


def test_there_are_commands_in_the_docs_to_look_at():
    assert len(list(command_lines())) > 25
