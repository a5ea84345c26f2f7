"""γ = 0 over marginals: what column generation reaches in the end, and soon where it alone would take for ever."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given

from trellis.constraints import compile_constraints, few_labels_per, starts, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError
from trellis.projection import columns, project
from trellis.structures import Chain

from .cases import Problem, problems

NEVER = 10**9


def solved(problem: Problem, patience: int) -> Any:
    with patch.object(columns, "PATIENCE", patience):
        try:
            return project(problem.batch.structure(), problem.rows, 0.0, weights=problem.batch.weight)
        except ConstraintError as refused:  # an L2 norm
            return str(refused)


@pytest.mark.slow
@given(problems())
def test_columns_of_the_program_over_marginals_lead_to_the_same_optimum(problem: Problem) -> None:
    plain, helped = solved(problem, NEVER), solved(problem, 1)
    if isinstance(plain, str):
        assert plain == helped
        return
    assert helped.value == pytest.approx(plain.value, rel=1e-6, abs=1e-6)
    assert helped.kkt_residual <= 1e-6 * (1 + abs(plain.value))


@pytest.mark.slow
@pytest.mark.parametrize("once", [False, True])
def test_few_labels_of_many_words_are_solved_to_the_end(once: bool) -> None:
    """One multiplier per occurrence and label: 500 rounds alone left a gap of a thousandth, after minutes."""
    rng = np.random.default_rng(0)
    text = [[f"w{k}" for k in rng.zipf(1.5, size=25) % 20] for _ in range(6)]
    batch, labels = Batch.from_sentences(text), Vocabulary([f"L{k}" for k in range(8)], kind="label")
    chain = Chain(batch.offsets, rng.normal(size=(batch.n_slots, 8)), rng.normal(size=(8, 8)))
    rules: list[Any] = [few_labels_per(word, strength=3, min_count=2)]
    if once:
        rules += [(starts(name) <= 1).named(name) for name in labels]
    with patch.object(columns.Columns, "master", autospec=True, side_effect=columns.Columns.master) as master:
        found = project(chain, compile_constraints(rules, batch, labels, chain.parts), 0.0)
    assert master.call_count < 60
    assert found.kkt_residual <= 1e-7 * (1 + abs(found.value))
    np.testing.assert_allclose(found.posterior.node.sum(axis=1), 1.0, atol=1e-9)
