"""Agreement of two posteriors: the nearest pair of distributions that say the same.

    min_{q₁, q₂} Σ_i γ q_i log q_i − q_i·score_i     s.t.  q₁ and q₂ agree                (Ganchev et al. 2010, sec. 6)

*Fully*, over equal spaces of outputs: q₁ = q₂ ∝ (p₁ p₂)^{1/2γ}, the geometric mean (prop. 6.1, 6.2).
*Through a map of labels* g₁(y₁) = g₂(y₂) = z (a coarse tag set, say):
    categorical   q(z) ∝ exp((L₁(z) + L₂(z)) / 2γ) with L_i(z) = γ log Σ_{y: g_i(y) = z} exp(score_i(y)/γ), and inside
                  a class each keeps its own shape (prop. 6.3)
    chain         the classes of slots (and of boundaries) have equal marginals (eq. 54). No closed form; the dual
                  q₁ ∝ p₁ exp(−λ(g₁(y))/γ), q₂ ∝ p₂ exp(+λ(g₂(y))/γ) is solved by L-BFGS after a few marginal-ratio
                  steps λ ← λ + γ/2 (log m₁ − log m₂), which start well and then stall
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp

from trellis.data.ragged import FloatArray, LabelArray
from trellis.errors import ConvergenceWarning, DataError
from trellis.structures.categorical import Categorical
from trellis.structures.chain import Chain
from trellis.structures.results import Posterior
from trellis.structures.structure import check_gamma

RATIO_STEPS = 3


@dataclass(frozen=True)
class Agreement:
    """The two distributions as scores and as posteriors, the optimum, and the largest disagreement left."""

    first: Posterior
    second: Posterior
    first_scores: Categorical | Chain
    second_scores: Categorical | Chain
    value: float
    kkt_residual: float
    evaluations: int


def agree(
    first: Categorical | Chain,
    second: Categorical | Chain,
    gamma: float = 1.0,
    *,
    maps: tuple[Sequence[int], Sequence[int]] | None = None,
    edges: bool = True,
    tolerance: float = 1e-3,
    most_evaluations: int = 500,
) -> Agreement:
    """Project a pair of scores onto agreement, fully or through ``maps`` (the class of each label of each model).

    ``edges``: through a map, chains agree on the classes of neighbouring slots too, not of single slots alone.

    >>> p, q = Categorical(np.log([[0.9, 0.1]])), Categorical(np.log([[0.5, 0.5]]))
    >>> agree(p, q).first.node.round(2).tolist()
    [[0.75, 0.25]]
    """
    gamma = check_gamma(gamma)
    if isinstance(first, Categorical) and isinstance(second, Categorical):
        _check_alike(len(first.node), len(second.node), "instances")
        return _categorical(first, second, gamma, maps)
    if not (isinstance(first, Chain) and isinstance(second, Chain)):
        raise DataError("models agree over outputs of one kind: two chains, or two categoricals")
    if not np.array_equal(first.offsets, second.offsets):
        raise DataError("models agree over the same instances, but the lengths of these differ")
    if maps is None:
        _check_alike(first.n_labels, second.n_labels, "labels")
        return _same_chains(first, second, gamma)
    return _mapped_chains(first, second, gamma, _classes(first, second, maps), edges, tolerance, most_evaluations)


def _categorical(
    first: Categorical, second: Categorical, gamma: float, maps: tuple[Sequence[int], Sequence[int]] | None
) -> Agreement:
    if maps is None:
        _check_alike(first.n_labels, second.n_labels, "labels")
        maps = (range(first.n_labels), range(second.n_labels))
    classes = _classes(first, second, maps)
    n_classes = max(int(c.max()) for c in classes) + 1
    inside = []
    for scores, label_class in zip((first, second), classes, strict=True):
        scaled = np.full((len(scores.node), n_classes), -np.inf)
        for z in range(n_classes):
            if np.any(label_class == z):
                scaled[:, z] = logsumexp(scores.node[:, label_class == z] / gamma, axis=1)
        inside.append(scaled)
    common = Categorical((inside[0] + inside[1]) / 2.0, first.first)
    log_q = np.log(np.maximum(common.infer().node, np.finfo(float).tiny))
    log_q[common.node == -np.inf] = -np.inf
    outcomes = []
    for scores, label_class, scaled in zip((first, second), classes, inside, strict=True):
        shape = scores.node / gamma - np.where(scaled > -np.inf, scaled, 0.0)[:, label_class]
        outcomes.append(Categorical(shape + log_q[:, label_class], scores.first))
    value = -2.0 * gamma * float(common.infer().log_partition.sum())
    return Agreement(outcomes[0].infer(), outcomes[1].infer(), outcomes[0], outcomes[1], value, 0.0, 1)


def _same_chains(first: Chain, second: Chain, gamma: float) -> Agreement:
    a, b = first.tables, second.tables
    n_slots = first.n_slots
    one_matrix = len(a.edge) == len(b.edge) == 1
    edge = (a.edge + b.edge) / 2 if one_matrix else (a.edge[first.edge_index] + b.edge[second.edge_index]) / 2
    index = None if one_matrix else np.arange(n_slots, dtype=np.int32)
    mean = Chain(
        first.offsets, (first.node + second.node) / 2, edge, start=(a.start + b.start) / 2, stop=(a.stop + b.stop) / 2,
        edge_index=index, first=first.first,
    ).tilt(gamma=gamma)  # fmt: skip
    q = mean.infer(edge_marginals=True)
    value = -2.0 * gamma * float(q.log_partition.sum())
    return Agreement(q, q, mean, mean, value, 0.0, 1)


def _mapped_chains(
    first: Chain,
    second: Chain,
    gamma: float,
    classes: tuple[LabelArray, LabelArray],
    edges: bool,
    tolerance: float,
    most_evaluations: int,
) -> Agreement:
    n_slots = first.n_slots
    n_classes = max(int(c.max()) for c in classes) + 1
    sums = [np.eye(n_classes)[label_class] for label_class in classes]
    scaled = [scores.tilt(gamma=gamma) for scores in (first, second)]
    inner = first.parts.has_boundary()
    n_node = n_slots * n_classes
    size = n_node * (1 + n_classes) if edges else n_node
    evaluations = 0

    def tilted(theta: FloatArray, i: int) -> Chain:
        sign, label_class = (-1.0, 1.0)[i], classes[i]
        node = sign * theta[:n_node].reshape(n_slots, n_classes)[:, label_class]
        edge = None
        if edges:
            pairs = theta[n_node:].reshape(n_slots, n_classes, n_classes)
            edge = sign * pairs[:, label_class][:, :, label_class]
        return scaled[i].tilt(node, edge)

    def class_marginals(q: Posterior, i: int) -> FloatArray:
        node = q.node @ sums[i]
        if q.edge is None:
            return node.reshape(-1)
        pairs = (sums[i].T @ q.edge @ sums[i]) * inner[:, None, None]
        return np.concatenate([node.reshape(-1), pairs.reshape(-1)])

    def evaluate(theta: FloatArray) -> tuple[float, FloatArray]:
        nonlocal evaluations
        evaluations += 1
        posteriors = [tilted(theta, i).infer(edge_marginals=edges) for i in (0, 1)]
        expected = [class_marginals(q, i) for i, q in enumerate(posteriors)]
        return float(sum(q.log_partition.sum() for q in posteriors)), expected[1] - expected[0]

    theta = np.zeros(size)
    tiny = 1e-12
    for _ in range(RATIO_STEPS):
        ratio = [class_marginals(tilted(theta, i).infer(edge_marginals=edges), i)[:n_node] for i in (0, 1)]
        theta[:n_node] += 0.5 * (np.log(ratio[0] + tiny) - np.log(ratio[1] + tiny))
        evaluations += 1
    solved = minimize(
        evaluate, theta, jac=True, method="L-BFGS-B",
        options={"gtol": tolerance, "ftol": 0.0, "maxiter": most_evaluations, "maxfun": most_evaluations, "maxcor": 20},
    )  # fmt: skip
    outcomes = [tilted(solved.x, i) for i in (0, 1)]
    posteriors = [q.infer(edge_marginals=edges) for q in outcomes]
    residual = float(np.max(np.abs(class_marginals(posteriors[0], 0) - class_marginals(posteriors[1], 1)), initial=0.0))
    if residual > tolerance:
        warnings.warn(
            f"the two models still disagree by {residual:.2g} (tolerance {tolerance:g}): allow more evaluations, or "
            "check that some output of each is possible for the other",
            ConvergenceWarning,
            stacklevel=3,
        )
    return Agreement(
        posteriors[0], posteriors[1], outcomes[0], outcomes[1], -gamma * float(solved.fun), residual, evaluations
    )


def _classes(
    first: Categorical | Chain, second: Categorical | Chain, maps: tuple[Sequence[int], Sequence[int]]
) -> tuple[LabelArray, LabelArray]:
    checked = []
    for scores, given in zip((first, second), maps, strict=True):
        label_class = np.asarray(given, dtype=np.int32)
        if label_class.shape != (scores.n_labels,) or label_class.min(initial=0) < 0:
            raise DataError(f"a map gives a class ≥ 0 to each of {scores.n_labels} labels, got {list(given)!r}")
        checked.append(label_class)
    return checked[0], checked[1]


def _check_alike(one: int, other: int, what: str) -> None:
    if one != other:
        raise DataError(f"models agree over the same {what}, but there are {one} and {other}: give maps of labels")
