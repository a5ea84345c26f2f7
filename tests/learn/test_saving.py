"""A learner saves with its rules; expressions of constraints are written and read, and nothing else is."""

from __future__ import annotations

import numpy as np
import pytest

from trellis import load_model
from trellis.constraints import (
    at_least,
    changed,
    column,
    count,
    dictionary,
    each,
    each_label,
    exists,
    few_labels_per,
    following,
    forward,
    given,
    label,
    position,
    preceding,
    previous,
    share,
    starts,
    transitions,
    word,
)
from trellis.constraints.expression import read_constraint, read_constraints, write_constraints
from trellis.errors import ConstraintError, ModelFileError
from trellis.learn import CCM, UEM, Anneal, CoDL
from trellis.models import HMM

from .corpora import LABELS, tagged_sentences

TEXT, TAGS = tagged_sentences(40)
SOME = [tags if i < 8 else None for i, tags in enumerate(TAGS)]

WRITABLE = [
    count("V") >= 1,
    count("V").per("corpus") <= 0.2 * count().per("corpus"),
    count("V").between(1 / 3, 2.75),
    share("N").per(word) >= 0.1,
    share("N").per(column("pos")) <= 0.1,
    starts("N") <= 1,
    transitions(from_="D", to="V") <= 0,
    transitions(where=~word.matches(r"^[.,]+$")) == 0,
    word.isin("the", "a", ignore_case=True).implies(label("D")),
    (word == 'it\'s "quoted"').implies(~label("D", "N")),
    (position.first & following(word == "dog")).implies(label("D") | previous("N")),
    preceding(position.last).implies(changed),
    exists(label("D")).implies(count("N") >= 1),
    dictionary({w: ["D", "N"] for w in ("the", "a", "dog", "cat")}, ignore_case=True),
    each_label(lambda name: starts(name) <= 1),
    each_label(lambda name: count(name) <= 3, "D", "N"),
    few_labels_per(word, strength=1 / 7, min_count=3),
    (count("V") >= 1).penalty(2.5, "l2").named("a verb, at a price"),
    (count("V") >= 1).slack(0.25),
    (count("V") >= 1).learned(),
    at_least(1, label("V")),
    forward.links == 1.0,
]


def named_alike(constraint):
    return constraint if hasattr(constraint, "strength") else constraint.constraint()


@pytest.mark.parametrize("constraint", WRITABLE, ids=repr)
def test_what_is_written_is_read_again(constraint):
    [written] = write_constraints([constraint], LABELS)
    [again] = read_constraints([written])
    before = named_alike(constraint)
    assert again.code() == before.code()
    assert again.name == before.name
    assert again.strength == before.strength
    [once_more] = write_constraints([again], LABELS)
    assert once_more == written


@pytest.mark.parametrize(
    "constraint",
    [
        few_labels_per(word.map(str.lower), strength=1.0),
        given([["D"]]),
        each_label(lambda name: count(name) <= (1 if name == "D" else 2)),
    ],
    ids=repr,
)
def test_what_text_cannot_hold_is_refused_by_name(constraint):
    with pytest.raises(ConstraintError, match=r"cannot be written to a file.*rules file"):
        write_constraints([constraint], LABELS)


@pytest.mark.parametrize(
    "code",
    [
        "__import__('os').system('true')",
        "count.__class__",
        "(lambda x: x)(1)",
        "[c for c in (1, 2)]",
        "count('V').per.__globals__",
        "word.matches('a').__init__",
        "open('/etc/passwd')",
        "count('V') >= 1 or 2",
        "1",
        "label",
        "count('V') >= ",
        "f'{count}'",
        "count('V', *[1])",
        "word.map(str)",
        "9 ** 9 ** 9 >= count()",
        "~" * 5_000 + "word",
    ],
)
def test_nothing_but_the_language_of_constraints_is_read(code):
    with pytest.raises(ConstraintError):
        read_constraint(code)


RULES = [
    word.isin("the", "a").implies(label("D")).constraint().named("determiners").learned(),
    (count("D") <= 2).named("few determiners").penalty(3.0),
]


def hmm():
    return HMM(LABELS, min_count=1, unknown=None)


LEARNERS = {
    "UEM": lambda: UEM(hmm(), [count("V") >= 1], gamma=Anneal(2.0, 0.5, 2), max_iter=3, tol=0.0, random_state=0),
    "CoDL": lambda: CoDL(hmm(), RULES, max_iter=2),
    "CCM": lambda: CCM(hmm(), RULES, method="pr", max_iter=2),
}


@pytest.mark.parametrize("name", LEARNERS)
def test_a_learner_saves_with_its_rules_and_predicts_the_same_bits(name, tmp_path):
    learner = LEARNERS[name]().fit(TEXT, SOME)
    learner.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert type(again) is type(learner)
    assert again.predict(TEXT) == learner.predict(TEXT)
    assert again.violations(TEXT) == learner.violations(TEXT)
    assert again.history_.objective == learner.history_.objective
    for key, value in learner.model_.parameters().items():
        np.testing.assert_array_equal(again.model_.parameters()[key], value)
    again.save(tmp_path / "twice")
    assert (tmp_path / "twice").read_bytes() == (tmp_path / "m").read_bytes()
    assert type(learner).load(tmp_path / "m", n_jobs=2).predict(TEXT[:3]) == learner.predict(TEXT[:3])


def test_an_infinite_penalty_comes_back(tmp_path):
    learner = CoDL(hmm(), RULES, max_iter=0, smoothing=0.0).fit(TEXT, SOME)
    assert learner.penalties_["determiners"] == np.inf  # gold never breaks it
    learner.save(tmp_path / "m")
    assert load_model(tmp_path / "m").penalties_ == learner.penalties_


def test_a_file_with_another_kind_of_expression_is_refused(tmp_path, monkeypatch):
    learner = LEARNERS["UEM"]().fit(TEXT, SOME)
    monkeypatch.setattr(
        "trellis.learn.learner.write_constraints",
        lambda *_: [{"code": "__import__('os')", "name": "x", "strength": [0, 1, 0.0]}],
    )
    learner.save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="not a word of the constraint language"):
        load_model(tmp_path / "m")


def test_links_are_written_too():
    [written] = write_constraints([forward.links(source=each) <= 1], [])
    assert read_constraints([written])[0].code() == written["code"]
