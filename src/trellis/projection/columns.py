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
(:func:`add_from_marginals`), and the outputs that its answer is made of join the columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import sparse

from trellis.constraints.implicit import Forbidden
from trellis.constraints.rows import COUPLING, Rows
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of
from trellis.errors import ConstraintError, DataError, InfeasibleError
from trellis.projection.master import Elastic, MasterProgram, WorkBudget
from trellis.structures.results import Argmax
from trellis.structures.structure import Structure

if TYPE_CHECKING:
    from trellis.projection.master import Elastic


FEASIBLE = 1e-7
"""A least violation up to this is rounding."""
RUN = 300
"""Instances that share a program where no row couples any: a call costs some milliseconds beside what it solves."""
PATIENCE = 25
"""Rounds after which the program over marginals is asked for columns."""
NEAR = 1e-8
"""Relative gap that counts as none from then on: what solvers of large programs reach."""
_NONE = np.zeros(0, dtype=np.int64)


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

    used : parts it uses, in the numbers of its segment's scores
    """

    segment: int
    instance: int
    used: IntArray
    score: float


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


class Columns:
    """The outputs seen so far and the master program over them."""

    def __init__(
        self, segments: Sequence[Segment], rows: Rows, weights: FloatArray | None = None, work: WorkBudget | None = None
    ) -> None:
        self.segments, self.rows = segments, rows
        self.n_instances = sum(len(segment.scores) for segment in segments)
        self.weights = np.ones(self.n_instances) if weights is None else weights
        of_row = np.where(rows.instance == COUPLING, 1.0, self.weights[rows.instance])
        self.program = MasterProgram(rows, of_row, WorkBudget() if work is None else work)
        self.entry_row = rows.entry_row
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
        order = np.argsort(parts.instance_of(used), kind="stable")
        cut = np.searchsorted(parts.instance_of(used)[order], np.arange(len(scores) + 1))
        for i in np.flatnonzero(wanted).tolist():
            mine = used[order[cut[i] : cut[i + 1]]]
            added += self.take_over([OutputColumn(number, segment.first + i, mine, float(scores[i]))])
        return added

    def take_over(self, others: Sequence[OutputColumn]) -> int:
        """Columns that were found for the same parts; how many were new."""
        added = 0
        for column in others:
            key = (column.instance, column.used.tobytes())
            if key not in self._seen:
                self._seen.add(key)
                self.columns.append(column)
                added += 1
        return added

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
        phi = self._values()
        phi.data = self.counted(phi.data, phi.row, owner[phi.col])
        present, place = np.unique(owner, return_inverse=True)
        convex = sparse.csr_matrix((np.ones(n_columns), (place, np.arange(n_columns))), (len(present), n_columns))
        weight, multipliers, of_instance, cost = self.program.solve(
            phi.tocsr(), self.weights[owner] * score, convex, np.ones(len(present)), elastic
        )
        prices = np.zeros(self.n_instances)
        prices[present] = of_instance
        return weight, multipliers, prices, cost

    def _values(self) -> Any:
        """scipy COO (n_rows, n_columns): values of the rows at the columns."""
        of_segment, found = np.array([column.segment for column in self.columns]), []
        for number, segment in enumerate(self.segments):
            mine = np.flatnonzero(of_segment == number)
            used = [self.columns[i].used for i in mine.tolist()]
            entries = (self.rows.coefficient[segment.entry], (self.entry_row[segment.entry], segment.part))
            of_parts = sparse.csr_array(entries, (len(self.rows), segment.scores.parts.n_parts))
            ends = (np.ones(sum(map(len, used))), np.concatenate([_NONE, *used]), offsets_of(map(len, used)))
            own = (of_parts @ sparse.csc_array(ends, (of_parts.shape[1], len(used)))).tocoo()
            found.append((own.data, own.row, mine[own.col]))
        data, row, column = (np.concatenate(one) for one in zip(*found, strict=True))
        return sparse.coo_array((data, (row, column)), (len(self.rows), len(self.columns)))

    def counted(self, value: FloatArray, row: IntArray, instance: IntArray) -> FloatArray:
        """Values of rows at instances, as often as the rows count these."""
        return np.where(self.rows.instance[row] == COUPLING, value * self.weights[instance], value)


def average_outputs(
    segments: Sequence[Segment],
    rows: Rows,
    *,
    weights: FloatArray | None = None,
    multipliers: FloatArray | None = None,
    elastic: Elastic | None = None,
    known: Sequence[OutputColumn] = (),
    tolerance: float = 1e-9,
    max_rounds: int = 500,
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
        return _average_runs(segments, rows, weights, multipliers, elastic, tolerance, max_rounds, work)
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
    while rounds < max_rounds:
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
    max_rounds: int,
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
                max_rounds=max_rounds,
                work=work,
            )
            instance, local = scores.parts.split(np.concatenate([c.used for c in found.columns]))
            used = np.split(parts.join(a + instance, local), np.cumsum([len(c.used) for c in found.columns])[:-1])
            columns = [
                replace(c, segment=number, instance=first + c.instance, used=own)
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


LARGEST = 300_000
"""Variables beyond which the program is not tried."""
NOTHING = 1e-7
"""A marginal up to this is rounding."""
MOST_PEELED = 2000
"""Outputs of an instance that an answer is taken apart into: each takes one part at least away."""


def add_from_marginals(columns: Columns, elastic: Elastic | None) -> float:
    """Add the outputs of the program's answer to the columns; returns its optimum, ∞ where there is none."""
    segments = columns.segments
    if sum(segment.scores.parts.n_parts for segment in segments) > LARGEST:
        return np.inf
    none = np.zeros(0, dtype=np.int64)
    phi, gain, matrices, bounds, uses = [], [], [], [], []
    for segment in segments:
        entries, of_entry, local = segment.entry, *segment.scores.parts.split(segment.part)
        row = columns.entry_row[entries]
        value = columns.counted(columns.rows.coefficient[entries], row, segment.first + of_entry)
        for i in range(len(segment.scores)):
            try:
                polytope = segment.scores.instances(i, i + 1).polytope(none)
            except DataError:  # outputs of this kind have none
                return np.inf
            mine, possible = of_entry == i, polytope.score > -np.inf
            use = polytope.use[:, possible]
            shape = (len(columns.rows), use.shape[0])
            phi.append(sparse.csr_array((value[mine], (row[mine], local[mine])), shape=shape) @ use)
            gain.append(columns.weights[segment.first + i] * polytope.score[possible])
            matrices.append(polytope.matrix[:, possible])
            bounds.append(polytope.bound)
            uses.append(use)
    try:
        x, _, _, cost = columns.program.solve(
            sparse.hstack(phi, format="csr"), np.concatenate(gain), sparse.block_diag(matrices, format="csr"),
            np.concatenate(bounds), elastic,
        )  # fmt: skip
    except ConstraintError:
        return np.inf
    cut = np.cumsum([0, *(len(one) for one in gain)])
    used = [use @ x[cut[i] : cut[i + 1]] for i, use in enumerate(uses)]
    for number, segment in enumerate(segments):
        mine = used[segment.first : segment.first + len(segment.scores)]
        _peel(columns, number, segment, np.concatenate([np.zeros(0), *mine]))
    return -cost


