"""Runs that are stopped, files that cannot be written, pipes, models that are not fitted: nothing is left or lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager

import pytest

from tests.hostile.command import train
from tests.hostile.saved import SAVED, TAGS, TEXT, learner
from trellis.data.archive import read_archive, write_archive
from trellis.data.files import writing
from trellis.errors import DataError, ModelFileError, NotFittedError
from trellis.learn import CoDL, MultiView
from trellis.learn.ge import GE
from trellis.learn.margin import SSVM, Perceptron
from trellis.models import CRF, HMM, load_model, saving

posix = pytest.mark.skipif(os.name != "posix", reason="signals are those of POSIX")
WRITE = """
import sys, time
from trellis.data.files import writing
with writing(sys.argv[1]) as out:
    out.write("half")
    out.flush()
    print("ready", flush=True)
    time.sleep(60)
"""


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    return train(tmp_path_factory.mktemp("trained"))


def temporary(folder):
    return [path.name for path in folder.iterdir() if path.name.startswith(".trellis-")]


@contextmanager
def writer(path):
    """A process in the middle of writing a file; it is killed at the end."""
    with subprocess.Popen([sys.executable, "-c", WRITE, str(path)], stdout=subprocess.PIPE) as started:
        assert started.stdout.readline() == b"ready\n"
        try:
            yield
        finally:
            started.kill()


@posix
def test_what_a_killed_process_left_is_removed_when_the_folder_is_written_next(tmp_path):
    with writer(tmp_path / "out"):
        pass
    with writer(tmp_path / "other"):
        with writing(tmp_path / "out") as out:
            out.write("whole")
        assert (tmp_path / "out").read_text() == "whole"
        assert len(temporary(tmp_path)) == 1  # that of the process which still writes


@posix
def test_files_with_other_names_and_of_other_machines_are_left_alone(tmp_path):
    others = [".trellis-00000000-999999999-0123456789abcdef.tmp", ".trellis-notes.tmp", "x.tmp"]
    for name in others:
        (tmp_path / name).write_text("precious")
    with writing(tmp_path / "out") as out:
        out.write("whole")
    assert {path.name for path in tmp_path.iterdir()} == {*others, "out"}


@posix
@pytest.mark.slow
@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_a_command_that_is_stopped_leaves_no_temporary_file(number, code, model, tmp_path):
    command = [
        sys.executable,
        "-c",  # a test run in the background hands down an ignored SIGINT, and one under nohup an ignored SIGHUP
        "import signal; signal.signal(signal.SIGINT, signal.default_int_handler); "
        "signal.signal(signal.SIGHUP, signal.SIG_DFL); from trellis.cli import main; main()",
        "predict",
        "-m",
        model,
        "-",
        "-o",
        tmp_path / "out.tsv",
        "--threads",
        "1",
    ]
    started = subprocess.Popen(list(map(str, command)), stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    started.stdin.write(b"Ann 1999\n" * 5000)
    started.stdin.flush()
    for _ in range(600):
        if temporary(tmp_path) or started.poll() is not None:
            break
        time.sleep(0.1)
    assert temporary(tmp_path)
    started.send_signal(number)
    _, told = started.communicate(timeout=60)
    assert (started.returncode, temporary(tmp_path), (tmp_path / "out.tsv").exists()) == (code, [], False), told
    assert b"Traceback" not in told


MADE = {
    "UEM": lambda path: learner("rows", path, 2).fit(TEXT[:4], [TAGS[0], None, None, None]),
    "CoDL": lambda path: CoDL(HMM(["D", "N", "V"], min_count=1), checkpoint=path).fit(TEXT[:4], [*TAGS[:3], None]),
    "GE": lambda path: GE(CRF(["D", "N", "V"]), checkpoint=path).fit(TEXT[:4], [*TAGS[:3], None]),
    "MultiView": lambda path: MultiView([CRF(["D", "N", "V"]), HMM(["D", "N", "V"])], checkpoint=path).fit(
        [TEXT, TEXT], [*TAGS[:3], None, []]
    ),
    "Perceptron": lambda path: Perceptron(CRF(), checkpoint=path).fit(TEXT[:4], TAGS[:4]),
    "SSVM": lambda path: SSVM(CRF(), checkpoint=path).fit(TEXT[:4], TAGS[:4]),
}


@pytest.mark.parametrize("place", ["no/such/folder/c", ".", "x" * 300])
@pytest.mark.parametrize("kind", MADE)
def test_a_checkpoint_that_cannot_be_written_is_told_before_any_work(kind, place, tmp_path, monkeypatch):
    monkeypatch.setattr("trellis.loop.loop.Loop.run", lambda *_, **__: pytest.fail("the work began"))
    with pytest.raises(DataError, match="cannot be written"):
        MADE[kind](tmp_path / place)
    assert list(tmp_path.iterdir()) == []


@posix
@pytest.mark.slow
@pytest.mark.parametrize("command", ["predict", "info"])
def test_a_model_is_read_from_a_pipe(command, model):
    more = model.with_name("text.txt") if command == "predict" else ""
    line = f"{sys.executable} -m trellis {command} -m <(cat {model}) {more}"
    piped = subprocess.run(["bash", "-c", line], capture_output=True, text=True)
    plain = subprocess.run(["bash", "-c", line.replace(f"<(cat {model})", str(model))], capture_output=True, text=True)
    assert (piped.returncode, plain.returncode) == (0, 0), piped.stderr
    keep = [line for line in plain.stdout.splitlines() if "file" not in line and str(model.parent)[:10] not in line]
    assert keep
    assert all(line in piped.stdout for line in keep)


@posix
def test_a_pipe_without_a_model_or_with_part_of_one_is_refused(tmp_path):
    HMM(min_count=1, unknown=None).fit([["a"]], [["X"]]).save(tmp_path / "m")
    read, write = os.pipe()
    for content in (b"nothing of ours", (tmp_path / "m").read_bytes()[:500]):
        read, write = os.pipe()
        os.write(write, content)
        os.close(write)
        with pytest.raises(ModelFileError, match="/dev/fd/"):
            load_model(f"/dev/fd/{read}")
        os.close(read)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in SAVED if kind.startswith("checkpoint")])
def test_a_damaged_checkpoint_is_told_with_its_name(kind, saved_file, tmp_path):
    archive, path = read_archive(saved_file(kind)), tmp_path / "damaged"
    for name in archive.arrays:
        for changed in (archive.arrays[name].reshape(-1)[:-1], archive.arrays[name] * float("nan")):
            write_archive(path, archive.header, {**archive.arrays, name: changed})
            try:
                SAVED[kind].use(str(path))
            except ModelFileError as error:
                assert str(path) in str(error)  # noqa: PT017


UNFITTED = {
    "CCM": lambda kind: kind(HMM()), "CoDL": lambda kind: kind(HMM()), "UEM": lambda kind: kind(HMM()),
    "GE": lambda kind: kind(CRF()), "MultiView": lambda kind: kind([CRF(), HMM()]),
    "ContrastiveEstimation": lambda kind: kind(CRF()),
    "Extractor": lambda kind: kind('labels = ["A"]'), "Relater": lambda kind: kind(""),
    "VoteHMM": lambda kind: kind(["A"], ["f"], {"A": ["A"]}),
    **dict.fromkeys(["JLIS", "LCLR", "LatentSSVM", "MIRA", "Perceptron", "SSVM"], lambda kind: kind(CRF())),
}  # fmt: skip


@pytest.mark.parametrize("name", saving.known_classes())
def test_what_is_not_fitted_is_not_saved_and_takes_no_file_away(name, tmp_path):
    kind = saving.known_class(name)
    model = UNFITTED.get(name, lambda kind: kind())(kind)
    (tmp_path / "old").write_text("precious")
    for path in (tmp_path / "old", tmp_path / "new"):
        with pytest.raises(NotFittedError, match=f"this {name} .*call fit"):
            model.save(path)
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("old", "precious")]
