"""Defaults that are stated somewhere else than in the estimator are the estimator's."""

from __future__ import annotations

import dataclasses
import importlib
import inspect
import re
from enum import Enum
from pathlib import Path
from typing import Any

import pytest

import trellis
from tests.cli.tree import COMMANDS
from tests.docs.test_names import classes, exists
from trellis.cli.options import ARGUMENTS

DOCS = Path(__file__).resolve().parents[2] / "docs"
ESTIMATORS = {
    "align": "align.aligner.Aligner", "extract train": "extract.extractor.Extractor",
    "induce": "induce.inducer.Inducer",
    "induce-trees": "parse.tree_inducer.TreeInducer", "transfer": "parse.transfer.Transfer",
    "aggregate": "aggregate.aggregator.Aggregator", "tag train": "parse.tagger.Tagger",
    "parse train": "parse.parser.Parser", "match train": "match.matcher.Matcher",
    "relate train": "relate.relater.Relater",
}  # fmt: skip
"""Commands and what they train, in trellis.apps."""
RENAMED = {"max_iter": ("rounds", "passes"), "em_iter": ("em_rounds",), "model1_iter": ("model1_rounds",)}


def commands() -> dict[str, Any]:
    """Commands by their names, those of a group after its name."""
    return COMMANDS


def settings(kind: Any) -> dict[str, Any]:
    return {
        name: parameter.default
        for name, parameter in inspect.signature(kind).parameters.items()
        if parameter.default is not inspect.Parameter.empty
    }


@pytest.mark.parametrize("name", sorted(ESTIMATORS))
def test_the_default_of_a_flag_is_that_of_the_estimator(name):
    module, _, kind = ESTIMATORS[name].rpartition(".")
    own = settings(getattr(importlib.import_module(f"trellis.apps.{module}"), kind))
    flags = {option.name: option.default for option in commands()[name].params}
    compared = 0
    for setting, default in own.items():
        for flag in (setting, *RENAMED.get(setting, ())):
            if flag not in flags or setting in ("n_jobs", "verbose", "rules"):
                continue
            said = flags[flag].value if isinstance(flags[flag], Enum) else flags[flag]
            if said is None and default is not None:
                continue  # the flag was not given, and the estimator has its own default
            assert said == default, f"trellis {name}: --{flag} is {said!r}, {kind}({setting}=...) is {default!r}"
            compared += 1
    assert compared >= 1


def test_flags_of_other_names_are_renamed_settings():
    assert {*RENAMED} <= {*ARGUMENTS}


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
    for page in sorted(DOCS.rglob("*.md")):
        for kind, name in SETTING.findall(page.read_text(encoding="utf-8")):
            known = [own for own in classes().get(kind, ()) if dataclasses.is_dataclass(own) or exists(kind, None)]
            if known and not any(name in inspect.signature(own).parameters for own in known):
                wrong.append(f"{page.name}: {kind}({name}=...)")
    assert wrong == []


def test_what_help_says_of_defaults_is_true():
    """Defaults that help writes in words, since the flag's own is None."""
    from trellis.apps.align.aligner import THRESHOLD
    from trellis.apps.induce.inducer import EM_ROUNDS

    said = {f"{name} --{option.name}": option.help or "" for name, one in commands().items() for option in one.params}
    assert f"Default: {THRESHOLD:g}" in said["align --threshold"]
    assert f"with a table {EM_ROUNDS} at most" in said["induce --em_rounds"]
    assert "Default: 1; vb: 0.1" in said["induce --emission_prior"]
