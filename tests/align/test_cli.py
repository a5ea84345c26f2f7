"""trellis align and trellis evaluate --alignment, from files to files; bad input and full disks."""

import gzip
import json
import os
import subprocess
import sys

import numpy as np
import pytest

from tests.align.toy import toy_text
from trellis.apps.align.aligner import Aligner
from trellis.cli.app import main

pytestmark = pytest.mark.slow


def run(*arguments):
    """Exit code of a command line."""
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return stop.value.code


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    pairs, links = toy_text(120)
    (folder / "s").write_text("".join(" ".join(s) + "\n" for s, _ in pairs))
    (folder / "t").write_text("".join(" ".join(t) + "\n" for _, t in pairs))
    (folder / "st").write_text("".join(f"{' '.join(s)} ||| {' '.join(t)}\n" for s, t in pairs))
    (folder / "tab").write_text("".join(f"{' '.join(s)}\t{' '.join(t)}\n" for s, t in pairs))
    (folder / "gold").write_text("".join(" ".join(f"{i}-{j}" for i, j in sorted(row)) + "\n" for row in links))
    for name in "st":
        with gzip.open(folder / f"{name}.gz", "wb") as out:
            out.write((folder / name).read_bytes())
    assert run("align", "-s", folder / "s", "-t", folder / "t", "-o", folder / "links", "-q", "--threads", 1) == 0
    return folder


def test_evaluate_prints_precision_recall_aer_and_f(text, capfd):
    assert run("evaluate", "--alignment", text / "gold", text / "links") == 0
    rows = dict(line.split()[:2] for line in capfd.readouterr().out.splitlines())
    assert set(rows) == {"precision", "recall", "AER", "F", "links", "one-to-one"}
    assert float(rows["AER"]) < 2.0


def test_links_can_be_read_as_words(text, tmp_path):
    out = tmp_path / "words"
    assert run("align", "-i", text / "st", "-o", out, "-q", "--format", "words", "--threads", 1) == 0
    pairs = [line.split(" ||| ") for line in (text / "st").read_text().splitlines()]
    want = []
    for (left, right), line in zip(pairs, (text / "links").read_text().splitlines(), strict=True):
        places = [map(int, link.split("-")) for link in line.split()]
        want.append(" ".join(f"{left.split()[i]}:{right.split()[j]}" for i, j in places))
    assert out.read_text().splitlines() == want


def test_every_form_of_input_and_any_threads_give_the_same_bytes(text, tmp_path):
    want = (text / "links").read_bytes()
    for number, arguments in enumerate(
        (
            ["-s", text / "s.gz", "-t", text / "t.gz", "--threads", 2],
            ["-i", text / "st"],
            ["-i", text / "tab"],
        )
    ):
        out = tmp_path / str(number)
        assert run("align", *arguments, "-o", out, "-q") == 0
        assert out.read_bytes() == want


def test_a_saved_model_aligns_its_training_text_byte_for_byte(text, tmp_path):
    model = tmp_path / "m.trellis"
    assert run("align", "-i", text / "st", "-o", tmp_path / "a", "--scores", "--save", model, "-q") == 0
    assert run("align", "-i", text / "st", "-o", tmp_path / "b.gz", "--scores", "--model", model, "-q") == 0
    assert gzip.decompress((tmp_path / "b.gz").read_bytes()) == (tmp_path / "a").read_bytes()
    assert b":0." in (tmp_path / "a").read_bytes()


def test_fast_align_command_line_writes_to_standard_output(text, capfd):
    assert run("align", "-i", text / "st", "-d", "-o", "-v", "-q") == 0
    assert capfd.readouterr().out == (text / "links").read_text()


def test_formats(text, tmp_path):
    assert run("align", "-i", text / "st", "-o", tmp_path / "one", "--format", "one-based", "-q") == 0
    assert run("align", "-i", text / "st", "-o", tmp_path / "json", "--json", "--scores", "-q") == 0
    first = (text / "links").read_text().split("\n")[0].split()
    shifted = [f"{int(i) + 1}-{int(j) + 1}" for i, j in (link.split("-") for link in first)]
    assert (tmp_path / "one").read_text().split("\n")[0].split() == shifted
    record = json.loads((tmp_path / "json").read_text().split("\n")[0])
    assert [f"{i}-{j}" for i, j in record["links"]] == first
    assert len(record["scores"]) == len(first)


def test_tuning_priors_hints_and_probabilities(text, tmp_path, capfd):
    (tmp_path / "priors").write_text("cat\ttaco\t5\ndog\ttaco\t-1\n")
    (tmp_path / "hints").write_text((text / "gold").read_text())
    arguments = ["--tune", text / "gold", "--priors", tmp_path / "priors", "--hints", tmp_path / "hints"]
    assert (
        run("align", "-i", text / "st", "-o", tmp_path / "o", *arguments, "--probabilities", tmp_path / "p", "-q") == 0
    )
    assert "chosen on 120 pairs" in capfd.readouterr().err
    table = [line.split("\t") for line in (tmp_path / "p").read_text().splitlines()]
    assert any(row[:2] == ["cat", "taco"] and float(row[2]) > -1 for row in table)


