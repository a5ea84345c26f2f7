"""Score tables of chains: logs, and the shifted exponentials that sum-product works with.

The shards of a corpus share one set of tables, so exponentials are taken once an update of the model and not once a
shard. A generative model has probabilities and no logs: they are the potentials as they stand, and logs are
only taken where a query in log space (argmax, samples, scores of outputs) asks for them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray
from trellis.errors import DataError
from trellis.structures.kernels import chain_sum
from trellis.structures.kernels.lanes import has_slack, with_slack
from trellis.structures.structure import check_scores

LEAST_EXACT = 1e-290
"""Potentials below this have lost digits, or all of themselves."""
LEAST_UNSCALED = 1e-20
"""Rows of probabilities are divided by their largest entry when it is smaller than this in any of them."""


@dataclass(frozen=True)
class Potentials:
    """Exponentials of tables; the scores are the logs of these plus a shift of each row and each matrix.

    Shifts bring the entries of a row near 1. All arrays have slack (:mod:`trellis.structures.kernels.lanes`).
    """

    node: FloatArray
    node_shift: FloatArray
    edge: FloatArray
    edge_t: FloatArray
    edge_shift: FloatArray
    start: FloatArray
    stop: FloatArray
    ends_shift: float


@dataclass(frozen=True)
class ChainTables:
    """Score tables that many chains (the shards of a corpus) share.

    node : (n_rows, n_labels);  edge : (n_matrices, n_labels, n_labels);  start, stop : (n_labels,)
    """

    node: FloatArray
    edge: FloatArray
    start: FloatArray
    stop: FloatArray

    @staticmethod
    def of(node: Any, edge: Any, start: Any = None, stop: Any = None) -> ChainTables:
        """Checked tables; a single (K, K) edge matrix is a stack of one."""
        nodes = check_scores("node", node, (None, None))
        n_labels = nodes.shape[1]
        if n_labels == 0:
            raise DataError("a chain needs at least one label")
        stack = np.asarray(edge, dtype=np.float64)
        if stack.ndim == 2:
            stack = stack[None]
        return ChainTables(
            node=nodes,
            edge=check_scores("edge", stack, (None, n_labels, n_labels)),
            start=np.zeros(n_labels) if start is None else check_scores("start", start, (n_labels,)),
            stop=np.zeros(n_labels) if stop is None else check_scores("stop", stop, (n_labels,)),
        )

    @staticmethod
    def of_probabilities(node: Any, edge: Any, start: Any = None, stop: Any = None) -> ChainTables:
        """Tables whose scores are the logs of the given numbers ≥ 0 (0: forbidden), shapes as in :meth:`of`.

        >>> tables = ChainTables.of_probabilities([[0.5, 0.25]], [[0.5, 0.5], [1.0, 0.0]], [0.5, 0.5])
        >>> tables.edge[0].round(3).tolist(), tables.stop.tolist()
        ([[-0.693, -0.693], [0.0, -inf]], [0.0, 0.0])
        """
        nodes = np.ascontiguousarray(node, dtype=np.float64)
        stack = np.ascontiguousarray(edge, dtype=np.float64)
        if stack.ndim == 2:
            stack = stack[None]
        if nodes.ndim != 2 or nodes.shape[1] == 0:
            raise DataError(f"node probabilities must have shape (any, labels) but have {nodes.shape}")
        k = nodes.shape[1]
        starts, stops = (
            np.ones(k) if ends is None else np.ascontiguousarray(ends, np.float64) for ends in (start, stop)
        )
        for name, table, shape in (("edge", stack, (len(stack), k, k)), ("start", starts, (k,)), ("stop", stops, (k,))):
            if table.shape != shape:
                raise DataError(f"{name} probabilities must have shape {shape} but have {table.shape}")
        return _ProbabilityTables(nodes, stack, starts, stops)

    @property
    def n_rows(self) -> int:
        return len(self.node)

    @property
    def n_labels(self) -> int:
        return int(self.node.shape[1])

    @property
    def n_matrices(self) -> int:
        return len(self.edge)

    @cached_property
    def potentials(self) -> Potentials:
        return _potentials(
            _exponentiate(self.node),
            _exponentiate(self.edge.reshape(-1, self.n_labels**2)),
            _exponentiate(self.start[None]),
            _exponentiate(self.stop[None]),
        )

    def lost(self) -> tuple[BoolArray, BoolArray]:
        """(n_rows,), (n_matrices,): which have possible entries whose potentials underflow took, all or in part."""
        return _lost(self.potentials, lambda: (self.node > -np.inf, self.edge > -np.inf))


class _ProbabilityTables(ChainTables):
    """Tables given as probabilities: potentials at once, logs on demand."""

    def __init__(self, node: FloatArray, edge: FloatArray, start: FloatArray, stop: FloatArray) -> None:
        self.__dict__["_given"] = (node, edge, start, stop)
        self.__dict__["potentials"] = _potentials(
            _scale("node", node),
            _scale("edge", edge.reshape(-1, node.shape[1] ** 2)),
            _scale("start", start[None]),
            _scale("stop", stop[None]),
        )

    def __getattr__(self, name: str) -> FloatArray:
        # Only reached while the logs are not there yet; afterwards they are ordinary attributes.
        place = {"node": 0, "edge": 1, "start": 2, "stop": 3}.get(name)
        if place is None:
            raise AttributeError(name)
        with np.errstate(divide="ignore"):
            logs: FloatArray = np.log(self.__dict__["_given"][place])
        self.__dict__[name] = logs
        return logs

    @property
    def n_rows(self) -> int:
        return len(self.potentials.node)

    @property
    def n_labels(self) -> int:
        return int(self.potentials.node.shape[1])

    @property
    def n_matrices(self) -> int:
        return len(self.potentials.edge)

    def lost(self) -> tuple[BoolArray, BoolArray]:
        return _lost(self.potentials, lambda: tuple(given > 0 for given in self.__dict__["_given"][:2]))


Rows = tuple[FloatArray, FloatArray]


def _potentials(node: Rows, edge: Rows, start: Rows, stop: Rows) -> Potentials:
    n_labels = node[0].shape[1]
    stack = edge[0].reshape(-1, n_labels, n_labels)
    return Potentials(
        node=node[0],
        node_shift=node[1],
        edge=stack,
        edge_t=_slackened(stack.transpose(0, 2, 1)),
        edge_shift=edge[1],
        start=start[0][0],
        stop=stop[0][0],
        ends_shift=float(start[1][0] + stop[1][0]),
    )


def _lost(p: Potentials, possible: Callable[[], tuple[BoolArray, ...]]) -> tuple[BoolArray, BoolArray]:
    node, edge = p.node < LEAST_EXACT, p.edge < LEAST_EXACT
    if not (node.any() or edge.any()):
        return np.zeros(len(p.node), dtype=np.bool_), np.zeros(len(p.edge), dtype=np.bool_)
    has_node, has_edge = possible()
    return np.any(node & has_node, axis=1), np.any(edge & has_edge, axis=(1, 2))


def _exponentiate(rows: FloatArray) -> Rows:
    """exp(row − its largest entry), and those entries (0 for a row of −inf)."""
    shift = rows.max(axis=1, initial=-np.inf)
    shift[shift == -np.inf] = 0.0
    potentials = with_slack(rows.shape)
    np.subtract(rows, shift[:, None], out=potentials)
    return np.exp(potentials, out=potentials), shift


def _scale(name: str, rows: FloatArray) -> Rows:
    """row / its largest entry, and the logs of those entries (0 for a row of zeros).

    Rows that are all of a size to be worked with as they are stay so, with logs 0: most tables, and no copy then.
    """
    largest = np.empty(len(rows))
    smallest = chain_sum.largest_entries(rows, largest)
    if not smallest >= 0.0:
        bad = tuple(int(i) for i in np.argwhere(~((rows >= 0) & (rows < np.inf)))[0])
        raise DataError(f"{name} probabilities must be finite and not negative, but entry {bad} is {rows[bad]}")
    if smallest >= LEAST_UNSCALED:
        return (rows if has_slack(rows) else _slackened(rows)), np.zeros(len(rows))
    largest[largest == 0.0] = 1.0
    scaled = with_slack(rows.shape)
    np.divide(rows, largest[:, None], out=scaled)
    return scaled, np.log(largest)


def _slackened(rows: FloatArray) -> FloatArray:
    copy: FloatArray = with_slack(rows.shape)
    copy[...] = rows
    return copy
