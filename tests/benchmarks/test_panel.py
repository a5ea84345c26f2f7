"""The tables of the panel, and the page that is written from them."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

ROOT = Path(__file__).resolve().parents[2]
TASK = SimpleNamespace(TITLE="task: F1", OURS="ours", BASELINES=("one", "other"), LOWER_IS_BETTER=False)


@pytest.fixture
def common(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    from _panel import common

    yield common
    for name in [name for name in sys.modules if name.split(".")[0] in ("_panel", "_kept")]:
        del sys.modules[name]


def scores(common, values, column="F1"):
    return [
        common.Score(corpus, column, system, value, draw)
        for (corpus, system), own in values.items()
        for draw, value in enumerate(own)
    ]


VALUES = {
    ("a", "ours"): [70.0, 72.0], ("a", "one"): [60.0, 60.0], ("a", "other"): [69.0, 69.0],
    ("b", "ours"): [50.0, 50.0], ("b", "one"): [51.0, 53.0], ("b", "other"): [40.0, 40.0],
}  # fmt: skip


def test_systems_stand_by_corpora_and_differences_are_to_the_best_baseline_of_each(common):
    lines = common.table(TASK, scores(common, VALUES)).splitlines()
    assert lines[0] == "| task: F1 | a | b | mean |"
    assert lines[1] == "| --- | --- | --- | --- |"
    assert lines[2] == "| ours | 71.0 ±1.0 | 50.0 ±0.0 | **60.5** ±0.5 |"
    assert lines[-1] == "| difference to the best baseline | +2.0 ±1.0 | -2.0 ±1.0 | worst -2.0 ±1.0 b |"


def test_lower_errors_are_better(common):
    task = SimpleNamespace(**{**vars(TASK), "LOWER_IS_BETTER": True})
    assert "worst +11.0 ±1.0 a" in common.table(task, scores(common, VALUES))


def test_several_columns_stand_side_by_side(common):
    lines = common.table(TASK, [*scores(common, VALUES, "5"), *scores(common, VALUES, "20")]).splitlines()
    assert lines[0] == "| task: F1 | corpus | 5 | 20 |"
    assert "| ours | **mean** | **60.5** ±0.5 | **60.5** ±0.5 |" in lines


def test_a_system_that_lacks_a_corpus_has_no_mean(common):
    some = {place: own for place, own in VALUES.items() if place != ("b", "other")}
    assert "| other | 69.0 ±0.0 | - | - |" in common.table(TASK, scores(common, some))
    assert common.summary(TASK, scores(common, some)) == ["| task: F1 | 2 | **60.5** | 56.0 (one) | -2.0 ±1.0 b |"]


def test_scores_that_are_not_kept_are_left_out_or_computed(common, tmp_path):
    from _kept import Kept

    path = tmp_path / "kept.json"
    first = common.Options(small=True, kept=Kept(path)).score("t", "a", "F1", "ours", 0, lambda: (70.0, 60.0))
    kept = common.Options(small=True, kept=Kept(path), compute=False)
    again = kept.score("t", "a", "F1", "ours", 0, lambda: pytest.fail("it is computed again"))
    assert (first.value, first.other) == (again.value, again.other) == (70.0, 60.0)
    missing = kept.score("t", "a", "F1", "ours", 1, lambda: pytest.fail("it is computed"))
    assert missing.value != missing.value  # nan
    assert len(json.loads(path.read_text())) == 1


def test_the_page_has_a_place_for_every_table_and_only_tables_are_replaced(common, tmp_path):
    from _panel import TASKS

    write = runpy.run_path(str(ROOT / "benchmarks" / "panel.py"))["write"]
    before = (ROOT / "docs" / "results.md").read_text(encoding="utf-8")
    page = tmp_path / "results.md"
    page.write_text(before, encoding="utf-8")
    tables = {name: f"| {name} |" for name in (*TASKS, "summary")}
    write(page, tables)
    once = page.read_text(encoding="utf-8")
    assert all(f"<!-- {name} -->\n| {name} |\n<!-- end of {name} -->" in once for name in tables)
    write(page, tables)
    assert page.read_text(encoding="utf-8") == once
    with pytest.raises(SystemExit, match="no place for the table of nothing"):
        write(page, {"nothing": ""})
