"""Rules that a selection suggests are rules, and switching rules off and on changes nothing else in the file."""

from __future__ import annotations

import tomllib

import pytest

from tests.studio.conftest import RULES
from trellis.constraints import parse_rules
from trellis.studio.suggestions import blocks_of, suggested, switched, with_labels, without

WORDS = ["Cy", "Fox", ",", "1987", "."]


def about(first, last, label="NAME", labels=None, words=WORDS):
    return [one.about for one in suggested(words, first, last, label, labels, ["years"])]


def test_what_a_selection_suggests():
    assert about(3, 4, "YEAR", ["NAME", "NAME", None, None, None]) == [
        "the word '1987' is YEAR", "words like '1987' are YEAR", "a word after ',' is YEAR",
        "a word before '.' is YEAR", "YEAR appears at most once", "YEAR has at most 1 word", "before YEAR stands NAME",
    ]  # fmt: skip
    assert about(0, 2) == [
        "each of these words is NAME", "a text begins with NAME", "NAME appears at most once",
        "NAME has at most 2 words",
    ]  # fmt: skip
    assert "a text ends with NAME" in about(4, 5)


@pytest.mark.parametrize(
    "word", ["Fox", "a'b", 'a"b', "a\\b", "\x7f", "'''", '"""', "]]", "[[rule]]", "é", "\u2028", "$1,200", "a]\nb"]
)
def test_every_suggestion_is_a_rule_whatever_the_words_are(word):
    for first, last in ((0, 1), (1, 2), (0, 3)):
        for one in suggested([word, word + "1", "x"], first, last, 'A"B', None, []):
            parsed = parse_rules('labels = ["A\\"B"]\n' + one.toml)
            assert len(parsed) == 1
            assert 'A"B' in next(iter(parsed)).describe()


def test_names_are_not_used_twice():
    names = [tomllib.loads(one.toml)["rule"][0]["name"] for one in suggested(["a", "1"], 1, 2, "A", None, ["1", "1 2"])]
    assert len(set(names)) == len(names)
    assert names[0] == "1 3"


def test_a_rule_is_switched_off_and_on_again():
    assert [(block.name, block.on) for block in blocks_of(RULES)] == [("years", True), ("names begin", True)]
    off = switched(RULES, 0, False)
    assert [(block.name, block.on) for block in blocks_of(off)] == [("years", False), ("names begin", True)]
    assert [one.name for one in parse_rules(off)] == ["names begin"]
    assert switched(off, 0, True) == RULES
    assert switched(switched(RULES, 1, False), 1, True) == RULES
    both = switched(off, 1, False)
    assert [block.name for block in blocks_of(both)] == ["years", "names begin"]
    assert len(parse_rules(both)) == 0


def test_a_rule_with_a_table_below_it_is_one_block():
    rules = '[[rule]]\nname = "d"\n[rule.dictionary]\na = "A"\n\n[[rule]]\nname = \'e\'\nthen_label = "A"\n\n[lists]\n'
    assert [(b.name, b.first, b.last) for b in blocks_of(rules)] == [("d", 0, 4), ("e", 5, 8)]
    assert [one.name for one in parse_rules(without(rules, 0))] == ["e"]
    assert [one.name for one in parse_rules(switched(rules, 1, False))] == ["d"]


def test_labels_are_declared_at_the_top():
    assert with_labels("", ["A", "O"]) == 'labels = ["A", "O"]\n'
    assert parse_rules(with_labels(RULES, ["NAME", "YEAR", "O", "B\\"])).labels == ("NAME", "YEAR", "O", "B\\")
    assert with_labels('# x\n[[rule]]\nthen_label = "A"\n', ["A"]).startswith('labels = ["A"]\n')
