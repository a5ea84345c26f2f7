"""The demo shows that constraints help, the gallery draws, the samples are what their generators write."""

from __future__ import annotations

import ast
import importlib
import json
import re
import runpy

import pytest

from tests.docs.sandbox import EXAMPLES, ROOT

DRAWINGS = sorted(path.stem for path in EXAMPLES.glob("plot_*.py"))
OWN = sorted(path for path in EXAMPLES.glob("own_*.py"))
NOTEBOOKS = sorted((EXAMPLES / "notebooks").glob("*.ipynb"))
GENERATORS = [path for path in sorted(EXAMPLES.glob("*/generate.py")) if "HERE = " in path.read_text(encoding="utf-8")]
SAMPLES = {"ads": "0", "citations": "1"}
"""Samples of fields and the seeds that they were made with."""


@pytest.fixture
def examples(monkeypatch):
    monkeypatch.syspath_prepend(str(EXAMPLES))


@pytest.mark.slow
def test_the_demo_shows_that_constraints_help_and_leaves_a_page(capsys, tmp_path, examples):
    importlib.import_module("demo").main(tmp_path / "report.html")
    shown = capsys.readouterr().out
    rows = ("no rules", "rules in training", "\\(HMM and CRF\\)")
    accuracy = [float(re.search(rf"{row}\s+([0-9.]+)", shown)[1]) for row in rows]
    error = [float(x) for x in re.findall(r"(0\.[0-9]+)\n", "\n".join(re.findall(r"^   EM.*\n", shown, re.M)))]
    assert accuracy[0] + 5 < accuracy[1] <= accuracy[2]
    assert len(error) == 2
    assert error[1] < error[0] / 2
    assert "gardener/NOUN  climbs/VERB" in shown
    assert max(map(len, shown.splitlines())) <= 110
    page = (tmp_path / "report.html").read_text(encoding="utf-8")
    for part in ("Fields: effect of the constraints", "Alignment: largest changes", "Tagger: label posteriors"):
        assert part in page


@pytest.mark.slow
@pytest.mark.parametrize("name", DRAWINGS)
def test_a_drawing_of_the_gallery_is_drawn(name, tmp_path, examples):
    importlib.import_module(name).main(tmp_path)
    drawn = list(tmp_path.glob("*.png"))
    assert drawn
    for path in drawn:
        assert path.read_bytes().startswith(b"\x89PNG")
        assert (ROOT / "docs" / "gallery" / path.name).exists(), "docs/gallery lacks it: make gallery"


@pytest.mark.parametrize("path", OWN, ids=lambda path: path.stem)
def test_bringing_your_own_takes_less_than_eighty_lines(path):
    assert len(path.read_text(encoding="utf-8").splitlines()) < 80


@pytest.mark.parametrize("path", GENERATORS, ids=lambda path: path.parent.name)
def test_samples_are_what_their_generator_writes(path, tmp_path):
    before = {file.name: file.read_bytes() for file in path.parent.iterdir() if file.suffix != ".py" and file.is_file()}
    (tmp_path / "generate.py").write_text(path.read_text(encoding="utf-8"), encoding="utf-8")
    runpy.run_path(str(tmp_path / "generate.py"), run_name="__main__")
    written = {file.name: file.read_bytes() for file in tmp_path.iterdir() if file.name in before}
    assert written
    for name, content in written.items():
        assert content == before[name], name


@pytest.mark.parametrize("name", SAMPLES)
def test_samples_of_fields_are_what_their_generator_writes(name, tmp_path, monkeypatch):
    monkeypatch.setattr("sys.argv", ["generate.py", str(tmp_path), "--seed", SAMPLES[name]])
    runpy.run_path(str(EXAMPLES / name / "generate.py"), run_name="__main__")
    written = list(tmp_path.iterdir())
    assert len(written) == 3
    for path in written:
        assert path.read_bytes() == (EXAMPLES / name / path.name).read_bytes(), path.name


@pytest.mark.slow
def test_weak_labels_are_better_than_the_majority_and_teach_a_tagger(capsys):
    runpy.run_path(str(EXAMPLES / "weak" / "labelling.py"))["main"](150)
    shown = capsys.readouterr().out
    majority, aggregated = map(float, re.findall(r"(?:vote|aggregated) ([0-9.]+)", shown)[-2:])
    (tagger,) = map(float, re.findall(r"without any function: ([0-9.]+)", shown))
    assert aggregated > majority
    assert tagger > 80


def test_every_program_of_the_examples_is_run():
    """Those of one's own are run by docs/own.md."""
    run = {EXAMPLES / "demo.py", EXAMPLES / "weak" / "labelling.py", *OWN, *NOTEBOOKS, *GENERATORS}
    run |= {EXAMPLES / f"{name}.py" for name in DRAWINGS} | {EXAMPLES / name / "generate.py" for name in SAMPLES}
    found = {path for path in EXAMPLES.rglob("*") if path.suffix in (".py", ".ipynb")}
    assert found == run
    page = (ROOT / "docs" / "own.md").read_text(encoding="utf-8")
    assert all(f"from {path.stem} import" in page for path in OWN)


@pytest.mark.slow
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_and_its_outputs_are_true(path, monkeypatch):
    monkeypatch.chdir(path.parent)
    session: dict[str, object] = {}
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        if cell["cell_type"] != "code":
            continue
        *before, last = ast.parse("".join(cell["source"])).body
        exec(compile(ast.Module(before, []), path.name, "exec"), session)
        if not isinstance(last, ast.Expr):
            exec(compile(ast.Module([last], []), path.name, "exec"), session)
            continue
        value = eval(compile(ast.Expression(last.value), path.name, "eval"), session)
        shown = "".join("".join(output["data"]["text/plain"]) for output in cell["outputs"])
        assert repr(value) == shown


def test_there_are_two_notebooks():
    assert len(NOTEBOOKS) == 2
