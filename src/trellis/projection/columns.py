"""Lagrangian relaxation with the best averaging: column generation over the outputs of a batch.

Every round asks each instance for its best output under the scores tilted by the current multipliers (one compiled
argmax of the batch), and a master linear program chooses both the multipliers of the next round and the weights with
which the outputs seen so far are averaged (Dantzig and Wolfe 1960):

    max  Σ_i w_i Σ_c u_ic score(y_ic) − prices(ξ)
    s.t. Σ_i w_i Σ_c u_ic φ_r(y_ic) − b_r ≤ ξ_r,   Σ_c u_ic = 1,  u ≥ 0

(for a local row without the weight). The averaged outputs are feasible, the multipliers give an upper bound, and the
distance between the two is reported.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.optimize import linprog

from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.errors import ConstraintError, InfeasibleError
from trellis.projection.mask import sum_at
from trellis.structures.chain import Chain

FEASIBLE = 1e-7
"""A least violation up to this is rounding."""


@dataclass(frozen=True)
class Averaged:
    """Outputs and the weights of their average.

    instance : (n_columns,);  weight : (n_columns,), summing to one over an instance;  labels : a list of (n_i,) arrays
    multipliers : (n_rows,) of the rows;  value, bound : what the average attains, and what nothing can exceed
    """

    instance: IntArray
    weight: FloatArray
    labels: list[LabelArray]
    multipliers: FloatArray
    value: float
    bound: float
    rounds: int


class Columns:
    """The outputs seen so far and the master program over them."""

    def __init__(self, scores: Chain, rows: Rows, weights: FloatArray | None = None) -> None:
        self.scores, self.rows = scores, rows
        self.weights = np.ones(len(scores)) if weights is None else weights
        self.entry_row = rows.entry_row
        self.entry_instance = rows.parts.instance_of(rows.part)
        self.row_weight = np.where(rows.instance == COUPLING, 1.0, self.weights[rows.instance])
        self.labels: list[LabelArray] = []
        self.instance: list[int] = []
        self.score: list[float] = []
        self._seen: set[tuple[int, bytes]] = set()
        self._phi: list[tuple[IntArray, FloatArray]] = []

    def add(self, labels: LabelArray, wanted: IntArray) -> int:
        """Add each wanted instance's output if it is new; returns how many were."""
        offsets, scores = self.scores.offsets, self.scores.score(labels)
        used = np.zeros(self.rows.parts.n_parts, dtype=np.bool_)
        used[self.rows.parts.of(labels)] = True
        hit = np.flatnonzero(used[self.rows.part])
        hit = hit[np.argsort(self.entry_instance[hit], kind="stable")]
        cuts = np.searchsorted(self.entry_instance[hit], np.arange(len(self.scores) + 1))
        added = 0
        for i in wanted.tolist():
            mine = labels[offsets[i] : offsets[i + 1]].copy()
            key = (i, mine.tobytes())
            if key in self._seen:
                continue
            self._seen.add(key)
            entries = hit[cuts[i] : cuts[i + 1]]
            row, place = np.unique(self.entry_row[entries], return_inverse=True)
            self._phi.append((row, sum_at(place, self.rows.coefficient[entries], len(row))))
            self.labels.append(mine)
            self.instance.append(i)
            self.score.append(float(scores[i]))
            added += 1
        return added

    def price(self, multipliers: FloatArray, score_factor: float) -> tuple[LabelArray, FloatArray]:
        """Each instance's best output under score_factor · score − multipliers · φ, and its value (unweighted)."""
        k, n_slots = self.scores.n_labels, self.scores.n_slots
        n_node = n_slots * k
        change = -multipliers[self.entry_row] * self.rows.coefficient
        here = self.rows.part < n_node
        node = sum_at(self.rows.part[here], change[here], n_node).reshape(n_slots, k)
        edge = None
        if not np.all(here):
            edge = sum_at(self.rows.part[~here] - n_node, change[~here], n_node * k).reshape(n_slots, k, k)
        tilted = (self.scores if score_factor == 1.0 else flatten(self.scores)).tilt(node, edge)
        best = tilted.argmax()
        return best.labels, best.score

    def master(self, feasibility: bool) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Solve the master: weights of columns, multipliers of rows (in price() units), prices of instances, value.

        With ``feasibility`` it minimises the largest violation of the hard and slack rows instead.
        """
        rows, n_columns, n_rows = self.rows, len(self.labels), len(self.rows)
        owner = np.array(self.instance)
        row = np.concatenate([r for r, _ in self._phi]) if n_columns else np.zeros(0, np.int64)
        value = np.concatenate([v for _, v in self._phi]) if n_columns else np.zeros(0)
        column = np.repeat(np.arange(n_columns), [len(r) for r, _ in self._phi])
        coupling = rows.instance[row] == COUPLING
        value = np.where(coupling, value * self.weights[owner[column]], value)
        phi = sparse.csr_matrix((value, (row, column)), shape=(n_rows, n_columns))
        slackness = _Slackness.of(rows, self.row_weight, feasibility)
        costs = np.concatenate([np.zeros(n_columns), slackness.cost])
        if not feasibility:
            costs[:n_columns] = -self.weights[owner] * np.array(self.score)
        sides = rows.equality
        upper = sparse.vstack(
            [
                sparse.hstack([phi, -slackness.over]),
                sparse.hstack([-phi[sides], -slackness.over[sides]]),
                sparse.hstack(
                    [sparse.csr_matrix((slackness.limit_matrix.shape[0], n_columns)), slackness.limit_matrix]
                ),
            ],
            format="csr",
        )
        bounds = np.concatenate([rows.bound, -rows.bound[sides], slackness.limit])
        present, place = np.unique(owner, return_inverse=True)
        convex = sparse.csr_matrix(
            (np.ones(n_columns), (place, np.arange(n_columns))), shape=(len(present), len(costs))
        )
        solved = linprog(costs, upper, bounds, convex, np.ones(len(present)), bounds=(0, None), method="highs")
        if solved.x is None:
            raise ConstraintError(f"the linear program of γ = 0 could not be solved: {solved.message}")
        marginal = -solved.ineqlin.marginals
        multipliers = marginal[:n_rows].copy()
        multipliers[sides] -= marginal[n_rows : n_rows + int(sides.sum())]
        prices = np.zeros(len(self.scores))
        prices[present] = -solved.eqlin.marginals
        divide = np.where(self.row_weight > 0, self.row_weight, 1.0)
        multipliers = multipliers if feasibility else np.where(self.row_weight > 0, multipliers / divide, 0.0)
        return solved.x[:n_columns], multipliers, prices, float(solved.fun)


@dataclass(frozen=True)
class _Slackness:
    """Violation variables ξ of the master program, what they cost, and what bounds their norms.

    over : (n_rows, n_slack);  cost : (n_slack,);  limit_matrix · ξ ≤ limit
    """

    over: sparse.csr_matrix
    cost: FloatArray
    limit_matrix: sparse.csr_matrix
    limit: FloatArray

    @classmethod
    def of(cls, rows: Rows, row_weight: FloatArray, feasibility: bool) -> _Slackness:
        """One ξ a row that may be violated; for L∞ one a group; with ``feasibility`` one more for all strict rows."""
        kind, norm, amount = rows.groups.kind, rows.groups.norm, rows.groups.amount
        entries: list[tuple[int, int]] = []
        cost: list[float] = []
        limits: dict[int, list[int]] = {}
        shared: dict[int, int] = {}
        for r in range(len(rows)):
            g = int(rows.group[r])
            if kind[g] == Kind.HARD:
                continue
            one_a_group = norm[g] == Norm.LINF
            if one_a_group and g in shared:
                entries.append((r, shared[g]))
                continue
            priced = kind[g] == Kind.PENALTY
            entries.append((r, len(cost)))
            shared[g] = len(cost)
            if not priced:
                limits.setdefault(g, []).append(len(cost))
            cost.append(float(amount[g] * row_weight[r]) if priced and not feasibility else 0.0)
        if feasibility:
            strict = np.flatnonzero(np.isin(kind[rows.group], (Kind.HARD, Kind.SLACK)))
            entries += [(int(r), len(cost)) for r in strict]
            cost.append(1.0)
        n = len(cost)
        row, column = (np.array(x, dtype=np.int64) for x in (zip(*entries, strict=True) if entries else ((), ())))
        over = sparse.csr_matrix((np.ones(len(entries)), (row, column)), shape=(len(rows), n))
        places = [(j, c) for j, columns in enumerate(limits.values()) for c in columns]
        lrow, lcolumn = (np.array(x, dtype=np.int64) for x in (zip(*places, strict=True) if places else ((), ())))
        matrix = sparse.csr_matrix((np.ones(len(places)), (lrow, lcolumn)), shape=(len(limits), n))
        return cls(over, np.array(cost), matrix, np.array([amount[g] for g in limits], dtype=np.float64))


def flatten(scores: Chain) -> Chain:
    """Scores of 0 for what is possible and −inf for what is not."""

    def flat(table: FloatArray) -> FloatArray:
        return np.where(table > -np.inf, 0.0, -np.inf)

    t = scores.tables
    return Chain(
        scores.offsets, flat(t.node), flat(t.edge), start=flat(t.start), stop=flat(t.stop),
        node_index=scores.node_index, edge_index=scores.edge_index, first=scores.first,
    )  # fmt: skip


def check_linear(rows: Rows) -> None:
    """Refuse strengths that no linear program can hold."""
    kind, norm = rows.groups.kind[rows.group], rows.groups.norm[rows.group]
    curved = (kind == Kind.SQUARED) | (((kind == Kind.PENALTY) | (kind == Kind.SLACK)) & (norm == Norm.L2))
    if np.any(curved):
        name = rows.names[int(rows.constraint[np.flatnonzero(curved)[0]])]
        raise ConstraintError(
            f"γ = 0 is a linear program, but constraint {name!r} has an L2 strength: use the norm l1 or linf, or γ > 0"
        )


def average_outputs(
    scores: Chain,
    rows: Rows,
    *,
    weights: FloatArray | None = None,
    multipliers: FloatArray | None = None,
    feasibility: bool = False,
    tolerance: float = 1e-9,
    most_rounds: int = 500,
) -> Averaged:
    """Generate columns until the bound meets the value (relative to its size), starting from given multipliers.

    With ``feasibility``, value and bound are minus the least possible largest violation of the hard and slack rows.
    """
    columns = Columns(scores, rows, weights)
    every = np.arange(len(scores))
    factor = 0.0 if feasibility else 1.0
    current = np.zeros(len(rows)) if multipliers is None else multipliers
    labels, _ = columns.price(current, factor)
    columns.add(labels, every)
    if not feasibility:
        counted = rows if weights is None else rows.weighted(weights)
        feasible = average_outputs(scores, counted, feasibility=True, tolerance=1e-10)
        if -feasible.value > FEASIBLE:
            raise InfeasibleError(f"no average of outputs satisfies the rows: some are off by {-feasible.value:.4g}")
        for i, y in zip(feasible.instance.tolist(), feasible.labels, strict=True):
            complete = labels.copy()
            complete[scores.offsets[i] : scores.offsets[i + 1]] = y
            columns.add(complete, np.array([i]))
    bound, rounds = np.inf, 0
    while rounds < most_rounds:
        rounds += 1
        weight, current, prices, cost = columns.master(feasibility)
        value = -cost
        labels, best = columns.price(current, factor)
        scale = np.ones(len(scores)) if feasibility else columns.weights
        gain = scale * best - prices
        bound = min(bound, value + float(np.maximum(gain, 0.0).sum()))
        improving = np.flatnonzero(gain > tolerance * (1.0 + abs(value)) / len(scores))
        if bound - value <= tolerance * (1.0 + abs(value)) or columns.add(labels, improving) == 0:
            break
    return Averaged(np.array(columns.instance), weight, columns.labels, current, value, max(bound, value), rounds)
