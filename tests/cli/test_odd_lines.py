"""One odd line does not cost the others: predict gives every text a result, and tells at the end what was odd."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.hostile.command import FEW, RULES, run, train
from trellis.apps.extract.extractor import Extractor
from trellis.apps.extract.relaxed import predict_relaxed
from trellis.data.text_files import read_labelled, read_texts, texts_or_errors
from trellis.data.tokens import tokenise
from trellis.errors import InfeasibleError

STRICT = RULES + '[[rule]]\nname = "a year"\ncount = "YEAR"\nat_least = 1\n'
WORDS = '[[rule]]\nname = "words are names"\nif_word_matches = "^[a-z]+$"\nthen_label = "NAME"\n'


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("odd")
    train(path, STRICT + WORDS, FEW, "--model-kind", "hmm")
    return path


@pytest.fixture
def predicted(folder, tmp_path, capfd):
    """Results of a file as JSON records, and what was told."""

    def of(name, content, *arguments):
        (tmp_path / name).write_bytes(content)
        assert run("extract", "predict", "-m", folder / "m", tmp_path / name, "--json", "--threads", 1, *arguments) == 0
        out, err = capfd.readouterr()
        assert "Traceback" not in err
        return [json.loads(row) for row in out.splitlines()], err

    return of


GOOD = {"text": b"Cy 1987\n", "json": b'{"text": "Cy 1987"}\n', "columns": b"Cy\tNAME\n1987\t_\n\n"}
NAMES = {"text": "in.txt", "json": "in.jsonl", "columns": "in.tsv"}
ODD = {
    "text": [b"Ann \xff 1999\n", b"\xc3\x28\n"],
    "json": [
        b"{broken\n", b"[]\n", b"7\n", b'{"tokens": [""]}\n', b'{"tokens": "a"}\n', b'{"txet": "a"}\n', b"\xff\n",
        b'{"text": "\\ud800 1999"}\n', b'{"tokens": ["a"], "labels": []}\n', b'{"text": null}\n',
        b'{"text": "a 1", "fields": 3}\n', b'{"tokens": ["b"], "text": "a"}\n', b"[" * 100_000 + b"\n",
    ],
    "columns": [b"\tNAME\n\n", b"Ann\rLee\tNAME\n\n", b"\xff\tNAME\n\n", b"Ann\tNAME\n\tNAME\n\n"],
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind, line", [(kind, line) for kind in ODD for line in ODD[kind]])
def test_a_line_that_cannot_be_read_has_an_empty_result_and_the_others_theirs(kind, line, predicted):
    (alone,), _ = predicted(NAMES[kind], GOOD[kind])
    records, told = predicted(NAMES[kind], GOOD[kind] + line + GOOD[kind])
    assert len(records) == 3
    assert records[0] == records[2] == alone
    assert [f["label"] for f in alone["fields"]] == ["NAME", "YEAR"]
    assert (records[1]["fields"], records[1]["tokens"], records[1]["labels"]) == ([], [], [])
    assert "line" in records[1]["invalid"]
    assert "1 of 3 texts could not be read and got an empty result" in told
    assert records[1]["invalid"] in told


@pytest.mark.parametrize("kind", ["text", "json"])
@pytest.mark.parametrize("blank", [b"\n", b" \t \n", b"\r\n"])
def test_a_blank_line_has_an_empty_result_and_is_nothing_to_tell(kind, blank, predicted):
    records, told = predicted(NAMES[kind], GOOD[kind] + blank + GOOD[kind])
    assert [bool(r["fields"]) for r in records] == [True, False, True]
    assert "invalid" not in records[1]
    assert "relaxed" not in records[1]
    assert told == ""


@pytest.mark.parametrize("name", ["out.tsv", "out.txt", "-"])
def test_blank_and_odd_lines_abort_no_other_form_of_output(name, folder, tmp_path, capfd):
    (tmp_path / "in.txt").write_bytes(b"Cy 1987\n\n\xff\nno year\nDee 2003\n")
    place = name if name == "-" else tmp_path / name
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.txt", "-o", place) == 0
    out, told = capfd.readouterr()
    written = out if name == "-" else (tmp_path / name).read_text()
    assert "Cy" in written
    assert "2003" in written
    assert "1 of 5 texts could not be read" in told
    assert "1 of 5 texts cannot satisfy these rules" in told
    if name != "out.txt":
        assert written == "Cy\tNAME\n1987\tYEAR\n\n\n\nno\tNAME\nyear\tYEAR\n\nDee\tNAME\n2003\tYEAR\n\n"


def test_columns_with_empty_results_are_read_again(folder, tmp_path):
    (tmp_path / "in.txt").write_bytes(b"\nCy 1987\n\n\xff\nDee 2003\n")
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.txt", "-o", tmp_path / "out.tsv") == 0
    assert [t.tokens for t in read_labelled(tmp_path / "out.tsv")] == [("Cy", "1987"), ("Dee", "2003")]


def test_impossible_lines_are_relaxed_flagged_and_counted(predicted):
    records, told = predicted("in.txt", b"Cy 1987\nno year here\nDee 2003\nnot in this one\n")
    assert [r.get("relaxed") for r in records] == [None, ["words are names"], None, ["words are names"]]
    assert all(len(r["labels"]) == len(r["tokens"]) for r in records)
    assert "2 of 4 texts cannot satisfy these rules, which were relaxed" in told
    assert "in.txt, line 2: 'words are names'" in told


def test_as_few_rules_are_broken_as_can_be(predicted):
    """One label of three breaks a rule, although a model alone would break more."""
    (record,), _ = predicted("in.txt", b"no year here\n")
    assert sorted(record["labels"]) == ["NAME", "NAME", "YEAR"]


def test_the_first_few_are_named_and_the_rest_counted(predicted):
    _, told = predicted("in.txt", b"none\n" * 12 + b"Cy 1987\n")
    assert "12 of 13 texts cannot satisfy" in told
    assert told.count("in.txt, line ") == 5
    assert "... and 7 more" in told


def test_a_file_of_which_nothing_can_be_read_is_an_error(folder, tmp_path, capfd):
    (tmp_path / "in.txt").write_bytes("Ann Lée 1999\nBob 1987\n".encode("utf-16"))
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.txt") == 2
    assert "starts like UTF-16" in capfd.readouterr().err
    (tmp_path / "in.jsonl").write_bytes(b"Ann 1999\n\nBob 1987\n")
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.jsonl") == 2
    assert "in.jsonl, line 1: not JSON" in capfd.readouterr().err


@pytest.mark.parametrize("content", [b"", b"\n\n"])
def test_an_empty_file_is_no_error(content, folder, tmp_path, capfd):
    (tmp_path / "in.txt").write_bytes(content)
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.txt", "--json") == 0
    out, told = capfd.readouterr()
    assert len(out.splitlines()) == content.count(b"\n")
    assert ("there is no text in" in told) == (content == b"")


def test_a_model_without_rules_has_nothing_to_relax(predicted):
    records, told = predicted("in.txt", b"no year here\nCy 1987\n", "--no-rules")
    assert told == ""
    assert not any("relaxed" in r for r in records)


def test_a_view_shows_what_was_relaxed(folder, tmp_path, capfd):
    (tmp_path / "in.txt").write_bytes(b"no year\n\xff\nCy 1987\n")
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.txt", "--format", "view") == 0
    out = capfd.readouterr().out
    assert "(relaxed: words are names)" in out
    assert "expected UTF-8" in out


def test_possible_texts_get_what_predict_gives_them(folder):
    extractor = Extractor.load(folder / "m")
    possible = [tokenise(f"Ann Bo {year}") for year in range(1950, 1990)]
    mixed = [text for one in possible for text in (one, tokenise("no year"))]
    with pytest.raises(InfeasibleError, match="a year"):
        extractor.predict(mixed)
    found = predict_relaxed(extractor, mixed)
    assert found.labels[::2] == extractor.predict(possible)
    assert sorted(found.broken) == list(range(1, len(mixed), 2))
    assert not found.unruled
    assert not found.lost
    assert predict_relaxed(extractor, possible).broken == {}
    assert extractor.predict(possible) == found.labels[::2]  # rules are strict again


def test_explain_does_not_stumble_over_impossible_texts(folder, tmp_path, capfd):
    (tmp_path / "in.txt").write_text("Cy 1987\nno year here\nDee 2003\n")
    (tmp_path / "gold.tsv").write_text("Cy\tNAME\n1987\tYEAR\n\nno\tNAME\nyear\tYEAR\nhere\tNAME\n")
    assert run("extract", "explain", "-m", folder / "m", tmp_path / "in.txt", "--json") == 0
    rules = {rule["name"]: rule for rule in map(json.loads, capfd.readouterr().out.splitlines())}
    assert rules["words are names"]["by_output"] == 1
    assert rules["a year"]["by_output"] == 0
    assert run("extract", "explain", "-m", folder / "m", tmp_path / "gold.tsv", "--json") == 0
    rules = {rule["name"]: rule for rule in map(json.loads, capfd.readouterr().out.splitlines())}
    assert rules["(all)"]["accuracy"]["in prediction"]["alone"] == 1.0


def test_strict_reading_still_names_the_line(tmp_path):
    (tmp_path / "in.jsonl").write_text('{"text": "a"}\n{broken\n')
    with pytest.raises(ValueError, match="in.jsonl, line 2: not JSON"):
        read_texts(tmp_path / "in.jsonl")
    one, other = texts_or_errors(tmp_path / "in.jsonl")
    assert len(one) == 1
    assert "line 2: not JSON" in str(other)


@pytest.mark.slow
@pytest.mark.parametrize("ends", [b"1999", b"1999\n"])
def test_text_from_a_pipe_is_read_the_same(ends, folder):
    command = [sys.executable, "-m", "trellis", "extract", "predict", "-m", str(folder / "m"), "--threads", "1"]
    done = subprocess.run(command, input=b"Cy 1987\n\xff\nAnn " + ends, capture_output=True, timeout=120, check=False)
    assert done.returncode == 0
    assert done.stdout == b"Cy\tNAME\n1987\tYEAR\n\n\nAnn\tNAME\n1999\tYEAR\n\n"
    assert b"standard input, line 2: expected UTF-8" in done.stderr
