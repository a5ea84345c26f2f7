"""One instance with hundreds of hard rows: solved, or diagnosed with bounded work."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.errors import ConvergenceWarning, InfeasibleError
from trellis.projection import diagnosis, project
from trellis.projection.master import WorkBudget
from trellis.structures import Chain


def chain_and_rows(n: int, impossible: bool = False) -> tuple[Chain, Rows]:
    """A chain, and hard rows over four random labels each that some other distribution satisfies; or one row more that
    contradicts the first."""
    rng = np.random.default_rng(0)
    chain, other = (Chain(np.array([0, n]), 2 * rng.normal(size=(n, 3)), rng.normal(size=(3, 3))) for _ in range(2))
    part = np.concatenate([np.sort(rng.choice(3 * n, 4, replace=False)) for _ in range(n)])
    coefficient = rng.normal(size=(n, 4))
    bound = (coefficient * other.infer().at(part).reshape(n, 4)).sum(axis=1) + 0.01
    if impossible:
        part, coefficient = np.append(part, part[:4]), np.append(coefficient, -coefficient[:1], axis=0)
        bound = np.append(bound, -bound[0] - 0.1)
    m, zero = len(bound), np.zeros(len(bound), np.int64)
    rows = Rows(
        chain.parts, ("first", "opposite"), 4 * np.arange(m + 1), part, coefficient.reshape(-1), bound,
        np.zeros(m, np.bool_), zero, np.arange(m), (np.arange(m) >= n).astype(np.int64), np.arange(m),
        Groups.uniform(m, Kind.HARD, Norm.LINF, 0.0),
    )  # fmt: skip
    return chain, rows


def test_a_thousand_hard_rows_converge_with_more_evaluations_than_a_few_rows_get():
    found = project(*chain_and_rows(1000), 1.0, tolerance=1e-7)
    assert found.converged
    assert found.kkt_residual <= 1e-7


def test_a_diagnosis_that_takes_too_much_work_ends_with_the_warning(monkeypatch):
    spent = []

    class Counted(WorkBudget):
        def __setattr__(self, name, value):
            super().__setattr__(name, value)
            spent.append(value)

    monkeypatch.setattr(diagnosis, "MOST_WORK", 1e5)
    monkeypatch.setattr(diagnosis, "WorkBudget", Counted)
    with pytest.warns(ConvergenceWarning):
        project(*chain_and_rows(300), 1.0, tolerance=1e-300)
    assert spent[0] == 1e5
    assert 0 < len(spent) < 60


def test_two_rows_of_hundreds_that_conflict_are_named():
    with pytest.raises(InfeasibleError, match="'first' and 'opposite' cannot hold together"):
        project(*chain_and_rows(300, impossible=True), 1.0)
