"""What violations cost: of outputs, and of the expectations of a distribution."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import Strength, count, hard, learned, penalty, slack
from trellis.constraints.rows import COUPLING
from trellis.constraints.violations import expected_price, price
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary

from .plain import any_constraints, cases, compile_over_chains

NORMS = {"l1": sum, "linf": max, "l2": lambda v: math.sqrt(sum(x * x for x in v))}


@pytest.mark.slow
@given(st.data())
@settings(max_examples=40)
def test_price_is_the_strength_applied_to_each_group(data: st.DataObject) -> None:
    case = data.draw(cases())
    amount = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    norm = data.draw(st.sampled_from(sorted(NORMS)))
    drawn = data.draw(any_constraints(case))
    strengths: list[Strength] = [penalty(amount, norm), penalty(amount, "squared"), learned()]
    costs = [
        lambda v: amount * NORMS[norm](v),
        lambda v: amount / 2 * sum(x * x for x in v),
        lambda v: 0.0,
    ]
    weights = np.linspace(0.0, 2.0, len(case.sentences))
    for strength, cost in zip(strengths, costs, strict=True):
        rows = case.compile(drawn.constraint.with_strength(strength))
        for output in list(case.outputs())[:40]:
            values = rows.evaluate(case.encode(output))
            excess = rows.excess(values)
            groups: dict[int, list[float]] = {}
            weight: dict[int, float] = {}
            for g, i, x in zip(rows.group.tolist(), rows.instance.tolist(), excess.tolist(), strict=True):
                groups.setdefault(g, []).append(x)
                weight[g] = 1.0 if i == COUPLING else float(weights[i])
            assert price(rows, excess) == pytest.approx([cost(groups[g]) for g in sorted(groups)])
            # a local group is counted as often as its instance weighs, one that couples instances once
            expected = sum(weight[g] * cost(groups[g]) for g in groups)
            assert expected_price(rows, values, weights) == pytest.approx(expected)


def test_price_beyond_a_slack_or_of_a_violated_hard_row_is_infinite() -> None:
    batch = Batch.from_sentences([["a", "b", "c"]])
    labels = Vocabulary(["A", "B"], kind="label")
    for strength, expected in ((hard(), math.inf), (slack(0.5), math.inf), (slack(1.0), 0.0)):
        rows = compile_over_chains([(count("A") >= 1).with_strength(strength)], batch, labels)
        values = rows.evaluate(np.array([1, 1, 1]))
        excess = rows.excess(values)
        assert price(rows, excess).tolist() == ([expected] if len(rows) else [])
        # what a projection leaves of such a violation is its tolerance
        assert price(rows, excess, enforce=False).sum() == 0.0
        assert expected_price(rows, values, np.ones(1)) == 0.0


def test_a_divergence_is_that_of_each_expectation_from_its_target() -> None:
    batch = Batch.from_sentences([["a", "b", "c"], ["a"]])
    rule = (count("A") == 0.5).penalty(2.0, "kl")
    rows = compile_over_chains([rule], batch, Vocabulary(["A", "B"], kind="label"))
    each = [2.0 * (0.5 * math.log(0.5 / e) - 0.5 + e) for e in (1.25, 0.25)]
    found = expected_price(rows, np.array([1.25, 0.25]), np.array([1.0, 3.0]))
    assert found == pytest.approx(each[0] + 3.0 * each[1])


def test_no_rows_cost_nothing() -> None:
    batch = Batch.from_sentences([["a"]])
    rows = compile_over_chains([], batch, Vocabulary(["A", "B"], kind="label"))
    assert price(rows, np.zeros(0)).tolist() == []
    assert expected_price(rows, np.zeros(0), np.ones(1)) == 0.0
