"""A ragged batch of chains against its enumerating twin, query by query."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trellis.errors import DataError, InfeasibleError
from trellis.structures import Chain

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
    output_of,
    with_edges,
)
from .strategies import ChainCase, chains, outputs, partial_labels, tilted, tilts
from .twins import chain_twin

pytestmark = pytest.mark.slow

INF = math.inf
drawn = settings(max_examples=50, deadline=None)


@given(chains())
@drawn
def test_infer_agrees_with_enumeration(case: ChainCase) -> None:
    assert_infer_agrees(case.structure(), case.twin())


@given(chains())
@drawn
def test_asking_for_edge_marginals_changes_nothing_else(case: ChainCase) -> None:
    structure = case.structure()
    plain, full = structure.infer(), structure.infer(at=structure.parts.transition_grid().ravel())
    assert plain.edge is None
    assert (full.edge is None) == (not list(case.twin().boundaries()))
    assert_logs_agree(plain.log_partition, full.log_partition)
    assert_probabilities_agree(plain.node, full.node)
    assert_probabilities_agree(plain.edge_counts, full.edge_counts)


@given(st.data())
@drawn
def test_weights_multiply_edge_counts_and_nothing_else(data: st.DataObject) -> None:
    case = data.draw(chains())
    twin = case.twin()
    weights = data.draw(hnp.arrays(np.float64, twin.n_instances, elements=st.sampled_from([0.0, 0.5, 1.0, 3.25])))
    posterior = case.structure().infer(weights=weights)
    assert_probabilities_agree(posterior.edge_counts, twin.edge_counts(weights))
    assert_probabilities_agree(posterior.node, twin.node_marginals)
    assert_logs_agree(posterior.log_partition, twin.log_partition)


@given(chains())
@drawn
def test_edge_marginals_sum_to_node_marginals_on_both_sides(case: ChainCase) -> None:
    structure = case.structure()
    posterior = with_edges(structure)
    edge = posterior.at(structure.parts.transition_grid())
    boundaries = [t for _, t in case.twin().boundaries()]
    before = [t - 1 for t in boundaries]
    assert_probabilities_agree(edge.sum(axis=2), posterior.node[before])
    assert_probabilities_agree(edge.sum(axis=1), posterior.node[boundaries])
    assert_probabilities_agree(posterior.edge_counts.sum(axis=0), edge.sum(axis=0))


@given(chains(exact=True))
@drawn
def test_argmax_breaks_ties_by_the_smallest_last_label(case: ChainCase) -> None:
    assert_argmax_agrees(case.structure(), case.twin(), exact=True)


@given(chains(exact=False))
@drawn
def test_argmax_has_the_best_score(case: ChainCase) -> None:
    assert_argmax_agrees(case.structure(), case.twin(), exact=False)


@given(chains())
@drawn
def test_scores_of_best_outputs_are_those_of_their_labels_to_the_bit(case: ChainCase) -> None:
    # Ties mean equality of floating sums, so every query must add the parts of an output in one order.
    structure = case.structure()
    for best in (structure.argmax(), structure.argmax(np.random.default_rng(1))):
        np.testing.assert_array_equal(best.score, structure.score(best.outputs))
    ranked = structure.kbest(1)
    np.testing.assert_array_equal(ranked.score[0], structure.score(ranked.labels[0]))


@given(chains(exact=True), st.integers(0, 99))
@drawn
def test_argmax_at_random_is_one_of_the_tied_outputs(case: ChainCase, seed: int) -> None:
    assert_argmax_agrees(case.structure(), case.twin(), exact=True, rng=np.random.default_rng(seed))


@given(chains(), st.integers(1, 12))
@drawn
def test_kbest_agrees_with_enumeration(case: ChainCase, k: int) -> None:
    assert_kbest_agrees(case.structure(), case.twin(), k)


@given(chains())
@drawn
def test_entropy_agrees_with_enumeration(case: ChainCase) -> None:
    entropy = case.structure().entropy()
    assert_logs_agree(entropy, case.twin().entropy)
    assert np.all(entropy >= 0.0)


@given(st.data())
@drawn
def test_score_agrees_with_enumeration_and_log_prob_is_never_positive(data: st.DataObject) -> None:
    case = data.draw(chains())
    structure, twin = case.structure(), case.twin()
    assert_score_agrees(structure, twin, data.draw(outputs(twin)))
    # The best output is the one whose log-probability rounding could push above zero.
    assert_score_agrees(structure, twin, twin.argmax)


@given(chains(), st.integers(0, 99))
@drawn
def test_samples_are_possible(case: ChainCase, seed: int) -> None:
    assert_samples_possible(case.structure(), case.twin(), 5, seed)


@given(st.data())
@drawn
def test_a_change_of_every_part_is_added_and_divided_by_gamma(data: st.DataObject) -> None:
    case = data.draw(chains())
    arguments = data.draw(tilts(case.twin()))
    structure, twin = tilted(case.structure(), **arguments), case.twin().tilt(**arguments)
    if twin.infeasible:
        assert_every_query_names(structure, twin)
        return
    assert_infer_agrees(structure, twin)
    assert_score_agrees(structure, twin, data.draw(outputs(twin)))
    assert_logs_agree(structure.entropy(), twin.entropy)
    assert_argmax_agrees(structure, twin, exact=False)


@given(st.data())
@drawn
def test_clamp_conditions_on_the_known_labels(data: st.DataObject) -> None:
    case = data.draw(chains())
    labels = data.draw(partial_labels(case.twin()))
    structure, twin = case.structure().clamp(labels), case.twin().clamp(labels)
    if twin.infeasible:
        assert_every_query_names(structure, twin)
        return
    assert_infer_agrees(structure, twin)
    assert_argmax_agrees(structure, twin, exact=case.exact)
    assert_kbest_agrees(structure, twin, 3)


@given(chains())
@drawn
def test_changes_and_clamps_leave_the_chain_as_it_was(case: ChainCase) -> None:
    structure, twin = case.structure(), case.twin()
    tilted(structure, np.ones((twin.n_slots, twin.n_labels)), gamma=0.5).infer()
    structure.clamp(twin.argmax).infer()
    assert_infer_agrees(structure, twin)


@given(chains(feasible=False))
@drawn
def test_an_impossible_instance_is_named_by_every_query_and_only_then(case: ChainCase) -> None:
    twin = case.twin()
    if twin.infeasible:
        assert_every_query_names(case.structure(), twin)
    else:
        assert_infer_agrees(case.structure(), twin)


@pytest.mark.parametrize("length", [2, 5])
@pytest.mark.parametrize("cause", ["node", "edge", "start", "stop", "parity"])
def test_the_first_impossible_instance_is_named_whatever_forbids_it(cause: str, length: int) -> None:
    # Instances 300 (empty) and 301 (one slot) come before two equal ones that the cause makes impossible.
    offsets = np.array([0, 0, 1, 1 + length, 1 + 2 * length])
    node, edge = np.zeros((1 + 2 * length, 2)), np.zeros((2, 2))
    arguments: dict[str, Any] = {"first": 300}
    if cause == "node":
        node[[length, 2 * length]] = -INF
    elif cause == "edge":
        edge[:] = -INF
    elif cause == "parity":
        # Labels must alternate, and the two ends ask for what an alternation cannot give.
        edge = np.array([[-INF, 0.0], [0.0, -INF]])
        for i in (2, 3):
            node[offsets[i], 1] = -INF
            node[offsets[i + 1] - 1, (length - 1) % 2] = -INF
    else:
        arguments[cause] = np.full(2, -INF)
    twin = chain_twin(offsets, node, edge, **arguments)
    assert twin.infeasible == ([301, 302, 303] if cause in ("start", "stop") else [302, 303])
    assert_every_query_names(Chain(offsets, node, edge, **arguments), twin)


def test_scores_of_an_impossible_instance_are_minus_infinity() -> None:
    chain = Chain([0, 1, 3], [[1.0, 2.0], [0.0, 0.0], [-INF, -INF]], np.zeros((2, 2)))
    np.testing.assert_array_equal(chain.score(np.array([1, 0, 1])), [2.0, -INF])


def test_an_empty_sequence_has_one_output_of_score_zero() -> None:
    chain = Chain([0, 0, 1, 1], [[0.5, -1.0]], np.zeros((2, 2)), start=[3.0, -INF], stop=[-INF, 2.0])
    with pytest.raises(InfeasibleError):
        chain.infer()
    chain = Chain([0, 0, 1, 1], [[0.5, -1.0]], np.zeros((2, 2)), start=[3.0, -INF], stop=[1.0, 2.0])
    assert_logs_agree(chain.infer().log_partition, [0.0, 4.5, 0.0])
    np.testing.assert_array_equal(chain.entropy(), [0.0, 0.0, 0.0])
    np.testing.assert_array_equal(chain.argmax().score, [0.0, 4.5, 0.0])
    np.testing.assert_array_equal(chain.kbest(2).score, [[0.0, 4.5, 0.0], [-INF, -INF, -INF]])
    np.testing.assert_array_equal(chain.kbest(2).labels, [[0], [-1]])
    np.testing.assert_array_equal(chain.log_prob(np.array([0])), [0.0, 0.0, 0.0])


@pytest.mark.parametrize("offsets", [[0], [0, 0], [0, 0, 0]])
def test_batches_without_slots_are_answered(offsets: list[int]) -> None:
    n = len(offsets) - 1
    chain = Chain(offsets, np.zeros((0, 3)), np.zeros((3, 3)), start=np.full(3, -INF))
    posterior = with_edges(chain)
    np.testing.assert_array_equal(posterior.log_partition, np.zeros(n))
    assert posterior.node.shape == (0, 3)
    assert posterior.at(chain.parts.transition_grid()).shape == (0, 3, 3)
    np.testing.assert_array_equal(posterior.edge_counts, np.zeros((1, 3, 3)))
    assert chain.argmax().outputs.shape == (0,)
    assert chain.sample(2, np.random.default_rng(0)).shape == (2, 0)
    assert chain.kbest(3).score.shape == (3, n)
    np.testing.assert_array_equal(chain.entropy(), np.zeros(n))


# Five tied outputs end in label 0 and one in label 1: a coin at each slot of a backtrace is not uniform.
UNEVEN_TIES: dict[str, Any] = {
    "node": np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [0.0, 0.0, -INF]]),
    "edge": np.array([[0.0, -INF, -1.0], [0.0, -INF, -INF], [0.0, 0.0, 0.0]]),
}


def test_ties_are_broken_uniformly_over_outputs_with_a_generator() -> None:
    listing = chain_twin([0, 3], **UNEVEN_TIES).listings[0]
    ends = [y[-1] for y in listing.tied]
    assert ends.count(0) != ends.count(1)
    copies = 6000
    chain = Chain(
        3 * np.arange(copies + 1),
        UNEVEN_TIES["node"],
        UNEVEN_TIES["edge"],
        node_index=np.tile(np.arange(3), copies),
    )
    labels = chain.argmax(np.random.default_rng(8)).outputs.reshape(copies, 3)
    found = [tuple(y) for y in labels.tolist()]
    assert_frequencies(found, dict.fromkeys(listing.tied, 1 / len(listing.tied)))
    pairs = {(a, b): 1 / len(listing.tied) ** 2 for a in listing.tied for b in listing.tied}
    assert_frequencies(list(zip(found[::2], found[1::2], strict=True)), pairs)


def test_repeated_calls_with_one_generator_break_ties_anew() -> None:
    chain = Chain([0, 3], **UNEVEN_TIES)
    listing = chain_twin([0, 3], **UNEVEN_TIES).listings[0]
    rng = np.random.default_rng(9)
    found = [tuple(chain.argmax(rng).outputs.tolist()) for _ in range(1500)]
    assert_frequencies(found, dict.fromkeys(listing.tied, 1 / len(listing.tied)))


SAMPLED: dict[str, Any] = {
    "offsets": np.array([0, 3, 3, 5]),
    "node": np.array([[0.2, -0.4], [0.1, 0.9], [-0.7, 0.3], [0.6, -INF], [0.0, -0.2]]),
    "edge": np.array([[[0.4, -0.6], [-INF, 0.5]], [[-0.3, 0.2], [0.1, -0.5]]]),
    "edge_index": np.array([-1, 0, 1, -1, 1]),
    "start": np.array([0.3, -0.1]),
    "stop": np.array([-0.5, 0.4]),
}


def test_samples_have_the_posterior_frequencies_and_are_independent() -> None:
    twin = chain_twin(**SAMPLED)
    samples = Chain(**SAMPLED).sample(20_000, np.random.default_rng(12))
    first, _, last = (x.distribution() for x in twin.listings)
    joint = {(y, z): p * q for y, p in first.items() for z, q in last.items()}
    found = [(output_of(twin, 0, y), output_of(twin, 2, y)) for y in samples]
    assert_frequencies(found, joint)
    consecutive = [(a[0], b[0]) for a, b in zip(found[::2], found[1::2], strict=True)]
    assert_frequencies(consecutive, {(y, z): p * q for y, p in first.items() for z, q in first.items()})


def test_kbest_lists_every_output_once_when_asked_for_more_than_exist() -> None:
    twin = chain_twin(**SAMPLED)
    assert_kbest_agrees(Chain(**SAMPLED), twin, 2 + max(x.n_possible for x in twin.listings))


def test_kbest_of_all_tied_outputs_is_distinct() -> None:
    arguments: dict[str, Any] = {"offsets": [0, 4], "node": np.zeros((4, 3)), "edge": np.zeros((3, 3))}
    assert_kbest_agrees(Chain(**arguments), chain_twin(**arguments), 81)
    assert_kbest_agrees(Chain(**arguments), chain_twin(**arguments), 100)


@pytest.mark.parametrize("gamma", [0.5, 1.0, 3.0])
@pytest.mark.parametrize("which", [(), ("node",), ("edge",), ("node", "edge")], ids=lambda which: "+".join(which))
def test_a_change_reaches_nodes_edges_start_and_stop(which: tuple[str, ...], gamma: float) -> None:
    rng = np.random.default_rng(15)
    deltas = {"node": rng.normal(size=(5, 2)), "edge": rng.normal(size=(5, 2, 2))}
    arguments: dict[str, Any] = {name: deltas[name] for name in which} | {"gamma": gamma}
    structure, twin = tilted(Chain(**SAMPLED), **arguments), chain_twin(**SAMPLED).tilt(**arguments)
    assert_infer_agrees(structure, twin)
    assert_score_agrees(structure, twin, twin.argmax)


@pytest.mark.parametrize("run", [1, 2, 3, 4, 5, 7])
def test_every_boundary_counts_for_its_own_matrix_however_matrices_alternate(run: int) -> None:
    # Runs of boundaries that share a matrix, of every length and phase, in sequences of every length.
    rng = np.random.default_rng(run)
    lengths = np.arange(1, 24)
    offsets = np.concatenate([[0], np.cumsum(lengths)])
    n_slots, weights = int(offsets[-1]), rng.random(len(lengths))
    index = (np.arange(n_slots) // run) % 3
    chain = Chain(offsets, rng.normal(size=(n_slots, 3)), rng.normal(size=(3, 3, 3)), edge_index=index)
    posterior = with_edges(chain, weights)
    expected = np.zeros((3, 3, 3))
    np.add.at(expected, index, np.repeat(weights, lengths)[:, None, None] * posterior.edge)
    assert_probabilities_agree(posterior.edge_counts, expected)


def test_raising_gamma_moves_entropy_from_none_to_all() -> None:
    chain = Chain(**SAMPLED)
    entropy = np.array([chain.temper(g).entropy() for g in (0.01, 0.1, 0.5, 1.0, 2.0, 10.0, 1e6)])
    assert np.all(np.diff(entropy, axis=0) >= -1e-12)
    possible = np.array([x.n_possible for x in chain_twin(**SAMPLED).listings])
    np.testing.assert_allclose(entropy[-1], np.log(possible), atol=1e-5)
    np.testing.assert_allclose(entropy[0], 0.0, atol=1e-5)


VALID: dict[str, Any] = {"offsets": np.array([0, 2, 3]), "node": np.zeros((3, 2)), "edge": np.zeros((2, 2))}


def altered(shape: tuple[int, ...], value: float) -> np.ndarray:
    """Zeros but for the last entry."""
    array = np.zeros(shape)
    array.flat[-1] = value
    return array


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param({"offsets": np.array([0, 2, 4])}, id="offsets beyond the nodes"),
        pytest.param({"offsets": np.array([0, 2])}, id="offsets short of the nodes"),
        pytest.param({"offsets": np.array([1, 3])}, id="offsets not from zero"),
        pytest.param({"offsets": np.array([0, 3, 2, 3])}, id="offsets that fall"),
        pytest.param({"offsets": np.array([], dtype=np.int64)}, id="no offsets"),
        pytest.param({"offsets": np.array([[0, 3]])}, id="offsets of two axes"),
        pytest.param({"node": np.zeros(3)}, id="node of one axis"),
        pytest.param({"node": np.zeros((3, 0)), "edge": np.zeros((0, 0))}, id="no labels"),
        pytest.param({"node": np.zeros((3, 3))}, id="node and edge differ in labels"),
        pytest.param({"node": altered((3, 2), math.nan)}, id="NaN in node"),
        pytest.param({"node": altered((3, 2), INF)}, id="plus infinity in node"),
        pytest.param({"edge": np.zeros(2)}, id="edge of one axis"),
        pytest.param({"edge": np.zeros((2, 3))}, id="edge not square"),
        pytest.param({"edge": altered((2, 2), math.nan)}, id="NaN in edge"),
        pytest.param({"edge": altered((2, 2), INF)}, id="plus infinity in edge"),
        pytest.param({"edge": np.zeros((2, 2, 2))}, id="stack without index"),
        pytest.param({"edge": np.zeros((2, 2, 2)), "edge_index": np.array([0, 2, 0])}, id="edge index too big"),
        pytest.param({"edge": np.zeros((2, 2, 2)), "edge_index": np.array([0, -1, 0])}, id="edge index negative"),
        pytest.param({"edge": np.zeros((2, 2, 2)), "edge_index": np.array([0, 1])}, id="edge index too short"),
        pytest.param({"node_index": np.array([0, 1])}, id="node index too short"),
        pytest.param({"node_index": np.array([0, 1, 3])}, id="node index too big"),
        pytest.param({"node_index": np.array([0, 1, -1])}, id="node index negative"),
        pytest.param({"start": np.zeros(3)}, id="start of wrong size"),
        pytest.param({"stop": np.zeros((2, 2))}, id="stop of two axes"),
        pytest.param({"start": altered((2,), math.nan)}, id="NaN in start"),
        pytest.param({"stop": altered((2,), INF)}, id="plus infinity in stop"),
    ],
)
def test_malformed_chains_are_refused(wrong: dict[str, Any]) -> None:
    Chain(**VALID)
    with pytest.raises(DataError):
        Chain(**{**VALID, **wrong})


@pytest.mark.parametrize(
    "labels",
    [[0, 0], [0, 0, 0, 0], [0, 0, 2], [0, -1, 0], [[0, 0, 0]]],
    ids=["short", "long", "big", "-1", "2-d"],
)
def test_labels_that_are_no_output_are_refused(labels: list[Any]) -> None:
    for query in (Chain(**VALID).score, Chain(**VALID).log_prob):
        with pytest.raises(DataError):
            query(np.array(labels))


@pytest.mark.parametrize("labels", [[0, 0], [0, 0, 2], [0, -2, 0]])
def test_clamping_to_labels_that_do_not_exist_is_refused(labels: list[int]) -> None:
    with pytest.raises(DataError):
        Chain(**VALID).clamp(np.array(labels))


def test_changes_that_are_no_scores_are_named_by_their_part() -> None:
    for value in (math.nan, INF):
        with pytest.raises(DataError, match="at part 17 it is"):
            Chain(**VALID).add(np.array([0, 17]), np.array([0.0, value]))


@pytest.mark.parametrize("weights", [np.ones(1), np.ones(3), np.ones((2, 1)), np.array([1.0, math.nan])])
def test_malformed_weights_are_refused(weights: np.ndarray) -> None:
    with pytest.raises(DataError):
        Chain(**VALID).infer(weights=weights)


@pytest.mark.parametrize("k", [0, -1])
def test_kbest_needs_a_positive_number(k: int) -> None:
    with pytest.raises(DataError):
        Chain(**VALID).kbest(k)


def test_a_negative_number_of_samples_is_refused() -> None:
    with pytest.raises(DataError):
        Chain(**VALID).sample(-1, np.random.default_rng(0))
