"""What users wrote is printed as they wrote it: markup, emoji codes, formulas and control characters are characters."""

from __future__ import annotations

import io
import json
import sys

import numpy as np
import pytest

from tests.hostile.command import RULES, run, train
from trellis.engine.progress import Progress
from trellis.loop.history import History, Round
from trellis.report.effects import plot_sentence
from trellis.report.figure import save_figure
from trellis.report.pages import plot_history

NAMES = ["^[a-z]+$", "[/x]", "[bold]a[/bold]", ":cat:", "[link=x", "a\\[b]", "[", "\\"]


@pytest.fixture
def wide(monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_explain_shows_names_labels_and_patterns_as_the_file_has_them(name, tmp_path, capfd, wide):
    rules = f"""
labels = ["NAME", 'YEAR{name}']
[[rule]]
name = '{name}'
if_word_matches = '^(19|2[0-9]?)..$'
then_label = 'YEAR{name}'
strength = "hard"
[[rule]]
if_word_matches = '^[A-Z][a-z]+[/x]?$'
then_label = "NAME"
strength = "hard"
"""
    model = train(tmp_path, rules, f"Ann\tNAME\n1999\tYEAR{name}\n")
    assert run("extract", "explain", "-m", model, tmp_path / "few.tsv") == 0
    out = capfd.readouterr().out
    said, _, tables = out.partition("How often each rule could be violated")
    assert said.startswith(f"{name}  At every token, if the word matches ^(19|2[0-9]?)..$ then the label is YEAR{name}")
    assert "the word matches ^[A-Z][a-z]+[/x]?$ then" in said
    assert tables.count(f"│ {name} ") == 2
    assert run("extract", "predict", "-m", model, tmp_path / "few.tsv", "--format", "view") == 0
    assert f"YEAR{name}  1999" in capfd.readouterr().out


def test_control_characters_of_a_model_do_not_reach_the_terminal(tmp_path, capfd, wide):
    rules = RULES.replace('"years"', r'"\u001b[2Jcleared"').replace('"YEAR"', r'"Y\u009bEAR"')
    few = json.dumps({"tokens": ["Ann", "1\x1b[31m9"], "labels": ["NAME", "Y\x9bEAR"]}) + "\n"
    (tmp_path / "few.jsonl").write_text(few)
    (tmp_path / "rules.toml").write_text(rules)
    files = tmp_path / "rules.toml", "-l", tmp_path / "few.jsonl", "--save", tmp_path / "m", "-q", "--threads", 1
    assert run("extract", "train", *files) == 0
    for command in (
        ["extract", "explain", "-m", tmp_path / "m", tmp_path / "few.jsonl"],
        ["extract", "predict", "-m", tmp_path / "m", tmp_path / "few.jsonl", "--format", "view"],
        ["evaluate", tmp_path / "few.jsonl", tmp_path / "few.jsonl"],
    ):
        capfd.readouterr()
        assert run(*command) == 0
        said = capfd.readouterr().out
        assert "\\x9b" in said
        assert not set(said) & {"\x1b", "\x9b"}


@pytest.mark.slow
@pytest.mark.parametrize("name", [*NAMES, "a\x1b[2J"])
def test_a_complaint_names_a_file_as_it_is_called(name, capfd):
    assert run("extract", "explain", "-m", f"no{name}", "few.tsv") == 2
    shown = name.replace("\x1b", "\\x1b")
    told = capfd.readouterr().err
    assert told.startswith(f"Error: no{shown}: cannot be read: No such file or directory\n")
    assert "--save writes one" in told


@pytest.mark.parametrize("name", NAMES)
def test_a_progress_bar_shows_titles_and_figures_as_they_are(name, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    shown = Terminal()
    monkeypatch.setattr(sys, "stderr", shown)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setenv("TERM", "xterm")
    with Progress(f"title {name}", 2) as progress:
        progress.advance(2, f"figures {name}")
    assert progress.show
    assert f"title {name}" in shown.getvalue()
    assert f"figures {name}" in shown.getvalue()


def test_dollar_signs_in_pictures_are_dollars(tmp_path):
    formula = r"$\nonsense{$"
    history = History([Round(0, 1.0, -1.0, violation={formula: 0.1, "$5 and $6": 0.2})])
    save_figure(plot_history(history, title=formula), tmp_path / "history.png")
    half = np.full((2, 2), 0.5)
    picture = plot_sentence(half, half, [formula, "$5 and $6"], ["A", formula])
    save_figure(picture, tmp_path / "sentence.svg")
    assert not any(text.get_parse_math() for text in picture.findobj(lambda a: hasattr(a, "get_parse_math")))
