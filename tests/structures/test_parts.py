"""The part index space: arithmetic that numbers every part of a batch once."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.errors import DataError
from trellis.structures import Categorical, CategoricalParts, Chain, ChainParts

from .agreement import with_edges
from .strategies import categoricals, chains, outputs

drawn = settings(max_examples=60, deadline=None)
OFFSETS = np.array([0, 3, 3, 5, 6])
N_SLOTS, N_LABELS = 6, 3


def chain_parts() -> ChainParts:
    return ChainParts(OFFSETS, N_LABELS)


def test_node_parts_come_first_slot_by_slot() -> None:
    parts = chain_parts()
    numbers = [int(parts.label(t, k)) for t in range(N_SLOTS) for k in range(N_LABELS)]
    assert numbers == list(range(N_SLOTS * N_LABELS))


def test_edge_parts_follow_boundary_by_boundary() -> None:
    parts = chain_parts()
    numbers = [int(parts.transition(t, a, b)) for t in range(N_SLOTS) for a in range(N_LABELS) for b in range(N_LABELS)]
    assert numbers == list(range(N_SLOTS * N_LABELS, N_SLOTS * N_LABELS + N_SLOTS * N_LABELS**2))
    assert parts.n_parts == N_SLOTS * N_LABELS + N_SLOTS * N_LABELS**2


def test_part_numbers_broadcast_over_arrays() -> None:
    parts = chain_parts()
    t, k = np.arange(N_SLOTS)[:, None], np.arange(N_LABELS)[None, :]
    np.testing.assert_array_equal(parts.label(t, k), t * N_LABELS + k)
    np.testing.assert_array_equal(parts.transition(t, k, 1), N_SLOTS * N_LABELS + (t * N_LABELS + k) * N_LABELS + 1)


def test_every_part_belongs_to_the_instance_of_its_slot() -> None:
    parts = chain_parts()
    owner = [0, 0, 0, 2, 2, 3]
    expected = np.concatenate([np.repeat(owner, N_LABELS), np.repeat(owner, N_LABELS**2)])
    np.testing.assert_array_equal(parts.instance_of(np.arange(parts.n_parts)), expected)


def test_categorical_parts_are_nodes_alone() -> None:
    parts = CategoricalParts(4, 3)
    assert parts.n_parts == 12
    assert [int(parts.label(t, k)) for t in range(4) for k in range(3)] == list(range(12))
    np.testing.assert_array_equal(parts.instance_of(np.arange(12)), np.repeat(np.arange(4), 3))
    np.testing.assert_array_equal(parts.of(np.array([2, 0, 1, 2])), [2, 3, 7, 11])


def test_an_output_of_a_chain_uses_one_node_a_slot_and_one_edge_a_boundary() -> None:
    labels = np.array([2, 0, 1, 1, 1, 0])
    parts = chain_parts()
    nodes = [parts.label(t, labels[t]) for t in range(N_SLOTS)]
    edges = [parts.transition(t, labels[t - 1], labels[t]) for t in (1, 2, 4)]
    np.testing.assert_array_equal(parts.of(labels), np.sort([*nodes, *edges]))


@given(st.data())
@drawn
def test_parts_of_a_chain_output_agree_with_its_twin(data: st.DataObject) -> None:
    case = data.draw(chains(feasible=False))
    twin = case.twin()
    labels = data.draw(outputs(twin))
    parts = case.structure().parts
    assert isinstance(parts, ChainParts)
    np.testing.assert_array_equal(parts.of(labels), np.array(twin.parts_of(labels), dtype=np.int64))


@given(st.data())
@drawn
def test_parts_of_a_categorical_output_agree_with_its_twin(data: st.DataObject) -> None:
    case = data.draw(categoricals(feasible=False))
    twin = case.twin()
    labels = data.draw(outputs(twin))
    parts = case.structure().parts
    assert isinstance(parts, CategoricalParts)
    np.testing.assert_array_equal(parts.of(labels), np.array(twin.parts_of(labels), dtype=np.int64))


def test_scores_laid_out_over_parts_add_up_to_the_score_of_an_output() -> None:
    rng = np.random.default_rng(2)
    node, edge = rng.normal(size=(N_SLOTS, N_LABELS)), rng.normal(size=(N_SLOTS, N_LABELS, N_LABELS))
    chain = Chain(OFFSETS, node, edge, edge_index=np.arange(N_SLOTS))
    labels = rng.integers(0, N_LABELS, N_SLOTS)
    parts = chain.parts
    used = parts.of(labels)
    flat = np.concatenate([node.ravel(), edge.ravel()])
    assert len(flat) == parts.n_parts
    totals = np.bincount(parts.instance_of(used), weights=flat[used], minlength=len(OFFSETS) - 1)
    np.testing.assert_allclose(totals, chain.score(labels), rtol=0, atol=1e-12)


def test_holes_before_first_slots_have_no_probability() -> None:
    rng = np.random.default_rng(3)
    chain = Chain(OFFSETS, rng.normal(size=(N_SLOTS, N_LABELS)), rng.normal(size=(N_LABELS, N_LABELS)))
    posterior = with_edges(chain)
    flat = np.concatenate([posterior.node.ravel(), posterior.edge.ravel()])
    assert len(flat) == chain.parts.n_parts
    first_slots = np.array([0, 3, 5])
    holes = chain.parts.transition(first_slots[:, None, None], np.arange(3)[None, :, None], np.arange(3)[None, None, :])
    np.testing.assert_array_equal(flat[holes], 0.0)


def test_expected_parts_are_the_mean_of_the_parts_of_samples() -> None:
    rng = np.random.default_rng(5)
    chain = Chain(OFFSETS, rng.normal(size=(N_SLOTS, N_LABELS)), rng.normal(size=(N_LABELS, N_LABELS)))
    posterior = with_edges(chain)
    flat = np.concatenate([posterior.node.ravel(), posterior.edge.ravel()])
    n = 2000
    used = np.concatenate([chain.parts.of(y) for y in chain.sample(n, np.random.default_rng(6))])
    frequency = np.bincount(used, minlength=chain.parts.n_parts) / n
    # Five standard errors of a Bernoulli mean; 72 parts, a fixed seed.
    assert np.all(np.abs(frequency - flat) <= 5.0 * np.sqrt(flat * (1 - flat) / n) + 1e-12)


def test_a_batch_without_slots_has_no_parts() -> None:
    for structure in (
        Chain(np.array([0, 0]), np.zeros((0, 2)), np.zeros((2, 2))),
        Categorical(np.zeros((0, 2))),
    ):
        assert structure.parts.n_parts == 0
        assert len(structure.parts.of(np.zeros(0, dtype=np.int64))) == 0


@pytest.mark.parametrize("part", [-1, N_SLOTS * N_LABELS * (1 + N_LABELS)])
def test_numbers_outside_the_space_have_no_instance(part: int) -> None:
    with pytest.raises(DataError):
        chain_parts().instance_of(np.array([part]))


@pytest.mark.parametrize("labels", [[0] * 5, [0, 1, 2, 3, 0, 0], [0, 0, 0, 0, 0, -1]])
def test_labels_that_are_no_output_have_no_parts(labels: list[int]) -> None:
    with pytest.raises(DataError):
        chain_parts().of(np.array(labels))
