"""Runs as users start them, in processes of their own: Ctrl-C in the middle, full devices, readers that go away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

from tests.hostile.command import run, train

pytestmark = pytest.mark.slow

FULL = "/dev/full"
QUIET = ("-q", "--threads", "1")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("runs")
    train(path)
    (path / "s").write_text("a b\nb a\n")
    (path / "t").write_text("x y\ny x\n")
    words = [" ".join("abcdefgh"[(7 * i + k * (i % 5)) % 8] for k in range(9)) for i in range(4000)]
    (path / "words").write_text("\n".join(words) + "\n")
    (path / "pairs").write_text("".join(f"{line} ||| {line.upper()}\n" for line in words))
    (path / "many.txt").write_text("Cy Fox 1987\n" * 20_000)
    return path


LONG = {
    "align": ["align", "-i", "pairs", "--rounds", "5000", "--model1-rounds", "0"],
    "induce": ["induce", "words", "-k", "8", "--rounds", "100000"],
    "train": [
        "extract",
        "train",
        "rules.toml",
        "-l",
        "few.tsv",
        "-u",
        "many.txt",
        "--rounds",
        "5000",
        "--method",
        "pr",
    ],
}


STOPPED_WHILE_IMPORTING = """
import sys

class Finder:
    def find_spec(self, name, *_):
        if name == "typer":
            raise KeyboardInterrupt

sys.meta_path.insert(0, Finder())
from trellis.cli import main
main(["--help"])
"""


def test_ctrl_c_before_a_command_has_begun_shows_no_traceback():
    found = subprocess.run([sys.executable, "-c", STOPPED_WHILE_IMPORTING], capture_output=True, text=True)
    assert (found.returncode, found.stdout, found.stderr) == (130, "", "interrupted\n")


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("command", LONG)
def test_ctrl_c_in_the_middle_leaves_everything_as_it_was(command, folder):
    outputs = {"--save": "old.model"} if command == "train" else {"-o": "old", "--save": "old.model"}
    for name in outputs.values():
        (folder / name).write_bytes(b"" if name == "old.model" else b"0-0\n")
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    more = [word for pair in outputs.items() for word in pair] + (["--force"] if command == "induce" else [])
    # A shell starts what it puts into the background with this signal ignored, and children inherit that.
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.default_int_handler); from trellis.cli import main; "
    )
    line = [sys.executable, "-c", code + f"main({[*LONG[command], *more, '--threads', '1']!r})"]
    process = subprocess.Popen(line, cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        told = process.stderr.readline()
        while "/" not in told:  # the first round is over
            assert told, "it ended by itself"
            told = process.stderr.readline()
        process.send_signal(signal.SIGINT)
        sent = time.monotonic()
        out, err = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert err.splitlines()[-1] == "interrupted"
    assert "Traceback" not in err
    assert out == ""
    assert time.monotonic() - sent < 20
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


WRITING = {
    "align": ["align", "-s", "s", "-t", "t", "-o", FULL, *QUIET],
    "align --save": ["align", "-s", "s", "-t", "t", "-o", "unwritten", "--save", FULL, *QUIET],
    "align -f": ["align", "-s", "s", "-t", "t", "-f", FULL, *QUIET],
    "train": ["extract", "train", "rules.toml", "-l", "few.tsv", "--save", FULL, *QUIET],
    "predict": ["extract", "predict", "-m", "m", "text.txt", "-o", FULL, *QUIET],
    "explain": ["extract", "explain", "-m", "m", "few.tsv", "-o", FULL, *QUIET],
    "induce": ["induce", "s", "-k", "2", "--rounds", "1", "--method", "em", "-o", FULL, *QUIET],
    "induce --history": ["induce", "s", "-k", "2", "--rounds", "1", "--method", "em", "--history", FULL, *QUIET],
    "aggregate": ["aggregate", "few.tsv", "-o", FULL, *QUIET],
    "aggregate --accuracies": ["aggregate", "few.tsv", "--accuracies", FULL, *QUIET],
    "evaluate": ["evaluate", "few.tsv", "few.tsv", "-o", FULL],
    "tokens": ["extract", "tokens", "text.txt", "-o", FULL],
    "propose": ["extract", "propose", "text.txt", "-l", "few.tsv", "--min-occurrences", "1", "-o", FULL],
    "info": ["info", "-o", FULL],
}


@pytest.mark.skipif(not os.path.exists(FULL), reason="no /dev/full here")
@pytest.mark.parametrize("case", WRITING)
def test_a_full_device_is_one_message(case, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    assert run(*WRITING[case]) == 2
    told = capfd.readouterr().err
    assert told.count("/dev/full: cannot be written: No space left on device") == 1
    assert "Traceback" not in told
    assert not (folder / "unwritten").exists()


@pytest.mark.parametrize("case", ["align", "predict", "tokens", "induce"])
def test_a_reader_that_has_seen_enough_is_no_news(case, folder):
    line = {
        "align": ["align", "-i", "pairs", "--rounds", "1", "--model1-rounds", "1", *QUIET],
        "predict": ["extract", "predict", "-m", "m", "many.txt", *QUIET],
        "tokens": ["extract", "tokens", "many.txt"],
        "induce": ["induce", "words", "-k", "2", "--rounds", "1", "--method", "em", *QUIET],
    }[case]
    process = subprocess.Popen(
        [sys.executable, "-m", "trellis", *line], cwd=folder, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    assert process.stdout.readline().strip()
    process.stdout.close()
    told = process.stderr.read()
    process.stderr.close()
    assert told == b""
    assert process.wait(timeout=60) == 1


WRONG = {
    "an empty bitext": (["align", "-i", "empty"], "nothing to learn from"),
    "an empty text": (["induce", "empty"], "empty has no sentences"),
    "an empty unlabelled text": (
        ["extract", "train", "rules.toml", "-u", "empty", "--save", "q"],
        "no text to learn from",
    ),
    "nothing to explain": (["extract", "explain", "-m", "m", "empty"], "empty: there is no text in it"),
    "no votes": (["aggregate", "empty"], "there is no text in empty"),
    "nothing to cut": (["extract", "tokens", "empty"], "there is no text in it"),
    "no file": (["extract", "predict", "-m", "m", "nowhere"], "nowhere: cannot be read: No such file"),
    "no gold": (["evaluate", "nowhere", "few.tsv"], "nowhere: cannot be read: No such file"),
    "a folder": (["extract", "tokens", "."], ".: cannot be read: Is a directory"),
    "links that are none": (["evaluate", "--alignment", "few.tsv", "few.tsv"], "few.tsv, line 1: 'Ann' is not a link"),
    "no links at all": (["evaluate", "--alignment", "empty", "empty"], "no links"),
    "no rounds": (["induce", "s", "--rounds", "0"], "--rounds must be"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_and_empty_files_are_one_message(case, folder, monkeypatch, capfd):
    (folder / "empty").write_text("")
    monkeypatch.chdir(folder)
    arguments, told = WRONG[case]
    assert run(*arguments) == 2
    out, err = capfd.readouterr()
    assert told in err
    assert "Traceback" not in err
    assert out == ""
