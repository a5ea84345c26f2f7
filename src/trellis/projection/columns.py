"""Lagrangian relaxation with the best averaging: column generation over the outputs of a batch.

Every round asks each instance for its best output under the scores tilted by the current multipliers (one compiled
argmax of the batch), and a master linear program chooses both the multipliers of the next round and the weights with
which the outputs seen so far are averaged (Dantzig and Wolfe 1960):

    max  Σ_i w_i Σ_c u_ic score(y_ic) − prices(ξ)
    s.t. Σ_i w_i Σ_c u_ic φ_r(y_ic) − b_r ≤ ξ_r,   Σ_c u_ic = 1,  u ≥ 0

(for a local row without the weight). The averaged outputs are feasible, the multipliers give an upper bound, and the
distance between the two is reported.

Rows of single instances tie nothing together: then every run of instances has a program of its own.

Rows with many multipliers of their own (l1/linf blocks have one per occurrence and label) would take hundreds of
rounds, each of which learns of one output per instance. After some rounds the same program is solved over marginals
(:mod:`marginals`), and the outputs that its answer is made of join the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy import sparse

from trellis.constraints.implicit import Forbidden
from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.constraints.violations import LinearViolations, first_curved
from trellis.data.ragged import BoolArray, FloatArray, IntArray
from trellis.errors import ConstraintError, InfeasibleError
from trellis.projection.marginals import add_from_marginals
from trellis.structures.results import Argmax
from trellis.structures.structure import Structure

FEASIBLE = 1e-7
"""A least violation up to this is rounding."""
HEAVY = 1e5
"""Price of a unit of violation of rows that must hold, beside 1 for those that may give way."""
IMPOSSIBLE = 1e-2 * HEAVY
RUN = 300
"""Instances that share a program where no row couples any: a call costs some milliseconds beside what it solves."""
PATIENCE = 25
"""Rounds after which the program over marginals is asked for columns."""
LARGE = 5_000
"""Variables from which on an interior point takes a fifth of the simplex method's time."""
MOST_CUTS, CUT_TOLERANCE = 100, 1e-6
"""Times that L2 slacks are cut, and the share of a slack by which it may be exceeded then."""
ITERATION_LIMIT = 1
"""Status of a linear program of SciPy that had too few iterations."""
NEAR = 1e-8
"""Relative gap that counts as none from then on: what solvers of large programs reach."""


@dataclass(frozen=True)
class Segment:
    """The scores of a run of instances, and the entries of rows that fall into it.

    first : number of the run's first instance among all
    entry : (n,) entries of the rows;  part : (n,) their parts, in the numbers of the scores
    """

    scores: Structure
    first: int
    entry: IntArray
    part: IntArray

    @classmethod
    def whole(cls, scores: Structure, rows: Rows) -> Segment:
        """All instances in one."""
        return cls(scores, 0, np.arange(len(rows.part)), rows.part)

    @classmethod
    def of(cls, scores: Structure, rows: Rows, first: int) -> Segment:
        """Those from ``first`` on of the rows of a corpus."""
        kept, part = rows.parts.within(rows.part, first, first + len(scores))
        return cls(scores, first, np.flatnonzero(kept), part)


@dataclass(frozen=True)
class OutputColumn:
    """One output of one instance.

    used : parts it uses, in the numbers of its segment's scores;  row, phi : rows that it touches, and their values
    """

    segment: int
    instance: int
    used: IntArray
    score: float
    row: IntArray
    phi: FloatArray


@dataclass(frozen=True)
class Averaged:
    """Outputs and the weights of their average.

    weight : (n_columns,), summing to one over the columns of an instance
    multipliers : (n_rows,) of the rows;  value, bound : what the average attains, and what nothing can exceed
    """

    columns: list[OutputColumn]
    weight: FloatArray
    multipliers: FloatArray
    value: float
    bound: float
    rounds: int

    def posterior(self, segments: Sequence[Segment], number: int, **asked: Any) -> Any:
        """The average as the posterior of one segment."""
        mine = [
            (c, u) for c, u in zip(self.columns, self.weight.tolist(), strict=True) if c.segment == number and u > 0
        ]
        share = np.array([u for _, u in mine])
        return segments[number].scores.average([column.used for column, _ in mine], share, **asked)

    def integral(self, segment: Segment) -> BoolArray:
        """Which instances of the segment are a single output."""
        owner = np.array([column.instance for column in self.columns], dtype=np.int64)
        single = owner[self.weight > 1.0 - 1e-9]
        return np.isin(segment.first + np.arange(len(segment.scores)), single)


