from __future__ import annotations

from xml.etree import ElementTree

import numpy as np
from hypothesis import given, settings

from tests.interop.texts import documents
from trellis import HMM, UEM, Document, Relation, Span, count
from trellis.apps.align.decoding import Links
from trellis.constraints import parse_rules
from trellis.loop.history import History, Round
from trellis.metrics.fields import score_fields
from trellis.report.page import Page


def parsed(html):
    return ElementTree.fromstring(html)


@given(documents())
@settings(max_examples=100)
def test_html_of_any_document_is_well_formed_and_says_what_is_there(document):
    found = parsed(document._repr_html_())
    said = "".join(found.itertext())
    for span in document.spans or ():
        assert span.text in said
        assert span.label is None or span.label in said


def test_probabilities_trees_relations_and_votes_are_shown():
    text = Document(
        ("Ann", "<b>"),
        spans=[Span("A", 0, 1, probability=0.978), Span("B", 1, 2)],
        relations=[Relation(0, 1, "R", 0.5)],
    )
    said = "".join(parsed(text._repr_html_()).itertext())
    assert "98\u2009%" in said
    assert "<b>" in said
    assert "—R 50\u2009%→" in said
    tree = Document(("dogs", "bark"), ("N", "V"), {"head": ("2", "0"), "deprel": ("nsubj", "root")})
    said = "".join(parsed(tree._repr_html_()).itertext())
    assert all(word in said for word in ("dogs", "bark", "nsubj", "root", "N", "V"))
    voted = Document(("a",), votes={"f": ("X",), "g": (None,)})
    assert [cell.text for cell in parsed(voted._repr_html_()).iter("td")] == ["X", "·"]


def test_short_texts_say_what_an_object_is():
    assert repr(Document(("a", "b"), ("X", None))) == "Document(('a', 'b'), labels=('X', None))"
    history = History([Round(0, 1.0, -5.0, seconds=1.0), Round(1, 1.0, -2.5, seconds=1.0)])
    assert repr(history) == "History(2 rounds, objective -5 → -2.5, 2 s)"
    assert "-2.5" in "".join(parsed(history._repr_html_()).itertext())
    assert (repr(History()), History()._repr_html_()) == ("History(no rounds)", None)
    rule = (count("V") >= 1).penalty(5).named("verbs")
    assert repr(rule) == "(count('V') >= 1).penalty(5).named('verbs')"
    assert [cell.text for cell in parsed(rule._repr_html_()).iter("td")] == ["verbs", rule.describe()]
    rules = parse_rules('[[rule]]\nname = "verbs"\ncount = "VERB"\nat_least = 1\n')
    assert [cell.text for cell in parsed(rules._repr_html_()).iter("td")] == ["verbs", rules.constraints[0].describe()]
    links = Links(np.array([[0, 1]], np.int32), np.array([0.5]))
    assert repr(links) == "Links('0-1')"
    assert "0.50" in links._repr_html_()
    assert Links(np.zeros((0, 2), np.int32), np.zeros(0))._repr_html_() == "no links"


def test_estimators_have_the_diagram_of_scikit_learn():
    assert "sk-" in UEM(None)._repr_html_()


def test_scores_results_and_pages_are_shown():
    scores = score_fields([["A", "<b>"]], [["A", "A"]])
    assert [cell.text for cell in parsed(scores._repr_html_()).iter("td")][:6] == ["<b>", "0.0", "0.0", "0.0", "1", "0"]
    page = Page('"title"', "about")
    page.add("section", "<p>&amp;</p>")
    assert parsed(page._repr_html_()).get("srcdoc").split() == page.html().split()
    hmm = HMM(min_count=1, unknown=None).fit([["a", "b"]], [["X", "Y"]])
    assert repr(hmm.infer([["a"], ["b"]])) == "Inference(2 instances of HMM)"
