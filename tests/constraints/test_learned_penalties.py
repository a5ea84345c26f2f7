"""Penalties learned from labels, against counts by hand."""

from __future__ import annotations

from math import log
from typing import Any

import numpy as np
import pytest

from trellis.constraints import at_most, changed, count, each_label, exists, label, previous, starts, transitions, word
from trellis.constraints.penalties import UNTESTED
from trellis.learn import CCM, CoDL
from trellis.models import HMM

LABELS = ["A", "B", "C"]
TEXT = ["a b c a b", "b c c", "c a a a"]
TAGS = ["AABBA", "BBC", "CAAA"]


def learned(*constraints: Any, weights: Any = None, smoothing: float = 0.5) -> list[Any]:
    X, y = [text.split() for text in TEXT], [list(tags) for tags in TAGS]
    learner = CoDL(HMM(LABELS, min_count=1), [c.learned() for c in constraints], max_iter=0, smoothing=smoothing)
    learner.fit(X, y, sample_weight=weights)
    for one in learner.learned_penalties_:
        assert learner.penalties_[one.name] == one.penalty
    return list(learner.learned_penalties_)


def price(places: float, broken: float, s: float = 0.5) -> float:
    """−log of the odds, with a prior of 20 s places of which one in 200 is broken."""
    if 0 < places <= 2 * broken:
        return 0.0
    return max(0.0, log((places - broken + 20 * s * 199 / 200) / (broken + 20 * s / 200)))


@pytest.mark.parametrize(
    "constraint, places, broken",
    [
        ((word == "a").implies(label("A")), 5, 1),  # five tokens are "a", one of them is B
        ((word == "c").implies(label("B", "C")), 4, 0),
        ((word == "b").implies(label("A")), 3, 1),  # A A B: the b of the second text is B
        ((word == "b").implies(label("C")), 3, 3),
        ((word == "z").implies(label("A")), 0, 0),  # no such word
        ((word == "a").implies(label("A", "B", "C")), 0, 0),  # nothing else is possible
        (previous("C").implies(label("A")), 1, 0),  # C stands before a token once
        (previous("A").implies(label("A")), 5 - 1, 1),  # of five A, four are followed: A B A A
        (label("C").implies(word == "c"), 2, 0),  # two tokens are C
        (exists("A"), 3, 1),  # every text; the second has none
        (count("A") >= 2, 3, 1),
        (count("C") <= 1, 2, 0),  # two texts have a C
        (count("A") <= 2, 2, 2),  # two texts have an A, each has three
        (count("A").between(1, 2), 3, 3),  # every text: none, three, three
        (count("A") == 3, 3, 1),
        (transitions() <= 0, 4 + 2 + 3, 2 + 1 + 1),  # every boundary could be a change
        (changed.implies(word == "a"), 4, 3),  # of four changes one is at an a
        (each_label(lambda L: starts(L) <= 1), 2 + 2 + 2, 1),  # labels by text: A B, B C, C A; A starts again once
        (exists("C").implies(exists("B")), 2, 1),  # two tokens are C, and the third text has no B
        (exists("B").implies(exists("C")), 4, 2),  # four tokens are B; the two of the first text are without C
        (at_most(0, label("C")).implies(exists("B")), 1, 0),  # the first text has no C
        (exists(word == "c").implies(exists("C")), 3, 1),  # every text has the word, the first no C
    ],
)
def test_places_and_violations_are_those_counted_by_hand(constraint: Any, places: int, broken: int) -> None:
    (found,) = learned(constraint)
    assert (found.places, found.broken) == (places, broken)
    assert found.penalty == pytest.approx(price(places, broken))
    assert found.untested == (places == 0)
    assert found.contradicted == (places > 0 and 2 * broken >= places)


def test_a_rule_broken_wherever_it_applies_costs_nothing_however_long_the_text_is() -> None:
    """15 of 15 places among 300 tokens."""
    X, y = [["pp", *["x"] * 19]] * 15, [["A"] + ["B"] * 19] * 15
    rules = [(word == "pp").implies(label("B")).learned(), (word == "vol").implies(label("A")).learned()]
    learner = CCM(HMM(["A", "B"], min_count=1), [rules[0].named("pp"), rules[1].named("vol")], method="supervised")
    first, second = learner.fit(X, y).learned_penalties_
    assert (first.places, first.broken, first.penalty, first.contradicted) == (15, 15, 0.0, True)
    assert (second.places, second.penalty, second.untested) == (0, UNTESTED, True)
    assert learner.penalties_ == {"pp": 0.0, "vol": UNTESTED}


def test_weights_count_as_copies_and_smoothing_is_that_asked_for() -> None:
    (found,) = learned((word == "b").implies(label("A")), weights=[1.0, 3.0, 1.0], smoothing=0.1)
    assert (found.places, found.broken) == (2 + 3, 3)
    assert found.penalty == pytest.approx(price(5, 3, 0.1))


def test_rules_with_a_strength_of_their_own_are_not_learned() -> None:
    X, y = [text.split() for text in TEXT], [list(tags) for tags in TAGS]
    learner = CCM(
        HMM(LABELS, min_count=1), [(count("A") >= 1).penalty(2.0), exists("B").learned()], method="supervised"
    )
    learner.fit(X, y)
    assert [one.name for one in learner.learned_penalties_] == [exists("B").name]


def test_penalties_learned_anew_mix_those_of_the_labelling() -> None:
    """β ρ₀ + (1 − β) ρ of the labelling; ρ₀ where the labelling tests nothing."""
    X = [["a", "b"], ["a", "a"], ["b", "a"]]
    rules = [(word == "a").implies(label("A")).learned(), (word == "z").implies(label("B")).learned()]
    learner = CoDL(HMM(["A", "B"], min_count=1), rules, beta=0.25, max_iter=1).fit(X, [["A", "B"], None, None])
    labels = learner.predict(X[1:])
    tagged = [pair for words, tags in zip(X[1:], labels, strict=True) for pair in zip(words, tags, strict=True)]
    broken = sum(pair == ("a", "B") for pair in tagged)
    known, unlabelled = price(1, 0), price(3, broken)
    found = list(learner.penalties_.values())
    np.testing.assert_allclose(found, [0.25 * known + 0.75 * unlabelled, UNTESTED])
