"""Derivatives of marginals are covariances: against enumeration, and where scaled probabilities do not suffice."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from trellis.errors import DataError
from trellis.structures import Categorical, Chain, Joint
from trellis.structures.functionals import Functionals
from trellis.structures.kernels import chain_infer, chain_sum
from trellis.structures.kernels.lanes import with_slack


def listed(chain: Chain) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """All outputs of a chain of one instance, their probabilities, and which parts each uses."""
    outputs = np.array(list(itertools.product(range(chain.n_labels), repeat=chain.n_slots)), dtype=np.int32)
    score = np.array([chain.score(y)[0] for y in outputs])
    p = np.exp(score - score.max())
    used = np.zeros((len(outputs), chain.parts.n_parts))
    for row, y in zip(used, outputs, strict=True):
        row[chain.parts.of(y)] = 1.0
    return outputs, p / p.sum(), used


def covariances(chain: Chain, part: np.ndarray, value: np.ndarray) -> tuple[np.ndarray, float]:
    """Of every part with the direction, and the direction's expectation."""
    _, p, used = listed(chain)
    along = used @ np.bincount(part, value, minlength=chain.parts.n_parts)
    mean = float(p @ along)
    return (p * (along - mean)) @ used, mean


def check(chain: Chain, part: np.ndarray, value: np.ndarray, weights: np.ndarray) -> None:
    k, found = chain.n_labels, chain.derivative(part, value, weights=weights)
    counts = np.zeros((len(chain.tables.edge), k, k))
    instance, _ = chain.parts.split(part)
    first_local = np.concatenate([[0], np.cumsum(chain.parts.sizes())])
    for i in range(len(chain)):
        one, mine = chain.instances(i, i + 1), instance == i
        if one.n_slots == 0:
            assert found.log_partition[i] == 0.0
            continue
        _, local = chain.parts.split(part[mine])
        own = one.parts.join(np.zeros(mine.sum(), np.int64), local)
        wanted, slope = covariances(one, own, value[mine])
        here = slice(int(chain.offsets[i]), int(chain.offsets[i + 1]))
        size = max(1.0, np.abs(wanted).max())
        n_node = one.n_slots * k
        np.testing.assert_allclose(found.node[here], wanted[:n_node].reshape(-1, k), atol=1e-10 * size)
        assert found.log_partition[i] == pytest.approx(slope, rel=1e-9, abs=1e-10)
        edges = wanted[n_node:].reshape(-1, k, k)
        for t in range(1, one.n_slots):
            counts[one.edge_index[t]] += weights[i] * edges[t]
    assert first_local[-1] == chain.parts.n_parts
    np.testing.assert_allclose(found.edge_counts, counts, atol=1e-9 * max(1.0, np.abs(counts).max()))


@pytest.mark.parametrize("k", [1, 2, 3])
@pytest.mark.parametrize("moves", ["labels", "transitions", "both", "nothing"])
def test_derivatives_are_covariances(k: int, moves: str) -> None:
    rng = np.random.default_rng(k)
    offsets = np.array([0, 4, 4, 5, 8])
    chain = Chain(
        offsets, rng.normal(size=(8, k)), rng.normal(size=(2, k, k)), start=rng.normal(size=k),
        stop=rng.normal(size=k), edge_index=rng.integers(2, size=8),
    )  # fmt: skip
    of_label, of_pair = chain.parts.grid(), chain.parts.transition_grid()
    chosen = {"labels": [of_label], "transitions": [of_pair], "both": [of_label, of_pair], "nothing": []}[moves]
    part = np.concatenate([np.zeros(0, np.int64), *(own.ravel() for own in chosen)])
    part = np.repeat(part[rng.random(len(part)) < 0.7], 2)  # parts that are named twice add up
    check(chain, part, rng.normal(size=len(part)), rng.random(4))


def test_a_changed_chain_counts_for_the_matrices_of_its_own() -> None:
    """A chain that was moved at single boundaries has one matrix more for each, and counts for those it came from."""
    rng = np.random.default_rng(5)
    chain = Chain([0, 3, 5], rng.normal(size=(5, 2)), rng.normal(size=(2, 2)))
    of_pair = chain.parts.transition_grid()
    changed = chain.add(of_pair[:2].ravel(), rng.normal(size=8))
    part, value = of_pair[1:].ravel(), rng.normal(size=of_pair[1:].size)
    eps = 1e-6
    up, down = (changed.add(part, sign * eps * value).infer() for sign in (1.0, -1.0))
    found = changed.derivative(part, value)
    assert found.edge_counts.shape == (1, 2, 2)
    np.testing.assert_allclose(found.edge_counts, (up.edge_counts - down.edge_counts) / (2 * eps), atol=1e-8)
    np.testing.assert_allclose(found.node, (up.node - down.node) / (2 * eps), atol=1e-8)


