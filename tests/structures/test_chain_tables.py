"""Tables given as probabilities are the tables of their logs."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.errors import DataError
from trellis.structures import Chain, ChainTables

from .agreement import with_edges


@given(st.integers(0, 2**32 - 1), st.integers(1, 4))
def test_probability_tables_answer_like_their_logs(seed, n_labels):
    rng = np.random.default_rng(seed)
    # Magnitudes from subnormal to ordinary, with zeros: the shifts have work to do.
    node = rng.random((5, n_labels)) * 10.0 ** rng.choice([0, -5, -150, -300, -310], size=(5, 1))
    node[rng.random(node.shape) < 0.2] = 0.0
    edge = rng.random((2, n_labels, n_labels)) + 0.01
    start, stop = rng.random(n_labels) + 0.01, rng.random(n_labels)
    node[:, 0] = np.maximum(node[:, 0], 1e-320)
    stop[0] = 0.5
    offsets = np.array([0, 4, 4, 7])
    index = {"node_index": rng.integers(0, 5, 7), "edge_index": rng.integers(0, 2, 7)}
    with np.errstate(divide="ignore"):
        logs = ChainTables.of(np.log(node), np.log(edge), np.log(start), np.log(stop))
    given_as_logs = Chain.over(logs, offsets, **index)
    given_as_numbers = Chain.over(ChainTables.of_probabilities(node, edge, start, stop), offsets, **index)
    one, other = with_edges(given_as_logs), with_edges(given_as_numbers)
    np.testing.assert_allclose(other.log_partition, one.log_partition, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(other.node, one.node, atol=1e-12)
    np.testing.assert_allclose(other.edge, one.edge, atol=1e-12)
    np.testing.assert_allclose(other.edge_counts, one.edge_counts, atol=1e-12)
    np.testing.assert_allclose(given_as_numbers.entropy(), given_as_logs.entropy(), atol=1e-10)
    assert given_as_numbers.argmax().score.tolist() == given_as_logs.argmax().score.tolist()


def test_sum_product_takes_no_logs():
    tables = ChainTables.of_probabilities(np.ones((2, 3)), np.ones((3, 3)))
    chain = Chain.over(tables, np.array([0, 2]))
    chain.infer()
    assert "node" not in tables.__dict__
    chain.argmax()
    assert "node" in tables.__dict__


@pytest.mark.parametrize("bad", [-0.1, np.nan, np.inf])
def test_impossible_probabilities_are_named(bad):
    node = np.ones((3, 2))
    node[2, 1] = bad
    with pytest.raises(DataError, match=r"node probabilities .* entry \(2, 1\) is"):
        ChainTables.of_probabilities(node, np.ones((2, 2)))
    with pytest.raises(DataError, match=r"edge probabilities must have shape"):
        ChainTables.of_probabilities(np.ones((3, 2)), np.ones((3, 3)))
