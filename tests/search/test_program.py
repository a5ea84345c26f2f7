"""The 0/1 program of rows has the outputs as its points and their prices as its costs."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import Bounds, LinearConstraint, milp

from trellis.constraints.strength import Kind, Norm
from trellis.errors import ConstraintError
from trellis.search.ilp import Program, program_of
from trellis.structures import Categorical

from .problems import CURVED, KINDS, LINEAR, Problem, key_of, problems, rows_over

pytestmark = pytest.mark.slow


def best_point(program: Program) -> tuple[np.ndarray | None, float]:
    """By scipy and nothing of ours; the value, −inf where there is none."""
    if len(program.cost) == 0:
        allowed = (program.lower <= 0).all() and (program.upper >= 0).all()
        return (np.zeros(0), 0.0) if allowed else (None, -math.inf)
    found = milp(
        program.cost,
        integrality=program.whole.astype(int),
        bounds=Bounds(0, program.limit),
        constraints=LinearConstraint(program.matrix, program.lower, program.upper),
    )
    return (found.x, -found.fun) if found.success else (None, -math.inf)


@given(data=st.data())
@settings(max_examples=20)
@pytest.mark.parametrize("kind", KINDS)
def test_the_best_point_of_the_program_is_the_best_output(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind, kinds=LINEAR))
    for i in range(len(problem.scores)):
        program = program_of(problem.scores.instances(i, i + 1), problem.rows.canonical().shard(i, i + 1))
        values = problem.outputs(i)
        x, value = best_point(program)
        assert value == pytest.approx(max(values.values()), abs=1e-4)
        if x is not None:
            assert values[key_of(program.outputs(x))] == pytest.approx(value, abs=1e-4)


@given(data=st.data())
@settings(max_examples=15)
@pytest.mark.parametrize("kind", KINDS)
def test_a_point_taken_away_leaves_all_others(kind: str, data: st.DataObject) -> None:
    problem = data.draw(problems(kind, kinds=LINEAR, most_groups=1))
    program = program_of(problem.scores.instances(0, 1), problem.rows.canonical().shard(0, 1))
    left = {key: value for key, value in problem.outputs(0).items() if value > -math.inf}
    for _ in range(min(len(left), 5)):
        x, value = best_point(program)
        assert x is not None
        assert value == pytest.approx(max(left.values()), abs=1e-4)
        output = program.outputs(x)
        assert left.pop(key_of(output)) == pytest.approx(value, abs=1e-4)
        program = program.without(problem.scores.instances(0, 1).parts.of(output))
    if not left:
        assert best_point(program)[0] is None


@pytest.mark.parametrize("kind, norm", CURVED)
def test_a_violation_in_l2_has_no_program(kind: Kind, norm: Norm) -> None:
    scores = Categorical(np.zeros((1, 2)))
    rows = [({0: 1.0}, 0.0, False), ({1: 1.0}, 0.0, True)]
    group = {"instance": 0, "kind": kind, "norm": norm, "amount": 1.0, "rows": rows}
    problem = Problem(scores, rows_over(scores.parts, [group], []))
    with pytest.raises(ConstraintError, match="the price of constraint 'c0' is not linear"):
        program_of(scores, problem.rows)