@pytest.mark.parametrize("moves", ["labels", "both"])
def test_they_are_right_where_scaled_probabilities_are_not(moves: str) -> None:
    rng = np.random.default_rng(7)
    node, edge = rng.normal(size=(7, 3)), rng.normal(size=(3, 3))
    # One label is nearly sure, changes are dear, and then that label is impossible.
    edge -= 400.0 * (1.0 - np.eye(3))
    node[4] += [0.0, -300.0, -301.0]
    node[5, 0] = -np.inf
    chain = Chain([0, 3, 7], node, edge)
    of_label, of_pair = chain.parts.grid(), chain.parts.transition_grid()
    part = of_label.ravel() if moves == "labels" else np.concatenate([of_label.ravel(), of_pair.ravel()])
    p, status = chain.tables.potentials, np.empty(2, np.int8)
    k, empty = 3, np.zeros((0, 3, 3))
    chain_infer.infer_scaled(
        chain.offsets, p.node, chain.node_index, p.edge, p.edge_t, chain.edge_index, p.start, p.stop, np.ones(2),
        with_slack((7, k)), with_slack((1, k, k), zeros=True), empty[:, 0], empty[:, 0], np.zeros(2), status,
    )  # fmt: skip
    assert status[1] == chain_sum.FLAGGED, "the case must be one that needs log space"
    check(chain, part, rng.normal(size=len(part)), np.array([1.0, 2.0]))


@pytest.mark.parametrize("case", ["plain", "two matrices", "needs logs"])
def test_functionals_of_chains_are_those_of_their_parts(case: str) -> None:
    """Patterns of boundaries against listed parts: functionals of single instances and of many, labels and transitions,
    weights."""
    rng = np.random.default_rng(11)
    n, k = 12, 3
    edge = rng.normal(size=(2 if case == "two matrices" else 1, k, k))
    node = rng.normal(size=(n, k))
    if case == "needs logs":
        edge -= 400.0 * (1.0 - np.eye(k))
        node[4] += [0.0, -300.0, -301.0]
        node[5, 0] = -np.inf
    index = rng.integers(2, size=n) if case == "two matrices" else np.zeros(n, np.int64)
    chain = Chain([0, 3, 7, 7, 8, 12], node, edge, edge_index=index)
    of_label, of_pair = chain.parts.grid(), chain.parts.transition_grid()
    every = np.concatenate([of_label.ravel(), of_pair.ravel()])
    at = chain.parts.instance_of(every)
    rows = [(i, every[at == i]) for i in (0, 1, 1, 4)] + [(-1, every), (-1, of_pair.ravel()), (-1, of_label[2:9, 1])]
    # the second half of each has the same coefficient everywhere, so that boundaries look alike
    entries = [np.sort(own[rng.random(len(own)) < 0.8]) for _, own in rows]
    values = [np.where(np.arange(len(own)) % 2 == 0, 1.5, rng.normal(size=len(own))) for own in entries]
    start, instance = np.cumsum([0, *map(len, entries)]), np.array([i for i, _ in rows])
    given = start, np.concatenate(entries), np.concatenate(values), instance
    fast, slow = chain.parts.functionals(*given), Functionals(chain.parts, *given)
    assert type(fast) is not Functionals
    weights, slope = rng.random(5) + 0.5, rng.normal(size=len(rows))
    np.testing.assert_allclose(fast.expect(chain, weights), slow.expect(chain, weights), rtol=1e-10)
    one, other = fast.derive(chain, slope, weights), slow.derive(chain, slope, weights)
    np.testing.assert_allclose(one.node, other.node, atol=1e-11)
    np.testing.assert_allclose(one.log_partition, other.log_partition, atol=1e-11)
    np.testing.assert_allclose(one.edge_counts, other.edge_counts, atol=1e-10)


def test_derivatives_of_single_labels_are_covariances() -> None:
    rng = np.random.default_rng(3)
    scores = Categorical(rng.normal(size=(5, 4)))
    part, value = np.array([0, 1, 1, 7, 19]), rng.normal(size=5)
    found, p = scores.derivative(part, value), scores.infer().node
    along = np.bincount(part, value, minlength=20).reshape(5, 4)
    for i in range(5):
        np.testing.assert_allclose(found.node[i], (np.diag(p[i]) - np.outer(p[i], p[i])) @ along[i], atol=1e-14)
        assert found.log_partition[i] == pytest.approx(p[i] @ along[i])


def test_a_structure_without_them_says_so() -> None:
    both = Joint(Categorical(np.zeros((1, 2))), Categorical(np.zeros((1, 2))))
    with pytest.raises(DataError, match="cannot be had"):
        both.derivative(np.array([0]), np.ones(1))
