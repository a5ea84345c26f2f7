"""Diagnosis of alignments: each figure against its definition, and the options of ``trellis evaluate --alignment``."""

from __future__ import annotations

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.command import run
from trellis.metrics.alignment import (
    by_frequency,
    curve_of,
    one_to_one,
    parse_links,
    precision_at,
    score_links,
    translation_entropies,
)

places = st.tuples(st.integers(0, 3), st.integers(0, 3))
rows = st.lists(
    st.dictionaries(places, st.sampled_from([0.1, 0.35, 0.5, 0.72, 0.9, 1.0]), max_size=8), min_size=1, max_size=3
)


@given(rows)
def test_one_to_one_links_share_no_word(links):
    every = [(row, link) for row in links for link in row]
    alone = [
        link
        for row, link in every
        if all(other == link or (other[0] != link[0] and other[1] != link[1]) for other in row)
    ]
    assert one_to_one(links) == pytest.approx(len(alone) / len(every) if every else 1.0)


@given(rows, st.data())
def test_the_curve_has_the_scores_of_every_threshold_that_matters(links, data):
    gold = [parse_links(" ".join(f"{i}-{j}" for i, j in data.draw(st.sets(places, min_size=1)))) for _ in links]
    curve = {point.threshold: point.scores for point in curve_of(links, gold)}
    for p in {p for row in links for p in row.values()}:
        assert curve[p] == score_links([[link for link in row if row[link] >= p] for row in links], gold)
    at = precision_at(curve_of(links, gold), [0.0, 0.5, 1.0])
    reached = [scores.precision for scores in curve.values() if scores.recall >= 0.5]
    assert at[0.5] == (max(reached) if reached else None)
    assert at[0.0] == max(scores.precision for scores in curve.values())


def test_entropy_is_that_of_translations():
    found = translation_entropies([["a", "b"], ["a"]], [["x", "y"], ["z"]], [{(0, 0): 0.5, (1, 1): 1.0}, {(0, 0): 1.5}])
    assert found["b"] == 0.0
    assert found["a"] == pytest.approx(-(0.25 * math.log2(0.25) + 0.75 * math.log2(0.75)))


def test_rare_and_common_words_divide_the_links():
    source, target = [["a", "b"], *[["a"]] * 6], [["x", "y"], *[["x"]] * 6]
    links = [{(0, 0): 1.0, (1, 0): 1.0}, *[{(0, 0): 1.0}] * 6]
    gold = [parse_links("0-0 1-1")]
    groups = by_frequency(source, target, links, gold)
    assert (groups["rare"].n_words, groups["common"].n_words) == (1, 1)
    assert (groups["rare"].scores.precision, groups["rare"].scores.recall) == (0.0, 0.0)
    assert groups["common"].scores.aer == 0.0


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "gold": "0-0 1-1\n0?0\n", "links": "0-0:0.9 1-0:0.3\n0-0:0.8\n0-0:1\n", "s": "a b\na\nc\n", "t": "x y\nx\nz\n",
        "plain": "0-0 1-1\n0-0\n",
    }.items():  # fmt: skip
        (tmp_path / name).write_text(text)
    return tmp_path


def test_gold_of_the_first_lines_is_enough_when_the_text_is_given(files, capfd):
    assert run("evaluate", "--alignment", "gold", "links", "-s", "s", "-t", "t", "--json", "--plot", "curve.png") == 0
    found = json.loads(capfd.readouterr().out)
    assert (found["n_links"], found["n_sure"]) == (3, 2)
    assert found["precision_at_recall"]["0.5"] == 1.0
    assert found["precision_at_recall"]["0.9"] is None
    assert set(found["words"]) == {"rare", "common"}
    assert found["words"]["common"]["n_words"] == 0
    assert (files / "curve.png").read_bytes().startswith(b"\x89PNG")


def test_gold_of_the_first_lines_is_enough_without_the_text(files, capfd):
    assert run("evaluate", "--alignment", "gold", "links") == 0
    assert "links       3 (2 sure in gold; first 2 of 3 pairs)" in capfd.readouterr().out
    assert run("evaluate", "--alignment", "gold", "plain") == 0
    assert "first" not in capfd.readouterr().out
    assert run("evaluate", "--alignment", "links", "gold") == 2
    assert "gold has 2 lines but links has 3" in capfd.readouterr().err


def test_links_and_trees_compared_as_fields_name_the_option(files, capfd):
    assert run("evaluate", "gold", "links") == 2
    assert "compare word alignments with --alignment" in capfd.readouterr().err
    (files / "t.conllu").write_text("1\ta\t_\tX\t_\t_\t0\troot\t_\t_\n\n")
    assert run("evaluate", "t.conllu", "t.conllu") == 2
    assert "compare dependency trees with --trees" in capfd.readouterr().err


@pytest.mark.parametrize(
    "more, said",
    [
        (("-s", "s"), "give both --source and --target"),
        (("-s", "s", "-t", "gold"), "the text has 2 lines, but links has 3 and gold 2"),
    ],
)
def test_files_that_do_not_belong_together_are_named(more, said, files, capfd):
    assert run("evaluate", "--alignment", "gold", "links", *more) == 2
    assert said in capfd.readouterr().err


def test_a_curve_needs_probabilities(files, capfd):
    assert run("evaluate", "--alignment", "gold", "plain", "--plot", "c.png") == 2
    assert "write them with `trellis align --scores`" in capfd.readouterr().err
    assert run("evaluate", "gold", "plain", "--plot", "c.png") == 2
    assert "require --alignment" in capfd.readouterr().err
    assert not (files / "c.png").exists()
