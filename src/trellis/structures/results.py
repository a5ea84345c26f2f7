"""What the queries of a structure return."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.data.ragged import FloatArray, LabelArray


@dataclass(frozen=True)
class Posterior:
    """Marginals of parts and the log-partition of each instance.

    node : (n_slots, n_labels)               P(y_t = k)
    log_partition : (n_instances,)           log Σ_y exp score(y)
    edge_counts : (n_matrices, K, K)         Σ_i weight_i Σ_{t: matrix m} P(y_{t−1} = a, y_t = b); chains only
    edge : (n_slots, K, K)                   P(y_{t−1} = a, y_t = b), zero at first slots; chains, where asked for
    """

    node: FloatArray
    log_partition: FloatArray
    edge_counts: FloatArray | None = None
    edge: FloatArray | None = None


@dataclass(frozen=True)
class Argmax:
    """labels : (n_slots,) of a best output of each instance;  score : (n_instances,)."""

    labels: LabelArray
    score: FloatArray


@dataclass(frozen=True)
class KBest:
    """The k best outputs of each instance, best first.

    labels : (k, n_slots), −1 where an instance has no such output;  score : (k, n_instances), −∞ there
    """

    labels: LabelArray
    score: FloatArray
