"""Dependency trees against their enumeration: what only trees have, and numbers of any range."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trellis.errors import DataError, InfeasibleError
from trellis.structures import SpanningTrees, TreeParts, Trees
from trellis.structures.kernels import spanning, tree_log

from .agreement import assert_frequencies, assert_logs_agree, assert_probabilities_agree
from .enumeration import Enumeration
from .strategies import palettes
from .tree_twin import TreeCase, all_trees, is_tree, nearest_arcs, tree_cases

drawn = settings(max_examples=20, deadline=None)
both_kinds = pytest.mark.parametrize("projective", [True, False], ids=["projective", "spanning"])
every_root = pytest.mark.parametrize("single_root", [True, False], ids=["single", "many"])


@st.composite
def batches(draw: st.DrawFn, projective: bool, *, exact: bool = False, valence: bool | None = None) -> TreeCase:
    lengths = draw(st.lists(st.integers(0, 5), min_size=1, max_size=2))
    palette = draw(palettes(exact=exact))
    return draw(tree_cases(palette, projective=projective, lengths=lengths, valence=valence))


def outputs_of(case: TreeCase, heads: np.ndarray) -> list[tuple[int, ...]]:
    return [tuple(own.tolist()) for own in np.split(heads, np.cumsum(case.lengths)[:-1])]


@pytest.mark.slow
@both_kinds
@given(st.data())
@drawn
def test_marginals_and_best_trees_agree_with_enumeration(projective: bool, data: st.DataObject) -> None:
    case = data.draw(batches(projective))
    listed, scores = case.listed(), case.structure()
    q = scores.infer()
    assert_logs_agree(q.log_partition, listed.log_partition)
    assert_probabilities_agree(q.marginal, listed.marginals)
    best = scores.argmax()
    assert_logs_agree(best.score, listed.best_score)
    assert_logs_agree(scores.score(best.outputs), listed.best_score)


@given(st.data())
@drawn
def test_nearest_dependents_are_found_in_sums(data: st.DataObject) -> None:
    case = data.draw(batches(True, valence=True))
    listed, expected = case.listed(), np.zeros(len(case.arguments["arc"]))
    for i in range(len(case.lengths)):
        for heads, score in zip(case.trees(i), listed.score[i], strict=True):
            for h, c in nearest_arcs(heads):
                expected[case.part(i, h, c)] += math.exp(score - listed.log_partition[i])
    near = case.structure().infer().near
    assert near is not None
    assert_probabilities_agree(near, expected)


@pytest.mark.slow
@both_kinds
@given(st.data())
@drawn
def test_entropies_and_log_probabilities_agree_with_enumeration(projective: bool, data: st.DataObject) -> None:
    case = data.draw(batches(projective))
    listed, scores = case.listed(), case.structure()
    for i, found in enumerate(scores.entropy()):
        log_p = listed.score[i] - listed.log_partition[i]
        wanted = -float(np.where(log_p > -700.0, np.exp(log_p) * np.where(log_p > -700.0, log_p, 0.0), 0.0).sum())
        assert abs(found - wanted) < 1e-9 * max(1.0, float(np.abs(listed.log_partition[i])))
    choice = tuple(data.draw(st.integers(0, len(score) - 1)) for score in listed.score)
    found, wanted = scores.log_prob(listed.assemble(choice)), listed.score_of(choice) - listed.log_partition
    np.testing.assert_array_equal(found == -math.inf, wanted == -math.inf)
    finite = wanted > -math.inf
    size = np.maximum(1.0, np.abs(listed.log_partition))[finite]
    assert np.all(np.abs(found[finite] - wanted[finite]) < 1e-10 * np.maximum(size, np.abs(wanted[finite])))


@given(st.data(), st.integers(1, 7))
@drawn
def test_k_best_trees_agree_with_enumeration(data: st.DataObject, k: int) -> None:
    case = data.draw(batches(True, exact=True))
    listed, found = case.listed(), case.structure().kbest(k)
    for i in range(len(case.lengths)):
        own = {heads: float(score) for heads, score in zip(case.trees(i), listed.score[i], strict=True)}
        ranked = sorted((score for score in own.values() if score > -math.inf), reverse=True)[:k]
        trees = [outputs_of(case, heads)[i] for heads in found.labels]
        assert found.score[: len(ranked), i].tolist() == ranked
        assert np.all(found.score[len(ranked) :, i] == -math.inf)
        assert len(set(trees[: len(ranked)])) == len(ranked)
        for rank, heads in enumerate(trees):
            if rank < len(ranked):
                assert own[heads] == ranked[rank]
            else:
                assert set(heads) <= {-1}


@both_kinds
@given(st.data())
@settings(max_examples=15, deadline=None)
def test_samples_are_possible_and_the_seed_decides_them(projective: bool, data: st.DataObject) -> None:
    case = data.draw(batches(projective))
    scores = case.structure()
    drawn_trees = scores.sample(3, np.random.default_rng(1))
    for heads in drawn_trees:
        assert np.all(scores.score(heads) > -math.inf)
    np.testing.assert_array_equal(drawn_trees, scores.sample(3, np.random.default_rng(1)))


@pytest.mark.slow
@both_kinds
@every_root
def test_samples_follow_the_distribution(projective: bool, single_root: bool) -> None:
    rng = np.random.default_rng(0)
    case = TreeCase((3,), projective, {"arc": rng.normal(size=9), "single_root": single_root})
    if projective:
        case.arguments["nearest"] = rng.normal(size=9)
    listed = case.listed()
    shares = dict(zip(case.trees(0), np.exp(listed.score[0] - listed.log_partition[0]), strict=True))
    samples = case.structure().sample(2000, np.random.default_rng(2))
    assert_frequencies([tuple(heads.tolist()) for heads in samples], shares)


def test_a_random_best_tree_is_any_of_the_best_all_alike() -> None:
    case = TreeCase((4,), True, {"arc": np.zeros(16), "single_root": False})
    trees = case.trees(0)
    repeated = case.structure().take(np.zeros(4000, dtype=np.int64))
    heads = repeated.argmax(np.random.default_rng(0)).outputs.reshape(-1, 4)
    assert_frequencies([tuple(own.tolist()) for own in heads], dict.fromkeys(trees, 1.0 / len(trees)))


def test_a_random_best_spanning_tree_is_not_always_the_same() -> None:
    scores = SpanningTrees([0, 4], np.zeros(16))
    found = {tuple(scores.argmax(np.random.default_rng(seed)).outputs.tolist()) for seed in range(40)}
    assert len(found) > 10


@pytest.mark.slow
@both_kinds
@given(st.data())
@drawn
def test_known_heads_leave_the_trees_that_have_them(projective: bool, data: st.DataObject) -> None:
    case = data.draw(batches(projective))
    scores, offsets = case.structure(), np.cumsum([0, *case.lengths])
    known = np.full(int(offsets[-1]), -1, np.int32)
    planted = [data.draw(st.sampled_from(case.trees(i))) for i in range(len(case.lengths))]
    told = data.draw(hnp.arrays(np.bool_, len(known)))
    known[told] = np.array([h for heads in planted for h in heads], np.int32)[told]
    listed = case.listed()
    score = []
    for i in range(len(case.lengths)):
        own = known[offsets[i] : offsets[i + 1]]
        agrees = [all(k in (-1, h) for k, h in zip(own, heads, strict=True)) for heads in case.trees(i)]
        score.append(np.where(agrees, listed.score[i], -math.inf))
    left = Enumeration(listed.n_parts, listed.use, score, listed.assemble, listed.first)
    clamped = scores.clamp(known)
    if left.infeasible:
        with pytest.raises(InfeasibleError):
            clamped.infer()
        return
    q = clamped.infer()
    assert_logs_agree(q.log_partition, left.log_partition)
    assert_probabilities_agree(q.marginal, left.marginals)
    assert_logs_agree(clamped.argmax().score, left.best_score)


@pytest.mark.slow
@both_kinds
@given(st.data())
@drawn
def test_likeliest_trees_have_the_most_right_arcs(projective: bool, data: st.DataObject) -> None:
    case = data.draw(batches(projective))
    listed, scores = case.listed(), case.structure()
    q = scores.infer()
    heads = scores.marginal_argmax(q)
    for i, own in enumerate(outputs_of(case, heads)):
        use = listed.use[i][listed.score[i] > -math.inf]
        mine = sum(q.marginal[case.part(i, h, c)] for c, h in enumerate(own, start=1))
        assert mine >= float((use @ listed.marginals).max()) - 1e-9


# the two kinds, and the two ways to sum, against each other


@every_root
@given(hnp.arrays(np.float64, 16, elements=st.sampled_from([-2.0, 0.0, 0.7, 3.0, 40.0])))
@drawn
def test_matrix_tree_and_inside_outside_agree_where_no_arcs_can_cross(single_root: bool, arc: np.ndarray) -> None:
    square = arc.reshape(4, 4).copy()
    for child in range(4):
        for head in range(4):
            if head != child and abs(head - child) > 1:
                square[child, head] = -math.inf
    if not single_root:
        square[[1, 2], [1, 2]] = -math.inf  # of many roots only the outermost words: their arcs enclose nothing
        square[0, 0] = max(square[0, 0], 0.0)
    projective = Trees([0, 4], square.ravel(), single_root=single_root).infer()
    crossing = SpanningTrees([0, 4], square.ravel(), single_root=single_root).infer()
    assert_logs_agree(projective.log_partition, crossing.log_partition)
    assert_probabilities_agree(projective.marginal, crossing.marginal)


@every_root
@pytest.mark.parametrize("n", [1, 2, 7, 23])
@pytest.mark.parametrize("spread", [0.5, 4.0])
def test_scaled_sums_equal_those_in_log_space(single_root: bool, n: int, spread: float) -> None:
    rng = np.random.default_rng(n)
    arc, nearest = spread * rng.normal(size=3 * n * n), spread * rng.normal(size=3 * n * n)
    arc[rng.random(len(arc)) < 0.1] = -math.inf
    scores = Trees([0, n, 2 * n, 3 * n], np.maximum(arc, -50.0), nearest=nearest, single_root=single_root)
    q, p = scores.infer(), scores.parts
    marginal, near, log_partition = np.zeros(len(arc)), np.zeros(len(arc)), np.zeros(3)
    every = np.arange(3)
    tree_log.infer_logs(
        every, p.offsets, p.arc_offsets, scores.arc, nearest, single_root, marginal, near, log_partition
    )
    assert_logs_agree(q.log_partition, log_partition)
    assert_probabilities_agree(q.marginal, marginal)
    assert q.near is not None
    assert_probabilities_agree(q.near, near)
    assert_probabilities_agree(marginal.reshape(-1, n).sum(axis=1), np.ones(3 * n))


@every_root
@pytest.mark.parametrize("n", [1, 2, 7, 23])
def test_determinants_equal_sums_without_subtraction(single_root: bool, n: int) -> None:
    scores = SpanningTrees(
        [0, n, 2 * n], 2.0 * np.random.default_rng(n).normal(size=2 * n * n), single_root=single_root
    )
    q, p = scores.infer(), scores.parts
    marginal, log_partition = np.zeros(len(scores.arc)), np.zeros(2)
    spanning.infer_spanning(np.arange(2), p.offsets, p.arc_offsets, scores.arc, single_root, marginal, log_partition)
    assert_logs_agree(q.log_partition, log_partition)
    assert_probabilities_agree(q.marginal, marginal)


def test_words_that_almost_surely_hang_on_each_other_lose_no_digits() -> None:
    """Two words prefer each other by 1e30: a determinant is a difference of numbers that agree to all digits."""
    case = TreeCase((3,), False, {"arc": np.array([0.0, 70.0, -1.0, 70.0, -0.5, 0.3, 0.1, 0.2, -2.0])})
    listed, q = case.listed(), case.structure().infer()
    assert_logs_agree(q.log_partition, listed.log_partition)
    assert_probabilities_agree(q.marginal, listed.marginals)


@pytest.mark.slow
def test_long_sentences_and_wide_scores_are_served() -> None:
    """All trees of 300 words alike; and scores under which only hopeless trees are left."""
    n = 300
    q = Trees([0, n], np.zeros(n * n)).infer()
    # Of n words there are C(3n − 2, n − 1) / n projective trees with one root.
    count = math.lgamma(3 * n - 1) - math.lgamma(n) - math.lgamma(2 * n) - math.log(n)
    assert abs(q.log_partition[0] - count) < 1e-9 * count
    assert_probabilities_agree(q.marginal.reshape(n, n).sum(axis=1), np.ones(n))
    spread = Trees([0, 30], 400.0 * np.random.default_rng(0).normal(size=900))
    assert abs(spread.infer().log_partition[0] - spread.argmax().score[0]) < 1e-6


def test_a_sentence_has_the_same_bits_in_any_company() -> None:
    rng = np.random.default_rng(0)
    lengths = rng.integers(0, 12, size=40)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    scores = Trees(offsets, rng.normal(size=int((lengths**2).sum())))
    together = scores.infer()
    for i in range(len(lengths)):
        alone = scores.take(np.array([i])).infer()
        assert alone.log_partition[0] == together.log_partition[i]
        low, high = scores.parts.arc_offsets[i : i + 2]
        np.testing.assert_array_equal(alone.marginal, together.marginal[low:high])


# forms and refusals


@given(st.integers(0, 4).flatmap(lambda n: st.tuples(*(st.integers(0, n) for _ in range(n)))), st.booleans())
@drawn
def test_what_is_no_tree_has_no_score(heads: tuple[int, ...], single_root: bool) -> None:
    n = len(heads)
    if any(h == c for c, h in enumerate(heads, start=1)):
        with pytest.raises(DataError, match="must be another of its"):
            Trees([0, n], np.zeros(n * n)).score(np.array(heads))
        return
    for made in (Trees, SpanningTrees):
        scores = made([0, n], np.zeros(n * n), single_root=single_root)
        wanted = is_tree(heads, projective=made is Trees, single_root=single_root)
        assert scores.score(np.array(heads, dtype=np.int32))[0] == (0.0 if wanted else -math.inf)


def test_arcs_have_numbers_by_head_and_child() -> None:
    parts = TreeParts(np.array([0, 2, 2, 5]))
    head, child = parts.arc_words()
    assert child.tolist() == [0, 0, 1, 1, 2, 2, 2, 3, 3, 3, 4, 4, 4]
    assert head.tolist() == [-1, 1, 0, -1, -1, 3, 4, 2, -1, 4, 2, 3, -1]
    assert parts.arc_within(2, 0, 3) == 12
    for instance, h, c in ((0, 1, 1), (0, 3, 1), (0, 0, 0), (1, 0, 1)):
        with pytest.raises(DataError, match="has no arc"):
            parts.arc_within(instance, h, c)


def test_there_are_as_many_trees_as_formulas_say() -> None:
    assert len(all_trees(4, projective=True, single_root=True)) == 30
    assert len(all_trees(4, projective=False, single_root=False)) == 5**3


def test_malformed_scores_and_heads_are_refused() -> None:
    with pytest.raises(DataError, match="shape"):
        Trees([0, 2], np.zeros(3))
    with pytest.raises(DataError, match="nearest scores must be finite"):
        Trees([0, 1], np.zeros(1), nearest=[-np.inf])
    with pytest.raises(DataError, match="expected a head for each of 2 words"):
        Trees([0, 2], np.zeros(4)).score(np.array([0]))
    with pytest.raises(DataError, match="k must be at least 1"):
        Trees([0, 2], np.zeros(4)).kbest(0)
