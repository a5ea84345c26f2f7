"""Every expression, compiled, agrees with its meaning on every output."""

from __future__ import annotations

from functools import reduce
from operator import and_
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis import constraints as tc
from trellis.constraints.context import Context
from trellis.constraints.reduction import Outputs
from trellis.errors import InfeasibleError

from .plain import Case, DrawnConstraint, any_constraints, cases, comparisons, rules

pytestmark = pytest.mark.slow

TOLERANCE = 1e-9


def nonzero(values: Any) -> list[float]:
    return sorted(float(v) for v in values if abs(v) > TOLERANCE)


def violations(rows: tc.Rows, labels: np.ndarray) -> list[float]:
    return nonzero(rows.excess(rows.evaluate(labels)))


def uses_forbidden(rows: tc.Rows, labels: np.ndarray) -> bool:
    return bool(rows.forbidden.contains(rows.parts.of(labels)).any())


def admits(rows: tc.Rows, labels: np.ndarray) -> bool:
    return not uses_forbidden(rows, labels) and not violations(rows, labels)


def check_soft(case: Case, drawn: DrawnConstraint, *, categorical: bool = False) -> None:
    rows = case.compile(drawn.constraint.penalty(1.0), categorical=categorical)
    assert len(rows.forbidden) == 0
    for output in case.outputs():
        assert violations(rows, case.encode(output)) == pytest.approx(nonzero(drawn.violations(output)))


def check_hard(case: Case, drawn: DrawnConstraint) -> None:
    outputs = list(case.outputs())
    sides = np.array([drawn.sides(output) for output in outputs]).reshape(len(outputs), -1, 2)
    direct = np.maximum(sides.max(axis=2), 0.0)
    # the least violation in expectation: mixing outputs, a unit can come between its lowest and highest values
    least = np.maximum(sides.min(axis=0).max(axis=1), 0.0) if sides.size else np.zeros(0)
    try:
        rows = case.compile(drawn.constraint)
    except InfeasibleError as error:
        needed = error.slack
    else:
        needed, admitted = None, [admits(rows, case.encode(output)) for output in outputs]
    if needed is not None:
        assert not np.any(np.all(direct <= TOLERANCE, axis=1))
        if np.any(least > TOLERANCE):
            assert needed == pytest.approx(least.max())
        return
    assert np.all(least <= TOLERANCE), "a row that no output satisfies must be refused"
    assert admitted == np.all(direct <= TOLERANCE, axis=1).tolist()


@given(st.data())
@settings(max_examples=75)
def test_rows_measure_the_violation_of_every_output(data: st.DataObject) -> None:
    case = data.draw(cases())
    check_soft(case, data.draw(any_constraints(case)))


@given(st.data())
@settings(max_examples=75)
def test_rows_and_forbidden_parts_admit_exactly_the_outputs_that_obey(data: st.DataObject) -> None:
    case = data.draw(cases())
    check_hard(case, data.draw(any_constraints(case)))


@given(st.data())
@settings(max_examples=25)
def test_a_categorical_is_a_chain_of_one_slot(data: st.DataObject) -> None:
    case = data.draw(cases(one_slot=True, max_slots=4))
    check_soft(case, data.draw(any_constraints(case)), categorical=True)


@given(st.data())
@settings(max_examples=25)
def test_token_rules_that_are_hard_leave_no_rows(data: st.DataObject) -> None:
    case = data.draw(cases())
    rule = data.draw(rules(case)).rule
    try:
        rows = case.compile(rule)
    except InfeasibleError:
        return
    assert len(rows) == 0


@given(st.data())
@settings(max_examples=30)
def test_implications_between_statements_are_exact_for_every_output(data: st.DataObject) -> None:
    case = data.draw(cases())
    condition = data.draw(rules(case))
    then = data.draw(comparisons(case, scopes=("default",)))
    absent = data.draw(st.booleans())
    statement = tc.exists(condition.rule)
    constraint = (~statement if absent else statement).implies(then.constraint)
    soft = case.compile(constraint.penalty(1.0))
    for output in case.outputs():
        broken = False
        for i, (sentence, y) in enumerate(zip(case.sentences, output, strict=True)):
            somewhere = any(condition.holds(sentence, y, t) for t in range(len(sentence)))
            broken |= somewhere != absent and then.violations(output)[i] > TOLERANCE
        assert bool(violations(soft, case.encode(output))) == broken


