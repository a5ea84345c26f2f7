"""Mistakes that people make with every command: the wrong file, an empty one, another encoding, another model.

Each ends with one message that names the file, or, where nothing is wrong, with the same output as ever.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.cli.every import MODELS, RUNS, words
from tests.hostile.command import run

pytestmark = pytest.mark.slow

WRITTEN = ("--save", "-o")
READ_AS_MODEL = ("-m", "--source-parser")
WRONG = {
    "missing": None,
    "a folder": "folder",
    "binary": bytes(range(256)) * 20,
    "UTF-16": "Ann b\tNAME\n".encode("utf-16"),
    "Latin-1": b"Andr\xe9\tNAME\n" * 3,
    "blank lines": b"\n\n  \n",
}
ODD_LINES = {"extract predict": "could not be read", "match predict": "could not be read"}
"""Commands that give a line that cannot be read an empty result, and say so."""
NOTHING = {
    "extract predict", "tag predict", "parse predict", "match predict", "relate predict",
}  # fmt: skip
"""Commands to which no text is no mistake: nothing comes out, with a warning."""


@pytest.fixture
def folder(every_folder, monkeypatch):
    monkeypatch.chdir(every_folder)
    return every_folder


def places(command):
    """Numbers of the words of a run that name files it reads."""
    line = words(command)
    begins = len(command.split())
    found = []
    for number, word in enumerate(line[begins:], start=begins):
        is_value = line[number - 1].startswith("-") and line[number - 1] not in ("-q",)
        if line[number - 1] in WRITTEN or word.startswith("-"):
            continue
        if not is_value or line[number - 1] in (*READ_AS_MODEL, "-s", "-t", "-l", "-u", "--links", "--parse"):
            found.append(number)
    return found


INPUTS = [(command, number) for command in RUNS for number in places(command)]


def faulty(content, ending):
    """A file, or none, with this content."""
    path = Path(f"bad{ending}")
    if path.is_dir():
        path.rmdir()
    path.unlink(missing_ok=True)
    if content == "folder":
        path.mkdir()
    elif content is not None:
        path.write_bytes(content)
    return str(path)


@pytest.mark.parametrize("command, number", INPUTS)
def test_a_file_that_is_wrong_is_named_in_one_message(command, number, folder, capfd):
    line = words(command)
    ending = os.path.splitext(line[number])[1]
    is_rules = ending == ".toml"
    for case, content in WRONG.items():
        bad = faulty(content, ending)
        code = run(*line[:number], bad, *line[number + 1 :])
        out, err = capfd.readouterr()
        assert "Traceback" not in err, case
        if is_rules and case == "blank lines":
            assert code == 0, case  # no rule is no mistake
        elif case == "blank lines" and (command in NOTHING or "--parse" in line[number - 1]):
            is_model = line[number - 1] in READ_AS_MODEL
            assert code == (2 if is_model else 0), case
            assert is_model or not out.strip(), case
        elif code == 0:
            assert ODD_LINES[command] in err, case
        else:
            assert code == 2, case
            assert err.count("Error") == 1, (case, err)
            assert "bad" in err or "links" in line[number - 1], (case, err)
            assert out == "" or case == "binary", case  # the first lines of it may be read as text


@pytest.mark.parametrize("command", sorted(NOTHING))
def test_no_text_at_all_is_warned_of(command, folder, capfd):
    number = next(n for n in places(command) if words(command)[n - 1] not in READ_AS_MODEL)
    line = words(command)
    bad = faulty(b"", os.path.splitext(line[number])[1])
    assert run(*line[:number], bad, *line[number + 1 :]) == 0
    assert capfd.readouterr().err == f"Warning: there is no text in {bad}\n"


SAME = {
    "Windows' line ends and a byte order mark": lambda raw: b"\xef\xbb\xbf" + raw.replace(b"\n", b"\r\n"),
    "no last line end": lambda raw: raw.rstrip(b"\n"),
}


@pytest.mark.parametrize("command, number", [(c, n) for c, n in INPUTS if words(c)[n - 1] not in READ_AS_MODEL])
def test_line_ends_and_byte_order_marks_change_nothing(command, number, folder, capfd):
    line = words(command)
    if command == "report":
        return  # the page names its file; how texts are read is that of predict
    raw, ending = Path(line[number]).read_bytes(), os.path.splitext(line[number])[1]
    found = {}
    for case, change in {"plain": bytes, **SAME}.items():
        Path(f"same{ending}").write_bytes(change(raw))
        Path("made").unlink(missing_ok=True)
        assert run(*line[:number], f"same{ending}", *line[number + 1 :]) == 0, case
        written = Path("made").read_bytes() if Path("made").exists() else b""
        found[case] = (*capfd.readouterr(), written)
    for case in SAME:
        assert found[case] == found["plain"], case


TAKES = [c for c in RUNS if any(flag in words(c) for flag in READ_AS_MODEL) and c not in ("report", "info")]


@pytest.mark.parametrize("command", TAKES)
def test_a_model_of_another_kind_is_refused(command, folder, capfd):
    line = words(command)
    at = next(n for n, word in enumerate(line) if word in READ_AS_MODEL) + 1
    for model in ("m", *MODELS):
        if model != line[at]:
            assert run(*line[:at], model, *line[at + 1 :]) == 2
            out, err = capfd.readouterr()
            assert err.startswith(f"Error: {model}: holds '")
            assert out == ""


@pytest.mark.parametrize("command", TAKES)
def test_two_models_are_refused(command, folder, capfd):
    assert run(*words(command), next(f for f in READ_AS_MODEL if f in words(command)), "other") == 2
    assert "is given twice: give it once" in capfd.readouterr().err


@pytest.mark.parametrize("command", RUNS)
def test_a_mistyped_flag_is_answered_with_the_right_one(command, folder, capfd):
    flag = "--output" if "--output" in str(run_help(command)) else "--save"
    assert run(*words(command), f"{flag[:-2]}{flag[-1]}{flag[-2]}", "x") == 2
    assert flag in capfd.readouterr().err


def run_help(command):
    from tests.cli.tree import flags

    return list(flags(command))
