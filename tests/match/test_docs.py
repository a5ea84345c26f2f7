"""The Python of docs/matching.md runs, and its figures of the command line are those of the program."""

from __future__ import annotations

import re
from pathlib import Path

from tests.hostile.command import run

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "matching.md").read_text(encoding="utf-8")


def test_the_python_of_the_page_runs():
    [code] = re.findall(r"^```python\n(.*?)^```$", PAGE, re.M | re.S)
    exec(compile(code, "docs/matching.md", "exec"), {})


def test_the_answers_of_the_page_are_those_of_the_program(tmp_path, capfd):
    shown = [line[4:] for line in PAGE.splitlines() if line.startswith("    manuela\t")]
    assert len(shown) == 2
    (tmp_path / "new.tsv").write_text("".join("\t".join(line.split("\t")[:2]) + "\n" for line in shown))
    model = tmp_path / "m"
    assert run("match", "train", ROOT / "examples" / "names" / "pairs.tsv", "--save", model, "-q", "--threads", 1) == 0
    assert run("match", "predict", tmp_path / "new.tsv", "-m", model, "--threads", 1) == 0
    found = [line.split("\t") for line in capfd.readouterr().out.splitlines()]
    for line, (left, right, answer, score, aligned) in zip(shown, found, strict=True):
        assert [left, right, answer, aligned] == [*line.split("\t")[:3], line.split("\t")[4]]
        assert abs(float(score) - float(line.split("\t")[3])) < 1e-3
