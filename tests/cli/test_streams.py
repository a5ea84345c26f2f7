"""Standard streams of every command: closed, full, read twice, or left by their reader."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import suppress

import pytest

from tests.cli.every import PRINTS, words
from tests.hostile.command import run

pytestmark = pytest.mark.slow


@pytest.fixture
def folder(every_folder, monkeypatch):
    monkeypatch.chdir(every_folder)
    return every_folder


@pytest.mark.parametrize("command", PRINTS)
def test_a_closed_standard_output_is_an_error(command, folder, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdout", None)
    assert run(*words(command)) == 2
    sys.stdout.close()
    err = capfd.readouterr().err
    assert "standard output: cannot be written: it is closed" in err
    assert err.count("Error") == 1
    assert "Traceback" not in err


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no /dev/full here")
@pytest.mark.parametrize("command", PRINTS)
def test_a_full_disk_behind_standard_output_is_an_error(command, folder, monkeypatch, capfd):
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert run(*words(command)) == 2
    err = capfd.readouterr().err
    assert "standard output: cannot be written: No space left on device" in err
    assert err.count("Error") == 1
    assert "Traceback" not in err


@pytest.mark.parametrize("command", PRINTS)
def test_a_reader_that_went_away_is_no_news(command, folder, monkeypatch, capfd):
    reader, writer = os.pipe()
    os.close(reader)
    pipe = os.fdopen(writer, "w")
    monkeypatch.setattr(sys, "stdout", pipe)
    assert run(*words(command)) == 1
    with suppress(BrokenPipeError):
        pipe.close()
    shown = [line for line in capfd.readouterr().err.splitlines() if "heads are kept" not in line]
    assert shown == []


READS = {
    "align": "align -i -", "extract check": "extract check rules.toml -",
    "extract train": "extract train rules.toml -u - --save made",
    "extract predict": "extract predict -m m -", "extract explain": "extract explain -m m -", "induce": "induce - -k 2",
    "tag predict": "tag predict - -m tagger", "parse predict": "parse predict - -m parser",
    "match predict": "match predict - -m matcher", "induce-trees": "induce-trees -", "aggregate": "aggregate -",
    "relate predict": "relate predict - -m relater", "evaluate": "evaluate - few.tsv",
    "extract errors": "extract errors - few.tsv",
    "extract suggest": "extract suggest -m m -",
    "extract tokens": "extract tokens -", "extract propose": "extract propose - -l few.tsv",
    "report": "report - -m m -o page.html",
    "tag train": "tag train - --save made", "parse train": "parse train - --save made",
    "match train": "match train - --save made", "relate train": "relate train - -l people.jsonl --save made",
    "relate explain": "relate explain - -m relater",
    "transfer": "transfer --source-parser parser -s - -t t --save made",
}  # fmt: skip


@pytest.mark.parametrize("command", READS)
def test_a_closed_standard_input_is_an_error(command, folder, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", None)
    assert run(*words(command, READS[command])) == 2
    out, err = capfd.readouterr()
    assert err.splitlines() == ["Error: standard input: cannot be read: it is closed"]
    assert out == ""


@pytest.mark.parametrize(
    "command", ["tag predict", "parse predict", "match predict", "relate predict", "relate explain", "extract predict"]
)
def test_predictions_read_standard_input_by_default(command, folder, monkeypatch, capfd):
    monkeypatch.setattr(sys, "stdin", None)
    without_text = " ".join(word for word in READS[command].split() if word != "-")
    assert run(*words(command, without_text)) == 2
    assert capfd.readouterr().err.splitlines() == ["Error: standard input: cannot be read: it is closed"]


TWICE = {
    "align": ("align -s - -t -", "--source and --target both read standard input"),
    "align --hints": ("align -i - --hints -", "--input and --hints both read standard input"),
    "extract check": ("extract check - -", "rules and text both read standard input"),
    "extract train": ("extract train rules.toml -l - -u - --save made",
              "--labelled and --unlabelled both read standard input"),
    "train -u": ("extract train rules.toml -u - -u - --save made", "--unlabelled reads standard input twice"),
    "extract explain": ("extract explain -m m - -l -", "text and --labelled both read standard input"),
    "induce": ("induce - --dictionary -", "text and --dictionary both read standard input"),
    "tag train": ("tag train - --dev - --save made", "text and --dev both read standard input"),
    "parse train": ("parse train - --dev - --save made", "trees and --dev both read standard input"),
    "match train": ("match train - --dev - --save made", "pairs and --dev both read standard input"),
    "induce-trees": ("induce-trees - --rules -", "text and --rules both read standard input"),
    "transfer": (
        "transfer --source-parser parser -s - -t - --save made", "--source and --target both read standard input",
    ),
    "aggregate": ("aggregate - -", "files reads standard input twice"),
    "relate train": ("relate train - -l - --save made", "rules and --labelled both read standard input"),
    "evaluate": ("evaluate - -", "gold and found both read standard input"),
    "extract errors": ("extract errors - -", "gold and found both read standard input"),
    "extract tokens": ("extract tokens - --rules -", "text and --rules both read standard input"),
    "extract propose": ("extract propose - -l -", "text and --labelled both read standard input"),
    "report": ("report -m aligner -s - -t - -o page.html", "--source and --target both read standard input"),
}  # fmt: skip


@pytest.mark.parametrize("case", TWICE)
def test_standard_input_is_not_read_twice(case, folder, monkeypatch, capfd):
    line, told = TWICE[case]
    with open(os.devnull) as nothing:
        monkeypatch.setattr(sys, "stdin", nothing)
        assert run(*line.split()) == 2
    out, err = capfd.readouterr()
    assert told in err
    assert out == ""


@pytest.mark.skipif(os.name != "posix", reason="needs named pipes")
def test_one_pipe_is_not_read_twice_and_two_pipes_are_read(folder):
    def shell(line):
        made = f"{sys.executable} -m trellis {line}"
        return subprocess.run(["bash", "-c", made], cwd=folder, capture_output=True, text=True, timeout=120)

    once = shell("evaluate --alignment /dev/stdin - < <(cat links links)")
    assert once.returncode == 2
    assert "can be read only once" in once.stderr
    both = shell("evaluate --alignment <(cat links) <(cat links)")
    assert both.returncode == 0
    assert "100.00" in both.stdout


@pytest.mark.skipif(os.name != "posix", reason="needs a POSIX shell")
@pytest.mark.parametrize(
    "line, code",
    [
        ("extract tokens - <&-", 2),
        ("extract tokens text.txt >&-", 2),
        ("extract tokens text.txt -o new.tsv --force <&- >&- 2>&-", 0),
    ],
)
def test_streams_closed_by_the_shell(line, code, folder):
    made = f"{sys.executable} -m trellis {line}"
    found = subprocess.run(["sh", "-c", made], cwd=folder, capture_output=True, text=True, timeout=120)
    assert found.returncode == code
    assert "Traceback" not in found.stderr
    if code == 0:
        assert (folder / "new.tsv").read_text().startswith("Cy\t_\n")
