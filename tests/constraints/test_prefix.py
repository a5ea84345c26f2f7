"""Bounds on the violation of a partial output, and the price of violations."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import (
    COUPLING,
    PrefixRows,
    Strength,
    compile_constraints,
    hard,
    learned,
    penalty,
    price,
    slack,
)

from .plain import any_constraints, cases


@given(st.data())
@settings(max_examples=60)
def test_least_excess_is_what_the_best_completion_violates(data: st.DataObject) -> None:
    """The bound of a row is attained by some completion: it is not only true but the best for that row."""
    case = data.draw(cases())
    drawn = [data.draw(any_constraints(case)).constraint.penalty(1) for _ in range(data.draw(st.integers(1, 3)))]
    rows = compile_constraints(drawn, case.batch, case.vocabulary)
    local = rows.select(rows.instance != COUPLING)
    prefix = PrefixRows.of(rows)
    offsets = rows.parts.offsets
    outputs = list(case.outputs())
    labels = np.array([case.encode(output) for output in outputs]).reshape(len(outputs), rows.parts.n_slots)
    excess = np.array([local.excess(local.evaluate(y)) for y in labels]).reshape(len(labels), len(local))
    for i in range(len(case.sentences)):
        low, high = int(offsets[i]), int(offsets[i + 1])
        mine = local.instance == i
        for n in range(high - low + 1):
            for head in {tuple(y[low : low + n]) for y in labels}:
                begins = np.all(labels[:, low : low + n] == np.array(head, dtype=np.int32), axis=1)
                reachable = excess[begins][:, mine]
                found = prefix.least_excess(offsets, i, np.array(head, dtype=np.int32))
                best = reachable.min(axis=0)
                equality = local.equality[mine]
                assert found[~equality] == pytest.approx(best[~equality])
                # an equality may jump over its bound: then its bound is true, but not attained
                assert np.all(found[equality] <= best[equality] + 1e-9)
                if n == high - low:
                    assert found == pytest.approx(best)


@given(st.data())
@settings(max_examples=60)
def test_price_is_the_norm_of_the_violations_of_each_group(data: st.DataObject) -> None:
    case = data.draw(cases())
    amount = data.draw(st.sampled_from([0.5, 1.0, 2.0]))
    norms = {"l1": sum, "linf": max, "l2": lambda v: math.sqrt(sum(x * x for x in v))}
    norm = data.draw(st.sampled_from(sorted(norms)))
    drawn = data.draw(any_constraints(case))
    strengths: list[Strength] = [penalty(amount, norm), penalty(amount, "squared"), learned()]
    for strength in strengths:
        rows = compile_constraints([drawn.constraint.with_strength(strength)], case.batch, case.vocabulary)
        for output in list(case.outputs())[:40]:
            excess = rows.excess(rows.evaluate(case.encode(output)))
            groups: dict[int, list[float]] = {}
            for g, x in zip(rows.group.tolist(), excess.tolist(), strict=True):
                groups.setdefault(g, []).append(x)
            expected = {
                strengths[0]: lambda v: amount * norms[norm](v),
                strengths[1]: lambda v: amount / 2 * sum(x * x for x in v),
                strengths[2]: lambda v: 0.0,
            }[strength]
            assert price(rows, excess) == pytest.approx([expected(groups[g]) for g in sorted(groups)])


def test_price_beyond_a_slack_or_of_a_violated_hard_row_is_infinite() -> None:
    from trellis.constraints import count
    from trellis.data.batch import Batch
    from trellis.data.vocabulary import Vocabulary

    batch = Batch.from_sentences([["a", "b", "c"]])
    labels = Vocabulary(["A", "B"], kind="label")
    for strength, expected in ((hard(), math.inf), (slack(0.5), math.inf), (slack(1.0), 0.0)):
        rows = compile_constraints([(count("A") >= 1).with_strength(strength)], batch, labels)
        excess = rows.excess(rows.evaluate(np.array([1, 1, 1])))
        assert price(rows, excess).tolist() == ([expected] if len(rows) else [])