def test_empty_sides_are_counted_and_keep_their_lines(text, tmp_path, capfd):
    (tmp_path / "s").write_text("\n" + (text / "s").read_text())
    (tmp_path / "t").write_text("la\n" + (text / "t").read_text())
    assert run("align", "-s", tmp_path / "s", "-t", tmp_path / "t", "-o", tmp_path / "o", "-q") == 0
    assert "1 pair has an empty side" in capfd.readouterr().err
    lines = (tmp_path / "o").read_text().split("\n")
    assert lines[0] == ""
    assert len(lines) == 122


@pytest.mark.parametrize("flag", [(), ("--no-variational",)])
def test_words_seen_only_opposite_an_empty_side_have_finite_probabilities(flag, text, tmp_path, capfd):
    """Nothing is counted for them, so what divides their share of unseen pairs is next to nothing."""
    (tmp_path / "s").write_text("\nlonely\n" + (text / "s").read_text())
    (tmp_path / "t").write_text("seul\n\n" + (text / "t").read_text())
    files = "-s", tmp_path / "s", "-t", tmp_path / "t", "-o", tmp_path / "o", "--save", tmp_path / "m"
    assert run("align", *files, *flag, "-q", "--threads", 1) == 0  # a warning of numpy's would be an error here
    assert "overflow" not in capfd.readouterr().err
    tables = Aligner.load(tmp_path / "m").model_.words_.tables
    for name, table in tables._asdict().items():
        assert np.all((table >= 0) & (table <= 1)), name


def test_two_hundred_thousand_empty_lines_are_as_many_lines_out_and_change_no_link(text, tmp_path, capfd):
    for name in "st":
        (tmp_path / name).write_text((text / name).read_text() + "\n" * 200_000)
    assert run("align", "-s", tmp_path / "s", "-t", tmp_path / "t", "-o", tmp_path / "o", "-q") == 0
    assert "200000 pairs have an empty side" in capfd.readouterr().err
    assert (tmp_path / "o").read_text() == (text / "links").read_text() + "\n" * 200_000


