"""What the queries of a structure return."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.structures.transitions import Transitions, UsedTransitions


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
