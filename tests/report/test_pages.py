"""A page holds what it promises, nothing from a network, and every word of a user as it was written."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from tests.hostile.command import run
from tests.report import models
from trellis import MultiView
from trellis.constraints import count, few_labels_per, label, word
from trellis.errors import DataError
from trellis.models import MaxEnt
from trellis.report.effects import effects, effects_table
from trellis.report.judged import Judged
from trellis.report.pages import history_report, report

VOID = {"meta", "br", "path", "use", "rect", "circle", "col"}


class Balanced(HTMLParser):
    """Fails where a tag is closed that was not opened, or left open."""

    def __init__(self):
        super().__init__()
        self.open = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        if tag not in VOID:
            assert self.open.pop() == tag


def checked(page):
    html = page.html()
    parser = Balanced()
    parser.feed(html)
    assert parser.open == []
    assert "<script" not in html
    outside = {url for url in re.findall(r"""(?:href|src|url)[=(]["']?([^"')\s>]+)""", html) if not url.startswith("#")}
    assert outside == set(), "a page asks nothing of a network"
    assert "prefers-color-scheme: dark" in html
    assert 'name="viewport"' in html
    return html


def headings(page):
    return [heading for heading, _ in page.sections]


@pytest.mark.slow
def test_an_aligner_has_grids_constraints_curves_and_errors():
    aligner, pairs, gold = models.aligned()
    page = report(aligner, pairs, gold=gold)
    html = checked(page)
    assert headings(page) == [
        "60 pairs against gold", "Effect of the constraints", "Largest changes", "Largest errors",
        "Training run",
    ]  # fmt: skip
    for said in ("raised by the constraint", "sure link", "AER", "For every two words the probability of a link"):
        assert said in html
    assert aligner.decode_constraint is None, "showing a model changes nothing in it"
    without = report(aligner, pairs)
    assert "Largest errors" not in headings(without)
    assert "sure link" not in checked(without)


@pytest.mark.slow
def test_an_extractor_has_rules_posteriors_fields_and_errors():
    extractor, texts = models.extracted()
    page = report(extractor, texts)
    html = checked(page)
    assert {"Effect of the constraints", "Label posteriors", "Largest errors", "40 texts against gold"} <= set(
        headings(page)
    )
    for constraint in extractor.constraints_:
        assert constraint.name in html
    assert "taken for" in html


@pytest.mark.slow
def test_a_parser_has_trees_and_attachment():
    parser, trees = models.parsed()
    page = report(parser, trees)
    assert "correct (darker: more probable)" in checked(page)
    assert headings(page) == ["10 sentences against gold", "Largest errors"]


def test_a_learner_has_constraints_and_posteriors_and_words_stay_words():
    learner, sentences = models.tagged()
    page = report(learner, sentences)
    html = checked(page)
    assert "a &lt;verb&gt;" in html
    assert "&lt;cat&gt;" in html
    assert "<cat>" not in html
    assert "Training run" in headings(page)


def test_a_tagger_has_words_of_each_tag_and_posteriors():
    page = report(*models.trained_tagger())
    html = checked(page)
    assert headings(page)[0] == "14 labels against gold"
    assert headings(page)[-2:] == ["Words of each label", "Label posteriors"]
    assert '<td class="words">cat (3), tree (1), gardener (1)</td>' in html


def test_ge_has_its_targets_and_its_run():
    page = report(*models.with_targets())
    html = checked(page)
    assert {"Effect of the constraints", "Training run"} <= set(headings(page))
    assert "target 0" in html


def test_views_have_what_each_says_and_where_they_differ():
    page = report(*models.two_views())
    html = checked(page)
    assert headings(page)[-3:] == ["Accuracy of each view", "Largest disagreements", "Training run"]
    assert all(f'<td class="words">{way}</td>' in html for way in ("view 0", "view 1", "agreed"))


def test_views_of_rows_are_judged_by_the_labels_given():
    words, shapes = np.eye(4)[[0, 1, 2, 2, 3, 3]], np.eye(2)[[0, 1, 0, 0, 1, 1]]
    both = MultiView([MaxEnt(l2=0.1), MaxEnt(l2=0.1)], max_iter=2, tol=0).fit([words, shapes], ["a", "b", *[None] * 4])
    page = report(both, [words, shapes], gold=["a", "b", "a", "a", "b", "a"])
    html = checked(page)
    assert headings(page)[:2] == ["6 labels against gold", "Largest errors"]
    assert "a taken for b: 1 token" in html
    assert "<mark>row 5</mark>" in html


def test_margins_have_labels_with_and_without_constraints():
    page = report(*models.with_margins())
    html = checked(page)
    assert headings(page)[:2] == ["Labels against gold", "Constraints"]
    assert "under the constraints" in html
    assert "Training run" in headings(page)


def test_a_relater_has_rules_and_what_they_changed():
    relater, texts = models.related()
    page = report(relater, texts)
    html = checked(page)
    assert headings(page)[:3] == ["30 sentences against gold", "Rules", "What the rules changed"]
    assert "For every two mentions, if the relation is Live_In then the second is Loc, as a hard constraint." in html


def test_a_matcher_has_pairs_side_by_side_and_mistakes():
    matcher, asked = models.matched()
    page = report(matcher, asked)
    html = checked(page)
    assert headings(page)[:3] == ["Decisions against labels", "Alignments", "Largest errors"]
    assert "66.7" in html  # the third answer was given wrongly
    assert "supports a match" in html


def test_an_aggregator_has_functions_and_doubts():
    aggregator, votes = models.aggregated()
    page = report(aggregator, votes)
    html = checked(page)
    assert headings(page)[:2] == ["Estimated accuracies of the functions", "Least certain"]
    for name in aggregator.accuracies_:
        assert name in html


def test_effects_are_those_of_a_hand_calculation():
    """Two labels, one word, p = (0.8, 0.2): q with E[B] ≥ 0.5 is (0.5, 0.5), at λ = log 4."""
    from trellis import HMM

    model = HMM(["A", "B"], min_count=1, unknown=None, emission_prior=1.0, transition_prior=1.0)
    model.fit([["x"]] * 5, [["A"]] * 4 + [["B"]])
    batch = model.encode([["x"]])
    [least, never] = effects(
        model, [(count("B") >= 0.5).named("half"), word.isin("x").implies(label("A", "B")).named("any")], batch
    ).constraints
    assert (least.rows, least.before, least.after) == (1, 0.0, 1.0)
    assert abs(least.lack_before - 0.3) < 1e-6
    assert least.lack_after < 1e-3
    assert least.dual is not None
    assert abs(least.dual - np.log(4.0)) < 0.02
    assert never.before == never.after == 1.0


def test_the_table_counts_tokens_of_few_labels_per_and_tells_strict_constraints_from_unused_ones():
    from trellis import HMM

    model = HMM(["A", "B"], min_count=1, unknown=None, emission_prior=1.0, transition_prior=1.0)
    model.fit([["x", "y"]] * 5, [["A", "B"]] * 4 + [["B", "A"]])
    batch = model.encode([["x", "y"], ["x"]])
    found = effects(
        model,
        [
            few_labels_per(word, strength=3.0).named("few"),
            word.isin("x").implies(label("A")).named("strict"),
            word.isin("z").implies(label("A")).penalty(1.0).named("nowhere"),
            word.isin("y").implies(label("A")).penalty(1.0).named("priced"),
        ],
        batch,
    ).constraints
    few, strict, nowhere, priced = found
    assert (few.rows, strict.rows, nowhere.rows, priced.rows) == (3, 2, 0, 1)
    assert few.dual is not None
    assert few.dual > 0
    assert (strict.before, strict.after) == (0.0, 1.0)
    cells = re.findall(r"<td[^>]*>([^<]*)</td>", effects_table(found))
    assert [cells[8 * i + 7] for i in (1, 2)] == ["hard", "–"]
    assert float(cells[8 * 3 + 7]) > 0


def test_labels_of_a_word_beyond_one_are_what_few_labels_per_lacks():
    """One token x with p(A) = 0.8 and one with p(A) = 0.2, by their own counts: max A + max B − 1 = 0.6."""
    from trellis import HMM

    model = HMM(["A", "B"], min_count=1, unknown=None, emission_prior=1.0, transition_prior=1.0)
    model.fit([["x", "x"]] * 5, [["A", "B"]] * 4 + [["B", "A"]])
    [few] = effects(model, [few_labels_per(word, strength=0.0)], model.encode([["x", "x"]])).constraints
    assert few.rows == 2
    assert abs(few.lack_before - 0.6) < 1e-6
    assert few.before == 0.0
    [few] = effects(model, [few_labels_per(word, strength=50.0)], model.encode([["x", "x"]])).constraints
    assert few.lack_after < few.lack_before - 0.1


def test_judged_answers_give_precision_and_recall():
    judged = Judged.of([(0.9, True), (0.6, False), (0.2, True)], 4)
    assert judged.at(0.5) == (0.5, 0.25)
    assert judged.at(0.1) == (2 / 3, 0.5)
    assert judged.at(0.99) == (1.0, 0.0)


def test_what_has_no_page_is_refused_in_words():
    learner, _ = models.tagged()
    with pytest.raises(DataError, match="there is no report for a model of class str"):
        report("model", ["text"])
    with pytest.raises(DataError, match="no text to report on"):
        report(learner, [])
    with pytest.raises(DataError, match="there is no round in it"):
        history_report(type(learner.history_)([]), "empty.jsonl")


@pytest.mark.slow
def test_the_command_writes_a_page_of_a_run_and_of_a_model(tmp_path, capfd, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner, sentences = models.tagged()
    learner.save("m")
    learner.history_.save("rounds.jsonl")
    lines = ("\n".join(f"{w}\t{y}" for w, y in zip(s.tokens, s.labels, strict=True)) for s in sentences)
    (tmp_path / "gold.tsv").write_text("\n\n".join(lines) + "\n", encoding="utf-8")
    assert run("report", "gold.tsv", "-m", "m") == 0
    said = capfd.readouterr().err
    assert said.startswith("report.html has 6 sections:\n")
    assert "14 labels against gold" in said
    assert "articles" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert run("report", "--run", "rounds.jsonl", "-o", "run.html") == 0
    assert "3 rounds" in (tmp_path / "run.html").read_text(encoding="utf-8")
    assert run("report", "-m", "m") == 2
    assert "needs a text" in capfd.readouterr().err
    assert run("report", "gold.tsv") == 2
    assert "give --model with a text" in capfd.readouterr().err