@dataclass(frozen=True)
class Elastic:
    """How far rows must give way, in place of what scores and prices say of averages.

    rows : (n_rows,) of the hard and slack rows, those whose violation is minimised; the others must hold, or the
        violation comes out larger than ``IMPOSSIBLE``
    largest : whether the largest violation of all is minimised, or the sum of the largest inside each instance (and of
        the coupling rows'). Both are zero where rows can hold, but the largest moves one instance per round
    """

    rows: BoolArray
    largest: bool = False

    @classmethod
    def every(cls, rows: Rows) -> Elastic:
        """All rows."""
        return cls(np.ones(len(rows), dtype=np.bool_))

    def shared(self, rows: Rows) -> tuple[Any, FloatArray]:
        """scipy CSR (n_rows, n), 1 where a row's violation is the variable; and the prices (n,) of these."""
        strict = np.flatnonzero(np.isin(rows.groups.kind[rows.group], (Kind.HARD, Kind.SLACK)))
        kind = np.zeros(len(strict)) if self.largest else rows.instance[strict]
        _, first, number = np.unique(
            np.stack((kind, ~self.rows[strict])), axis=1, return_index=True, return_inverse=True
        )  # fmt: skip
        price = np.where(self.rows[strict][first], 1.0, HEAVY)
        of_row = (np.ones(len(strict)), (strict, number.reshape(-1)))
        return sparse.csr_array(of_row, shape=(len(rows), len(price))), price


class UndecidedError(Exception):
    """The work that was allowed is done, and the program is not solved."""


@dataclass
class WorkBudget:
    """What linear programs may still take: iterations times nonzero coefficients, so that results do not depend on the
    machine."""

    left: float = np.inf