def _peel(columns: Columns, number: int, segment: Segment, marginal: FloatArray) -> None:
    """Add outputs whose average has these marginals, one instance's parts after the other's."""
    parts, n = segment.scores.parts, len(segment.scores)
    size = parts.sizes()
    instance = np.repeat(np.arange(n), size)
    every = parts.join(instance, np.arange(len(marginal)) - np.repeat(np.cumsum(size) - size, size))
    left = np.zeros(parts.n_parts)
    left[every] = marginal
    owner = np.zeros(parts.n_parts, dtype=np.int64)
    owner[every] = instance
    share = np.ones(n)
    for _ in range(MOST_PEELED):
        wanted = share > NOTHING
        if not np.any(wanted):
            return
        # instances that are through are asked for any output
        value = np.where(wanted[owner], np.log(np.where(left > NOTHING, left, 1.0)), 0.0)
        value[wanted[owner] & (left <= NOTHING)] = -np.inf
        try:
            found = segment.scores.flat().add(np.arange(parts.n_parts), value).argmax()
        except InfeasibleError:  # rounding, or a polytope with vertices that are no outputs
            return
        used = parts.of(found.outputs)
        smallest = np.full(n, np.inf)
        np.minimum.at(smallest, owner[used], left[used])
        smallest[~np.isfinite(smallest)] = 1.0  # an output that uses no part is the only one
        columns.add_of(number, found, wanted)
        left[used] -= smallest[owner[used]]
        share = np.where(wanted, share - smallest, share)
