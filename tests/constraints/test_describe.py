"""Every constraint says in one sentence what it means, and can be read back as written."""

from __future__ import annotations

from typing import Any

import pytest

from trellis import constraints as tc
from trellis.constraints import (
    at_least,
    at_most,
    column,
    count,
    dictionary,
    each_label,
    exactly,
    exists,
    few_labels_per,
    following,
    given,
    label,
    length,
    ordered,
    position,
    preceding,
    previous,
    share,
    starts,
    transitions,
    trusted,
    word,
)

SENTENCES: list[tuple[Any, str]] = [
    (count("VERB") >= 1, "In every sentence the expected count of VERB is at least 1, as a hard constraint."),
    (
        (count("A", "B") <= 2).slack(0.5, "l2"),
        "In every sentence the expected count of A or B is at most 2, up to a violation of 0.5 (L2).",
    ),
    (
        count("VERB").per("corpus") <= 0.2 * count().per("corpus"),
        "Over the corpus the expected count of VERB is at most 0.2 times the number of tokens, as a hard constraint.",
    ),
    (
        share("VERB").per("corpus").between(0.1, 0.2).penalty(3),
        "Over the corpus the expected share of VERB among tokens is between 0.1 and 0.2, "
        "with a penalty of 3 per unit of violation (L1).",
    ),
    (
        starts("TITLE") <= 1,
        "In every sentence the expected number of TITLE segments is at most 1, as a hard constraint.",
    ),
    (
        ordered("A", "B", "C"),
        "In every sentence segments come in the order A, B, C, as a hard constraint.",
    ),
    (
        length("A", "B", at_least=2, at_most=5).slack(1),
        "In every sentence each A or B segment has between 2 and 5 tokens, up to a violation of 1 (L∞).",
    ),
    (length("A", at_most=1), "In every sentence each A segment has at most 1 token, as a hard constraint."),
    (
        each_label(lambda L: length(L, at_least=2, at_most=2), but="O"),
        "For every label L except O, in every sentence each L segment has exactly 2 tokens, as a hard constraint.",
    ),
    (
        word.isin("pp.", "pages").implies(label("PAGES")).learned(),
        "At every token, if the word is 'pp.' or 'pages' then the label is PAGES, "
        "with a penalty learned from labelled data.",
    ),
    (
        transitions(where=~word.matches(r"^\W$")) == 0,
        "In every sentence the expected number of label changes after a token where the word does not match ^\\W$ "
        "is exactly 0, as a hard constraint.",
    ),
    (
        position.first.implies(label("AUTHOR", "EDITOR")),
        "At every token, if the token is the first then the label is AUTHOR or EDITOR, as a hard constraint.",
    ),
    (
        (label("B") & ~(word == "x")).implies(previous("A") | position.last),
        "At every token, if the label is B and the word is not 'x' then the label before is A "
        "or the token is the last, as a hard constraint.",
    ),
    (~(label("A") & label("B")), "At every token, the label is not A or the label is not B, as a hard constraint."),
    (
        (preceding(word == "in") & following(column("pos") == "N")).implies(label("A")),
        "At every token, if at the token before, the word is 'in' and at the token after, the pos is 'N' "
        "then the label is A, as a hard constraint.",
    ),
    (
        (position < 2).implies(~label("A")),
        "At every token, if the token's position (counted from 0) is less than 2 then the label is "
        "not A, as a hard constraint.",
    ),
    (count("A").per(word) <= 3, "For every word the expected count of A is at most 3, as a hard constraint."),
    (
        few_labels_per(word, strength=32, min_count=10),
        "For every word that occurs at least 10 times, few labels are used, with a penalty of 32 per label (L1/L∞).",
    ),
    (
        dictionary({"the": ["DET"]}),
        "At every token, a word of the dictionary (1 entry) has one of its listed labels, as a hard constraint.",
    ),
    (given(), "At every token, if a label is given by the data then the label is the one given, as a hard constraint."),
    (
        trusted(column("guess"), at_least=0.9),
        "Over the corpus the expected share of right labels among those given by the guess column is at least 0.9, "
        "as a hard constraint.",
    ),
    (
        each_label(lambda L: starts(L) <= 1, "A", "B"),
        "For every label L among A, B, in every sentence the expected number of L segments is at "
        "most 1, as a hard constraint.",
    ),
    (
        exists("A").implies(exists("B")),
        "In every sentence that has a token where the label is A, the expected count of B is at "
        "least 1, as a hard constraint.",
    ),
    (
        (exists("A") & ~exists("B")).implies(count("C") <= 2),
        "In every sentence that has a token where the label is A and no token where the label is B, the expected "
        "count of C is at most 2, as a hard constraint.",
    ),
    (exactly(2, "A"), "In every sentence the expected count of A is exactly 2, as a hard constraint."),
    (
        at_most(1, label("A") & previous("B")),
        "In every sentence the expected number of tokens where the label is A and the label before is B is at most 1, "
        "as a hard constraint.",
    ),
    (
        count("A") - 2 * count("B") + 1 >= 0,
        "In every sentence the expected count of A minus 2 times the expected count of B plus 1 "
        "is at least 0, as a hard constraint.",
    ),
]


@pytest.mark.parametrize("constraint, sentence", SENTENCES, ids=[sentence[:60] for _, sentence in SENTENCES])
def test_a_constraint_says_what_it_means(constraint: Any, sentence: str) -> None:
    assert constraint.describe() == sentence


ROUND_TRIPS: list[Any] = [
    count("A", "B") >= 1,
    count("A", where=word.isin("x", "y")).per("corpus") <= 0.5 * count(),
    (word.isin("x", "y") & (label("A") | ~previous("B"))).implies(position.first),
    (count("A") - 2 * starts("B")).per(word) == 3,
    share("A").between(0.1, 0.2),
    transitions(from_="A", where=~word.matches("^x")) <= 0,
    each_label(lambda L: starts(L) <= 1, "A"),
    each_label(lambda L: length(L, at_least=2), "A"),
    length("A", at_least=2, at_most=3),
    ordered("A", "B", "C"),
    exists(label("A") & previous("B")).implies(count("A") <= 2),
    (~exists("A")).implies(count("B") <= 0),
    (exists("A") & ~exists("B") & exists(word == "x")).implies(exists("C")),
    word.isin("x", "y", ignore_case=True).implies(position.from_end >= 2),
    at_least(2, "A"),
]


@pytest.mark.parametrize("constraint", ROUND_TRIPS, ids=repr)
def test_an_expression_is_shown_as_one_would_write_it(constraint: Any) -> None:
    again = eval(repr(constraint), {name: getattr(tc, name) for name in tc.__all__})
    assert again.describe() == constraint.describe()
    assert repr(again) == repr(constraint)


def test_a_name_stands_for_the_expression_once_given() -> None:
    constraint = count("A") >= 1
    assert constraint.name == "count('A') >= 1"
    assert constraint.named("some A").penalty(2).name == "some A"
