"""A fast path that a structure registers gives what the generic way gives."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from trellis.constraints import compile_constraints, count, starts, transitions, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConvergenceWarning
from trellis.projection import project
from trellis.projection.kernels import fast_path, register
from trellis.structures import Chain

from .cases import HARD, STRENGTHS, Problem, build_problem, name_of, problems, random_batch

LABELS = Vocabulary(["A", "B", "C"], kind="label")
DRAWN = settings(
    deadline=None, suppress_health_check=[HealthCheck.too_slow], phases=[Phase.explicit, Phase.reuse, Phase.generate]
)


def both_ways(problem: Problem, tolerance: float):
    def solve(generic: bool):
        return project(
            problem.batch.structure(), problem.rows, problem.gamma, weights=problem.batch.weight, tolerance=tolerance,
            max_evaluations=500, max_rounds=2000, at=np.arange(problem.batch.n_parts), generic=generic,
        )  # fmt: skip

    return solve(False), solve(True)


def assert_alike(problem: Problem, tolerance: float = 1e-9) -> None:
    fused, generic = both_ways(problem, tolerance)
    assert max(fused.kkt_residual, generic.kkt_residual) <= 10 * tolerance * (1.0 + np.abs(problem.rows.bound).max())
    parts = np.arange(problem.batch.n_parts)
    np.testing.assert_allclose(fused.posterior.at(parts), generic.posterior.at(parts), rtol=0, atol=1e-6)
    assert fused.value == pytest.approx(generic.value, rel=1e-9, abs=1e-9)
    if fused.posterior.edge_counts is not None and generic.posterior.edge_counts is not None:
        np.testing.assert_allclose(fused.posterior.edge_counts, generic.posterior.edge_counts, rtol=0, atol=1e-5)


@pytest.mark.slow
@DRAWN
@given(problems(kinds=("chain", "categorical")))
def test_fused_projection_of_chains_equals_the_generic_one(problem):
    assert_alike(problem)


@pytest.mark.slow
@settings(DRAWN, max_examples=30)
@given(problems(kinds=("chain",), blocks=1, weighted=False))
def test_fused_projection_beside_posterior_sparsity_equals_the_generic_one(problem):
    with warnings.catch_warnings():
        # Proximal steps on a norm that is not smooth may end a little above what Newton's reach.
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert_alike(problem, 1e-7)


@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_at_a_loose_tolerance_both_end_with_residuals_of_one_order(strength):
    rng = np.random.default_rng([STRENGTHS.index(strength), 21])
    batch = random_batch(rng, categorical=False, lengths=(4, 3, 4, 2), k=3)
    problem = build_problem(rng, batch, 1.0, [("local", strength, 3) for _ in range(4)])
    fused, generic = both_ways(problem, 1e-3)
    assert fused.converged
    assert generic.converged
    assert fused.kkt_residual <= 1e-3
    assert generic.kkt_residual <= 1e-3
    parts = np.arange(batch.n_parts)
    np.testing.assert_allclose(fused.posterior.at(parts), generic.posterior.at(parts), rtol=0, atol=0.02)


@pytest.mark.parametrize("spread", [300.0, 800.0])
def test_instances_that_scaled_probabilities_do_not_serve_are_solved_the_generic_way(spread):
    """Some instances of a batch lie within the range of doubles, others do not; each has rows that bind."""
    rng = np.random.default_rng(22)
    batch = random_batch(rng, categorical=False, lengths=(3, 2, 4, 1), k=2)
    batch.node[: batch.offsets[1], 1] -= spread
    batch.node[batch.offsets[2] : batch.offsets[3], 0] -= spread
    problem = build_problem(rng, batch, 1.0, [("local", HARD, 2) for _ in range(6)])
    assert_alike(problem)


@pytest.mark.slow
@settings(DRAWN, max_examples=40)
@given(st.integers(0, 2**32), st.sampled_from([0.3, 1.0, 2.0]), st.sampled_from([1.0, 300.0]))
def test_patterns_of_transitions_that_many_boundaries_share_equal_the_generic_way(seed, gamma, spread):
    """Rules that count transitions: rows overlap, boundaries are alike to them, and the model has several matrices.

    A wide spread takes some instances out of the range of doubles.
    """
    rng = np.random.default_rng(seed)
    k, words = 3, [[str(rng.choice([".", "w", "v"])) for _ in range(n)] for n in rng.integers(0, 9, 4)]
    text = Batch.from_sentences(words, weights=rng.choice([0.5, 1.0, 2.0], 4))
    n = int(text.offsets[-1])
    node, index = rng.normal(size=(n, k)), rng.integers(0, 2, n)
    node[: text.offsets[1], 1] -= spread
    chain = Chain(text.offsets, node, rng.normal(size=(2, k, k)), edge_index=index)
    few, some, more = (float(bound) for bound in rng.uniform(0.1, 2.0, 3))
    rows = compile_constraints(
        [
            (transitions(where=~word.isin(".")) <= few).penalty(2.0),
            (starts("A") <= some).slack(0.05),
            (count("B") + 2 * transitions(from_=["A", "B"], to="C") <= more).penalty(1.0, "l2"),
            (transitions().per("corpus") <= 0.3 * n).penalty(1.5),
        ],
        text, LABELS, chain.parts,
    )  # fmt: skip
    parts = np.arange(chain.parts.n_parts)
    settings = {"weights": text.weights, "tolerance": 1e-9, "max_evaluations": 500, "max_rounds": 2000, "at": parts}
    fused, generic = (project(chain, rows, gamma, generic=way, **settings) for way in (False, True))
    np.testing.assert_allclose(fused.posterior.at(parts), generic.posterior.at(parts), rtol=0, atol=1e-6)
    np.testing.assert_allclose(fused.posterior.edge_counts, generic.posterior.edge_counts, rtol=0, atol=1e-5)
    assert fused.value == pytest.approx(generic.value, rel=1e-9, abs=1e-9)


@given(st.integers(1, 6))
def test_wherever_both_are_stopped_each_is_a_bound(budget):
    rng = np.random.default_rng(budget)
    problem = build_problem(rng, random_batch(rng, categorical=False), 1.0, [("local", HARD, 2), ("local", HARD, 1)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        best = both_ways(problem, 1e-9)[0].value
        for generic in (False, True):
            found = project(
                problem.batch.structure(), problem.rows, 1.0, tolerance=1e-12, max_evaluations=budget, generic=generic
            )
            assert found.value <= best + 1e-9


def test_a_structure_unknown_to_the_house_may_register_its_own_path():
    assert fast_path("subsets of the tests") is None
    register("subsets of the tests", "trellis.projection.lock_step")
    assert fast_path("subsets of the tests").project_rows is not None
