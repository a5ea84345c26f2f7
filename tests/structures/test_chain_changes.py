"""Changes of chains: few matrices for many boundaries, counts on the model's own stack, means of two chains."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trellis.errors import DataError
from trellis.structures import Categorical, Chain, ChainParts, chain_parts

from .agreement import assert_probabilities_agree, with_edges
from .contract import assert_means_agree
from .strategies import GAMMAS, categoricals, chains, changes, choices, partial_labels
from .twins import Twin

drawn = settings(max_examples=30, deadline=None)

# A stack of four matrices of which the second and the last are used nowhere.
GAPPED: dict[str, Any] = {
    "offsets": np.array([0, 3, 3, 4, 8]),
    "node": np.random.default_rng(1).normal(size=(8, 2)),
    "edge": np.random.default_rng(2).normal(size=(4, 2, 2)),
    "edge_index": np.array([0, 2, 0, 0, 0, 2, 2, 0]),
}


def counts_by_hand(posterior: Any, index: np.ndarray, weights: np.ndarray, n_matrices: int) -> np.ndarray:
    """Σ over boundaries of weight · P(pair), by the matrix that the model has there."""
    counts = np.zeros((n_matrices, *posterior.edge.shape[1:]))
    np.add.at(counts, index, weights[:, None, None] * posterior.edge)
    return counts


def test_counts_after_changes_are_by_the_matrices_of_the_model_also_those_it_does_not_use() -> None:
    rng, chain = np.random.default_rng(3), Chain(**GAPPED)
    pairs = chain.parts.transition_grid()
    weights = rng.random(4)
    slot_weights = np.repeat(weights, np.diff(GAPPED["offsets"]))
    once = chain.add(pairs.ravel(), rng.normal(size=pairs.size))
    for changed in (
        once,
        once.apply(chain.parts.change(pairs[::2].ravel(), rng.normal(size=pairs[::2].size)), 2.0),
        once.flat(),
        once.clamp(np.array([1, -1, -1, 0, -1, -1, 1, -1])),
        once.add(np.arange(16), rng.normal(size=16)).temper(0.5),
        once.instances(0, 4),
        once.take(np.arange(4)),
    ):
        posterior = with_edges(changed, weights)
        assert posterior.edge_counts.shape == (4, 2, 2)
        np.testing.assert_array_equal(posterior.edge_counts[[1, 3]], 0.0)
        assert_probabilities_agree(
            posterior.edge_counts, counts_by_hand(posterior, GAPPED["edge_index"], slot_weights, 4)
        )
        assert changed.tables.n_matrices != 4 or changed.owner is not None


def test_counts_of_taken_instances_are_by_the_matrices_of_the_model() -> None:
    chain = Chain(**GAPPED)
    changed = chain.add(chain.parts.transition_grid()[::3].ravel(), np.ones(chain.parts.transition_grid()[::3].size))
    for taken, slots in (
        (changed.take(np.array([3, 0])), [4, 5, 6, 7, 0, 1, 2]),
        (changed.instances(1, 4), range(3, 8)),
    ):
        posterior = with_edges(taken)
        index = GAPPED["edge_index"][list(slots)]
        assert_probabilities_agree(posterior.edge_counts, counts_by_hand(posterior, index, np.ones(len(index)), 4))


@given(st.data())
@drawn
def test_counts_after_any_changes_agree_with_enumeration(data: st.DataObject) -> None:
    case = data.draw(chains(lengths=data.draw(st.lists(st.integers(0, 3), max_size=3))))
    listed, twin, structure = case.listed(), case.twin(), case.structure()
    weights = data.draw(hnp.arrays(np.float64, len(listed), elements=st.sampled_from([0.0, 0.5, 2.0])))
    for _ in range(data.draw(st.integers(1, 3))):
        part, value = data.draw(changes(listed))
        gamma = data.draw(GAMMAS)
        structure, listed = structure.add(part, value, gamma), listed.change(part, value, gamma)
    if not listed.infeasible:
        found = structure.infer(weights=weights).edge_counts
        assert_probabilities_agree(found, _counts(twin, listed.marginals, weights))


@given(st.data())
@drawn
def test_averages_of_outputs_are_counted_by_the_matrices_of_the_model(data: st.DataObject) -> None:
    case = data.draw(chains(lengths=data.draw(st.lists(st.integers(0, 3), max_size=3))))
    listed, twin = case.listed(), case.twin()
    weights = data.draw(hnp.arrays(np.float64, len(listed), elements=st.sampled_from([0.0, 0.5, 2.0])))
    choice = data.draw(choices(listed))
    expected = _counts(twin, listed.used(choice).astype(float), weights)
    for structure in (case.structure(), case.structure().add(*data.draw(changes(listed)))):
        assert_probabilities_agree(structure.certain(listed.assemble(choice), weights=weights).edge_counts, expected)


def _counts(twin: Twin, marginals: np.ndarray, weights: np.ndarray) -> np.ndarray:
    k = twin.n_labels
    edge = marginals[twin.n_slots * k :].reshape(twin.n_slots, k, k)
    counts = np.zeros((twin.n_matrices, k, k))
    for i, t in twin.boundaries():
        counts[twin.matrix[t]] += weights[i] * edge[t]
    return counts


def test_a_change_that_is_the_same_at_many_boundaries_costs_one_matrix() -> None:
    parts = ChainParts(np.array([0, 500, 1000]), 3)
    pairs = parts.transition_grid()
    same = parts.change(pairs[:, 0, 1], np.full(len(pairs), -np.inf))
    assert len(same.patterns) == 2
    chain = parts.zeros().apply(same)
    assert chain.tables.n_matrices == 2
    assert np.all(chain.infer(at=pairs.ravel()).at(pairs[:, 0, 1]) == 0.0)
    two = parts.change(pairs[:, 0, 1], np.where(np.arange(len(pairs)) % 2, 1.0, 2.0))
    assert len(two.patterns) == 3


def test_changes_whose_digests_collide_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    parts = ChainParts(np.array([0, 4]), 2)
    pairs = parts.transition_grid()
    part, value = pairs[:, 0].ravel(), np.arange(6.0)
    expected = with_edges(parts.zeros().add(part, value))
    monkeypatch.setattr(chain_parts, "_scatter", lambda within, value: np.zeros(len(within), dtype=np.uint64))
    change = parts.change(part, value)
    assert len(change.patterns) == 4
    np.testing.assert_array_equal(with_edges(parts.zeros().apply(change)).edge, expected.edge)


def test_a_change_of_nothing_is_the_same_chain() -> None:
    chain = Chain(**GAPPED)
    assert chain.add(np.zeros(0, np.int64), np.zeros(0)) is chain
    assert chain.temper(1.0) is chain
    assert chain.clamp(np.full(8, -1)) is chain


def test_expected_scores_of_a_change_are_not_guessed() -> None:
    # Its counts are by the model's matrices, which are not its own.
    chain = Chain(**GAPPED)
    changed = chain.add(chain.parts.transition_grid()[0].ravel(), np.ones(4))
    with pytest.raises(DataError, match="the model's own chain"):
        changed.expected_score(changed.infer(), np.ones(4))


@pytest.mark.slow
@given(st.data())
@drawn
def test_means_of_chains_agree_with_enumeration(data: st.DataObject) -> None:
    lengths, n_labels = data.draw(st.lists(st.integers(0, 3), max_size=3)), data.draw(st.integers(1, 3))
    one, other = (data.draw(chains(lengths=lengths, n_labels=n_labels)) for _ in range(2))
    one.arguments["first"] = other.arguments["first"]
    assert_means_agree(one.structure(), one.listed(), other.structure(), other.listed())


@pytest.mark.slow
@given(st.data())
@drawn
def test_means_of_categoricals_agree_with_enumeration(data: st.DataObject) -> None:
    n, n_labels = data.draw(st.integers(0, 3)), data.draw(st.integers(1, 3))
    one, other = (data.draw(categoricals(n_instances=n, n_labels=n_labels)) for _ in range(2))
    one.arguments["first"] = other.arguments["first"]
    assert_means_agree(one.structure(), one.listed(), other.structure(), other.listed())


def test_means_over_different_outputs_are_refused() -> None:
    chain = Chain([0, 2, 3], np.zeros((3, 2)), np.zeros((2, 2)))
    for offsets in ([0, 1, 3], [0, 2, 4], [0, 2, 2, 3]):
        with pytest.raises(DataError, match="lengths of these differ"):
            chain.mean(Chain(offsets, np.zeros((offsets[-1], 2)), np.zeros((2, 2))))
    with pytest.raises(DataError, match="same labels, but there are 2 and 3"):
        chain.mean(Chain([0, 2, 3], np.zeros((3, 3)), np.zeros((3, 3))))
    with pytest.raises(DataError, match="same instances, but there are 2 and 3"):
        Categorical(np.zeros((2, 3))).mean(Categorical(np.zeros((3, 3))))


@given(st.data())
@drawn
def test_the_likeliest_labels_are_those_of_the_largest_marginals(data: st.DataObject) -> None:
    for case in (data.draw(chains()), data.draw(categoricals())):
        structure = case.structure()
        q = structure.infer()
        found = structure.marginal_argmax(q)
        assert found.dtype == np.int32
        rows = np.arange(len(q.node))
        np.testing.assert_array_equal(q.node[rows, found], q.node.max(axis=1, initial=0.0))


@given(st.data())
@drawn
def test_the_grid_lists_all_labels_and_all_pairs_at_boundaries(data: st.DataObject) -> None:
    for case in (data.draw(chains(lengths=[2, 0, 1])), data.draw(categoricals())):
        parts = case.structure().parts
        labels, pairs = parts.grid(), parts.transition_grid()
        k = labels.shape[1]
        slots = np.arange(len(labels))
        np.testing.assert_array_equal(labels, parts.label(slots[:, None], np.arange(k)))
        np.testing.assert_array_equal(np.sort(np.append(labels, pairs)), np.flatnonzero(case.listed().usable))
        assert pairs.shape[1:] == (k, k)


@given(st.data())
@drawn
def test_clamped_chains_are_named_when_they_were_taken(data: st.DataObject) -> None:
    case = data.draw(chains(lengths=[1, 2, 0]))
    labels = data.draw(partial_labels(case.twin()))
    taken = case.structure().clamp(labels).take(np.array([2, 1, 0]))
    assert taken.numbers is not None
    np.testing.assert_array_equal(taken.numbers - case.arguments["first"], [2, 1, 0])
    np.testing.assert_array_equal(taken.instances(1, 3).numbers, taken.numbers[1:])