@pytest.mark.parametrize(
    "change, message",
    [
        (lambda s: s[: len(s) // 2], "lines but"),
        (lambda s: s + b"\xc3", "expected UTF-8"),
        (lambda s: np.random.default_rng(0).bytes(5000), "expected UTF-8"),
        (lambda s: b"\n" * 120, "pairs has words on both sides"),
    ],
)
def test_bad_files_are_one_message_and_leave_the_output_alone(text, tmp_path, capfd, change, message):
    (tmp_path / "s").write_bytes(change((text / "s").read_bytes()))
    (tmp_path / "o").write_text("0-0\n")
    assert run("align", "-s", tmp_path / "s", "-t", text / "t", "-o", tmp_path / "o", "-q") == 2
    assert message in capfd.readouterr().err
    assert (tmp_path / "o").read_text() == "0-0\n"
    assert sorted(os.listdir(tmp_path)) == ["o", "s"]


def test_a_line_without_separator_is_named(tmp_path, capfd):
    (tmp_path / "i").write_text("a b ||| c d\nno separator here\n")
    assert run("align", "-i", tmp_path / "i", "-o", tmp_path / "o", "-q") == 2
    assert "line 2: no ' ||| ' and no tab" in capfd.readouterr().err
    assert not (tmp_path / "o").exists()


@pytest.mark.parametrize(
    "arguments, message",
    [
        ([], "give --source and --target, or --input"),
        (["-i", "x", "-s", "y"], "not both"),
        (["-i", "x", "--gamma", "-2"], "gamma must be"),
        (["-i", "x", "--threshold", "2"], "threshold must"),
        (["-i", "x", "--save", "/no/such/folder/m"], "does not exist"),
        (["-i", "x", "-o", "-z"], "--output needs the name of a file"),
        (["-i", "x", "--model", "m", "--priors", "p"], "so --priors cannot be combined"),
        (["-i", "x", "--model", "m", "--gamma", "0.5"], "so --gamma cannot be combined"),
        (["-i", "x", "--model", "m", "--no-variational"], "so --no-variational cannot be combined"),
        (["-i", "x", "--model", "m", "--same-spelling", "2"], "so --same-spelling cannot be combined"),
        (["-i", "x", "--model", "m", "--save", "n"], "so --save cannot be combined"),
        (["-i", "x", "--model", "m", "-I", "2"], "so --rounds cannot be combined"),
        (["-i", "x", "--model", "m", "--constraint", "none"], "it is --decode-constraint"),
    ],
)
def test_arguments_are_checked_before_any_work(tmp_path, monkeypatch, capfd, arguments, message):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("a ||| b\n")
    assert run("align", *arguments, "-q") == 2
    assert message in " ".join(capfd.readouterr().err.split())


def test_unequal_files_are_refused_before_a_saved_model_writes_anything(text, tmp_path, capfd):
    model = tmp_path / "m"
    assert run("align", "-i", text / "st", "-o", tmp_path / "o", "--save", model, "-q") == 0
    (tmp_path / "s").write_text("a\nb\n")
    assert run("align", "-s", tmp_path / "s", "-t", text / "t", "--model", model, "-o", "-", "-q") == 2
    got = capfd.readouterr()
    assert got.out == ""
    assert "has 2 lines" in got.err
    assert "has 120" in got.err


def test_very_long_sentences_are_aligned_in_pieces_with_a_warning(text, tmp_path, capfd):
    pairs, _ = toy_text(900, seed=3)
    source = [word for s, _ in pairs for word in s][:5000]
    target = [word for _, t in pairs for word in t][:5000]
    model, long = tmp_path / "m", tmp_path / "long"
    long.write_text((text / "st").read_text() + " ".join(source) + " ||| " + " ".join(target) + "\n")
    assert run("align", "-i", text / "st", "-o", tmp_path / "o", "--save", model, "-q") == 0
    for arguments in (["--model", model], []):
        assert run("align", "-i", long, "-o", tmp_path / "o", *arguments, "-q") == 0
        assert "1 pair with more than 256 words on a side: split" in capfd.readouterr().err
        lines = (tmp_path / "o").read_text().splitlines()
        assert len(lines) == 121
        if arguments:
            assert len(lines[-1].split()) > 2500


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_one_message(text):
    done = subprocess.run(
        [sys.executable, "-m", "trellis", "align", "-i", str(text / "st"), "-o", "/dev/full", "-q"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "src"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "No space left" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(os.name != "posix", reason="needs limits on the size of files")
def test_a_disk_that_fills_up_in_the_middle_leaves_the_old_output(text, tmp_path):
    model, out = tmp_path / "m", tmp_path / "o"
    assert run("align", "-i", text / "st", "-o", out, "--save", model, "-q") == 0
    out.write_text("precious")
    many = tmp_path / "many"
    many.write_text((text / "st").read_text() * 20)
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096)); "
    call = f"from trellis.cli.app import main; main(['align', '-i', {str(many)!r}, '-o', {str(out)!r}, '--model', "
    done = subprocess.run(
        [sys.executable, "-c", full + call + f"{str(model)!r}, '-q'])"],
        capture_output=True, text=True, env={**os.environ, "PYTHONPATH": "src"}, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert "cannot be written: File too large" in done.stderr
    assert out.read_text() == "precious"
    assert sorted(os.listdir(tmp_path)) == ["m", "many", "o"]


def test_evaluate_names_what_is_wrong(text, tmp_path, capfd):
    (tmp_path / "short").write_text("0-0\n")
    assert run("evaluate", "--alignment", text / "gold", tmp_path / "short") == 2
    assert "has 1 line but" in capfd.readouterr().err
    assert run("evaluate", "--alignment", "--fields", text / "gold", text / "links") == 2
    assert "one of: --alignment" in capfd.readouterr().err


@pytest.mark.parametrize("change", ["longer", "touched"])
def test_a_text_that_changes_between_two_readings_is_an_error(text, tmp_path, capfd, monkeypatch, change):
    """Two outputs of a saved model read the text twice (and once before, for its lengths)."""
    model, copy = tmp_path / "m", tmp_path / "st"
    copy.write_bytes((text / "st").read_bytes())
    assert run("align", "-i", copy, "-o", tmp_path / "a", "--save", model, "-q") == 0
    before = (tmp_path / "a").read_bytes()
    align_stream = Aligner.align_stream

    def changing(self, pairs, **more):
        yield from align_stream(self, pairs, **more)
        if change == "longer":
            copy.write_text(copy.read_text() + "one ||| two\n")
        else:
            os.utime(copy, ns=(1, 1))

    monkeypatch.setattr(Aligner, "align_stream", changing)
    assert run("align", "-i", copy, "-o", tmp_path / "a", "--forward-links", tmp_path / "f", "-m", model, "-q") == 2
    assert "st changed while it was being read" in capfd.readouterr().err
    assert (tmp_path / "a").read_bytes() == before
    assert not (tmp_path / "f").exists()


def test_a_text_that_cannot_be_kept_on_disk_is_one_message(text, tmp_path, capfd, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    assert run("align", "-i", text / "st", "-o", tmp_path / "a", "--memory", "1K", "-q") == 2
    message = capfd.readouterr().err
    assert "temporary folder" in message
    assert "TMPDIR" in message
    assert not (tmp_path / "a").exists()


def test_the_stages_of_training_are_named(text, tmp_path, capfd):
    assert run("align", "-s", text / "s", "-t", text / "t", "-o", tmp_path / "links") == 0
    err = capfd.readouterr().err
    assert "learning, Model 1: 4/4" in err
    assert "learning, HMM: 2/2" in err