@given(st.data())
@settings(max_examples=30)
def test_premises_joined_by_and_are_exact_for_every_output(data: st.DataObject) -> None:
    case = data.draw(cases())
    n = data.draw(st.integers(2, 3))
    premises = [(data.draw(rules(case, depth=1)), data.draw(st.booleans())) for _ in range(n)]
    then = data.draw(comparisons(case, scopes=("default",)))
    statements = [~tc.exists(rule.rule) if absent else tc.exists(rule.rule) for rule, absent in premises]
    constraint = reduce(and_, statements).implies(then.constraint)
    soft = case.compile(constraint.penalty(1.0, "linf"))
    context = Context(case.batch, case.vocabulary, soft.parts)
    for output in case.outputs():
        applies = []
        for sentence, y in zip(case.sentences, output, strict=True):
            found = [any(rule.holds(sentence, y, t) for t in range(len(sentence))) for rule, _ in premises]
            applies.append(all(some != absent for some, (_, absent) in zip(found, premises, strict=True)))
        direct = [violation * holds for violation, holds in zip(then.violations(output), applies, strict=True)]
        excess = soft.excess(soft.evaluate(case.encode(output)))
        largest = [excess[soft.instance == i].max(initial=0) for i in range(len(case.sentences))]
        assert nonzero(largest) == pytest.approx(nonzero(direct))
        outputs = Outputs(context, np.sort(soft.parts.of(case.encode(output))))
        alone, tested = (one.tested(outputs) for one in (then.constraint, constraint))
        assert np.array_equal(tested.places, alone.places * np.array(applies))
        assert np.array_equal(tested.broken, alone.broken * np.array(applies))


@given(st.data())
@settings(max_examples=20)
def test_each_label_says_the_same_of_every_label(data: st.DataObject) -> None:
    case = data.draw(cases())
    most = data.draw(st.integers(0, 2))
    rows = case.compile(tc.each_label(lambda L: tc.starts(L) <= most).penalty(1))
    for output in case.outputs():
        direct = []
        for y in output:
            for name in case.labels:
                runs = sum(y[t] == name and (t == 0 or y[t - 1] != name) for t in range(len(y)))
                direct.append(max(runs - most, 0))
        assert violations(rows, case.encode(output)) == pytest.approx(nonzero(direct))


@given(st.data())
@settings(max_examples=20)
def test_shares_are_counts_over_the_tokens_of_their_scope(data: st.DataObject) -> None:
    case = data.draw(cases())
    where = data.draw(rules(case, depth=1, observed=True))
    scope = data.draw(st.sampled_from(["instance", "corpus"]))
    constraint = tc.share("A", where=where.rule).per(scope).between(0.3, 0.4).penalty(1)
    rows = case.compile(constraint)
    for output in case.outputs():
        units = [list(range(len(case.sentences)))] if scope == "corpus" else [[i] for i in range(len(case.sentences))]
        direct = []
        for unit in units:
            chosen = [
                output[i][t]
                for i in unit
                for t in range(len(case.sentences[i]))
                if where.holds(case.sentences[i], output[i], t)
            ]
            if chosen:
                share = chosen.count("A") / len(chosen)
                direct.append(max(0.3 - share, share - 0.4, 0))
        assert violations(rows, case.encode(output)) == pytest.approx(nonzero(direct))


@given(st.data())
@settings(max_examples=20)
def test_given_labels_clamp_and_trusted_ones_may_err_a_little(data: st.DataObject) -> None:
    case = data.draw(cases())
    clamped = case.compile(tc.given())
    trust = tc.trusted(case.given, at_least=0.6).penalty(1)
    trusting = case.compile(trust)
    assert len(clamped) == 0
    for output in case.outputs():
        pairs = [(y, g) for ys, gs in zip(output, case.given, strict=True) for y, g in zip(ys, gs, strict=True) if g]
        right = sum(y == g for y, g in pairs)
        labels = case.encode(output)
        assert uses_forbidden(clamped, labels) == (right < len(pairs))
        short = max(0.6 - right / len(pairs), 0) if pairs else 0
        assert violations(trusting, labels) == pytest.approx(nonzero([short]))


@given(st.data())
@settings(max_examples=20)
def test_few_labels_blocks_list_the_slots_of_every_frequent_word(data: st.DataObject) -> None:
    case = data.draw(cases())
    often = data.draw(st.integers(1, 3))
    rows = case.compile(tc.few_labels_per(tc.word, strength=2, min_count=often))
    (block,) = rows.sparsity
    words = [word for sentence in case.sentences for word, _ in sentence]
    groups = {tuple(np.flatnonzero(np.array(words) == w)) for w in set(words) if words.count(w) >= often}
    slots, k = block.first // len(case.labels), len(case.labels)
    assert {tuple(slots[block.key == key]) for key in range(block.n_keys)} == groups
    assert block.strength == 2
    assert np.all(np.diff(slots) > 0)
    assert block.width == k
    np.testing.assert_array_equal(block.parts, rows.parts.label(slots[:, None], np.arange(k)))
