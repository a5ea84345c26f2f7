"""What ``check``, ``train``, ``predict`` and ``explain`` say when labels, tokens and rules do not go together."""

from __future__ import annotations

import json

import pytest

from tests.hostile.command import run
from trellis.apps.extract.extractor import Extractor
from trellis.data.text_files import read_labelled

RULES = r"""
labels = ["NAME", "YEAR"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)\d\d$'
then_label = "YEAR"
strength = "hard"
[[rule]]
name = "one label"
few_labels_per = "word"
penalty = 2
[[rule]]
name = "one year"
count = "YEAR"
at_most = 1
slack = 0.5
[[rule]]
name = "mostly years"
share = "YEAR"
at_least = 0.9
per = "corpus"
penalty = 3
[[rule]]
name = "zebras"
if_word = "zebra"
then_label = "NAME"
"""
FEW = "Ann\tNAME\n1999\tNAME\n\nBob\tNAME\nRay\tYEAR\n2001\tYEAR\n\n1999\tYEAR\nRay\tNAME\n"
WHITESPACE = "Aggarwal,\tNAME\n(1999).\tYEAR\n\nLee,\tNAME\n(1999).\tYEAR\n\nAggarwal,\tNAME\nLee,\tNAME\n"
TRAINING = ("--rounds", 1, "--threads", 1, "-q")


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "few.tsv").write_text(FEW)
    (tmp_path / "plain.toml").write_text('labels = ["NAME", "YEAR"]\n')
    (tmp_path / "whitespace.toml").write_text('tokens = "whitespace"\nlabels = ["NAME", "YEAR"]\n')
    (tmp_path / "comma.tsv").write_text(WHITESPACE)
    (tmp_path / "raw.txt").write_text("Aggarwal, (1999).\nLee, 2001\n")
    return tmp_path


@pytest.mark.slow
def test_check_lists_where_labels_break_a_rule(folder, capfd):
    assert run("extract", "check", "rules.toml", "few.tsv") == 0
    lines = capfd.readouterr().out.splitlines()
    told = lines[lines.index("years: the labels violate it in 1 place") :]
    assert told == [
        "years: the labels violate it in 1 place",
        "  few.tsv, line 2: Ann [1999]",
        "one label: the labels violate it in 2 places",
        "  few.tsv, line 8: [1999] Ray",
        "  few.tsv, line 9: 1999 [Ray]",
        "one year: the labels violate it in 1 place",
        "  few.tsv, line 4: Bob Ray 2001",
        "mostly years: the labels violate it in 1 place",
        "  all texts together",
        "Never applies: zebras",
    ]


@pytest.mark.slow
def test_check_counts_the_places_that_it_does_not_list(folder, capfd):
    assert run("extract", "check", "rules.toml", "few.tsv", "--examples", 1) == 0
    lines = capfd.readouterr().out.splitlines()
    at = lines.index("one label: the labels violate it in 2 places")
    assert lines[at + 1 : at + 3] == ["  few.tsv, line 8: [1999] Ray", "  ... and 1 more"]
    assert run("extract", "check", "rules.toml", "few.tsv", "--json", "--examples", 1) == 0
    record = json.loads(capfd.readouterr().out.splitlines()[1])
    assert (record["broken"], record["tested"]) == (2, 7)
    assert record["broken_at"] == [{"text": 3, "path": "few.tsv", "line": 8, "excerpt": "[1999] Ray"}]


@pytest.mark.slow
def test_train_names_rules_that_labels_contradict_or_never_test(folder, capfd):
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "--save", "m", "--rounds", 1, "--threads", 1) == 0
    err = capfd.readouterr().err
    assert "hard rule 'years' in 1 of 3 tests, first few.tsv, line 2: Ann [1999]" in err
    assert "rule 'mostly years' in 1 of 1 tests" in err
    assert "no labelled text tests the rule 'zebras'" in err
    assert "rule 'one year' in 1 of 2 tests" in err  # a text without a year does not test it
    assert "'one label'" not in err  # broken in two places of seven: rules may have exceptions


@pytest.mark.slow
def test_explain_shows_slack_and_the_places_of_every_kind_of_rule(folder, capfd):
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "--save", "m", *TRAINING) == 0
    capfd.readouterr()
    assert run("extract", "explain", "-m", "m", "few.tsv", "--json", "-q") == 0
    found = {}
    for line in capfd.readouterr().out.splitlines():
        record = json.loads(line)
        found[record["name"]] = record
    assert [found[name]["tested"] for name in ("years", "one label", "one year", "mostly years")] == [3, 7, 2, 1]
    assert [found[name]["by_gold"] for name in ("years", "one label", "one year", "mostly years")] == [1, 2, 1, 1]
    assert (found["one year"]["strength"], found["one year"]["slack"]) == ("slack", 0.5)
    assert run("extract", "explain", "-m", "m", "few.tsv", "-q", "-o", "table.txt") == 0
    shown = (folder / "table.txt").read_text()
    assert "slack 0.5" in shown
    assert "penalty 2" in shown


