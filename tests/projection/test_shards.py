"""How a corpus is cut into shards, which threads work on them and where the duals start change nothing in q."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trellis.constraints.implicit import Sparsity
from trellis.constraints.rows import COUPLING, Rows
from trellis.engine import engine_for
from trellis.projection import CorpusProjection, Duals, Projector, project

from .cases import HARD, STRENGTHS, Batch, Problem, Row, build_problem, compile_rows, name_of, random_batch

SLACK_L2, PENALTY_L1, PENALTY_LINF, SQUARED = STRENGTHS[2], STRENGTHS[4], STRENGTHS[6], STRENGTHS[7]
MIXES = {
    "local": [("local", HARD, 2), ("local", PENALTY_LINF, 2), ("local", SQUARED, 1)],
    "coupling": [("coupling", HARD, 2), ("coupling", SQUARED, 2)],
    "coupling norms": [("coupling", SLACK_L2, 2), ("coupling", PENALTY_LINF, 2)],
    "both": [("local", HARD, 2), ("local", PENALTY_L1, 2), ("coupling", HARD, 2)],
    "sparsity": [],
    "everything": [("local", HARD, 1), ("coupling", PENALTY_L1, 2)],
}


def corpus(mix: str, *, categorical: bool = False) -> Problem:
    rng = np.random.default_rng([len(mix), categorical])
    batch = random_batch(rng, categorical=categorical, lengths=(3, 2, 0, 1, 4, 2, 3), k=2)
    batch = replace(batch, weight=rng.choice([0.5, 1.0, 2.0], size=batch.n_instances))
    return build_problem(rng, batch, 0.7, MIXES[mix], blocks=int(mix in ("sparsity", "everything")), forbid=True)


def run(problem: Problem, bounds: list[int], *, n_jobs: int = 1, tolerance: float = 1e-9, duals: Duals | None = None):
    projector = Projector(
        problem.rows, np.array(bounds), weights=problem.batch.weight, engine=engine_for(n_jobs), tolerance=tolerance,
        max_evaluations=500, max_rounds=2000,
    )  # fmt: skip
    return projector.run(
        lambda i: problem.batch.structure(bounds[i], bounds[i + 1]), problem.gamma,
        then=lambda _, answer: answer.posterior, duals=duals,
        at=lambda item: np.arange(problem.batch.structure(*bounds[item.data : item.data + 2]).parts.n_parts),
    )  # fmt: skip


def posteriors(outcome: CorpusProjection) -> tuple[np.ndarray, np.ndarray | None]:
    node = np.concatenate([p.node for p in outcome.results])
    edges = [p.edge for p in outcome.results if p.edge is not None]  # a shard without tokens has none
    return node, np.concatenate(edges) if edges else None


@pytest.mark.slow
@pytest.mark.parametrize("categorical", [True, False], ids=["categorical", "chain"])
@pytest.mark.parametrize("mix", MIXES)
def test_shards_do_not_change_the_solution(mix, categorical):
    problem = corpus(mix, categorical=categorical)
    whole = run(problem, [0, 7])
    node, edge = posteriors(whole)
    for bounds in ([0, 3, 7], [0, 2, 3, 7], [0, 1, 2, 3, 4, 5, 6, 7]):
        cut = run(problem, bounds)
        assert cut.converged
        node_cut, edge_cut = posteriors(cut)
        np.testing.assert_allclose(node_cut, node, rtol=0, atol=1e-8)
        if edge is not None:
            np.testing.assert_allclose(edge_cut, edge, rtol=0, atol=1e-8)
            counts = sum(p.edge_counts for p in cut.results)
            np.testing.assert_allclose(counts, whole.results[0].edge_counts, rtol=0, atol=1e-7)
        assert cut.value == pytest.approx(whole.value, rel=1e-9, abs=1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("mix", MIXES)
def test_threads_do_not_change_a_bit(mix):
    problem = corpus(mix)
    bounds = [0, 2, 3, 5, 7]
    one = run(problem, bounds, tolerance=1e-6)
    for threads in (2, 4):
        many = run(problem, bounds, tolerance=1e-6, n_jobs=threads)
        for a, b in zip(one.results, many.results, strict=True):
            np.testing.assert_array_equal(a.node, b.node)
            np.testing.assert_array_equal(a.edge, b.edge)
            np.testing.assert_array_equal(a.edge_counts, b.edge_counts)
        np.testing.assert_array_equal(one.duals.row, many.duals.row)
        assert one.value == many.value
        assert one.evaluations == many.evaluations


@pytest.mark.parametrize("mix", MIXES)
def test_a_warm_start_reaches_the_same_solution_in_fewer_evaluations(mix):
    problem = corpus(mix)
    cold = run(problem, [0, 3, 7], tolerance=1e-6)
    moved = replace(problem, batch=replace(problem.batch, node=problem.batch.node + 0.01))
    moved.batch.node[::2] -= 0.02
    warm = run(moved, [0, 3, 7], tolerance=1e-6, duals=cold.duals)
    fresh = run(moved, [0, 3, 7], tolerance=1e-6)
    assert warm.converged
    assert warm.evaluations < fresh.evaluations
    np.testing.assert_allclose(posteriors(warm)[0], posteriors(fresh)[0], rtol=0, atol=1e-5)


@pytest.mark.parametrize("mix", MIXES)
def test_a_start_at_the_solution_stays_there(mix):
    problem = corpus(mix)
    first = run(problem, [0, 3, 7], tolerance=1e-7)
    again = run(problem, [0, 3, 7], tolerance=1e-6, duals=first.duals)
    assert again.converged
    # One evaluation of every instance that has rows, and one of the coupling dual.
    local = problem.rows.instance[problem.rows.instance != COUPLING]
    assert again.evaluations <= len(np.unique(local)) + 1
    np.testing.assert_allclose(posteriors(again)[0], posteriors(first)[0], rtol=0, atol=1e-12)


def test_duals_of_one_sharding_start_another():
    problem = corpus("both")
    whole = run(problem, [0, 7], tolerance=1e-6)
    cut = run(problem, [0, 3, 7], tolerance=1e-6, duals=whole.duals)
    np.testing.assert_allclose(posteriors(cut)[0], posteriors(whole)[0], rtol=0, atol=1e-5)


def repeated(batch: Batch, rows: Rows, numbers: list[int]) -> tuple[Batch, Rows]:
    """The instances ``numbers`` of a batch with rows over node parts: local rows go with each copy of theirs."""
    k = batch.node.shape[1]
    copy = batch.take(numbers)
    slots_of = {i: np.arange(batch.offsets[i], batch.offsets[i + 1]) for i in range(batch.n_instances)}
    drafts, strengths = [], []
    kinds = rows.groups
    for g in range(len(kinds)):
        members = np.flatnonzero(rows.group == g)
        home = int(rows.instance[members[0]])
        targets = [None] if home == COUPLING else [j for j, i in enumerate(numbers) if i == home]
        for target in targets:
            for r in members:
                entries: dict[int, float] = {}
                for e in range(rows.start[r], rows.start[r + 1]):
                    slot, label = divmod(int(rows.part[e]), k)
                    for j, i in enumerate(numbers):
                        if slot in slots_of[i] and target in (None, j):
                            at = int(copy.offsets[j]) + slot - int(batch.offsets[i])
                            entries[at * k + label] = float(rows.coefficient[e])
                instance = COUPLING if target is None else target
                drafts.append(Row(entries, float(rows.bound[r]), bool(rows.equality[r]), instance, len(strengths)))
            strengths.append((kinds.kind[g], kinds.norm[g], float(kinds.amount[g])))
    blocks = []
    for block in rows.sparsity:
        key_of = dict(zip((block.first // k).tolist(), block.key.tolist(), strict=True))
        pairs = [
            (int(copy.offsets[j]) + s - int(batch.offsets[i]), key_of[s])
            for j, i in enumerate(numbers) for s in slots_of[i].tolist() if s in key_of
        ]  # fmt: skip
        slots, key = np.array(pairs, dtype=np.int64).T
        blocks.append(Sparsity(block.name, slots * k, k, key, block.n_keys, block.strength))
    return copy, compile_rows(copy, drafts, strengths, sparsity=tuple(blocks))


def node_problem(strength: tuple, *, blocks: int = 0) -> Problem:
    """Local and coupling rows of one strength over node parts alone."""
    rng = np.random.default_rng([STRENGTHS.index(strength), blocks])
    batch = random_batch(rng, categorical=False, lengths=(2, 3, 1), k=2)
    batch = replace(batch, weight=np.array([2.0, 1.0, 3.0]))
    problem = build_problem(rng, batch, 0.8, [("local", strength, 2), ("coupling", strength, 2)], blocks=blocks)
    rows = problem.rows
    n_node = batch.node.size
    drafts = [
        Row(
            {int(p) % n_node: float(c) for p, c in zip(rows.part[a:b], rows.coefficient[a:b], strict=True)}
            if i == COUPLING
            else {int(batch.offsets[i]) * 2 + r % 2: 1.0},
            0.6 if i != COUPLING else float(bound), False, int(i), int(g),
        )
        for r, (a, b, bound, i, g) in enumerate(
            zip(rows.start[:-1], rows.start[1:], rows.bound + 1.0, rows.instance, rows.group, strict=True)
        )
    ]  # fmt: skip
    groups = rows.groups
    strengths = list(zip(groups.kind, groups.norm, groups.amount.tolist(), strict=True))
    return replace(problem, rows=compile_rows(batch, drafts, strengths, sparsity=rows.sparsity))


@pytest.mark.parametrize("strength", STRENGTHS, ids=name_of)
def test_a_weight_of_two_is_the_instance_twice(strength):
    problem = node_problem(strength)
    assert_weights_repeat(problem)


def test_a_weight_of_two_is_the_instance_twice_for_sparsity():
    """max over the slots of a key does not grow when a slot is there twice."""
    problem = node_problem(HARD, blocks=1)
    assert_weights_repeat(replace(problem, rows=compile_rows(problem.batch, [], [], sparsity=problem.rows.sparsity)))


def assert_weights_repeat(problem: Problem) -> None:
    batch, numbers = problem.batch, [0, 0, 1, 2, 2, 2]
    weighted = project(
        batch.structure(), problem.rows, problem.gamma, weights=batch.weight, tolerance=1e-9,
        max_evaluations=500, max_rounds=2000,
    )  # fmt: skip
    copy, rows = repeated(batch, problem.rows, numbers)
    plain = project(
        copy.structure(), rows, problem.gamma, tolerance=1e-9, max_evaluations=500, max_rounds=2000
    )  # fmt: skip
    own = np.concatenate([np.arange(batch.offsets[i], batch.offsets[i + 1]) for i in numbers])
    np.testing.assert_allclose(plain.posterior.node, weighted.posterior.node[own], rtol=0, atol=1e-6)
    np.testing.assert_allclose(plain.posterior.edge_counts, weighted.posterior.edge_counts, rtol=0, atol=1e-5)
    assert plain.value == pytest.approx(weighted.value, rel=1e-8, abs=1e-8)


def test_rows_in_any_order_give_duals_by_name():
    problem = corpus("both")
    straight = project(problem.batch.structure(), problem.rows, 0.7, tolerance=1e-8)
    order = np.random.default_rng(0).permutation(len(problem.rows))
    shuffled = project(problem.batch.structure(), problem.rows.reorder(order), 0.7, tolerance=1e-8)
    np.testing.assert_allclose(shuffled.posterior.node, straight.posterior.node, rtol=0, atol=1e-7)
    for name, pull in straight.duals_by_name().items():
        np.testing.assert_allclose(np.sort(shuffled.duals_by_name()[name]), np.sort(pull), rtol=0, atol=1e-5)
