"""Aligning as a service: interactive answers, scores of sentence pairs, training on several files."""

import re
import subprocess
import sys

import numpy as np
import pytest

from tests.align.test_cli import run
from tests.align.toy import toy_text
from trellis.apps.align.aligner import Aligner
from trellis.apps.align.decoding import SYMMETRIZE
from trellis.errors import DataError

PAIRS = [(" ".join(left), " ".join(right)) for left, right in toy_text(60)[0]]


@pytest.fixture(scope="module")
def model(tmp_path_factory):
    path = tmp_path_factory.mktemp("model") / "m"
    Aligner(n_jobs=1).fit(PAIRS).save(path)
    return path


def write(path, lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


def test_each_line_is_answered_before_the_next_is_sent(model):
    command = [sys.executable, "-m", "trellis", "align", "--interactive", "-m", model, "-q"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as program:

        def ask(line):
            program.stdin.write(f"{line}\n".encode())
            program.stdin.flush()
            return program.stdout.readline().decode().rstrip("\n")

        want = [links.pharaoh() for links in Aligner.load(model).align(PAIRS[:4])]
        assert [ask(" ||| ".join(pair)) for pair in PAIRS[:3]] == want[:3]
        assert ask("no separator here") == ""
        assert ask("") == ""
        assert ask("\t".join(PAIRS[3])) == want[3]
        program.stdin.close()
        told = program.stderr.read().decode()
    assert program.returncode == 0
    assert re.findall(r"line (\d+)", told) == ["4"]


def test_interactive_answers_have_the_formats_of_links(model, tmp_path, monkeypatch, capfd):
    want = tmp_path / "want"
    joined = write(tmp_path / "st", [" ||| ".join(pair) for pair in PAIRS[:3]])
    for form in (["--format", "words"], ["--format", "one-based", "--scores"], ["--json"], ["--symmetrize", "union"]):
        assert run("align", "-m", model, "-i", joined, "-o", want, *form) == 0
        with open(joined) as lines:
            monkeypatch.setattr("sys.stdin", lines)
            assert run("align", "-m", model, "--interactive", *form) == 0
        assert capfd.readouterr().out == want.read_text()


@pytest.mark.parametrize("more", [[], ["-m", "M", "-s", "x"], ["-m", "M", "--pair-scores", "x"]])
def test_interactive_needs_a_model_and_reads_no_files(model, more):
    given = [model if one == "M" else one for one in more]
    assert run("align", "--interactive", *given) != 0


def test_scores_are_log_likelihoods_per_word(model):
    aligner = Aligner.load(model, n_jobs=1)
    scores = aligner.score_pairs([*PAIRS, ("", ""), ("a", ""), ("", "a")])
    assert scores.shape == (len(PAIRS) + 3, 2)
    assert np.all(scores[-3:] == -np.inf)
    batch = aligner.model_.encode(PAIRS)
    members = aligner.model_.scores(batch).infer().members
    for k, side in enumerate((1, 0)):
        lengths = [len(pair[side].split()) for pair in PAIRS]
        np.testing.assert_allclose(scores[:-3, k], members[k].log_partition / lengths, rtol=1e-12)
    assert aligner.score_pairs([]).shape == (0, 2)


def test_pairs_that_are_no_translations_have_low_scores(model):
    wrong = [(left, right) for (left, _), (_, right) in zip(PAIRS, PAIRS[7:] + PAIRS[:7], strict=True)]
    right, other = (Aligner.load(model).score_pairs(pairs) for pairs in (PAIRS, wrong))
    assert np.mean(right > other) > 0.9


def test_a_long_pair_is_scored_in_pieces(model):
    left, right = " ".join(" ".join(pair[0] for pair in PAIRS * 4).split()), " ".join(pair[1] for pair in PAIRS * 4)
    [found] = Aligner.load(model).score_pairs([(left, right)])
    assert np.all(np.isfinite(found))
    assert np.all(found < 0)


def test_the_command_writes_scores_beside_links_in_training_and_with_a_model(model, tmp_path):
    joined = write(tmp_path / "st", [" ||| ".join(pair) for pair in PAIRS])
    for name, more in (("a", []), ("b", ["-m", model])):
        assert run("align", "-i", joined, "-o", tmp_path / "l", "--pair-scores", tmp_path / name, "-q", *more) == 0
    assert (tmp_path / "a").read_text() == (tmp_path / "b").read_text()
    found = np.loadtxt(tmp_path / "a", delimiter="\t")
    np.testing.assert_allclose(found, Aligner.load(model).score_pairs(PAIRS), rtol=1e-4)


@pytest.mark.parametrize("way", ["several", "pattern", "joined"])
def test_several_files_are_one_text(way, tmp_path):
    for k, part in enumerate((PAIRS[:20], PAIRS[20:21], PAIRS[21:])):
        write(tmp_path / f"{k}.en", [left for left, _ in part])
        write(tmp_path / f"{k}.fr", [right for _, right in part])
        write(tmp_path / f"{k}.both", [" ||| ".join(pair) for pair in part])
    write(tmp_path / "en", [left for left, _ in PAIRS])
    write(tmp_path / "fr", [right for _, right in PAIRS])
    given = {
        "several": [one for k in range(3) for one in ("-s", tmp_path / f"{k}.en", "-t", tmp_path / f"{k}.fr")],
        "pattern": ["-s", tmp_path / "*.en", "-t", tmp_path / "?.fr"],
        "joined": [one for k in range(3) for one in ("-i", tmp_path / f"{k}.both")],
    }[way]
    for name, arguments in (("many", given), ("one", ["-s", tmp_path / "en", "-t", tmp_path / "fr"])):
        save = ["--save", tmp_path / f"{name}.model"]
        assert run("align", *arguments, "-o", tmp_path / name, "--scores", *save, "-q", "--threads", 1) == 0
    assert (tmp_path / "many").read_bytes() == (tmp_path / "one").read_bytes()
    assert (tmp_path / "many.model").read_bytes() == (tmp_path / "one.model").read_bytes()


def test_files_of_both_sides_belong_together_one_by_one(tmp_path, capfd):
    for name, n in (("a.en", 2), ("b.en", 2), ("a.fr", 2), ("b.fr", 1)):
        write(tmp_path / name, ["the cat"] * n)
    en, fr = ([one for name in "ab" for one in (f"-{flag}", tmp_path / f"{name}.{side}")]
              for flag, side in (("s", "en"), ("t", "fr")))  # fmt: skip
    assert run("align", *en, "-t", tmp_path / "a.fr") != 0
    assert "2 source files but 1 target file" in capfd.readouterr().err
    assert run("align", *en, *fr) != 0
    assert "b.fr has 1 lines" in capfd.readouterr().err.replace("\n", " ")
    assert run("align", "-s", tmp_path / "*.none", *fr) != 0
    assert "no file" in capfd.readouterr().err


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_a_threshold_decodes_one_direction_by_its_own_posteriors(model, direction):
    aligner = Aligner.load(model, n_jobs=1, symmetrize=direction, decode_constraint="none", threshold=0.2)
    for grids, links in zip(aligner.posteriors(PAIRS), aligner.align(PAIRS), strict=True):
        own = grids[direction == "backward"]
        assert set(links) == {(int(i), int(j)) for i, j in np.argwhere(own >= 0.2)}
        np.testing.assert_allclose(links.scores, [own[i, j] for i, j in links], rtol=1e-6)


def test_every_way_to_combine_directions_is_one_of_these():
    assert set(SYMMETRIZE) > {"forward", "backward", "posterior"}
    with pytest.raises(DataError):
        Aligner(symmetrize="both").fit(PAIRS)
