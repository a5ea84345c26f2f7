"""What people type from fast_align, from eflomal and from before works, or is answered with the flag to use."""

from __future__ import annotations

import os
import random
import subprocess

import pytest

from tests.hostile.command import run

QUICK = ("-q", "--threads", 1)
SIZES = [2, 3, 4, 5, 6, 7] * 6


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("bitext")
    draw = random.Random(0)
    pairs = [([draw.choice("abcdef") for _ in range(n)], [draw.choice("uvwxyz") for _ in range(9 - n)]) for n in SIZES]
    (path / "s").write_text("".join(" ".join(s) + "\n" for s, _ in pairs))
    (path / "t").write_text("".join(" ".join(t) + "\n" for _, t in pairs))
    (path / "st").write_text("".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in pairs))
    for way in ("posterior", "forward", "backward"):
        assert run("align", "-i", path / "st", "--symmetrize", way, "-o", path / way, *QUICK) == 0
    assert (path / "forward").read_text() != (path / "backward").read_text()
    return path


@pytest.mark.slow
@pytest.mark.parametrize("typed", [["-d", "-o", "-v"], ["-dov"], ["-v", "-d", "-o"], ["-o", "-d", "-v"], ["-d", "-v"]])
def test_fast_aligns_command_line_aligns_to_standard_output(typed, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    assert run("align", "-i", "st", *typed, *QUICK) == 0
    assert capfd.readouterr().out == (folder / "posterior").read_text()
    assert sorted(folder.iterdir()) == before  # no file called -v


def test_fast_aligns_flags_are_explained_unless_quiet(folder, capfd):
    assert run("align", "-i", folder / "st", "-d", "-o", "-v", "--threads", 1) == 0
    told = capfd.readouterr().err
    assert "Note: -d -o -v: in trellis align these are always on" in told
    assert "-o FILE names a file" in told


@pytest.mark.parametrize("typed", [["-r"], ["-d", "-o", "-v", "-r"], ["-dovr"], ["-r", "-d", "-o", "-v"]])
def test_a_bare_r_is_the_backward_direction(typed, folder, capfd):
    assert run("align", *typed, "-i", folder / "st", *QUICK) == 0
    assert capfd.readouterr().out == (folder / "backward").read_text()


@pytest.mark.parametrize("typed", ["-r", "--reverse-links", "--backward-links"])
@pytest.mark.parametrize("from_stdin", [False, True])
def test_eflomals_two_files_of_links(from_stdin, typed, folder, tmp_path, capfd, monkeypatch):
    text = ["-i", "-"] if from_stdin else ["-s", folder / "s", "-t", folder / "t"]
    with (folder / "st").open() as stdin:
        monkeypatch.setattr("sys.stdin", stdin)
        assert run("align", *text, "-f", tmp_path / "f", typed, tmp_path / "r", *QUICK) == 0
    assert capfd.readouterr().out == ""
    assert (tmp_path / "f").read_text() == (folder / "forward").read_text()
    assert (tmp_path / "r").read_text() == (folder / "backward").read_text()


@pytest.mark.slow
@pytest.mark.parametrize("more", [["-f", "f", "-r", "r", "-o", "o"], ["--tune", "gold", "-o", "o", "--model", "m"]])
def test_text_from_a_pipe_that_is_needed_twice_is_kept(more, folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold").write_text("".join((folder / "forward").read_text().splitlines(keepends=True)[:5]))
    assert run("align", "-i", folder / "st", "--save", "m", "-o", "x", *QUICK) == 0
    assert run("align", "-i", folder / "st", *more, *QUICK) == 0
    want = {name: (tmp_path / name).read_bytes() for name in "fro" if (tmp_path / name).exists()}
    os.mkfifo(tmp_path / "pipe")
    writer = subprocess.Popen(["cp", folder / "st", tmp_path / "pipe"])
    assert run("align", "-i", "pipe", *more, *QUICK) == 0
    assert writer.wait(timeout=10) == 0
    assert {name: (tmp_path / name).read_bytes() for name in want} == want
    assert want["o"].count(b"\n") == len(SIZES)


def test_both_directions_and_their_union_in_one_run(folder, tmp_path, capfd):
    assert run("align", "-i", folder / "st", "-f", tmp_path / "f", "-o", "-", "--save", tmp_path / "m", *QUICK) == 0
    assert capfd.readouterr().out == (folder / "posterior").read_text()
    assert (tmp_path / "f").read_text() == (folder / "forward").read_text()
    assert run("align", "-m", tmp_path / "m", "-i", folder / "st", "-r", tmp_path / "r", *QUICK) == 0
    assert (tmp_path / "r").read_text() == (folder / "backward").read_text()
    assert run("align", "-m", tmp_path / "m", "-i", folder / "st", *QUICK) == 0  # the model has kept its own way
    assert capfd.readouterr().out == (folder / "posterior").read_text()


@pytest.mark.parametrize("option", ["-f", "-r"])
def test_fast_aligns_parameters_are_not_taken_for_a_place_to_write(option, folder, tmp_path, capfd):
    (tmp_path / "params").write_text("the\tle\t-0.1\n")
    assert run("align", "-i", folder / "st", option, tmp_path / "params", *QUICK) == 2
    assert "would overwrite a file that does not contain links" in capfd.readouterr().err
    assert (tmp_path / "params").read_text() == "the\tle\t-0.1\n"


@pytest.mark.parametrize("form", ["pharaoh", "one-based", "words", "json", "scores"])
@pytest.mark.parametrize("name", ["links", "links.gz"])
def test_links_of_an_earlier_run_are_replaced(form, name, folder, tmp_path):
    how = [f"--{form}"] if form in ("json", "scores") else ["--format", form]
    for _ in range(2):
        assert run("align", "-i", folder / "st", "-o", tmp_path / name, *how, *QUICK) == 0


ANSWERED = {
    "align": {
        "-p x": "--priors", "-m 3": "leave it out", "--seed 3": "nothing is random", "--model-out x": "--save",
        "--iterations 3": "--rounds", "--model1-iterations 3": "--model1-rounds", "--reverse": "--symmetrize backward",
        "--variational": "--no-variational", "--diagonal": "leave it out", "--format json": "--json",
        "--format=json": "--json", "-F x": "--pair-scores", "-R x": "--pair-scores", "-c x": "--probabilities",
        "st": "-s SOURCE -t TARGET",
        "-N": "leave it out", "-a 0.1": "--no-variational", "-T 4": "leave it out", "-n 3": "leave it out",
        "--verbose": "--quiet", "--jobs 2": "--threads", "-o -q": "needs the name of a file",
        "-o -v2": "needs the name of a file", "--overwrite": "leave it out", "--source-prefix 4": "--prefix",
    },
    "extract train": {
        "--model m": "--save", "-m m": "--save", "-o m": "--save", "--iterations 3": "--rounds", "-j 2": "--thr",
    },
    "extract predict": {"--rules": "--no-rules", "--format json": "--json", "--n-jobs 2": "--threads"},
    "induce": {"--apply m": "--model", "--max-iter 3": "--rounds", "--random-state 1": "--seed"},
    "extract explain": {"--out x": "--output"},
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("command, typed", [(command, typed) for command in ANSWERED for typed in ANSWERED[command]])
def test_a_flag_that_is_not_ours_is_answered_with_the_one_to_use(command, typed, folder, monkeypatch, capfd):
    monkeypatch.chdir(folder)
    before = sorted(folder.iterdir())
    rest = ["-i", "st"] if command == "align" else ["s"]
    assert run(*command.split(), *rest, *typed.split()) == 2
    told = capfd.readouterr().err
    assert told.startswith("Error: ")
    assert ANSWERED[command][typed] in told
    assert sorted(folder.iterdir()) == before


def test_a_setting_that_a_model_cannot_take_is_not_blamed_on_the_file(folder, tmp_path, capfd):
    assert run("align", "-i", folder / "st", "-o", tmp_path / "l", "--save", tmp_path / "m", *QUICK) == 0
    assert run("align", "-i", folder / "st", "-m", tmp_path / "m", "--symmetrize", "reverse", *QUICK) == 2
    told = capfd.readouterr().err
    assert "unknown symmetrization 'reverse'; known: 'backward', 'forward'" in told
    assert "damaged" not in told


def test_values_are_not_taken_for_flags(folder, tmp_path, capfd):
    """A weight of -1, or a file whose name looks like a flag but is given as a path."""
    assert run("align", "-i", folder / "st", "--gamma", "-1", *QUICK) == 2
    assert "gamma must be" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["extract predict", "extract explain"])
def test_the_model_in_its_old_place_is_answered_with_the_option(command, folder, capfd):
    assert run(*command.split(), folder / "s", folder / "t") == 2
    assert "--model" in capfd.readouterr().err


@pytest.mark.parametrize("command", ["align", "extract predict", "extract explain", "induce", "info"])
def test_a_model_that_is_not_there_is_told_how_models_are_written(command, folder, capfd):
    rest = {"align": ["-i", folder / "st"], "info": []}.get(command, [folder / "s"])
    assert run(*command.split(), *rest, "--model", folder / "new.trellis") == 2
    told = capfd.readouterr().err
    assert "new.trellis: cannot be read: No such file" in told
    assert "--save writes one" in told
