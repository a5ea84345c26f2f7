"""The fast path, eight labels at a time, equals the plain loops; nothing is written where it should not be."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys

import numpy as np
import pytest

from trellis.structures import ChainTables
from trellis.structures.kernels import chain_infer
from trellis.structures.kernels.chain_sum import DONE
from trellis.structures.kernels.lanes import SLACK, has_slack, with_slack


def slackened(array):
    copy = with_slack(array.shape)
    copy[...] = array
    return copy


def arguments(seed, n_labels, n_matrices):
    rng = np.random.default_rng(seed)
    lengths = rng.integers(0, 12, 9)
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
    n = int(offsets[-1])
    node = rng.random((7, n_labels)) * 10.0 ** rng.integers(-8, 3, (7, 1))
    edge = rng.random((n_matrices, n_labels, n_labels))
    edge[rng.random(edge.shape) < 0.2] = 0.0
    edge[:, 0, 0] = 0.5
    given = [node, edge, edge.transpose(0, 2, 1), rng.random(n_labels), rng.random(n_labels)]
    node, edge, edge_t, start, stop = map(slackened, given)
    node_index = rng.integers(0, 7, n).astype(np.int32)
    edge_index = rng.integers(0, n_matrices, n).astype(np.int32)
    return offsets, node, node_index, edge, edge_t, edge_index, start, stop, rng.gamma(1.0, 1.0, len(lengths))


def run(kernel, case):
    offsets, node, _, edge, _, edge_index = case[:6]
    n, k = int(offsets[-1]), node.shape[1]
    posterior, counts = with_slack((n, k)), with_slack(edge.shape, zeros=True)
    before, after, log_partition = np.zeros((n, k)), np.zeros((n, k)), np.empty(len(offsets) - 1)
    status = np.empty(len(offsets) - 1, dtype=np.int8)
    kernel(*case, posterior, counts, before, after, log_partition, status)
    return posterior, counts, before[:, :, None] * edge[edge_index] * after[:, None, :], log_partition, status


def plain_loops(case):
    """The same by scaled forward-backward in NumPy, an instance at a time."""
    offsets, node, node_index, edge, _, edge_index, start, stop, weights = case
    posterior, counts, transitions = np.zeros((offsets[-1], node.shape[1])), np.zeros(edge.shape), []
    log_partition = np.zeros(len(weights))
    for i, (low, high) in enumerate(itertools.pairwise(offsets.tolist())):
        potential = node[node_index[low:high]].copy()
        if low == high:
            continue
        potential[0] *= start
        potential[-1] *= stop
        alpha, beta, c = potential.copy(), np.ones_like(potential), np.ones(high - low)
        for t in range(high - low):
            if t > 0:
                alpha[t] *= alpha[t - 1] @ edge[edge_index[low + t]]
            c[t] = alpha[t].sum()
            alpha[t] /= c[t]
        for t in range(high - low - 1, 0, -1):
            beta[t - 1] = edge[edge_index[low + t]] @ (potential[t] * beta[t] / c[t])
        posterior[low:high], log_partition[i] = alpha * beta, np.log(c).sum()
        for t in range(high - low):
            w = potential[t] * beta[t] / c[t]
            pair = alpha[t - 1][:, None] * edge[edge_index[low + t]] * w * (t > 0)
            transitions.append(pair)
            counts[edge_index[low + t]] += weights[i] * (alpha[t - 1][:, None] * w) * (t > 0)
    return posterior, counts.transpose(0, 2, 1), np.array(transitions), log_partition, np.full(len(weights), DONE)


@pytest.mark.parametrize("n_labels", [1, 2, 7, 8, 9, 16, 17, 24, 25, 31, 32, 33, 45, 70])
@pytest.mark.parametrize("n_matrices", [1, 3])
def test_vectors_equal_plain_loops(n_labels, n_matrices):
    case = arguments(n_labels, n_labels, n_matrices)
    fast, plain = run(chain_infer.infer_scaled, case), plain_loops(case)
    for one, other in zip(fast[:3], plain[:3], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(fast[3], plain[3], rtol=1e-12, atol=1e-12)
    assert fast[4].tolist() == plain[4].tolist()


@pytest.mark.parametrize("n_labels", [1, 7, 9, 17])
def test_tables_are_left_as_they_were(n_labels):
    case = arguments(0, n_labels, 2)
    before = [np.array(table.base, copy=True) for table in (case[1], case[3], case[4], case[6], case[7])]
    run(chain_infer.infer_scaled, case)
    after = [table.base for table in (case[1], case[3], case[4], case[6], case[7])]
    assert all(np.array_equal(one, other) for one, other in zip(before, after, strict=True))


def test_slack_is_known_by_its_making():
    array = with_slack((3, 5))
    assert array.flags.c_contiguous
    assert array.base.size == 15 + SLACK
    assert has_slack(array)
    assert not has_slack(array[:2])
    assert not has_slack(np.zeros((3, 5)))
    assert not has_slack(np.zeros(15 + SLACK)[:15].astype(np.float32))


def test_every_table_of_potentials_has_slack():
    tables = (
        ChainTables.of(np.zeros((4, 3)), np.zeros((3, 3))),
        ChainTables.of_probabilities(np.ones((4, 3)), np.ones((3, 3))),
        ChainTables.of_probabilities(np.full((4, 3), 1e-200), np.ones((3, 3))),
    )
    for table in tables:
        p = table.potentials
        for array in (p.node, p.edge, p.edge_t, p.start, p.stop):
            assert array.base.size >= array.size + SLACK


@pytest.mark.slow
def test_plain_loops_serve_without_a_compiler():
    code = (
        "import numpy as np; from trellis.structures import Chain\n"
        "chain = Chain([0, 2], np.zeros((2, 3)), np.zeros((3, 3)))\n"
        "print(chain.infer().log_partition.round(6).tolist())"
    )
    environment = {**os.environ, "NUMBA_DISABLE_JIT": "1"}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment, check=False, timeout=120
    )
    assert done.stdout.strip() == "[2.197225]", done.stderr
