"""Targets proposed from data, written as a table, edited, and read back as constraints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis import GE, MaxEnt, propose_features, propose_targets, read_targets, write_targets
from trellis.cli.app import main
from trellis.constraints import parse_rules
from trellis.constraints.shares import Target
from trellis.errors import DataError, UnknownNameError

TEXTS = [["the", "dog"], ["the", "cat"], ["a", "dog"], ["the", "dog"], ["a", "cat", "sleeps"]]
LABELS: Any = [["D", "N"], None, ["D", None], None, None]


def test_targets_are_smoothed_shares_of_the_labelled_tokens() -> None:
    found = {one.name: one for one in propose_targets(TEXTS, LABELS, min_count=1, smoothing=2.0)}
    assert set(found) == {"the", "a", "dog"}  # nothing is known of the others
    prior = {"D": 3 / 5, "N": 2 / 5}  # two of D and one of N, and one more of each
    assert found["the"].count == 3
    assert found["the"].shares["D"] == pytest.approx((1 + 2 * prior["D"]) / 3, abs=1e-4)
    assert found["dog"].shares["N"] == pytest.approx((1 + 2 * prior["N"]) / 3, abs=1e-4)
    for one in found.values():
        assert sum(one.shares.values()) == pytest.approx(1.0, abs=2e-4)


def test_listed_words_come_first_and_have_most_of_their_target_where_they_are_listed() -> None:
    words = {"sleeps": "V", "cat": ["N", "V"], "missing": "N"}
    found = propose_targets(TEXTS, LABELS, words=words, per_label=1, min_count=1)
    by_name = {one.name: one.shares for one in found}
    assert by_name["sleeps"]["V"] == pytest.approx(0.9)
    assert "missing" not in by_name
    cat = propose_targets(TEXTS, words={"cat": ["N", "V"], "a": "D"}, min_count=1)
    shares = {one.name: one.shares for one in cat}["cat"]
    assert shares["N"] == shares["V"] == pytest.approx(0.45)


def test_rare_words_are_left_out_and_labels_get_so_many_each() -> None:
    found = propose_targets(TEXTS, LABELS, min_count=3)
    assert [one.name for one in found] == ["the", "dog"]
    assert len(propose_targets(TEXTS, LABELS, min_count=1, per_label=1)) == 2


def test_features_of_rows_become_targets_that_a_classifier_learns_from() -> None:
    rng = np.random.default_rng(0)
    hidden = rng.integers(2, size=300)
    X = (rng.random((300, 8)) < np.where(hidden[:, None] == np.arange(8) % 2, 0.7, 0.3)).astype(float)
    y = np.array(["no", "yes"])[hidden]
    known: Any = [label if i < 40 else None for i, label in enumerate(y)]
    found = propose_features(X, known, per_label=4)
    assert {one.observed for one in found} == {"feature"}
    targets = [one.constraint().penalty(1.0, "l2") for one in found]
    assert GE(MaxEnt(["no", "yes"]), targets).fit(X).score(X, y) > 0.75


def test_a_table_is_edited_and_fed_back(tmp_path: Path) -> None:
    found = propose_targets(TEXTS, LABELS, min_count=1)
    path = tmp_path / "targets.tsv"
    write_targets(path, found, ["D", "N"])
    again = read_targets(path)
    assert [(one.name, one.count, dict(one.shares)) for one in again] == [
        (one.name, one.count, dict(one.shares)) for one in found
    ]
    path.write_text("# mine\nword\tcount\tD\tN\nthe\t3\t0.95\t\n\nMy dog\t0\t\t0.5\n")
    edited = read_targets(path)
    assert [dict(one.shares) for one in edited] == [{"D": 0.95}, {"N": 0.5}]
    rules = parse_rules(
        'labels = ["D", "N"]\n[[rule]]\nname = "table"\ntargets = "targets.tsv"\npenalty = 2\nnorm = "l2"\n',
        str(tmp_path / "rules.toml"),
    )
    assert [c.describe() for c in rules] == [
        "In the corpus the tokens where the word is 'the' are expected to be 95 % D, with a penalty of 2 per unit of "
        "violation (L2).",
        "In the corpus the tokens where the word is 'My dog' are expected to be 50 % N, with a "
        "penalty of 2 per unit of "
        "violation (L2).",
    ]
    assert dict(rules.files)  # the table goes into the model's file, as dictionaries do


@pytest.mark.parametrize(
    "text, line, message",
    [
        ("words\tcount\tD\n", 1, "begins with"),
        ("word\tcount\tD\nthe\t3\n", 2, "expected 3 cells"),
        ("word\tcount\tD\nthe\tx\t0.5\n", 2, "whole number"),
        ("word\tcount\tD\tN\nthe\t1\t0.9\t0.9\n", 2, "more than 1"),
        ("word\tcount\tD\nthe\t1\t\n", 2, "dictionary"),
        ("feature\tcount\tD\nthe\t1\t0.5\n", 2, "whole number"),
    ],
)
def test_a_mistake_in_a_table_is_told_with_its_line(text: str, line: int, message: str, tmp_path: Path) -> None:
    path = tmp_path / "targets.tsv"
    path.write_text(text)
    with pytest.raises(DataError, match=message) as told:
        read_targets(path)
    assert told.value.line == line


def test_a_label_that_the_rules_do_not_declare_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.tsv").write_text("word\tcount\tDD\nthe\t1\t0.5\n")
    with pytest.raises(UnknownNameError, match="DD"):
        parse_rules('labels = ["D"]\n[[rule]]\ntargets = "t.tsv"\n', str(tmp_path / "rules.toml"))


@pytest.mark.parametrize(
    "settings, message",
    [
        ({"labels": [["D", "N"]]}, "5 texts but labels for 1"),
        ({"labels": [["D", None], *[None] * 4]}, "at least two labels"),
        ({"words": {"unseen": "A", "too": "B"}}, "contains no labelled word"),
        ({"labels": LABELS, "names": ["D", "X"]}, "unknown label 'N'"),
    ],
)
def test_what_cannot_be_proposed_from_is_told(settings: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        propose_targets(TEXTS, **settings)


@pytest.mark.slow
def test_the_command_proposes_and_train_takes_the_table(tmp_path: Path, monkeypatch: Any, capsys: Any) -> None:
    monkeypatch.chdir(tmp_path)
    Path("text.txt").write_text("Ann Lee 1987\nBo Fox 2001\nAnn Fox 1999\n" * 4)
    Path("few.tsv").write_text("Ann\tNAME\nLee\tNAME\n1987\tYEAR\n\n")
    Path("usual.tsv").write_text("Fox\tNAME\n2001\tYEAR\n")

    def run(*arguments: str) -> int:
        with pytest.raises(SystemExit) as end:
            main(list(arguments))
        return int(end.value.code or 0)

    assert run("extract", "propose", "text.txt", "-l", "few.tsv", "--usual", "usual.tsv", "-o", "targets.tsv") == 0
    table = Path("targets.tsv").read_text().splitlines()
    assert table[0] == "word\tcount\tNAME\tYEAR"
    assert {"Fox", "2001"} <= {line.split("\t")[0] for line in table[1:]}
    assert run("extract", "propose", "text.txt", "-l", "few.tsv", "-o", "targets.tsv") == 2  # it may have been edited
    assert "--force" in capsys.readouterr().err
    assert run("extract", "propose", "text.txt", "-l", "few.tsv", "--json") == 0
    assert '"shares"' in capsys.readouterr().out
    assert run("extract", "propose", "text.txt") == 2
    rules = 'labels = ["NAME", "YEAR"]\n[[rule]]\nname = "t"\ntargets = "targets.tsv"\npenalty = 5\n'
    Path("rules.toml").write_text(rules)
    train = [
        "extract",
        "train",
        "rules.toml",
        "-l",
        "few.tsv",
        "-u",
        "text.txt",
        "--method",
        "pr",
        "--save",
        "m",
        "--quiet",
    ]
    assert run(*train) == 0
    capsys.readouterr()
    Path("new.txt").write_text("Bo Lee 2001\n")
    assert run("extract", "predict", "-m", "m", "new.txt", "-o", "-", "--quiet") == 0
    assert "2001\tYEAR" in capsys.readouterr().out


def test_shares_that_rounding_takes_above_1_are_read(tmp_path: Path) -> None:
    path = tmp_path / "targets.tsv"
    shares = {"A": 0.11956, "B": 0.08696, "C": 0.59783, "D": 0.08696, "E": 0.04348, "F": 0.06521}
    write_targets(path, [Target("word", "cup", 3, shares)], list(shares))
    [found] = read_targets(path)
    assert sum(found.shares.values()) == pytest.approx(1.0, abs=1e-12)
    path.write_text("word\tcount\tA\tB\ncup\t3\t0.6\t0.401\n")
    with pytest.raises(DataError, match="more than 1"):
        read_targets(path)


def test_a_table_loses_no_label_and_mixes_no_kinds(tmp_path: Path) -> None:
    target = Target("word", "dog", 3, {"N": 0.9, "V": 0.1})
    with pytest.raises(UnknownNameError, match="unknown label 'V'"):
        write_targets(tmp_path / "targets.tsv", [target], ["N"])
    with pytest.raises(DataError, match="not both"):
        write_targets(tmp_path / "targets.tsv", [target, Target("feature", "3", 1, {"N": 1.0})], ["N", "V"])
    assert not (tmp_path / "targets.tsv").exists()


def test_words_are_not_proposed_from_the_letters_of_strings() -> None:
    with pytest.raises(DataError, match="expected a list of tokens"):
        propose_targets(["the dog", "a dog"], words={"d": "D", "o": "N"}, min_count=1)
