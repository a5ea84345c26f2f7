"""A batch of categoricals against its enumerating twin."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import compile_constraints, count
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, InfeasibleError
from trellis.structures import Categorical, CategoricalParts, ChainParts

from .agreement import (
    assert_argmax_agrees,
    assert_every_query_names,
    assert_frequencies,
    assert_infer_agrees,
    assert_kbest_agrees,
    assert_logs_agree,
    assert_probabilities_agree,
    assert_samples_possible,
    assert_score_agrees,
)
from .strategies import CategoricalCase, categoricals, outputs, partial_labels, tilted, tilts
from .twins import categorical_twin

pytestmark = pytest.mark.slow

INF = math.inf
drawn = settings(max_examples=100, deadline=None)


@given(categoricals())
@drawn
def test_infer_agrees_with_enumeration(case: CategoricalCase) -> None:
    assert_infer_agrees(case.structure(), case.twin(), edges=False, counts=False)


@given(categoricals())
@drawn
def test_a_categorical_has_no_edges(case: CategoricalCase) -> None:
    posterior = case.structure().infer(at=np.arange(case.structure().parts.n_parts))
    assert posterior.edge is None
    assert posterior.edge_counts is None


@given(categoricals(), st.integers(0, 99))
@drawn
def test_argmax_agrees_with_enumeration(case: CategoricalCase, seed: int) -> None:
    structure, twin = case.structure(), case.twin()
    assert_argmax_agrees(structure, twin, exact=True)
    assert_argmax_agrees(structure, twin, exact=True, rng=np.random.default_rng(seed))


@given(categoricals(), st.integers(1, 8))
@drawn
def test_kbest_agrees_with_enumeration(case: CategoricalCase, k: int) -> None:
    assert_kbest_agrees(case.structure(), case.twin(), k)


@given(categoricals())
@drawn
def test_entropy_agrees_with_enumeration(case: CategoricalCase) -> None:
    entropy = case.structure().entropy()
    assert_logs_agree(entropy, case.twin().entropy)
    assert np.all(entropy >= 0.0)


@given(st.data())
@drawn
def test_score_agrees_with_enumeration_and_log_prob_is_never_positive(data: st.DataObject) -> None:
    case = data.draw(categoricals())
    twin = case.twin()
    assert_score_agrees(case.structure(), twin, data.draw(outputs(twin)))


@given(categoricals(), st.integers(0, 99))
@drawn
def test_samples_are_possible(case: CategoricalCase, seed: int) -> None:
    assert_samples_possible(case.structure(), case.twin(), 5, seed)


@given(st.data())
@drawn
def test_a_change_of_every_label_is_added_and_divided_by_gamma(data: st.DataObject) -> None:
    case = data.draw(categoricals())
    arguments = data.draw(tilts(case.twin(), edges=False))
    structure, twin = tilted(case.structure(), **arguments), case.twin().tilt(**arguments)
    if twin.infeasible:
        assert_every_query_names(structure, twin)
    else:
        assert_infer_agrees(structure, twin, edges=False, counts=False)
        assert_score_agrees(structure, twin, data.draw(outputs(twin)))


@given(st.data())
@drawn
def test_clamp_conditions_on_the_known_labels(data: st.DataObject) -> None:
    case = data.draw(categoricals())
    labels = data.draw(partial_labels(case.twin()))
    structure, twin = case.structure().clamp(labels), case.twin().clamp(labels)
    if twin.infeasible:
        assert_every_query_names(structure, twin)
    else:
        assert_infer_agrees(structure, twin, edges=False, counts=False)
        assert_argmax_agrees(structure, twin, exact=True)


@given(categoricals(feasible=False))
@drawn
def test_an_impossible_instance_is_named_by_every_query_and_only_then(case: CategoricalCase) -> None:
    twin = case.twin()
    if twin.infeasible:
        assert_every_query_names(case.structure(), twin)
    else:
        assert_infer_agrees(case.structure(), twin, edges=False, counts=False)


def test_scores_of_an_impossible_instance_are_minus_infinity() -> None:
    np.testing.assert_array_equal(Categorical([[0.0, 1.0], [-INF, -INF]]).score([1, 0]), [1.0, -INF])


def test_the_smallest_of_tied_labels_wins() -> None:
    result = Categorical([[1.0, 2.0, 2.0], [0.0, 0.0, 0.0], [-INF, -1.0, -1.0]]).argmax()
    np.testing.assert_array_equal(result.outputs, [1, 0, 1])
    np.testing.assert_array_equal(result.score, [2.0, 0.0, -1.0])


def test_ties_are_broken_uniformly_with_a_generator() -> None:
    n = 6000
    labels = Categorical(np.tile([2.0, 1.0, 2.0, -INF, 2.0], (n, 1))).argmax(np.random.default_rng(4)).outputs
    assert_frequencies(labels.tolist(), {0: 1 / 3, 2: 1 / 3, 4: 1 / 3})
    assert_frequencies(list(zip(labels[::2].tolist(), labels[1::2].tolist(), strict=True)), PAIRS_OF_TIED)


PAIRS_OF_TIED = {(a, b): 1 / 9 for a in (0, 2, 4) for b in (0, 2, 4)}


def test_samples_have_the_posterior_frequencies_and_are_independent() -> None:
    twin = categorical_twin([[0.3, -1.0, -INF, 1.2], [-0.5, 0.4, 0.1, -INF]])
    samples = Categorical(twin.node).sample(20_000, np.random.default_rng(11))
    first, second = (x.distribution() for x in twin.listings)
    joint = {(*a, *b): p * q for a, p in first.items() for b, q in second.items()}
    assert_frequencies([tuple(y) for y in samples.tolist()], joint)
    consecutive = list(zip(samples[::2, 0].tolist(), samples[1::2, 0].tolist(), strict=True))
    assert_frequencies(consecutive, {(a[0], b[0]): p * q for a, p in first.items() for b, q in first.items()})


def test_five_hundred_labels_are_a_softmax() -> None:
    node = np.random.default_rng(0).normal(0.0, 20.0, (3, 500))
    twin = categorical_twin(node)
    assert_infer_agrees(Categorical(node), twin, edges=False, counts=False)
    assert_logs_agree(Categorical(node).entropy(), twin.entropy)
    assert_kbest_agrees(Categorical(node), twin, 20)


def test_scores_far_from_zero_neither_overflow_nor_vanish() -> None:
    posterior = Categorical([[1e6, 1e6 + 1.0], [-1e6, -1e6 - 1.0], [0.0, -800.0]]).infer()
    p = 1.0 / (1.0 + math.exp(-1.0))
    assert_probabilities_agree(posterior.node, [[1 - p, p], [p, 1 - p], [1.0, 0.0]])
    assert_logs_agree(posterior.log_partition, [1e6 - math.log(1 - p), -1e6 - math.log(p), 0.0])


def test_an_empty_batch_is_answered() -> None:
    structure = Categorical(np.zeros((0, 3)))
    assert structure.infer().node.shape == (0, 3)
    assert structure.infer().log_partition.shape == (0,)
    assert structure.argmax().outputs.shape == (0,)
    assert structure.kbest(2).labels.shape == (2, 0)
    assert structure.sample(4, np.random.default_rng(0)).shape == (4, 0)
    assert structure.entropy().shape == (0,)


@pytest.mark.parametrize(
    "node",
    [
        pytest.param([0.0, 1.0], id="one axis"),
        pytest.param([[[0.0]]], id="three axes"),
        pytest.param([[0.0, math.nan]], id="NaN"),
        pytest.param([[0.0, INF]], id="plus infinity"),
        pytest.param(np.zeros((2, 0)), id="no labels"),
    ],
)
def test_malformed_scores_are_refused(node: object) -> None:
    with pytest.raises(DataError):
        Categorical(node)


@pytest.mark.parametrize("labels", [[0], [0, 1, 0], [0, 3], [0, -1], [[0, 1]]])
def test_labels_that_are_no_output_are_refused(labels: list[object]) -> None:
    with pytest.raises(DataError):
        Categorical(np.zeros((2, 3))).score(np.array(labels))


@pytest.mark.parametrize("labels", [[0], [0, 3], [-2, 0]])
def test_clamping_to_labels_that_do_not_exist_is_refused(labels: list[int]) -> None:
    with pytest.raises(DataError):
        Categorical(np.zeros((2, 3))).clamp(np.array(labels))


@pytest.mark.parametrize("k", [0, -1])
def test_kbest_needs_a_positive_number(k: int) -> None:
    with pytest.raises(DataError):
        Categorical(np.zeros((2, 3))).kbest(k)


def test_a_label_forbidden_by_the_scores_cannot_be_clamped() -> None:
    with pytest.raises(InfeasibleError) as caught:
        Categorical([[0.0, 0.0], [0.0, -INF]], first=40).clamp(np.array([-1, 1])).infer()
    assert caught.value.instances == (41,)


def test_a_negative_number_of_samples_is_refused() -> None:
    with pytest.raises(DataError):
        Categorical(np.zeros((2, 3))).sample(-1, np.random.default_rng(0))


def test_extremes_of_rows_are_those_of_chains_of_one_slot():
    rng = np.random.default_rng(0)
    for _ in range(50):
        n, k = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        parts = CategoricalParts(n, k)
        rows = [np.sort(rng.choice(n * k, size=int(rng.integers(0, n * k + 1)), replace=False)) for _ in range(3)]
        start, part = np.cumsum([0, *map(len, rows)]), np.concatenate(rows).astype(np.int64)
        coefficient = rng.normal(size=len(part))
        twin = ChainParts(np.arange(n + 1, dtype=np.int64), k).extremes(start, part, coefficient)
        np.testing.assert_allclose(parts.extremes(start, part, coefficient), twin, atol=1e-12)


def test_parts_that_are_never_least_are_those_of_chains_of_one_slot():
    rng = np.random.default_rng(1)
    for _ in range(100):
        n, k = int(rng.integers(1, 5)), int(rng.integers(1, 5))
        rows = [np.sort(rng.choice(n * k, size=int(rng.integers(0, n * k + 1)), replace=False)) for _ in range(3)]
        start, part = np.cumsum([0, *map(len, rows)]), np.concatenate(rows).astype(np.int64)
        coefficient, margin = rng.integers(-2, 3, len(part)).astype(np.float64), rng.choice([1e-9, 1.5], 3)
        twin = ChainParts(np.arange(n + 1, dtype=np.int64), k).never_least(start, part, coefficient, margin)
        found = CategoricalParts(n, k).never_least(start, part, coefficient, margin)
        assert set(found[0].listed().tolist()) == set(twin[0].listed().tolist())
        np.testing.assert_array_equal(found[1], twin[1])


def test_extremes_over_many_labels_need_no_table_of_pairs():
    parts = CategoricalParts(2, 10**6)  # pairs of labels would take 8 TB
    low, high = parts.extremes(np.array([0, 2]), np.array([3, 10**6 + 3]), np.array([1.0, -2.0]))
    assert (low.tolist(), high.tolist()) == ([-2.0], [1.0])


def test_a_hard_rule_over_many_labels_needs_no_table_of_pairs():
    names = Vocabulary([str(k) for k in range(10**6)], kind="label")
    rows = compile_constraints([count("3") <= 0], Batch.of_rows(np.zeros((2, 1))), names, CategoricalParts(2, 10**6))
    assert np.concatenate([own.listed() for own in rows.forbidden.sets]).tolist() == [3, 10**6 + 3]
