"""``trellis extract check`` and ``trellis extract errors``: what is counted, and that it is right."""

from __future__ import annotations

import json

from tests.hostile.command import run
from trellis.apps.extract.check import check_rules
from trellis.apps.extract.field_errors import Mistake, confusions
from trellis.constraints import parse_rules
from trellis.data.tokens import as_documents
from trellis.data.vocabulary import Vocabulary

RULES = """
labels = ["NAME", "YEAR"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)[0-9][0-9]$'
then_label = "YEAR"
[[rule]]
name = "one year"
field = "YEAR"
appears_at_most = 1
[[rule]]
name = "editors"
if_word = "eds"
then_label = "NAME"
"""


def checked(texts, labels=None):
    found = check_rules(parse_rules(RULES, "rules"), as_documents(texts, labels), Vocabulary(["NAME", "YEAR"]))
    return {one.name: one for one in found}


def test_a_rule_is_counted_where_its_condition_holds():
    found = checked(["", "Ann 1999 and 1999", "Bob", "Cy 2001"])
    assert (found["years"].places, found["years"].texts, found["years"].first) == (3, 2, 1)
    assert found["years"].words == (("1999", 2), ("2001", 1))
    assert (found["editors"].places, found["editors"].first, found["editors"].words) == (0, None, ())
    assert found["one year"].words == ()
    assert found["years"].broken is None


def test_labels_that_break_a_rule_are_counted():
    labels = [["YEAR", "NAME"], ["YEAR", "NAME", "YEAR"], None]
    found = checked(["1999 Ann", "1987 1988 1999", "Bob 1999"], labels)
    assert (found["years"].broken, found["one year"].broken, found["editors"].broken) == (1, 1, 0)


def test_confusions_come_in_the_order_of_their_tokens():
    gold = as_documents(["a b c d", "e f"], [["X", "X", "Y", None], ["X", "Y"]])
    out = as_documents(["a b c d", "e f"], [["Y", "Y", "X", "X"], ["Y", "Y"]])
    first, second = confusions(gold, out)
    assert (first.gold, first.found, first.tokens) == ("X", "Y", 3)
    assert first.mistakes == (Mistake(0, 0, 2), Mistake(1, 0, 1))
    assert (second.gold, second.found, second.tokens) == ("Y", "X", 1)


def test_both_commands_print_what_they_find(tmp_path, capfd):
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "gold.tsv").write_text("Ann\tNAME\n1999\tYEAR\n\n")
    (tmp_path / "out.tsv").write_text("Ann\tYEAR\n1999\tYEAR\n\n")
    assert run("extract", "check", tmp_path / "rules.toml", tmp_path / "gold.tsv") == 0
    assert "Never applies: one year, editors" in capfd.readouterr().out
    assert run("extract", "errors", tmp_path / "gold.tsv", tmp_path / "out.tsv") == 0
    assert capfd.readouterr().out == "NAME taken for YEAR: 1 token in 1 place\n  line 1  [Ann] 1999\n"
    assert run("extract", "errors", tmp_path / "gold.tsv", tmp_path / "gold.tsv") == 0
    assert capfd.readouterr().out == "no difference\n"
    assert run("extract", "errors", tmp_path / "gold.tsv", tmp_path / "out.tsv", "--json", "--examples", 0) == 0
    assert json.loads(capfd.readouterr().out)["examples"] == []
    (tmp_path / "short.tsv").write_text("Ann\tYEAR\n\n")
    assert run("extract", "errors", tmp_path / "gold.tsv", tmp_path / "short.tsv") == 2
    assert "is not the same in both" in capfd.readouterr().err
