"""Runs of the command line, in this process and in one of their own."""

from __future__ import annotations

import subprocess
import sys

import pytest

from trellis.cli.app import main


def run(*arguments):
    """Exit code of a command line."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code or 0


def start(*arguments, **settings):
    """A run in a process of its own, which alone sees full devices and broken streams as users do."""
    command = [sys.executable, "-m", "trellis", *map(str, arguments)]
    return subprocess.run(command, stderr=subprocess.PIPE, timeout=300, **settings)


RULES = r"""
labels = ["NAME", "YEAR"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)\d\d$'
then_label = "YEAR"
strength = "hard"
"""
FEW = "Ann\tNAME\n1999\tYEAR\n\nBob\tNAME\nRay\tNAME\n2001\tYEAR\n"


def train(folder, rules=RULES, few=FEW, *more):
    """A trained extractor at folder/m, from folder/rules.toml and folder/few.tsv."""
    (folder / "rules.toml").write_text(rules, encoding="utf-8")
    (folder / "few.tsv").write_text(few, encoding="utf-8")
    (folder / "text.txt").write_text("Cy Fox 1987\nDee Roe 2003\n", encoding="utf-8")
    files = "-l", folder / "few.tsv", "-u", folder / "text.txt", "--save", folder / "m"
    assert run("extract", "train", folder / "rules.toml", *files, "--rounds", 1, "-q", "--threads", 1, *more) == 0
    return folder / "m"
