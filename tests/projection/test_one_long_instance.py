"""What thousands of rows in one instance cost."""

from __future__ import annotations

import tracemalloc

import numpy as np
import pytest

from trellis.constraints import compile_constraints, count, label, previous
from trellis.data.batch import Batch as Sentences
from trellis.data.vocabulary import Vocabulary
from trellis.projection import project
from trellis.structures import Chain

LABELS = Vocabulary(["A", "B", "C"], kind="label")


@pytest.mark.parametrize("generic", [False, True], ids=["fast path", "generic"])
@pytest.mark.parametrize("n", [2000, 5000])
def test_memory_of_one_long_instance_is_linear_in_its_rows(n, generic):
    """With a matrix for the rows 5,000 of them would take 200 MB, and minutes."""
    rng = np.random.default_rng(0)
    chain = Chain(np.array([0, n]), rng.normal(size=(n, 3)), rng.normal(size=(1, 3, 3)))
    rules = [previous("A").implies(~label("B")).penalty(2.0), count("C") >= n // 5]
    rows = compile_constraints(rules, Sentences.from_sentences([["w"] * n]), LABELS, chain.parts)
    project(chain.instances(0, 1), rows, 1.0, generic=generic)  # kernels are compiled, tables made
    tracemalloc.start()
    try:
        found = project(chain, rows, 1.0, generic=generic)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert found.converged
    assert found.kkt_residual <= 1e-3
    assert peak < 8e3 * n


@pytest.mark.parametrize("generic", [False, True], ids=["fast path", "generic"])
def test_evaluations_hardly_grow_with_the_rows(generic):
    """The same rules and transitions at two lengths. Without a new diagonal on the way the longer one took 23."""
    evaluations = []
    for n in (300, 3000):
        rng = np.random.default_rng(3)
        transitions = rng.normal(size=(1, 3, 3))
        chain = Chain(np.array([0, n]), rng.normal(size=(n, 3)), transitions)
        rules = [previous("A").implies(~label("B")).penalty(2.0), count("C") >= n // 3]
        rows = compile_constraints(rules, Sentences.from_sentences([["w"] * n]), LABELS, chain.parts)
        found = project(chain, rows, 1.0, generic=generic)
        assert found.converged
        evaluations.append(found.evaluations)
    assert evaluations[1] <= evaluations[0] + 4
    assert max(evaluations) <= 14
