"""Results of the queries of a structure.

Marginals of transitions are kept as the factors that forward-backward leaves, K numbers a boundary in place of K²:

    P(y_{t−1} = a, y_t = b) = before_t(a) · matrix_t(a, b) · after_t(b)

with as few matrices as there are different ones. Where scaled probabilities did not serve, the logs of all three are
added; where a q is an average of outputs, the transitions that it uses are listed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray

AT_ONCE = 1 << 16
"""Marginals that are made together: what is looked up for them should not be the largest array in the house."""


@dataclass(frozen=True)
class Transitions:
    """Marginals of the transitions of a batch of chains.

    before, after : (n_slots, K);  matrix : (n_matrices, K, K);  index : (n_slots,) the matrix before each slot
    logs : (n_slots,) whether the factors are logs; at an instance's first slot they are not, and zero
    """

    before: FloatArray
    after: FloatArray
    matrix: FloatArray
    index: IntArray
    logs: BoolArray

    def at(self, cell: IntArray) -> FloatArray:
        """The marginals of transitions, counted from the first of all: (slot · K + a) · K + b."""
        k, found, any_logs = self.matrix.shape[1], np.empty(cell.shape), bool(self.logs.any())
        before, matrix, after = self.before.reshape(-1), self.matrix.reshape(-1), self.after.reshape(-1)
        for low in range(0, len(cell), AT_ONCE):
            some, out = cell[low : low + AT_ONCE], found[low : low + AT_ONCE]
            row = some // k
            slot, b = row // k, some - row * k
            pair = some - slot * (k * k)
            if len(self.matrix) > 1:
                pair += self.index[slot] * np.int64(k * k)
            factors = before.take(row), matrix.take(pair), after.take(slot * k + b)
            if any_logs:
                log = self.logs[slot]
                out[log] = np.exp(sum(factor[log] for factor in factors))
                out[~log] = np.prod([factor[~log] for factor in factors], axis=0)
            else:
                np.multiply(factors[0], factors[1], out=out)
                out *= factors[2]
        return found

    def dense(self) -> FloatArray:
        """(n_slots, K, K): all of them, for small problems."""
        n, k = self.before.shape
        return self.at(np.arange(n * k * k, dtype=np.int64)).reshape(n, k, k)

    def with_others(self, slots: BoolArray, others: Transitions) -> Transitions:
        """The same, with those of some slots from elsewhere."""
        made = replace(
            self,
            before=self.before.copy(),
            after=self.after.copy(),
            matrix=np.concatenate((self.matrix, others.matrix)),
            index=self.index.copy(),
            logs=self.logs.copy(),
        )
        made.before[slots], made.after[slots], made.logs[slots] = others.before, others.after, others.logs
        made.index[slots] = len(self.matrix) + others.index
        return made


@dataclass(frozen=True)
class UsedTransitions:
    """Marginals of the few transitions that an average of outputs uses.

    n_slots, n_labels : of the batch;  cell : (n,) as in :meth:`Transitions.at`, increasing;  share : (n,)
    """

    n_slots: int
    n_labels: int
    cell: IntArray
    share: FloatArray

    @classmethod
    def of(cls, n_slots: int, n_labels: int, cell: IntArray, share: FloatArray) -> UsedTransitions:
        """Transitions in any order; the shares of one that is named again add up."""
        used, place = np.unique(cell, return_inverse=True)
        return cls(n_slots, n_labels, used, np.bincount(place, share, minlength=len(used)).astype(np.float64))

    def at(self, cell: IntArray) -> FloatArray:
        if not len(self.cell):
            return np.zeros(cell.shape)
        near = np.minimum(np.searchsorted(self.cell, cell), len(self.cell) - 1)
        return np.where(self.cell[near] == cell, self.share[near], 0.0)

    def dense(self) -> FloatArray:
        n, k = self.n_slots, self.n_labels
        return self.at(np.arange(n * k * k, dtype=np.int64)).reshape(n, k, k)


class Posterior(Protocol):
    """A distribution over the outputs of every instance, seen through its parts.

    log_partition : (n_instances,)    log Σ_y exp score(y)
    """

    @property
    def log_partition(self) -> FloatArray: ...

    def at(self, parts: IntArray) -> FloatArray:
        """The probability that each of these parts is used."""
        ...


@dataclass(frozen=True)
class PartPosterior:
    """A posterior that holds the marginal of every part: (n_parts,)."""

    marginal: FloatArray
    log_partition: FloatArray

    def at(self, parts: IntArray) -> FloatArray:
        return self.marginal[parts]


@dataclass(frozen=True)
class LabelPosterior:
    """Marginals of labels, and what a chain's model needs of its transitions.

    node : (n_slots, n_labels)               P(y_t = k)
    log_partition : (n_instances,)           log Σ_y exp score(y)
    edge_counts : (n_matrices, K, K)         Σ_i weight_i Σ_{t: matrix m} P(y_{t−1} = a, y_t = b); chains only
    transitions                              P(y_{t−1} = a, y_t = b); chains, where asked for
    """

    node: FloatArray
    log_partition: FloatArray
    edge_counts: FloatArray | None = None
    transitions: Transitions | UsedTransitions | None = None

    @property
    def edge(self) -> FloatArray | None:
        """(n_slots, K, K): marginals of all transitions, zero at first slots: for small problems."""
        return None if self.transitions is None else self.transitions.dense()

    def at(self, parts: IntArray) -> FloatArray:
        """Marginals of parts; of transitions only where ``infer(at=...)`` was told of one."""
        n_node, flat = self.node.size, self.node.reshape(-1)
        if parts.size == 0 or int(parts.max()) < n_node:
            return flat[parts]
        if self.transitions is None:
            raise ValueError("this posterior has no marginals of transitions: ask for them with infer(at=parts)")
        is_node = parts < n_node
        found = np.empty(parts.shape)
        found[is_node] = flat[parts[is_node]]
        found[~is_node] = self.transitions.at(parts[~is_node] - n_node)
        return found


@dataclass(frozen=True)
class JointPosterior:
    """Posteriors of several structures over the same instances; their parts stand one after the other.

    starts : (n_members + 1,) first part of each, and the number of all
    """

    members: Sequence[Any]
    starts: IntArray

    @property
    def log_partition(self) -> FloatArray:
        return np.asarray(sum(member.log_partition for member in self.members))

    def at(self, parts: IntArray) -> FloatArray:
        found = np.empty(parts.shape)
        for number, member in enumerate(self.members):
            mine = (parts >= self.starts[number]) & (parts < self.starts[number + 1])
            found[mine] = member.at(parts[mine] - self.starts[number])
        return found


@dataclass(frozen=True)
class Argmax:
    """A best output of each instance, in the structure's own form, and its score (n_instances,).

    outputs : of labels (n_slots,), of a joint structure one of each member
    """

    outputs: Any
    score: FloatArray


@dataclass(frozen=True)
class KBest:
    """The k best outputs of each instance, best first.

    labels : (k, n_slots), −1 where an instance has no such output;  score : (k, n_instances), −∞ there
    """

    labels: LabelArray
    score: FloatArray