class Columns:
    """The outputs seen so far and the master program over them."""

    def __init__(
        self, segments: Sequence[Segment], rows: Rows, weights: FloatArray | None = None, work: WorkBudget | None = None
    ) -> None:
        self.work = WorkBudget() if work is None else work
        self.segments, self.rows = segments, rows
        self.n_instances = sum(len(segment.scores) for segment in segments)
        self.weights = np.ones(self.n_instances) if weights is None else weights
        self.entry_row = rows.entry_row
        self.row_weight = np.where(rows.instance == COUPLING, 1.0, self.weights[rows.instance])
        self.violations = LinearViolations.of(rows)
        self.columns: list[OutputColumn] = []
        self._seen: set[tuple[int, bytes]] = set()

    def add(self, best: list[Argmax], wanted: BoolArray) -> int:
        """Add each wanted instance's output (one per segment holds those of all its instances); how many were new."""
        added = 0
        for number, (segment, found) in enumerate(zip(self.segments, best, strict=True)):
            added += self.add_of(number, found, wanted[segment.first : segment.first + len(segment.scores)])
        return added

    def add_of(self, number: int, found: Argmax, wanted: BoolArray) -> int:
        """Add the outputs of one segment's wanted instances; how many were new."""
        segment, added = self.segments[number], 0
        parts = segment.scores.parts
        used, scores = parts.of(found.outputs), segment.scores.score(found.outputs)
        is_used = np.zeros(parts.n_parts, dtype=np.bool_)
        is_used[used] = True
        hit = np.flatnonzero(is_used[segment.part])
        cuts_used, used = _by_instance(parts.instance_of(used), used, len(scores))
        cuts_hit, hit = _by_instance(parts.instance_of(segment.part[hit]), hit, len(scores))
        for i in np.flatnonzero(wanted).tolist():
            mine = used[cuts_used[i] : cuts_used[i + 1]]
            key = (segment.first + i, mine.tobytes())
            if key in self._seen:
                continue
            self._seen.add(key)
            entries = segment.entry[hit[cuts_hit[i] : cuts_hit[i + 1]]]
            column = OutputColumn(number, segment.first + i, mine, float(scores[i]), **self._values(entries))
            self.columns.append(column)
            added += 1
        return added

    def take_over(self, others: Sequence[OutputColumn]) -> None:
        """Columns that were found for the same rows, perhaps with other coefficients."""
        entries: dict[int, tuple[IntArray, IntArray]] = {}
        for column in others:
            key = (column.instance, column.used.tobytes())
            if key in self._seen:
                continue
            self._seen.add(key)
            segment = self.segments[column.segment]
            if column.segment not in entries:
                owner = segment.scores.parts.instance_of(segment.part)
                entries[column.segment] = _by_instance(owner, np.arange(len(owner)), len(segment.scores))
            (cut, entry), i = entries[column.segment], column.instance - segment.first
            mine = entry[cut[i] : cut[i + 1]]
            mine = mine[np.isin(segment.part[mine], column.used)]
            self.columns.append(replace(column, **self._values(segment.entry[mine])))

    def _values(self, entries: IntArray) -> dict[str, Any]:
        """Rows that used entries touch, and their values."""
        row, place = np.unique(self.entry_row[entries], return_inverse=True)
        phi = np.bincount(place, self.rows.coefficient[entries], minlength=len(row)).astype(np.float64)
        return {"row": row, "phi": phi}

    def price(self, multipliers: FloatArray, flat: bool) -> list[Argmax]:
        """Of each segment the best outputs under score − multipliers · φ, or with ``flat`` under −multipliers · φ."""
        pull = self.rows.pull(multipliers)
        return [
            (s.scores.flat() if flat else s.scores).add(s.part, pull[s.entry]).argmax() for s in self.segments
        ]  # fmt: skip

    def master(self, elastic: Elastic | None) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """Solve the master: weights of columns, multipliers of rows (in price() units), prices of instances, value."""
        n_columns = len(self.columns)
        owner = np.array([column.instance for column in self.columns])
        score = np.array([column.score for column in self.columns])
        row = np.concatenate([column.row for column in self.columns])
        value = np.concatenate([column.phi for column in self.columns])
        column = np.repeat(np.arange(n_columns), [len(column.row) for column in self.columns])
        phi = sparse.csr_matrix((self.counted(value, row, owner[column]), (row, column)), (len(self.rows), n_columns))
        present, place = np.unique(owner, return_inverse=True)
        convex = sparse.csr_matrix((np.ones(n_columns), (place, np.arange(n_columns))), (len(present), n_columns))
        weight, multipliers, of_instance, cost = self.solve(
            phi, self.weights[owner] * score, convex, np.ones(len(present)), elastic
        )
        prices = np.zeros(self.n_instances)
        prices[present] = of_instance
        return weight, multipliers, prices, cost

    def counted(self, value: FloatArray, row: IntArray, instance: IntArray) -> FloatArray:
        """Values of rows at instances, as often as the rows count these."""
        return np.where(self.rows.instance[row] == COUPLING, value * self.weights[instance], value)

    def solve(
        self, phi: Any, gain: FloatArray, matrix: Any, bound: FloatArray, elastic: Elastic | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, float]:
        """max gain·x − prices(ξ) over x ≥ 0 with matrix · x = bound, under the rows phi · x − ξ ≤ b.

        phi : scipy sparse (n_rows, n) rows of the variables, as often as they count;  gain : (n,)
        An L2 slack is held by cuts: u·ξ ≤ ε for the direction u of a ξ that is too long, until none is.
        Returns x, multipliers of rows (in price() units), prices of the equations, and the cost.
        """
        for _ in range(MOST_CUTS):
            x, multipliers, prices, cost, beyond = self._solve_once(phi, gain, matrix, bound, elastic)
            if not self._cut_slacks(phi @ x - self.rows.bound, beyond):
                break
        return x, multipliers, prices, cost

    def _cut_slacks(self, excess: FloatArray, beyond: FloatArray) -> bool:
        """Add a cut for each L2 slack that the excess of rows, less what is elastic, goes beyond; whether any does."""
        rows = self.rows
        over = np.where(rows.equality, np.abs(excess), np.maximum(excess, 0.0))
        over = np.maximum(over - beyond, 0.0)
        kind, norm, amount = rows.groups.kind, rows.groups.norm, rows.groups.amount
        length = np.sqrt(np.bincount(rows.group, over**2, minlength=len(amount)))
        slack = (kind == Kind.SLACK) & (norm == Norm.L2)
        exceeded = np.flatnonzero(slack & (length > amount * (1.0 + CUT_TOLERANCE) + CUT_TOLERANCE * 1e-3))
        if not len(exceeded):
            return False
        mine = np.flatnonzero(np.isin(rows.group, exceeded))
        toward = sparse.csr_array(
            (over[mine] / length[rows.group[mine]], (np.searchsorted(exceeded, rows.group[mine]), mine)),
            shape=(len(exceeded), len(rows)),
        )
        self.violations = replace(
            self.violations,
            totals=sparse.vstack([self.violations.totals, toward @ self.violations.of_row], format="csr"),
            allowed=np.concatenate([self.violations.allowed, amount[exceeded]]),
        )
        return True

    def _solve_once(
        self, phi: Any, gain: FloatArray, matrix: Any, bound: FloatArray, elastic: Elastic | None
    ) -> tuple[FloatArray, FloatArray, FloatArray, float, FloatArray]:
        """The same with the cuts there are, and (n_rows,) by how much elastic rows give way."""
        rows, n_rows, n = self.rows, len(self.rows), len(gain)
        slack = self.violations
        over, sides = -slack.of_row, rows.equality
        costs = np.concatenate([np.zeros(n), slack.cost * self.row_weight[slack.first]])
        limits = np.concatenate([np.full(n, np.inf), slack.limit])
        totals = slack.totals
        if elastic is not None:
            # violations that several rows share, of the elastic ones and of the other strict ones, are all that costs
            shared, price = elastic.shared(rows)
            over = sparse.hstack([over, -shared], format="csr")
            totals = sparse.hstack([totals, sparse.csr_array((totals.shape[0], len(price)))])
            costs, limits = np.append(np.zeros(len(costs)), price), np.append(limits, np.full(len(price), np.inf))
        else:
            costs[:n] = -gain
        upper = sparse.vstack(
            [
                sparse.hstack([phi, over]),
                sparse.hstack([-phi[sides], over[sides]]),
                sparse.hstack([sparse.csr_array((totals.shape[0], n)), totals]),
            ],
            format="csr",
        )
        bounds = np.concatenate([rows.bound, -rows.bound[sides], slack.allowed])
        equations = sparse.hstack([matrix, sparse.csr_array((matrix.shape[0], len(costs) - n))], format="csr")
        between = np.stack((np.zeros(len(limits)), limits), axis=1)
        from scipy.optimize import linprog

        method, entries = "highs" if n < LARGE else "highs-ipm", upper.nnz + equations.nnz
        if self.work.left < entries:
            raise UndecidedError
        options = {"maxiter": int(min(self.work.left // entries, 1e9))} if np.isfinite(self.work.left) else {}
        solved = linprog(costs, upper, bounds, equations, bound, between, method=method, options=options)
        self.work.left -= entries * max(1, solved.nit)
        if solved.status == ITERATION_LIMIT and options:
            raise UndecidedError
        if solved.x is None:
            raise ConstraintError(f"the linear program of γ = 0 could not be solved: {solved.message}")
        marginal = -solved.ineqlin.marginals
        multipliers = marginal[:n_rows].copy()
        multipliers[sides] -= marginal[n_rows : n_rows + int(sides.sum())]
        divide = np.where(self.row_weight > 0, self.row_weight, 1.0)
        multipliers = multipliers if elastic is not None else np.where(self.row_weight > 0, multipliers / divide, 0.0)
        beyond = np.zeros(n_rows) if elastic is None else shared @ solved.x[n + len(slack.cost) :]
        return solved.x[:n], multipliers, -solved.eqlin.marginals, float(solved.fun), beyond


def _by_instance(instance: IntArray, values: IntArray, n: int) -> tuple[IntArray, IntArray]:
    """Values in the order of their instances, and where those of each begin (n + 1,)."""
    order = np.argsort(instance, kind="stable")
    return np.searchsorted(instance[order], np.arange(n + 1)), values[order]


def check_linear(rows: Rows) -> None:
    """Refuse strengths that no linear program can hold."""
    name = first_curved(rows)
    if name is not None:
        raise ConstraintError(
            f"γ = 0 is a linear program, but constraint {name!r} has an L2 strength: use the norm l1 or linf, or γ > 0"
        )


def average_outputs(
    segments: Sequence[Segment],
    rows: Rows,
    *,
    weights: FloatArray | None = None,
    multipliers: FloatArray | None = None,
    elastic: Elastic | None = None,
    known: Sequence[OutputColumn] = (),
    tolerance: float = 1e-9,
    most_rounds: int = 500,
    work: WorkBudget | None = None,
) -> Averaged:
    """Generate columns until the bound meets the value (relative to its size), starting from given multipliers.

    work : what may be spent; an ``UndecidedError`` where that is not enough

    With ``elastic``, value and bound are minus the least violation of its rows; scores then play no role.
    known : columns found before for the same rows
    """
    feasibility = elastic is not None
    n_instances = sum(len(segment.scores) for segment in segments)
    coupled = bool(np.any(rows.instance == COUPLING)) or (elastic is not None and elastic.largest)
    if len(rows) and n_instances > RUN and not coupled:
        return _average_runs(segments, rows, weights, multipliers, elastic, tolerance, most_rounds, work)
    columns = Columns(segments, rows, weights, work)
    current = np.zeros(len(rows)) if multipliers is None else multipliers
    columns.add(columns.price(current, feasibility), np.ones(columns.n_instances, dtype=np.bool_))
    columns.take_over(known)
    if not len(rows):
        value = float(columns.weights @ [column.score for column in columns.columns])
        return Averaged(columns.columns, np.ones(len(columns.columns)), current, value, value, 0)
    if not feasibility:
        counted = rows if weights is None else rows.weighted(weights)
        feasible = average_outputs(segments, counted, elastic=Elastic.every(rows), tolerance=1e-10)
        if -feasible.value > FEASIBLE:
            raise InfeasibleError(
                "no distribution over outputs satisfies the constraints: the largest violation is "
                f"{-feasible.value:.4g}"
            )
        columns.take_over(feasible.columns)
    # the least violation is not below 0
    bound, rounds = 0.0 if feasibility else np.inf, 0
    while rounds < most_rounds:
        rounds += 1
        if rounds == PATIENCE:
            bound = min(bound, add_from_marginals(columns, elastic))
        weight, current, prices, cost = columns.master(elastic)
        value = -cost
        best = columns.price(current, feasibility)
        scale = np.ones(columns.n_instances) if feasibility else columns.weights
        gain = scale * np.concatenate([found.score for found in best]) - prices
        bound = min(bound, value + float(np.maximum(gain, 0.0).sum()))
        improving = gain > tolerance * (1.0 + abs(value)) / columns.n_instances
        near = tolerance if rounds < PATIENCE else max(tolerance, NEAR)
        if bound - value <= near * (1.0 + abs(value)) or columns.add(best, improving) == 0:
            break
    return Averaged(columns.columns[: len(weight)], weight, current, value, max(bound, value), rounds)


def _average_runs(
    segments: Sequence[Segment],
    rows: Rows,
    weights: FloatArray | None,
    multipliers: FloatArray | None,
    elastic: Elastic | None,
    tolerance: float,
    most_rounds: int,
    work: WorkBudget | None,
) -> Averaged:
    """The same for rows of single instances, with a program for every run of these."""
    alone = replace(rows, forbidden=Forbidden(), sparsity=(), implicit=())
    made: list[Averaged] = []
    for number, segment in enumerate(segments):
        parts = segment.scores.parts
        for a in range(0, len(segment.scores), RUN):
            b = min(a + RUN, len(segment.scores))
            first, last = segment.first + a, segment.first + b
            low, high = np.searchsorted(rows.instance, [first, last])
            scores, mine = segment.scores.instances(a, b), alone.shard(first, last)
            found = average_outputs(
                [Segment.whole(scores, mine)],
                mine,
                weights=None if weights is None else weights[first:last],
                multipliers=None if multipliers is None else multipliers[low:high],
                elastic=None if elastic is None else replace(elastic, rows=elastic.rows[low:high]),
                tolerance=tolerance,
                most_rounds=most_rounds,
                work=work,
            )
            instance, local = scores.parts.split(np.concatenate([c.used for c in found.columns]))
            used = np.split(parts.join(a + instance, local), np.cumsum([len(c.used) for c in found.columns])[:-1])
            columns = [
                replace(c, segment=number, instance=first + c.instance, used=own, row=low + c.row)
                for c, own in zip(found.columns, used, strict=True)
            ]
            made.append(replace(found, columns=columns))
    return Averaged(
        [column for one in made for column in one.columns],
        np.concatenate([one.weight for one in made]),
        np.concatenate([one.multipliers for one in made]),
        sum(one.value for one in made),
        sum(one.bound for one in made),
        max(one.rounds for one in made),
    )
