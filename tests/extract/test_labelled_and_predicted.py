"""Texts that are labelled already count once and are not suggested again; predictions are no labels of a person."""

from __future__ import annotations

import json

import pytest

from tests.hostile.command import run
from trellis import Extractor, read_documents
from trellis.apps.extract.suggest import suggest

RULES = """
[[rule]]
name = "years"
if_word_matches = '^(19|20)[0-9][0-9]$'
then_label = "YEAR"
strength = "learned"
"""
FEW = "Ann\tNAME\n1999\tYEAR\n\nBob\tNAME\nLee\tNAME\n2001\tYEAR\n\n"
NEW = ["Cy Ray 1987", "Di 2003", "Ed Fox 1955"]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "few.tsv").write_text(FEW)
    (tmp_path / "new.txt").write_text("\n".join(NEW) + "\n")
    (tmp_path / "all.txt").write_text("\n".join([NEW[0], "Ann 1999", "Bob Lee 2001", *NEW[1:]]) + "\n")
    return tmp_path


def train(text, model, capfd):
    """The summary of a training."""
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "-u", text, "--rounds", 1, "--save", model) == 0
    return capfd.readouterr().err


def test_a_text_that_is_labelled_and_unlabelled_counts_once(folder, capfd):
    assert "2 labelled texts, 3 other texts, " in train("new.txt", "a", capfd)
    assert "2 labelled texts, 3 other texts (without 2 that repeat a labelled one), " in train("all.txt", "b", capfd)
    assert (folder / "a").read_bytes() == (folder / "b").read_bytes()


def test_a_text_that_occurs_more_often_than_it_is_labelled_is_kept(folder, capfd):
    few = [["Ann", "1999"]], [["NAME", "YEAR"]]
    made = Extractor(RULES, max_iter=1).fit(*few, unlabelled=["Ann 1999", "Di 2003", "Ann 1999"])
    assert made.n_repeated_ == 1
    assert len(made.infer(["Ann 1999"]).labels) == 1


def test_labelled_texts_are_not_suggested(folder, capfd):
    train("new.txt", "m", capfd)
    suggested = ["extract", "suggest", "-m", "m", "all.txt", "--json", "--texts", 9]
    assert run(*suggested) == 0
    assert len(capfd.readouterr().out.splitlines()) == 5
    assert run(*suggested, "-l", "few.tsv") == 0
    assert {json.loads(line)["text"] for line in capfd.readouterr().out.splitlines()} == set(NEW)
    (folder / "done.txt").write_text("Ann 1999\n")
    assert run("extract", "suggest", "-m", "m", "done.txt", "-l", "few.tsv") == 0
    assert "every text of done.txt is labelled already" in capfd.readouterr().err


def test_texts_whose_labels_are_missing_are_suggested(folder, capfd):
    train("new.txt", "m", capfd)
    extractor = Extractor.load("m")
    for labelled, n in ((["Di 2003"], 1), ([{"tokens": ["Di", "2003"], "labels": ["NAME", None]}], 1), ([], 1)):
        assert len(suggest(extractor, ["Di 2003"], labelled=labelled)) == n
    assert suggest(extractor, ["Di 2003"], labelled=[{"tokens": ["Di", "2003"], "labels": ["NAME", "YEAR"]}]) == []


@pytest.mark.parametrize("command", ["predict", "suggest"])
def test_converting_and_training_warn_of_predicted_labels(command, folder, capfd):
    train("new.txt", "m", capfd)
    assert run("extract", command, "-m", "m", "new.txt", "-o", "found.jsonl") == 0
    assert run("extract", "convert", "few.tsv", "-o", "same.jsonl") == 0
    assert "predicted" not in capfd.readouterr().err
    assert run("extract", "convert", "found.jsonl", "--to", "prodigy", "-o", "tasks.jsonl") == 0
    assert "predict" not in capfd.readouterr().err  # tasks of Prodigy mark them
    assert run("extract", "convert", "found.jsonl", "--to", "doccano", "-o", "doccano.jsonl") == 0
    assert "the labels of 3 texts are predictions, which doccano cannot represent" in capfd.readouterr().err
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "-l", "found.jsonl", "--save", "n") == 0
    assert "the labels of 3 texts in found.jsonl are predictions" in capfd.readouterr().err
    assert run("extract", "train", "rules.toml", "-l", "found.jsonl", "--save", "o") == 2
    assert "no label is filled in. Correct or accept the predictions" in capfd.readouterr().err


def test_tokens_as_json_are_documents_with_their_text(folder, capfd):
    (folder / "spaced.txt").write_text("Di  Fox,2003\n")
    assert run("extract", "tokens", "spaced.txt", "-o", "tokens.jsonl") == 0
    [document] = read_documents("tokens.jsonl")
    assert (document.text, document.tokens) == ("Di  Fox,2003", ("Di", "Fox", ",", "2003"))
    assert document.labels == (None,) * 4
    assert run("extract", "check", "rules.toml", "tokens.jsonl", "-o", "checked.jsonl") == 2
    assert "labels are not known" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["check rules.toml few.tsv", "train rules.toml -l few.tsv --save m"])
def test_a_misspelt_label_in_a_rule_is_refused_with_the_one_of_the_labelled_texts(command, folder, capfd):
    (folder / "rules.toml").write_text(RULES.replace("YEAR", "YAER"))
    assert run("extract", *command.split()) == 2
    assert "rules.toml, line 2: unknown label 'YAER'; did you mean 'YEAR'?" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["check rules.toml few.tsv", "train rules.toml -l few.tsv --rounds 1 --save m"])
def test_a_label_that_occurs_once_and_looks_misspelt_is_named(command, folder, capfd):
    for labels, is_told in (("", True), ('labels = ["NAME", "YEAR", "YAER"]\n', False)):
        (folder / "rules.toml").write_text(labels + RULES)
        (folder / "few.tsv").write_text(FEW + "Cy\tNAME\n1987\tYAER\n\n")
        assert run("extract", *command.split()) == 0
        said = capfd.readouterr().err
        assert ("the label 'YAER' (few.tsv, line 9) occurs in one text only: is it 'YEAR' misspelt?" in said) == is_told


def test_tables_of_rules_say_what_their_columns_are(folder, capfd):
    assert run("extract", "check", "rules.toml", "few.tsv") == 0
    shown = capfd.readouterr().out
    assert "1 rule in 2 texts. places: " in shown
    assert "tests: how often the labels could violate it" in shown
    assert [cell.strip() for cell in shown.splitlines()[5].split("│")[1:-1]][:5] == ["years", "2", "2", "2", "0"]
    assert run("extract", "check", "rules.toml", "new.txt") == 2  # no label is known
    (folder / "rules.toml").write_text('labels = ["NAME", "YEAR"]\n' + RULES)
    capfd.readouterr()
    assert run("extract", "check", "rules.toml", "new.txt") == 0
    assert "violations" not in capfd.readouterr().out
    train("new.txt", "m", capfd)
    assert run("extract", "explain", "-m", "m", "few.tsv", "-l", "few.tsv") == 0
    shown = capfd.readouterr().out
    assert "How often each rule could be violated (tests)" in shown
    assert "A rule helps if accuracy without it is lower than with (all)." in shown
    assert shown.index("Rules left out in prediction") < shown.index("Trained again on labels only")
