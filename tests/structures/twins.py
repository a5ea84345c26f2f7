"""Enumerating twins: every query of a chain or a categorical answered by listing all outputs.

A twin knows nothing of recursions. It lists the K^T label sequences of an instance, scores each one by
adding up its parts,

    score(y) = start[y_0] + stop[y_last] + sum_t node_t[y_t] + sum_{t>=1} edge_t[y_{t-1}, y_t],

and reads every query off that list. A categorical is a chain all of whose instances have one slot.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

Output = tuple[int, ...]


def log_sum_exp(values: np.ndarray) -> float:
    """log sum_i exp(values_i), correctly rounded sum; -inf where nothing is possible."""
    top = float(np.max(values))
    if top == -math.inf:
        return top
    return top + math.log(math.fsum(np.exp(values - top)))


@dataclass(frozen=True)
class Listing:
    """All outputs of one instance: labels (n_outputs, T) in lexicographic order, score (n_outputs,)."""

    labels: np.ndarray
    score: np.ndarray

    @cached_property
    def feasible(self) -> bool:
        return bool(np.any(self.score > -math.inf))

    @cached_property
    def log_partition(self) -> float:
        return log_sum_exp(self.score)

    @cached_property
    def probability(self) -> np.ndarray:
        """p(y) of every listed output, (n_outputs,)."""
        return np.exp(self.score - self.log_partition)

    @cached_property
    def entropy(self) -> float:
        possible = self.score > -math.inf
        return -math.fsum(self.probability[possible] * (self.score[possible] - self.log_partition))

    @cached_property
    def best_score(self) -> float:
        return float(np.max(self.score))

    def within(self, margin: float) -> set[Output]:
        """Outputs whose score is at most ``margin`` below the best one."""
        rows = self.labels[self.score >= self.best_score - margin]
        return {tuple(int(k) for k in row) for row in rows}

    @cached_property
    def tied(self) -> set[Output]:
        """Outputs whose score equals the best one."""
        return self.within(0.0)

    @cached_property
    def argmax(self) -> Output:
        """Of the tied outputs: smallest last label, then smallest label before it, and so on."""
        return min(self.tied, key=lambda y: y[::-1])

    @cached_property
    def n_possible(self) -> int:
        return int(np.sum(self.score > -math.inf))

    def best_scores(self, k: int) -> np.ndarray:
        """The k best scores in falling order, (k,), filled up with -inf."""
        ranked = np.sort(self.score)[::-1][:k]
        return np.concatenate([ranked, np.full(k - len(ranked), -math.inf)])

    def distribution(self) -> dict[Output, float]:
        """p(y) by output, possible outputs only."""
        return {
            tuple(int(k) for k in y): float(p)
            for y, s, p in zip(self.labels, self.score, self.probability, strict=True)
            if s > -math.inf
        }


@dataclass(frozen=True)
class Twin:
    """Scores of a ragged batch, written out slot by slot.

    offsets : (n_instances + 1,); node : (n_slots, K); edge : (n_slots, K, K), the matrix between slots
    t-1 and t; matrix : (n_slots,), the number of that matrix in the stack of ``n_matrices``. Rows of
    ``edge`` and entries of ``matrix`` at first slots are not used. start, stop : (K,).
    """

    offsets: np.ndarray
    node: np.ndarray
    edge: np.ndarray
    matrix: np.ndarray
    n_matrices: int
    start: np.ndarray
    stop: np.ndarray
    first: int = 0

    @property
    def n_instances(self) -> int:
        return len(self.offsets) - 1

    @property
    def n_slots(self) -> int:
        return int(self.offsets[-1])

    @property
    def n_labels(self) -> int:
        return int(self.node.shape[1])

    def slots(self, instance: int) -> range:
        return range(int(self.offsets[instance]), int(self.offsets[instance + 1]))

    def boundaries(self) -> Iterator[tuple[int, int]]:
        """(instance, t) of every boundary between slots t-1 and t of one instance."""
        for i in range(self.n_instances):
            for t in self.slots(i)[1:]:
                yield i, t

    @cached_property
    def listings(self) -> list[Listing]:
        return [self._list(i) for i in range(self.n_instances)]

    def _list(self, instance: int) -> Listing:
        slots = self.slots(instance)
        outputs = list(itertools.product(range(self.n_labels), repeat=len(slots)))
        labels = np.array(outputs, dtype=np.int64).reshape(len(outputs), len(slots))
        score = np.zeros(len(outputs))
        for position, t in enumerate(slots):
            score = score + self.node[t, labels[:, position]]
            score = score + (
                self.start[labels[:, 0]]
                if position == 0
                else self.edge[t, labels[:, position - 1], labels[:, position]]
            )
        if slots:
            score = score + self.stop[labels[:, -1]]
        return Listing(labels, score)

    @cached_property
    def infeasible(self) -> list[int]:
        """Numbers (counted from ``first``) of the instances without any possible output."""
        return [self.first + i for i, listing in enumerate(self.listings) if not listing.feasible]

    @cached_property
    def log_partition(self) -> np.ndarray:
        return np.array([x.log_partition for x in self.listings])

    @cached_property
    def entropy(self) -> np.ndarray:
        return np.array([x.entropy for x in self.listings])

    @cached_property
    def best_score(self) -> np.ndarray:
        return np.array([x.best_score for x in self.listings])

    @cached_property
    def argmax(self) -> np.ndarray:
        return np.array([k for x in self.listings for k in x.argmax], dtype=np.int64)

    @cached_property
    def node_marginals(self) -> np.ndarray:
        """P(y_t = k), (n_slots, K)."""
        marginals = np.zeros((self.n_slots, self.n_labels))
        for i, listing in enumerate(self.listings):
            for position, t in enumerate(self.slots(i)):
                for k in range(self.n_labels):
                    marginals[t, k] = np.sum(listing.probability[listing.labels[:, position] == k])
        return marginals

    @cached_property
    def edge_marginals(self) -> np.ndarray:
        """P(y_{t-1} = a, y_t = b), (n_slots, K, K); zeros at first slots."""
        n_labels = self.n_labels
        marginals = np.zeros((self.n_slots, n_labels, n_labels))
        for i, t in self.boundaries():
            listing = self.listings[i]
            position = t - int(self.offsets[i])
            pair = listing.labels[:, position - 1] * n_labels + listing.labels[:, position]
            counts = np.bincount(pair, weights=listing.probability, minlength=n_labels * n_labels)
            marginals[t] = counts.reshape(n_labels, n_labels)
        return marginals

    def edge_counts(self, weights: np.ndarray | None = None) -> np.ndarray:
        """Sum over boundaries that use matrix j of the weighted edge marginals, (n_matrices, K, K)."""
        counts = np.zeros((self.n_matrices, self.n_labels, self.n_labels))
        for i, t in self.boundaries():
            counts[self.matrix[t]] += (1.0 if weights is None else weights[i]) * self.edge_marginals[t]
        return counts

    def score(self, labels: np.ndarray) -> np.ndarray:
        """Score of one output of every instance, (n_instances,)."""
        scores = []
        for i in range(self.n_instances):
            slots = self.slots(i)
            terms = [float(self.node[t, labels[t]]) for t in slots]
            terms += [float(self.edge[t, labels[t - 1], labels[t]]) for t in slots[1:]]
            if slots:
                terms += [float(self.start[labels[slots[0]]]), float(self.stop[labels[slots[-1]]])]
            scores.append(-math.inf if -math.inf in terms else math.fsum(terms))
        return np.array(scores)

    def parts_of(self, labels: np.ndarray) -> list[int]:
        """Sorted numbers of the parts that an output of the batch uses."""
        n_labels = self.n_labels
        nodes = [t * n_labels + int(labels[t]) for t in range(self.n_slots)]
        edges = [
            self.n_slots * n_labels + (t * n_labels + int(labels[t - 1])) * n_labels + int(labels[t])
            for _, t in self.boundaries()
        ]
        return sorted(nodes + edges)

    def tilt(self, node: np.ndarray | None = None, edge: np.ndarray | None = None, gamma: float = 1.0) -> Twin:
        """The twin whose outputs score (score(y) + node and edge deltas of y) / gamma."""
        return replace(
            self,
            node=(self.node if node is None else self.node + node) / gamma,
            edge=(self.edge if edge is None else self.edge + edge) / gamma,
            start=self.start / gamma,
            stop=self.stop / gamma,
        )

    def clamp(self, labels: np.ndarray) -> Twin:
        """The twin in which every label but labels[t] is forbidden where labels[t] >= 0."""
        node = self.node.copy()
        for t, label in enumerate(labels):
            if label >= 0:
                node[t, np.arange(self.n_labels) != label] = -math.inf
        return replace(self, node=node)


def chain_twin(
    offsets: Any,
    node: Any,
    edge: Any,
    *,
    start: Any = None,
    stop: Any = None,
    node_index: Any = None,
    edge_index: Any = None,
    first: int = 0,
) -> Twin:
    """The twin of ``Chain`` called with the same arguments."""
    offsets, node, edge = np.asarray(offsets), np.asarray(node, dtype=float), np.asarray(edge, dtype=float)
    n_slots, n_labels = int(offsets[-1]), node.shape[1]
    stack = edge.reshape(-1, n_labels, n_labels)
    matrix = np.zeros(n_slots, dtype=np.int64) if edge_index is None else np.array(edge_index, dtype=np.int64)
    matrix[offsets[:-1][np.diff(offsets) > 0]] = 0
    return Twin(
        offsets=offsets,
        node=node if node_index is None else node[np.asarray(node_index)],
        edge=stack[matrix],
        matrix=matrix,
        n_matrices=len(stack),
        start=np.zeros(n_labels) if start is None else np.asarray(start, dtype=float),
        stop=np.zeros(n_labels) if stop is None else np.asarray(stop, dtype=float),
        first=first,
    )


def categorical_twin(node: Any, *, first: int = 0) -> Twin:
    """The twin of ``Categorical`` called with the same arguments."""
    node = np.asarray(node, dtype=float)
    n_labels = node.shape[1]
    return chain_twin(np.arange(len(node) + 1), node, np.zeros((n_labels, n_labels)), first=first)
