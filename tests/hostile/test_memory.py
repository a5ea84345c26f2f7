"""Rules about transitions cost by boundaries and not by pairs of labels at them: memory and time of whole commands."""

from __future__ import annotations

import random
import subprocess
import sys

import pytest

from tests.hostile.command import run
from trellis.engine.compiling import CompilePlan, compile_in_children, read_kernels

PEAK = (
    "import resource, subprocess, sys\n"
    "code = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL, timeout=200).returncode\n"
    "print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss // 1024)"
)
AFTER_PUNCTUATION = """
[[rule]]
name = "labels change after punctuation"
transitions = true
unless_word_matches = '^[.,;:]$'
{bound}
"""
ONCE = '\n[[rule]]\nname = "once"\nappears_at_most = 1\n'


def written(folder, n_labels, n_texts, length, rules):
    """A trained model of so many labels, and texts of random words and punctuation."""
    draw = random.Random(0)
    names = [f"L{k}" for k in range(n_labels)]

    def text(n):
        return [draw.choice(".,;:") if draw.random() < 0.2 else f"w{draw.randrange(300)}" for _ in range(n)]

    (folder / "rules.toml").write_text(f"labels = {names}\n".replace("'", '"') + rules)
    with (folder / "few.tsv").open("w") as few:
        for _ in range(5):
            label = draw.choice(names)
            for token in text(40):
                few.write(f"{token}\t{label}\n")
                label = draw.choice(names) if token in ".,;:" else label
            few.write("\n")
    (folder / "text.txt").write_text("".join(" ".join(text(length)) + "\n" for _ in range(n_texts)))
    files = folder / "rules.toml", "-l", folder / "few.tsv", "--save", folder / "m", "--rounds", 0, "-q", "--threads", 2
    assert run("extract", "train", *files) == 0
    assert (
        run("extract", "predict", "-m", folder / "m", folder / "few.tsv", "-o", folder / "warm.tsv") == 0
    )  # what it compiles is kept
    return "-m", folder / "m", folder / "text.txt"


@pytest.fixture(scope="module", autouse=True)
def compiled():
    """What a compiler needs is not measured."""
    kernels = read_kernels()
    missing = kernels.missing(["train-codl", "train-pr", "fast-chain", "predict"])
    if missing:
        compile_in_children(CompilePlan(kernels, missing))


def peak(*arguments):
    """Exit code and largest resident memory (MB) of a command in a process of its own."""
    command = [sys.executable, "-c", PEAK, sys.executable, "-m", "trellis", *map(str, arguments)]
    code, megabytes = subprocess.run(command, capture_output=True, text=True, check=True, timeout=250).stdout.split()
    return int(code), int(megabytes)


@pytest.mark.slow
@pytest.mark.parametrize(
    "n_labels, n_texts, length, most, bound",
    [
        (25, 600, 40, 350, "at_most = 3"),
        (150, 1, 800, 300, "at_most = 0\npenalty = 3"),
    ],
)
def test_predicting_with_a_rule_about_transitions_stays_small(n_labels, n_texts, length, most, bound, tmp_path):
    files = written(tmp_path, n_labels, n_texts, length, AFTER_PUNCTUATION.format(bound=bound))
    code, megabytes = peak("predict", *files, "-o", tmp_path / "out.tsv")
    assert code == 0
    assert megabytes < most


@pytest.mark.slow
def test_training_with_counted_transitions_stays_small(tmp_path):
    """Marginals of all transitions would take 800 MB here."""
    written(tmp_path, 150, 1, 800, AFTER_PUNCTUATION.format(bound="at_most = 3"))
    files = tmp_path / "rules.toml", "-l", tmp_path / "few.tsv", "-u", tmp_path / "text.txt", "--save", tmp_path / "n"
    code, megabytes = peak("train", *files, "--method", "pr", "--rounds", 1, "-q", "--threads", 2)
    assert code == 0
    assert megabytes < 350


@pytest.mark.slow
def test_each_of_three_hundred_labels_once_beside_transitions(tmp_path):
    files = written(tmp_path, 300, 20, 20, AFTER_PUNCTUATION.format(bound="at_most = 0") + ONCE)
    code, megabytes = peak("predict", *files, "-o", tmp_path / "out.tsv")  # 1.4 GB for 40 texts when rows were dense
    assert code == 0
    assert megabytes < 400
    for text in (tmp_path / "out.tsv").read_text().strip().split("\n\n"):
        labels = [line.split("\t")[1] for line in text.split("\n")]
        starts = [b for a, b in zip([None, *labels], labels, strict=False) if a != b]
        assert len(starts) == len(set(starts))
