"""Work is not lost: full outputs, files that would be overwritten and words that cannot be written are told in time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.command import RULES, run, start, train

FULL = Path("/dev/full")
POOR = {**os.environ, "LANG": "C", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONIOENCODING": "ascii"}
needs_full = pytest.mark.skipif(not FULL.exists(), reason="no /dev/full here")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("work")
    train(path)
    (path / "gold.tsv").write_text((path / "few.tsv").read_text())
    (path / "s").write_text("a b\nb a\n")
    (path / "t").write_text("x y\ny x\n")
    (path / "links").write_text("0-0 1-1\n0-0 1-1\n")
    (path / "tags").write_text("a\tX\n")
    return path


COMMANDS = {
    "info": ["info"],
    "help": ["--help"],
    "evaluate": ["evaluate", "gold.tsv", "few.tsv"],
    "evaluate alignment": ["evaluate", "--alignment", "links", "links"],
    "explain": ["extract", "explain", "-m", "m", "few.tsv", "--threads", "1"],
    "predict view": ["extract", "predict", "-m", "m", "text.txt", "--format", "view", "--threads", "1"],
    "predict columns": ["extract", "predict", "-m", "m", "text.txt", "--threads", "1"],
    "predict json": ["extract", "predict", "-m", "m", "text.txt", "--json", "--threads", "1"],
    "tokens": ["extract", "tokens", "text.txt"],
    "induce": ["induce", "s", "-k", "2", "--rounds", "1", "-q", "--method", "em", "--threads", "1"],
}


@pytest.mark.slow
@needs_full
@pytest.mark.parametrize("command", COMMANDS)
def test_a_full_standard_output_is_one_message_and_exit_code_2(command, folder):
    with FULL.open("w") as out:
        ended = start(*COMMANDS[command], cwd=folder, stdout=out)
    told = ended.stderr.decode()
    assert ended.returncode == 2, told
    assert told.count("standard output: cannot be written: No space left on device") == 1
    assert "Traceback" not in told
    assert "Exception ignored" not in told


@pytest.mark.slow
@pytest.mark.parametrize("command", ["info", "evaluate", "predict view", "predict columns"])
def test_a_closed_standard_output_is_no_traceback(command, folder):
    line = [sys.executable, "-m", "trellis", *COMMANDS[command]]
    ended = subprocess.run(["sh", "-c", '"$@" >&-', "sh", *line], cwd=folder, capture_output=True, text=True)
    assert "Traceback" not in ended.stderr
    assert ended.returncode in (0, 2)


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["utf-8", "ascii", "latin-1"])
def test_what_an_encoding_lacks_ends_no_run(encoding, tmp_path):
    few = json.dumps({"tokens": ["Ann", "1999"], "labels": ["NÄME", "Y\ud800"]})
    (tmp_path / "few.jsonl").write_text(few + "\n")
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    ended = start("evaluate", "few.jsonl", "few.jsonl", cwd=tmp_path, stdout=subprocess.PIPE, env=environment)
    assert ended.returncode == 0, ended.stderr
    if encoding != "ascii":  # there the command line's library writes UTF-8, with a mark for what that lacks
        assert b"Y\\ud800" in ended.stdout
        assert "NÄME".encode(encoding) in ended.stdout


@pytest.fixture(scope="module")
def foreign(tmp_path_factory):
    path = tmp_path_factory.mktemp("foreign")
    train(path, RULES.replace("NAME", "NÄME").replace("years", "années ✓"), "Zoë\tNÄME\n1999\tYEAR\n")
    (path / "text.txt").write_text("Łukasz 日本 1987\n", encoding="utf-8")
    (path / "gold.tsv").write_text("Zoë\tYEAR\n1999\tYEAR\n", encoding="utf-8")
    (path / "s").write_text("Łukasz 日本\n日本 ö\n", encoding="utf-8")
    (path / "links").write_text("0-0 1-1\n", encoding="utf-8")
    return path


@pytest.mark.slow
@pytest.mark.parametrize("command", ["evaluate", "explain", "predict view", "predict json", "tokens", "induce"])
def test_no_command_ends_for_want_of_a_letter_in_the_terminal(command, foreign):
    ended = start(*COMMANDS[command], cwd=foreign, stdout=subprocess.PIPE, env=POOR)
    assert ended.returncode == 0, ended.stderr.decode()
    assert ended.stdout
    assert b"Traceback" not in ended.stderr


def test_no_message_ends_for_want_of_a_letter_in_the_terminal(foreign):
    wrong = start("extract", "explain", "m", "nirgends-ß.tsv", cwd=foreign, stdout=subprocess.PIPE, env=POOR)
    assert wrong.returncode == 2
    assert b"Traceback" not in wrong.stderr


LINKS = {"same": None, "dots": "sub/../{}", "symbolic": os.symlink, "hard": os.link}
OVERWRITES = {
    "train on rules": ("rules.toml", ["extract", "train", "rules.toml", "-l", "few.tsv", "--save", "{}"]),
    "train on labels": ("few.tsv", ["extract", "train", "rules.toml", "-l", "few.tsv", "--save", "{}"]),
    "train on text": (
        "text.txt",
        ["extract", "train", "rules.toml", "-l", "few.tsv", "-u", "text.txt", "--save", "{}"],
    ),
    "train on dev": (
        "gold.tsv",
        ["extract", "train", "rules.toml", "-l", "few.tsv", "--dev", "gold.tsv", "--save", "{}"],
    ),
    "train on a dictionary": ("tags", ["extract", "train", "named.toml", "-l", "few.tsv", "--save", "{}"]),
    "predict on text": ("few.tsv", ["extract", "predict", "-m", "m", "few.tsv", "-o", "{}"]),
    "predict on model": ("m", ["extract", "predict", "-m", "m", "few.tsv", "-o", "{}"]),
    "tokens on text": ("text.txt", ["extract", "tokens", "text.txt", "-o", "{}", "--force"]),
    "induce on text": ("s", ["induce", "s", "-o", "{}"]),
    "induce model on text": ("s", ["induce", "s", "--save", "{}"]),
    "induce history on tags": ("tags", ["induce", "s", "--dictionary", "tags", "--history", "{}"]),
    "induce on applied": ("m", ["induce", "s", "--model", "m", "-o", "{}"]),
    "explain on model": ("m", ["extract", "explain", "-m", "m", "text.txt", "-o", "{}"]),
    "explain on labels": ("few.tsv", ["extract", "explain", "-m", "m", "gold.tsv", "-l", "few.tsv", "-o", "{}"]),
    "evaluate on gold": ("gold.tsv", ["evaluate", "gold.tsv", "few.tsv", "-o", "{}"]),
    "info on model": ("m", ["info", "-m", "m", "-o", "{}"]),
    "train history on labels": (
        "few.tsv",
        ["extract", "train", "rules.toml", "-l", "few.tsv", "--save", "n", "--history", "{}"],
    ),
    "align forward on source": ("s", ["align", "-s", "s", "-t", "t", "-f", "{}"]),
    "align reverse on target": ("t", ["align", "-s", "s", "-t", "t", "-r", "{}"]),
    "align history on gold": ("links", ["align", "-s", "s", "-t", "t", "--tune", "links", "--history", "{}"]),
    "align on source": ("s", ["align", "-s", "s", "-t", "t", "-o", "{}"]),
    "align model on target": ("t", ["align", "-s", "s", "-t", "t", "-o", "links", "--save", "{}"]),
    "align table on gold": ("links", ["align", "-s", "s", "-t", "t", "--tune", "links", "--probabilities", "{}"]),
    "align on joined": ("s", ["align", "-i", "s", "-o", "{}"]),
    "align on model": ("m", ["align", "-s", "s", "-t", "t", "--model", "m", "-o", "{}"]),
}


@pytest.mark.slow
@pytest.mark.parametrize("link", LINKS)
@pytest.mark.parametrize("case", OVERWRITES)
def test_no_command_overwrites_what_it_reads(case, link, folder, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    (folder / "sub").mkdir(exist_ok=True)
    (folder / "named.toml").write_text((folder / "rules.toml").read_text() + '[[rule]]\ndictionary = "tags"\n')
    (folder / "tags").write_text("Ann\tNAME\n")
    name, arguments = OVERWRITES[case]
    target = name
    if link == "dots":
        target = f"sub/../{name}"
    elif link != "same":
        target = str(tmp_path / "link")
        LINKS[link](folder / name, target)
    before = {path: path.read_bytes() for path in folder.iterdir() if path.is_file()}
    assert run(*(a.format(target) for a in arguments)) == 2
    told = capfd.readouterr().err
    assert "would overwrite" in told
    assert name in told
    assert {path: path.read_bytes() for path in folder.iterdir() if path.is_file()} == before


@pytest.mark.parametrize(
    "arguments",
    [
        ["align", "-s", "s", "-t", "t", "-o", "x", "--save", "x"],
        ["align", "-s", "s", "-t", "t", "-o", "x", "--probabilities", "./x"],
        ["align", "-s", "s", "-t", "t", "--save", "x", "--probabilities", "x"],
        ["align", "-s", "s", "-t", "t", "-o", "-", "--probabilities", "-"],
        ["induce", "s", "-o", "x", "--save", "x"],
        ["induce", "s", "-o", "x", "--history", "sub/../x"],
        ["induce", "s", "--history", "-"],
    ],
)
def test_no_command_writes_two_things_to_one_place(arguments, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    (folder / "sub").mkdir(exist_ok=True)
    assert run(*arguments) == 2
    assert "both write to" in capfd.readouterr().err
    assert not (folder / "x").exists()


def test_devices_may_be_written_to_by_several_options(folder, monkeypatch):
    monkeypatch.chdir(folder)
    quick = "-k", 2, "--rounds", 1, "--method", "em", "-q", "--threads", 1
    assert run("induce", "s", "-o", os.devnull, "--history", os.devnull, *quick) == 0


def test_an_output_beside_its_input_is_written(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    assert run("extract", "predict", "-m", "m", "few.tsv", "-o", tmp_path / "few.tsv", "--threads", 1) == 0
    assert (tmp_path / "few.tsv").read_text().startswith("Ann\t")


@pytest.mark.parametrize("name", ["text.txt", "text.tsv", "text.conll"])
def test_a_stray_carriage_return_is_told_before_any_work(name, tmp_path, capfd, monkeypatch):
    monkeypatch.setattr("trellis.apps.induce.inducer.Inducer.fit", lambda *_: pytest.fail("the work began"))
    (tmp_path / name).write_bytes(b"a\nb\rc\nd\r\n")
    assert run("induce", tmp_path / name, "-o", tmp_path / "out") == 2
    told = capfd.readouterr().err
    assert f"{name}, line 2: found a carriage return inside the line, after 'b'" in told


def test_carriage_returns_in_dictionaries_are_told_too(tmp_path, capfd):
    (tmp_path / "text").write_text("a b\n")
    (tmp_path / "tags").write_bytes(b"a\tX\rY\n")
    assert run("induce", tmp_path / "text", "--dictionary", tmp_path / "tags", "-q") == 2
    assert "tags, line 1: found a carriage return" in capfd.readouterr().err


@pytest.mark.parametrize("token", ["a\tb", "a\nb", "a\rb"])
def test_tokens_that_columns_cannot_hold_have_an_empty_result_there(token, folder, tmp_path, capfd):
    lines = [{"tokens": ["fine"]}, {"tokens": ["Ann", token]}, {"tokens": ["1999"]}]
    (tmp_path / "in.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.jsonl", "-o", tmp_path / "out.tsv") == 0
    told = capfd.readouterr().err
    assert "1 of 3 texts could not be read" in told
    assert "in.jsonl, line 2: write JSON lines (.jsonl) in place of columns" in told
    assert (tmp_path / "out.tsv").read_text() == "fine\tNAME\n\n\n1999\tYEAR\n\n"


def test_labels_that_columns_cannot_hold_are_told_before_prediction(tmp_path, capfd, monkeypatch):
    rules = 'labels = ["NAME", "A\\tB"]\n[[rule]]\ncount = "NAME"\nat_least = 1\npenalty = 1\n'
    model = train(tmp_path, rules, "Ann\tNAME\n")
    assert (
        run("extract", "predict", "-m", model, tmp_path / "text.txt", "-o", tmp_path / "out.jsonl", "--threads", 1) == 0
    )
    monkeypatch.setattr("trellis.apps.extract.relaxed.predict_relaxed", lambda *_, **__: pytest.fail("the work began"))
    capfd.readouterr()
    assert run("extract", "predict", "-m", model, tmp_path / "text.txt", "-o", tmp_path / "out.tsv") == 2
    assert "'A\\tB' contains '\\t'" in capfd.readouterr().err


def test_empty_tokens_are_told_with_their_line(folder, tmp_path, capfd):
    (tmp_path / "in.jsonl").write_text('{"tokens": ["a"]}\n{"tokens": [""]}\n')
    assert run("extract", "predict", "-m", folder / "m", tmp_path / "in.jsonl") == 0
    assert "in.jsonl, line 2: expected a list of strings in 'tokens', none of them empty" in capfd.readouterr().err
