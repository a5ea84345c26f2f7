"""Conditions on earlier labels: rows against plain Python over every output, rules files, and users."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis import CCM, HMM, load_model
from trellis.constraints import compile_constraints, count, earlier, label, parse_rules, previous, word
from trellis.constraints.context import Context
from trellis.constraints.expression import read_constraint
from trellis.constraints.reduction import Outputs
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError
from trellis.search import decode
from trellis.structures import Chain, ChainParts

LABELS = Vocabulary(["A", "B", "C"], kind="label")
WORDS = ["x", "y", "x", "y"]
Test = Callable[[tuple[str, ...], int], bool]
"""Whether the rule holds at token t."""


def has(y: tuple[str, ...], t: int, names: str, low: int = 1, high: int = 99) -> bool:
    return any(y[u] in names for u in range(max(0, t - high), t - low + 1))


RULES: list[tuple[Any, Test]] = [
    (earlier("A").implies(~label("B")), lambda y, t: not (has(y, t, "A") and y[t] == "B")),
    (label("C").implies(earlier("A", "B")), lambda y, t: y[t] != "C" or has(y, t, "AB")),
    (label("C").implies(~earlier("A", distance=2)), lambda y, t: y[t] != "C" or not has(y, t, "A", 2, 2)),
    (label("C").implies(earlier("B", distance=(2, 3))), lambda y, t: y[t] != "C" or has(y, t, "B", 2, 3)),
    (
        (earlier("A", distance=(1, 2)) & (word == "y")).implies(label("B") | previous("C")),
        lambda y, t: not (has(y, t, "A", 1, 2) and WORDS[t] == "y") or y[t] == "B" or (t > 0 and y[t - 1] == "C"),
    ),
    ((word == "y").implies(earlier("A")), lambda y, t: WORDS[t] != "y" or has(y, t, "A")),
    ((~earlier("C")).implies(label("A", "C")), lambda y, t: has(y, t, "C") or y[t] in "AC"),
    (earlier("A", distance=9).implies(label("B")), lambda y, t: True),
]
EACH_RULE = pytest.mark.parametrize("rule, holds", RULES, ids=[rule.code() for rule, _ in RULES])


@EACH_RULE
def test_rows_admit_the_outputs_that_obey_and_places_are_those_of_the_condition(rule: Any, holds: Test) -> None:
    for n in (0, 1, 4):
        batch = Batch.from_sentences([WORDS[:n]])
        parts = ChainParts(batch.offsets, 3)
        soft, hard = (compile_constraints(one, batch, LABELS, parts) for one in (rule.penalty(1), rule))
        for y in itertools.product(LABELS.names, repeat=n):
            output = LABELS.encode(list(y))
            broken = [not holds(y, t) for t in range(n)]
            used = np.sort(parts.of(output))
            allowed = not hard.forbidden.contains(used).any() and hard.excess(hard.evaluate(output)).max(initial=0) == 0
            assert allowed == (not any(broken)), y
            assert (soft.excess(soft.evaluate(output)).sum() > 0) == any(broken), y
            tested = rule.constraint().tested(Outputs(Context(batch, LABELS, parts), used))
            assert (tested.broken > 0).tolist() == broken, y
            assert np.all(tested.broken <= tested.places)


@EACH_RULE
def test_the_best_output_under_the_rule_is_found(rule: Any, holds: Test) -> None:
    rng = np.random.default_rng(0)
    scores = Chain([0, 4], rng.normal(size=(4, 3)), rng.normal(size=(3, 3)))
    batch = Batch.from_sentences([WORDS])
    every = [y for y in itertools.product(LABELS.names, repeat=4) if all(holds(y, t) for t in range(4))]
    best = max(float(scores.score(LABELS.encode(list(y)))[0]) for y in every)
    for method in ("auto", "astar", "ilp"):
        found = decode(scores, compile_constraints(rule, batch, LABELS, scores.parts), method)
        assert found.value[0] == pytest.approx(best, abs=1e-9)
        assert found.proved[0]


def test_a_violation_counts_earlier_tokens_where_they_are_forbidden() -> None:
    batch = Batch.from_sentences([WORDS])
    rows = compile_constraints((~label("B") | ~earlier("A")).penalty(1), batch, LABELS, ChainParts(batch.offsets, 3))
    assert rows.excess(rows.evaluate(LABELS.encode(list("AABC")))).sum() == 2


RULES_FILE = """
labels = ["A", "B", "C"]
[[rule]]
name = "no B after A"
if_earlier_label = "A"
then_not_label = "B"

[[rule]]
name = "C follows closely"
if_label = "C"
then_earlier_label = ["A", "B"]
earlier_distance = [1, 3]

[[rule]]
name = "first y"
if_word = "y"
unless_earlier_label = "A"
then_label = "B"
"""


def test_rules_files_and_expressions_say_the_same() -> None:
    found = [one.code() for one in parse_rules(RULES_FILE)]
    assert found == [
        "earlier('A').implies(~label('B'))",
        "label('C').implies(earlier('A', 'B', distance=(1, 3)))",
        "((word == 'y') & ~earlier('A')).implies(label('B'))",
    ]
    for code in found:
        assert read_constraint(code).code() == code
        assert read_constraint(code).describe().startswith("At every token, if")


@pytest.mark.parametrize(
    "line, message",
    [
        ('if_earlier_label = "A"\nthen_earlier_label = "B"', "must be in separate rules"),
        ('then_label = "A"\nearlier_distance = 2', "earlier_distance needs"),
        ('then_earlier_label = "A"\nearlier_distance = 0', "1"),
    ],
)
def test_rules_that_cannot_be_are_told(line: str, message: str) -> None:
    with pytest.raises(Exception, match=message):
        parse_rules(f'labels = ["A", "B"]\n[[rule]]\nname = "r"\n{line}\n')


def test_counts_and_two_conditions_are_refused() -> None:
    batch = Batch.from_sentences([WORDS])
    parts = ChainParts(batch.offsets, 3)
    with pytest.raises(ConstraintError, match="not in a count"):
        compile_constraints(count(where=earlier("A") & label("B")) <= 1, batch, LABELS, parts)
    with pytest.raises(ConstraintError, match="a rule may have one"):
        compile_constraints(earlier("A").implies(earlier("B")), batch, LABELS, parts)
    for wrong in (0, (3, 2), "two", (1,)):
        with pytest.raises(ConstraintError, match="distance"):
            earlier("A", distance=wrong)  # type: ignore[arg-type]


def test_learned_penalties_and_saved_models(tmp_path: Any) -> None:
    text, tags = [["p", "q", "p"], ["q", "p"]] * 6, [["A", "B", "B"], ["B", "A"]] * 6
    model = CCM(
        HMM(["A", "B"], min_count=1), [earlier("B").implies(~label("A")).learned(), earlier("A").implies(label("B"))]
    )
    model.fit(text, tags)
    places = model.learned_penalties_[0]
    assert (places.places, places.broken) == (12, 6)
    model.save(tmp_path / "model")
    again = load_model(tmp_path / "model")
    assert again.predict([["p", "p", "p"]]) == model.predict([["p", "p", "p"]]) == [["A", "B", "B"]]
