"""Projections whose answer is known without solving anything."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trellis.constraints import compile_constraints, count
from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.projection import project
from trellis.search import decode
from trellis.structures import Chain, ChainParts

from .cases import HARD, STRENGTHS, Row, build_problem, compile_rows, name_of, random_batch

STRUCTURES = pytest.mark.parametrize("categorical", [True, False], ids=["categorical", "chain"])
GAMMAS = pytest.mark.parametrize("gamma", [0.3, 1.0, 2.0])
NORMS = pytest.mark.parametrize("norm", list(Norm), ids=lambda norm: norm.name.lower())


def EVERY(batch):
    """All parts of a batch."""
    return np.arange(batch.n_parts)


SCOPES = pytest.mark.parametrize("scope", ["local", "coupling"])


@GAMMAS
@pytest.mark.parametrize("scope", ["local", "coupling"])
@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_a_categorical_is_a_chain_of_one_slot(strength, scope, gamma):
    rng = np.random.default_rng([STRENGTHS.index(strength), len(scope)])
    batch = random_batch(rng, categorical=True)
    problem = build_problem(rng, batch, gamma, [(scope, strength, 2)])
    chain = replace(batch, categorical=False)
    rows = replace(problem.rows, parts=chain.parts)
    assert isinstance(chain.structure(), Chain)
    one = project(batch.structure(), problem.rows, gamma, tolerance=1e-8, max_evaluations=500)
    other = project(chain.structure(), rows, gamma, tolerance=1e-8, max_evaluations=500)
    np.testing.assert_allclose(one.posterior.node, other.posterior.node, rtol=0, atol=1e-11)
    np.testing.assert_allclose(one.duals.row, other.duals.row, rtol=1e-9, atol=1e-9)
    assert one.value == pytest.approx(other.value, rel=1e-12)


@GAMMAS
@STRUCTURES
def test_without_rows_projection_is_inference(categorical, gamma):
    batch = random_batch(np.random.default_rng(3), categorical=categorical)
    found = project(batch.structure(), Rows.none(batch.parts), gamma, at=EVERY(batch))
    plain = batch.structure().temper(gamma)
    posterior = plain.infer(at=EVERY(batch))
    np.testing.assert_allclose(found.posterior.node, posterior.node, rtol=0, atol=1e-12)
    if not categorical:
        np.testing.assert_allclose(found.posterior.edge, posterior.edge, rtol=0, atol=1e-12)
        np.testing.assert_allclose(found.posterior.edge_counts, posterior.edge_counts, rtol=0, atol=1e-12)
    assert found.converged
    assert found.kkt_residual == 0.0
    assert found.value == pytest.approx(-gamma * posterior.log_partition.sum(), rel=1e-12)


@SCOPES
@STRUCTURES
@pytest.mark.parametrize("strength", STRENGTHS[1:7], ids=name_of)
def test_free_violations_and_roomy_slack_change_nothing(strength, categorical, scope):
    """A penalty of price 0, or slack beyond any violation."""
    rng = np.random.default_rng([STRENGTHS.index(strength), categorical])
    batch = random_batch(rng, categorical=categorical)
    problem = build_problem(rng, batch, 1.0, [(scope, strength, 3)])
    amount = 1e3 if strength[0] == Kind.SLACK else 0.0
    groups = replace(problem.rows.groups, amount=np.full(len(problem.rows.groups), amount))
    found = project(batch.structure(), replace(problem.rows, groups=groups), tolerance=1e-8)
    assert found.converged
    np.testing.assert_allclose(found.posterior.node, batch.structure().infer().node, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.duals.row, 0.0)


@STRUCTURES
def test_rows_that_already_hold_change_nothing(categorical):
    rng = np.random.default_rng(8)
    batch = random_batch(rng, categorical=categorical)
    problem = build_problem(rng, batch, 1.0, [("local", HARD, 2), ("coupling", HARD, 2)], equality=0.0)
    found = project(batch.structure(), replace(problem.rows, bound=problem.rows.bound + 100.0), tolerance=1e-10)
    np.testing.assert_allclose(found.posterior.node, batch.structure().infer().node, rtol=0, atol=1e-12)
    np.testing.assert_array_equal(found.duals.row, 0.0)


@GAMMAS
@STRUCTURES
def test_forbidding_all_but_one_output_gives_that_output(categorical, gamma):
    rng = np.random.default_rng(9)
    batch = random_batch(rng, categorical=categorical)
    k = batch.node.shape[1]
    y = rng.integers(k, size=len(batch.node)).astype(np.int32)
    used = set(batch.parts.of(y).tolist())
    forbidden = [p for p in range(batch.node.size) if p not in used]
    # Rows that this output meets, with nothing to spare.
    rows = [
        Row({int(p): 1.0 for p in sorted(used) if p < batch.node.size}, float(len(y)), True, COUPLING, 0),
        Row({0: 1.0, 1: 2.0}, float(y[0] == 0) + 2.0 * float(y[0] == 1), False, 0, 1),
    ]
    compiled = compile_rows(batch, rows, [(*HARD, 0.0), (*HARD, 0.0)], forbidden=forbidden)
    found = project(batch.structure(), compiled, gamma, tolerance=1e-8, at=EVERY(batch))
    assert found.converged
    np.testing.assert_allclose(found.posterior.node, np.eye(k)[y], rtol=0, atol=1e-12)
    score = float(batch.structure().score(y).sum())
    assert found.value == pytest.approx(-score, rel=1e-9)


def test_forbidden_edges_are_never_used():
    batch = random_batch(np.random.default_rng(10), categorical=False, lengths=(3, 2))
    parts = batch.parts
    forbidden = [int(parts.transition(1, 0, 1)), int(parts.transition(2, 2, 2)), int(parts.transition(4, 1, 0))]
    found = project(batch.structure(), compile_rows(batch, [], [], forbidden=forbidden), at=EVERY(batch))
    assert found.posterior.edge[1, 0, 1] == 0.0
    assert found.posterior.edge[2, 2, 2] == 0.0
    assert found.posterior.edge[4, 1, 0] == 0.0
    np.testing.assert_allclose(found.posterior.edge[[1, 2, 4]].sum(axis=(1, 2)), 1.0, rtol=0, atol=1e-12)
    by_matrix = np.zeros_like(batch.edge)
    for t in (1, 2, 4):
        by_matrix[batch.edge_index[t]] += found.posterior.edge[t]
    np.testing.assert_allclose(found.posterior.edge_counts, by_matrix, rtol=0, atol=1e-12)


@GAMMAS
@STRUCTURES
def test_one_equality_over_a_label_has_the_closed_form(categorical, gamma):
    """E_q[y = a] = m for one slot: q is p^{1/γ} with the label's odds set to m / (1 − m)."""
    batch = random_batch(np.random.default_rng(11), categorical=categorical, lengths=(1, 1))
    rows = compile_rows(batch, [Row({1: 1.0}, 0.37, True, 0, 0)], [(*HARD, 0.0)])
    found = project(batch.structure(), rows, gamma, tolerance=1e-10)
    p = batch.structure().temper(gamma).infer().node
    q = p[0] * np.array([0.63, 0.0, 0.63]) / (1 - p[0, 1])
    q[1] = 0.37
    np.testing.assert_allclose(found.posterior.node[0], q, rtol=0, atol=1e-9)
    np.testing.assert_allclose(found.posterior.node[1], p[1], rtol=0, atol=1e-12)


@pytest.mark.parametrize("sentences", [[["a", "b", "c"], ["d", "e"]], [["a"]]])
def test_rows_of_another_batch_are_refused(sentences):
    scores = Chain([0, 2, 5], np.zeros((5, 2)), np.zeros((2, 2)))
    batch = Batch.from_sentences(sentences)
    rows = compile_constraints([count("V") >= 1], batch, Vocabulary(["N", "V"]), ChainParts(batch.offsets, 2))
    for call in (project, decode):
        with pytest.raises(DataError, match="compile the constraints for the batch"):
            call(scores, rows)
