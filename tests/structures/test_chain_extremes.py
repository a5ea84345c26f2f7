"""Chains on which careless arithmetic underflows, overflows or drifts: huge gaps, long and wide sequences."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from trellis.structures import Chain

from .agreement import (
    assert_argmax_agrees,
    assert_infer_agrees,
    assert_kbest_agrees,
    assert_logs_agree,
    assert_probabilities_agree,
    assert_samples_possible,
    assert_score_agrees,
    with_edges,
)
from .logspace import forward_backward, viterbi_score
from .twins import chain_twin

pytestmark = pytest.mark.slow

INF = math.inf
LONG = 20_000
DIAGONAL = np.array([[0.0, -INF], [-INF, 0.0]])


def assert_agrees_with_log_space(
    node: np.ndarray, edge: np.ndarray, start: np.ndarray | None = None, stop: np.ndarray | None = None
) -> None:
    """Every number of one sequence against forward-backward and Viterbi in log space."""
    length, n_labels = node.shape
    offsets = np.array([0, length])
    index = np.arange(length) if edge.ndim == 3 else None
    chain = Chain(offsets, node, edge, start=start, stop=stop, edge_index=index)
    zero = np.zeros(n_labels)
    ends = (zero if start is None else start, zero if stop is None else stop)
    expected = forward_backward(node, edge, *ends)
    posterior = with_edges(chain)
    assert_logs_agree(posterior.log_partition, [expected.log_partition])
    assert_probabilities_agree(posterior.node, expected.node, tolerance=1e-9)
    assert_probabilities_agree(posterior.edge, expected.edge, tolerance=1e-9)
    assert_probabilities_agree(posterior.node.sum(axis=1), np.ones(length))
    if index is None:
        np.testing.assert_allclose(posterior.edge_counts[0], expected.edge.sum(axis=0), rtol=1e-9, atol=1e-9)
    # Entropy is a difference of sums as large as the log-partition.
    magnitude = max(1.0, expected.entropy, abs(expected.log_partition))
    assert abs(chain.entropy()[0] - expected.entropy) <= 1e-10 * magnitude
    best = chain.argmax()
    assert_logs_agree(best.score, [viterbi_score(node, edge, *ends)])
    assert_logs_agree(chain.score(best.outputs), best.score)
    assert np.all(chain.log_prob(best.outputs) <= 0.0)
    samples = chain.sample(2, np.random.default_rng(0))
    for labels in samples:
        assert np.all(chain.score(labels) > -INF)


def assert_agrees_with_enumeration(arguments: dict[str, Any]) -> None:
    chain, twin = Chain(**arguments), chain_twin(**arguments)
    assert_infer_agrees(chain, twin)
    assert_argmax_agrees(chain, twin, exact=True)
    assert_kbest_agrees(chain, twin, 4)
    assert_logs_agree(chain.entropy(), twin.entropy)
    assert_score_agrees(chain, twin, twin.argmax)
    assert_samples_possible(chain, twin, 20, seed=1)


@pytest.mark.parametrize("gap", [700.0, 750.0, 800.0, 5000.0])
@pytest.mark.parametrize("edge", [DIAGONAL, np.array([[0.0, -INF], [-1.0, 0.0]])], ids=["diagonal", "one way"])
def test_a_path_hundreds_of_nats_behind_survives_when_the_other_is_forbidden(edge: np.ndarray, gap: float) -> None:
    node = np.array([[0.0, -gap], [0.0, 0.0], [-INF, 0.0], [0.0, 1.0]])
    assert_agrees_with_enumeration({"offsets": [0, 4, 8], "node": np.concatenate([node, node[::-1]]), "edge": edge})
    assert_agrees_with_enumeration({"offsets": [0, 3], "node": node[:3], "edge": edge, "stop": [0.0, -gap]})


def test_a_path_behind_by_an_edge_survives_when_the_stop_forbids_the_other() -> None:
    edge = np.array([[0.0, -900.0, -INF], [-INF, 0.0, -900.0], [-INF, -INF, 0.0]])
    arguments = {"offsets": [0, 5], "node": np.zeros((5, 3)), "edge": edge, "start": [0.0, -INF, -INF]}
    assert_agrees_with_enumeration({**arguments, "stop": [-INF, -INF, 0.0]})
    assert_agrees_with_enumeration({**arguments, "stop": [-1800.0, -900.0, 0.0]})
    assert_agrees_with_enumeration({**arguments, "stop": [-1801.0, -900.5, 0.25]})


def drift(steps: int, loss: float) -> np.ndarray:
    """Label 1 loses ``loss`` nats a step for ``steps`` steps and then gains them back."""
    node = np.zeros((2 * steps, 2))
    node[:steps, 1], node[steps:, 1] = -loss, loss
    return node


@pytest.mark.parametrize("loss", [50.0, 1.0, 0.3])
def test_a_slow_drift_that_comes_back_leaves_both_paths_equal(loss: float) -> None:
    node = drift(40, loss)
    chain = Chain([0, 80, 160], np.concatenate([node, -node]), DIAGONAL)
    posterior = with_edges(chain)
    assert_logs_agree(posterior.log_partition, [math.log(2.0), math.log(2.0)])
    assert_probabilities_agree(posterior.node, np.full((160, 2), 0.5))
    assert_probabilities_agree(posterior.edge_counts, 79 * np.eye(2)[None])
    assert_logs_agree(chain.entropy(), [math.log(2.0), math.log(2.0)])
    assert_logs_agree(chain.kbest(3).score, [[0.0, 0.0], [0.0, 0.0], [-INF, -INF]])
    starts = chain.sample(2000, np.random.default_rng(3))[:, [0, 80]]
    assert np.all(np.abs(starts.mean(axis=0) - 0.5) < 5 * 0.5 / math.sqrt(2000))


def test_a_slow_drift_alone_in_the_end_has_all_the_probability() -> None:
    node = drift(40, 50.0)
    node[-1, 0] = -INF
    posterior = Chain([0, 80], node, DIAGONAL).infer()
    assert_logs_agree(posterior.log_partition, [0.0])
    assert_probabilities_agree(posterior.node, np.tile([0.0, 1.0], (80, 1)))


def test_a_long_drift_of_twenty_thousand_tokens_comes_back() -> None:
    # Half a million nats apart in the middle.
    node = drift(LONG // 2, 50.0)
    posterior = Chain([0, LONG], node, DIAGONAL).infer()
    assert_probabilities_agree(posterior.node, np.full((LONG, 2), 0.5))
    assert_logs_agree(posterior.log_partition, [math.log(2.0)])


@pytest.mark.parametrize("huge", [800.0, 1e6, 1e12])
def test_an_unreachable_label_with_huge_scores_has_no_probability_and_no_influence(huge: float) -> None:
    node = np.array([[0.3, -0.2, huge], [0.1, 0.5, huge], [-0.4, 0.2, huge], [0.0, 0.7, huge]])
    small = np.array([[0.2, -0.3], [0.4, 0.1]])
    edge = np.full((3, 3), -INF)
    edge[:2, :2] = small
    alone = chain_twin([0, 4], node[:, :2], small)
    into = edge.copy()
    into[:2, 2] = huge
    out_of = edge.copy()
    out_of[2] = huge
    for matrix, ends in (
        (edge, {"start": [0.0, 0.0, -INF]}),
        (out_of, {"start": [0.0, 0.0, -INF]}),
        (into, {"stop": [0.0, 0.0, -INF]}),
    ):
        chain = Chain([0, 4], node, matrix, **ends)
        posterior = with_edges(chain)
        assert_logs_agree(posterior.log_partition, alone.log_partition)
        assert_probabilities_agree(posterior.node[:, :2], alone.node_marginals)
        np.testing.assert_array_equal(posterior.node[:, 2], 0.0)
        assert_probabilities_agree(posterior.edge[:, :2, :2], alone.edge_marginals)
        assert_logs_agree(chain.entropy(), alone.entropy)
        assert_logs_agree(chain.argmax().score, alone.best_score)
        np.testing.assert_array_equal(chain.argmax().outputs, alone.argmax)
        assert_logs_agree(chain.kbest(5).score[:, 0], alone.listings[0].best_scores(5))
        assert np.all(chain.sample(50, np.random.default_rng(2)) < 2)


def test_scores_far_from_zero_neither_overflow_nor_vanish() -> None:
    rng = np.random.default_rng(1)
    node, edge = rng.integers(-3, 4, (5, 3)).astype(float), rng.integers(-3, 4, (3, 3)).astype(float)
    for shift in (1e6, -1e6):
        assert_agrees_with_enumeration({"offsets": [0, 2, 5], "node": node + shift, "edge": edge - 2 * shift})


def test_one_token_of_five_hundred_states_is_a_softmax() -> None:
    rng = np.random.default_rng(2)
    arguments: dict[str, Any] = {
        "offsets": [0, 1, 2],
        "node": rng.normal(0.0, 30.0, (2, 500)),
        "edge": np.full((500, 500), -INF),
        "start": rng.normal(size=500),
        "stop": np.where(rng.random(500) < 0.5, -INF, 0.0),
    }
    chain, twin = Chain(**arguments), chain_twin(**arguments)
    posterior = chain.infer()
    assert_logs_agree(posterior.log_partition, twin.log_partition)
    assert_probabilities_agree(posterior.node, twin.node_marginals)
    np.testing.assert_array_equal(posterior.edge_counts, np.zeros((1, 500, 500)))
    assert_argmax_agrees(chain, twin, exact=False)
    assert_logs_agree(chain.entropy(), twin.entropy)


def test_five_hundred_states_agree_with_log_space() -> None:
    rng = np.random.default_rng(3)
    edge = rng.normal(0.0, 3.0, (500, 500))
    edge[rng.random((500, 500)) < 0.9] = -INF
    assert_agrees_with_log_space(rng.normal(0.0, 5.0, (12, 500)), edge)


def test_twenty_thousand_tokens_agree_with_log_space() -> None:
    rng = np.random.default_rng(4)
    node = rng.normal(-3.0, 2.0, (LONG, 2))
    assert_agrees_with_log_space(node, np.array([[-0.1, -2.0], [-1.5, -0.3]]), np.array([0.2, -1.0]), np.zeros(2))


def test_twenty_thousand_tokens_with_forbidden_parts_agree_with_log_space() -> None:
    rng = np.random.default_rng(5)
    node = rng.normal(-20.0, 15.0, (LONG, 4))
    forbidden = rng.random((LONG, 4)) < 0.3
    forbidden[:, 2] = False
    node[forbidden] = -INF
    edge = rng.normal(0.0, 5.0, (4, 4))
    edge[0, 1] = edge[3, 3] = edge[1, 0] = -INF
    assert_agrees_with_log_space(node, edge)


def test_twenty_thousand_tokens_with_nearly_forbidden_changes_agree_with_log_space() -> None:
    # The gap between the two labels is a random walk hundreds of nats wide, changes cost as much.
    rng = np.random.default_rng(6)
    node = np.zeros((LONG, 2))
    node[:, 1] = rng.normal(0.0, 10.0, LONG)
    assert_agrees_with_log_space(node, np.array([[0.0, -400.0], [-750.0, 0.0]]))


def test_twenty_thousand_tokens_with_one_hopeless_turn_agree_with_log_space() -> None:
    # An ordinary long sequence, but for one slot that only the label 1000 nats behind survives.
    rng = np.random.default_rng(14)
    node = rng.normal(-40.0, 3.0, (LONG, 3))
    node[LONG // 2] = [0.0, -1000.0, -1.0]
    node[LONG // 2 + 1] = [-INF, -2.5, -INF]
    edge = np.array([[-0.1, -INF, -0.7], [-1.5, -0.3, -0.4], [-0.2, -INF, -0.9]])
    edge_table = np.broadcast_to(edge, (LONG, 3, 3)).copy()
    edge_table[LONG // 4, 0, 1] = -3.0
    assert_agrees_with_log_space(node, edge_table)


def test_two_thousand_boundaries_with_matrices_of_their_own_agree_with_log_space() -> None:
    rng = np.random.default_rng(7)
    edge = rng.normal(0.0, 10.0, (2000, 3, 3))
    edge[rng.random(edge.shape) < 0.2] = -INF
    edge[:, 0, 0] = -1.0
    assert_agrees_with_log_space(rng.normal(0.0, 10.0, (2000, 3)), edge)


def test_a_known_output_of_twenty_thousand_tokens_is_certain() -> None:
    rng = np.random.default_rng(8)
    labels = rng.integers(0, 2, LONG)
    chain = Chain([0, LONG], rng.normal(size=(LONG, 2)), rng.normal(size=(2, 2)))
    certain = chain.clamp(labels)
    assert_logs_agree(certain.infer().log_partition, chain.score(labels))
    np.testing.assert_array_equal(certain.argmax().outputs, labels)
    assert np.all(certain.log_prob(labels) <= 0.0)
    assert_logs_agree(certain.log_prob(labels) / LONG, [0.0])
    # The entropy is zero up to the rounding of scores as large as the log-partition.
    assert abs(certain.entropy()[0]) <= 1e-10 * abs(certain.infer().log_partition[0])


def test_random_ties_stay_uniform_where_their_number_exceeds_every_float() -> None:
    # All outputs without the edge (1, 1) tie; there are about 1.6^20000 of them, and the uniform
    # distribution over them is the posterior of the same scores.
    chain = Chain([0, LONG], np.zeros((LONG, 2)), np.array([[0.0, 0.0], [0.0, -INF]]))
    labels = chain.argmax(np.random.default_rng(10)).outputs
    assert chain.score(labels)[0] == 0.0
    expected = chain.infer().edge_counts[0]
    assert abs(expected[0, 1] / LONG - 0.2763932) < 1e-4
    found = np.zeros((2, 2))
    np.add.at(found, (labels[:-1], labels[1:]), 1)
    # Counts of a Markov chain: no more variable than independent draws here, so five standard deviations.
    assert np.all(np.abs(found - expected) <= 5.0 * np.sqrt(expected))


def test_samples_of_a_long_chain_have_its_expected_counts() -> None:
    rng = np.random.default_rng(11)
    chain = Chain([0, LONG], rng.normal(size=(LONG, 3)), rng.normal(size=(3, 3)))
    posterior = chain.infer()
    labels = chain.sample(1, np.random.default_rng(12))[0]
    found = np.zeros((3, 3))
    np.add.at(found, (labels[:-1], labels[1:]), 1)
    assert np.all(np.abs(found - posterior.edge_counts[0]) <= 5.0 * np.sqrt(posterior.edge_counts[0]))
    # Surprise of the slots' own labels, against its mean and a bound on its spread.
    picked = posterior.node[np.arange(LONG), labels]
    assert abs(np.mean(picked) - np.mean(np.sum(posterior.node**2, axis=1))) < 5.0 / math.sqrt(LONG)


def test_kbest_of_a_long_chain_is_ordered_distinct_and_scored_right() -> None:
    rng = np.random.default_rng(13)
    chain = Chain([0, 3000], rng.normal(size=(3000, 3)), rng.normal(size=(3, 3)))
    best = chain.kbest(8)
    assert len({tuple(y) for y in best.labels.tolist()}) == 8
    assert np.all(np.diff(best.score[:, 0]) <= 0.0)
    assert_logs_agree(best.score[0], chain.argmax().score)
    for labels, score in zip(best.labels, best.score, strict=True):
        assert_logs_agree(chain.score(labels), score)
