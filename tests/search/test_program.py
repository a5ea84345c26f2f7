"""The 0/1 program of rows has the outputs as its points and their prices as its costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from trellis.constraints import as_program, compile_constraints, count, price
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, InfeasibleError

from .plain import any_constraints, cases


@given(st.data())
@settings(max_examples=40)
def test_the_best_point_of_the_program_is_the_best_output(data: st.DataObject) -> None:
    case = data.draw(cases(max_slots=4).filter(lambda c: sum(map(len, c.sentences)) > 0))
    strengths = {
        "hard": lambda c: c.hard(),
        "l1": lambda c: c.penalty(1.5, "l1"),
        "linf": lambda c: c.penalty(1.5, "linf"),
        "slack l1": lambda c: c.slack(1.0, "l1"),
        "slack linf": lambda c: c.slack(0.5, "linf"),
    }
    drawn = [
        strengths[data.draw(st.sampled_from(sorted(strengths)))](data.draw(any_constraints(case)).constraint)
        for _ in range(data.draw(st.integers(1, 3)))
    ]
    try:
        rows = compile_constraints(drawn, case.batch, case.vocabulary)
    except InfeasibleError:
        return
    n, k = rows.parts.n_slots, rows.parts.n_labels
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    node, edge = rng.normal(size=(n, k)), rng.normal(size=(n, k, k))
    score = np.concatenate((node.reshape(-1), edge.reshape(-1)))
    best = math.inf
    for output in case.outputs():
        labels = case.encode(output)
        used = rows.parts.of(labels)
        if not np.isin(used, rows.forbidden).any():
            excess = rows.excess(rows.evaluate(labels))
            best = min(best, price(rows, excess).sum() - score[used].sum())
    program = as_program(rows)
    found = milp(
        program.objective(node, edge),
        integrality=program.integral.astype(int),
        bounds=Bounds(0, program.limit),
        constraints=LinearConstraint(program.matrix, program.lower, program.upper),
    )
    assert found.success == (best < math.inf)
    if found.success:
        assert found.fun == pytest.approx(best, abs=1e-6)
        labels = program.labels(found.x)
        total = price(rows, rows.excess(rows.evaluate(labels))).sum() - score[rows.parts.of(labels)].sum()
        assert total == pytest.approx(best, abs=1e-6)


def test_a_violation_in_l2_has_no_program() -> None:
    batch, labels = Batch.from_sentences([["a", "b"]]), Vocabulary(["A", "B"], kind="label")
    rows = compile_constraints([(count("A") >= 1).penalty(1, "l2").named("some A")], batch, labels)
    with pytest.raises(ConstraintError, match="'some A' measures violations in L2"):
        as_program(rows)
