"""repr of a learner says all that its constraints are: names, strengths and norms."""

from __future__ import annotations

from typing import Any

import pytest

import trellis.constraints as language
import trellis.learn as learn
import trellis.models as models
from trellis.constraints import Constraint, count, exists, few_labels_per, label, share, starts, word
from trellis.learn import CCM, UEM
from trellis.models import HMM

VERB = count("V") >= 1
CASES = [
    (VERB, "count('V') >= 1"),
    (VERB.slack(0.5), "(count('V') >= 1).slack(0.5)"),
    (VERB.slack(0.5, "l2"), "(count('V') >= 1).slack(0.5, 'l2')"),
    (VERB.penalty(1 / 3), "(count('V') >= 1).penalty(0.3333333333333333)"),
    (VERB.penalty(2, "linf"), "(count('V') >= 1).penalty(2, 'linf')"),
    (VERB.penalty(2, "squared"), "(count('V') >= 1).penalty(2, 'squared')"),
    (VERB.learned().named("a verb"), "(count('V') >= 1).learned().named('a verb')"),
    (exists("V").implies(exists("N")).named("both"), "exists(label('V')).implies(count('N') >= 1).named('both')"),
    ((word == "a").implies(label("D")).penalty(1), "(word == 'a').implies(label('D')).penalty(1)"),
    ((label("D") | label("N")).learned(), "(label('D') | label('N')).learned()"),
    (share("V").between(0.1, 0.2).slack(0.1), "share('V').between(0.1, 0.2).slack(0.1)"),
    ((starts("N") <= 2).named("(n)"), "(starts('N') <= 2).named('(n)')"),
    (few_labels_per(word, strength=3).named("few"), "few_labels_per(word, strength=3).named('few')"),
]
NAMES: dict[str, Any] = {
    **{name: getattr(language, name) for name in language.__all__},
    **{name: getattr(learn, name) for name in learn.__all__},
    **{name: getattr(models, name) for name in models.__all__},
}


@pytest.mark.parametrize("constraint, text", CASES)
def test_a_constraint_is_written_with_its_strength_and_name(constraint: Constraint, text: str) -> None:
    assert repr(constraint) == text
    again = eval(text, NAMES)
    assert (again.strength, again.given_name, again.code()) == (
        constraint.strength,
        constraint.given_name,
        constraint.code(),
    )


@pytest.mark.parametrize("kind", [UEM, CCM])
def test_a_learner_can_be_made_again_from_what_it_shows(kind: Any) -> None:
    learner = kind(HMM(["D", "N", "V"]), [constraint for constraint, _ in CASES[:-1]])
    again = eval(repr(learner), NAMES)
    for one, other in zip(learner.constraints, again.constraints, strict=True):
        assert (one.strength, one.name) == (other.strength, other.name)
