"""Real trees: what a parser learns from a part of a treebank, and what rules add to a grammar without one."""

from __future__ import annotations

from itertools import islice

import pytest

from trellis.apps.parse.parser import Parser
from trellis.apps.parse.tree_inducer import TreeInducer
from trellis.data.conllu import TREE, read_conllu
from trellis.metrics.attachment import compare_trees

pytestmark = [pytest.mark.realdata, pytest.mark.slow]

RULES = """
[[rule]]
arcs = "share"
head_column = { upos = "VERB" }
child_column = { upos = ["NOUN", "PROPN", "PRON"] }
at_least = 0.5
per = "corpus"
"""


def sentences(folder, name: str, n: int) -> list:
    return list(islice(read_conllu(folder / "trees" / f"{name}.conllu", columns=TREE), n))


def test_two_thousand_trees_give_a_fair_parser(data_dir):
    parser = Parser(bits=20, max_iter=3, n_jobs=2).fit(sentences(data_dir, "en-ewt-train", 2000))
    scores = parser.attachment(sentences(data_dir, "en-ewt-dev", 500))
    assert scores.plain.uas > 0.78
    assert scores.plain.las > 0.72


def test_a_rule_about_arcs_helps_a_grammar_without_trees(data_dir):
    text = sentences(data_dir, "en-ewt-train", 3000)
    short = [s for s in text if len(s) <= 10]
    plain, ruled = (TreeInducer(max_iter=15, rules=rules, n_jobs=2).fit(text).predict(short) for rules in ("", RULES))
    gain = compare_trees(short, ruled).plain.uas - compare_trees(short, plain).plain.uas
    assert gain > 0.05