LEARNED = """
labels = ["NAME", "YEAR"]
[[rule]]
name = "no year after a year"
if_previous_label = "YEAR"
then_label = "NAME"
strength = "learned"
[[rule]]
name = "years follow names"
if_label = "YEAR"
then_previous_label = "NAME"
strength = "learned"
[[rule]]
name = "one or two names"
count = "NAME"
between = [1, 2]
strength = "learned"
[[rule]]
name = "no changes"
transitions = true
at_most = 0
strength = "learned"
[[rule]]
name = "at most one year"
count = "YEAR"
at_most = 1
strength = "learned"
"""


@pytest.mark.slow
def test_check_train_and_explain_count_the_places_from_which_penalties_are_learned(folder, capfd):
    (folder / "learned.toml").write_text(LEARNED)
    rules = Extractor(LEARNED, method="codl", model_kind="hmm", usual_fields=False, max_iter=1)
    rules.fit(read_labelled("few.tsv"))
    wanted = {one.name: (one.places, one.broken) for one in rules.ccm_.learned_penalties_}
    assert wanted == {
        "no year after a year": (2, 1),
        "years follow names": (3, 2),
        "one or two names": (3, 0),
        "no changes": (4, 2),
        "at most one year": (2, 1),
    }
    assert run("extract", "check", "learned.toml", "few.tsv", "--json") == 0
    records = list(map(json.loads, capfd.readouterr().out.splitlines()))
    assert {one["name"]: (one["tested"], one["broken"]) for one in records} == wanted
    assert run("extract", "train", "learned.toml", "-l", "few.tsv", "--save", "m", "--rounds", 1, "--threads", 1) == 0
    err = capfd.readouterr().err
    assert "rule 'no year after a year' in 1 of 2 tests, first few.tsv, line 6: Bob Ray [2001]" in err
    for name, (places, broken) in wanted.items():
        assert (f"rule {name!r} in {broken:g} of {places:g} tests" in err) == (2 * broken >= places)
    assert run("extract", "explain", "-m", "m", "few.tsv", "--json", "-q") == 0
    records = list(map(json.loads, capfd.readouterr().out.splitlines()))
    found = {one["name"]: (one["tested"], one["by_gold"]) for one in records if "tested" in one}
    assert {name: found[name] for name in wanted} == wanted


LINE = 'Add this line at the top of plain.toml: tokens = "whitespace"'


@pytest.mark.slow
@pytest.mark.parametrize("command", ["check", "train"])
def test_labelled_tokens_that_the_rules_would_cut_otherwise_are_warned_of(command, folder, capfd):
    def warned(rules, labelled):
        more = ["-l", labelled, "--save", "m", *TRAINING] if command == "train" else [labelled]
        assert run(command, rules, *more) == 0
        return capfd.readouterr().err

    told = warned("plain.toml", "comma.tsv")
    assert "6 of 6 tokens differ from how plain.toml tokenises raw text" in told
    assert "'Aggarwal,' (comma.tsv, line 1) would be 'Aggarwal' ','" in told
    assert LINE in told
    assert "differ" not in warned("whitespace.toml", "comma.tsv")
    assert run("extract", "tokens", "raw.txt", "-o", "cut.tsv") == 0
    (folder / "cut.tsv").write_text((folder / "cut.tsv").read_text().replace("_", "NAME"))
    assert "differ" not in warned("plain.toml", "cut.tsv")
    (folder / "whitespace.toml").write_text('tokens = "whitespace"\nlabels = ["A B"]\n')
    (folder / "blank.jsonl").write_text('{"tokens": ["New York", "Ann"], "labels": ["A B", "A B"]}\n')
    assert "give a token_pattern in whitespace.toml" in warned("whitespace.toml", "blank.jsonl")


@pytest.mark.slow
def test_predict_warns_of_tokens_that_the_model_was_not_trained_on(folder, capfd):
    assert run("extract", "tokens", "raw.txt", "-o", "cut.tsv") == 0
    (folder / "cut.tsv").write_text((folder / "cut.tsv").read_text().replace("_", "NAME"))
    for rules, labelled, model in (
        ("plain.toml", "comma.tsv", "wrong"),
        ("plain.toml", "cut.tsv", "cut"),
        ("whitespace.toml", "comma.tsv", "good"),
    ):
        assert run("extract", "train", rules, "-l", labelled, "--save", model, *TRAINING) == 0
    capfd.readouterr()

    def warned(model, text):
        assert run("extract", "predict", "-m", model, text, "--threads", 1) == 0
        return capfd.readouterr().err

    raw = warned("wrong", "raw.txt")
    assert "the model was trained on other tokens than its rules cut raw.txt into" in raw
    assert 'tokens = "whitespace"' in raw
    assert "6 of 6 tokens differ from those that the model was trained on" in warned("cut", "comma.tsv")
    for model, text in (("wrong", "comma.tsv"), ("cut", "raw.txt"), ("cut", "cut.tsv"), ("good", "raw.txt")):
        assert warned(model, text) == "", (model, text)
