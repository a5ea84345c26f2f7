"""A decoding under way, and what it returns: for each instance the best output so far and a bound on all of them.

Before a search rows are prepared: those that factor are added to the scores, the others are left. A price factors if it
is, for every output, a sum over parts, so that a plain argmax is exact for it. Two cases are found:

    linear   ρ (φ − b)⁺ or ρ |φ − b|  where φ(y) ≥ b for every y (or an equality with φ(y) ≤ b for every y): then it is
             ±ρ (φ − b), and −ρ · coefficient is added to the score of each part. A rule about single tokens is such.
    placed   any price whose rows name parts of one place (``Parts.place_of``): an output uses at most one of them, and
             what its use adds to the price is taken from its score.

Forbidden parts are the same with −∞.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.implicit import Forbidden
from trellis.constraints.rows import Rows
from trellis.constraints.violations import group_prices
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows
from trellis.search.kernels import fast_path
from trellis.search.prices import Priced, Pricing, prices
from trellis.structures.structure import Structure


@dataclass(frozen=True)
class Plan:
    """What :func:`trellis.search.decode` makes of rows first. Make it once to decode many scores with the same rows.

    rows : as compiled, none of them implicit
    priced : all of them with their prices
    change : of scores, by what factors (``Parts.change``) and is not forbidden
    remaining : rows that do not factor
    """

    rows: Rows
    priced: Priced
    change: Any
    remaining: Priced

    @classmethod
    def of(cls, rows: Rows) -> Plan:
        rows = rows.written_out()
        priced = Priced.of(rows)
        sign = _sign_where_linear(priced)
        factor = (-sign * priced.amount)[priced.rows.entry_row]
        linear = np.flatnonzero(factor)
        left = priced.select(sign == 0)
        placed, part, value = _placed(left)
        left = left.select(~placed)
        # what is forbidden is folded too
        remaining = replace(left, rows=replace(left.rows, forbidden=Forbidden()))
        part = np.concatenate((priced.rows.part[linear], part))
        value = np.concatenate((factor[linear] * priced.rows.coefficient[linear], value))
        return cls(rows, priced, rows.parts.change(part, value), remaining)

    def fold(self, scores: Structure) -> Structure:
        """Scores with all that factors, and what is forbidden."""
        return scores.apply(self.rows.mask).apply(self.change)

    @cached_property
    def fast(self) -> Any:
        """The fast path for structures of this kind with the remaining rows laid out for it; None: there is none."""
        module = fast_path(self.rows.parts.kind)
        return None if module is None else module.Search(self.remaining)

    def serves(self, method: str) -> bool:
        """Whether the fast path has this method."""
        return self.fast is not None and method in self.fast.methods


def _sign_where_linear(priced: Priced) -> FloatArray:
    """(n_rows,): +1 where the price is ρ (φ − b) for every output, −1 where it is ρ (b − φ), else 0."""
    sign = np.zeros(len(priced.rows))
    asked = priced.pricing == Pricing.LINEAR
    if np.any(asked):
        some = priced.rows.select(asked)
        low, high = some.parts.extremes(some.start, some.part, some.coefficient)
        # No tolerance: a sum that falls short of the bound by rounding only stays among the rows that are searched.
        sign[asked] = np.where(low >= some.bound, 1.0, np.where(some.equality & (high <= some.bound), -1.0, 0.0))
    return sign


def _placed(priced: Priced) -> tuple[BoolArray, IntArray, FloatArray]:
    """Which rows (n_rows,) are placed; parts of theirs, and what the use of each adds to the score."""
    rows, term = priced.rows, priced.terms()
    begin = np.searchsorted(term, np.arange(len(rows) + 1))  # first row of each term, and no more rows from there on
    n_terms, n_parts = int(term[-1]) + 1 if len(rows) else 0, rows.parts.n_parts
    base = _price_terms(priced, begin, np.arange(n_terms), np.zeros(len(rows)))
    # where it is not allowed to use none of the parts, others of the place are meant, whose numbers are not known here
    chosen = base < np.inf
    filled = np.flatnonzero(np.diff(rows.start[begin[: n_terms + 1]]))
    if len(filled):
        place, from_entry = rows.parts.place_of(rows.part), rows.start[begin[filled]]
        chosen[filled] &= np.minimum.reduceat(place, from_entry) == np.maximum.reduceat(place, from_entry)
    placed = chosen[term]
    mine = np.flatnonzero(placed[rows.entry_row])
    row = rows.entry_row[mine]
    # a pair is a term and a part of it: one value of each row of the term
    pair, of_entry = np.unique(term[row] * n_parts + rows.part[mine], return_inverse=True)
    of_pair = pair // max(n_parts, 1)
    cell = offsets_of(np.diff(begin)[of_pair])
    phi = np.zeros(cell[-1])
    phi[cell[of_entry] + row - begin[term[row]]] = rows.coefficient[mine]
    added = base[of_pair] - _price_terms(priced, begin, of_pair, phi)
    some = np.flatnonzero(added)
    return placed, pair[some] % max(n_parts, 1), added[some]


def _price_terms(priced: Priced, begin: IntArray, terms: IntArray, phi: FloatArray) -> FloatArray:
    """The price of each of the ``terms`` for values phi of its rows, all rows of one after those of the other.

    begin : the first row of each term of ``priced``
    """
    rows, (start, row) = priced.rows, take_rows(begin, terms)
    over = phi - rows.bound[row]
    excess = np.where(rows.equality[row], np.abs(over), np.maximum(over, 0.0))
    return group_prices(rows.groups.take(rows.group[begin[terms]]), owners(start), excess)


PROOF = 1e-9
"""An answer counts as proved when its bound is no farther than this, relative to 1 + |value|."""


@dataclass(frozen=True)
class Decoded:
    """An output of each instance, and how sure it is that no other has a larger value.

    outputs : in the form of the structure's ``argmax``
    score : (n_instances,)      score(y)
    value : (n_instances,)      score(y) − price of what y violates; −∞ where nothing was found that meets the hard rows
    proved : (n_instances,)     whether no output has a larger value
    gap : (n_instances,)        no output has a value above value + gap; 0 where proved
    method : (n_instances,)     what gave the answer: "argmax", "beam", "astar", "ilp"
    """

    outputs: Any
    score: FloatArray
    value: FloatArray
    proved: BoolArray
    gap: FloatArray
    method: NDArray[np.str_]

    @property
    def bound(self) -> FloatArray:
        """(n_instances,): no output has a larger value."""
        return np.where(self.gap == np.inf, np.inf, self.value + self.gap)


@dataclass(frozen=True)
class DecodedKBest:
    """The k best outputs found of each instance, best first.

    outputs : k of them, each an output of every instance; one that has fewer has its best again for the rest
    score, value : (k, n_instances), −∞ where there is none
    proved : (n_instances,)     whether no other output has a larger value than the last of them
    """

    outputs: tuple[Any, ...]
    score: FloatArray
    value: FloatArray
    proved: BoolArray


@dataclass
class SearchProgress:
    """State of a decoding. Values and bounds are those of the scores with what factors folded in, which differ from
    true values by a constant per instance; gaps are the same.

    scores : with what factors folded in
    outputs : the best so far
    value : (n_instances,) their values, −∞ if they break a hard row
    bound : (n_instances,) no output has a larger value
    proof : (n_instances,) relative gap that counts as none
    method : (n_instances,) what gave the output
    seeds : (n_instances,) for random choices among equals, 0: none
    """

    scores: Structure
    plan: Plan
    outputs: Any
    value: FloatArray
    bound: FloatArray
    proof: FloatArray
    method: NDArray[np.str_]
    seeds: NDArray[np.uint64]

    @classmethod
    def begin(cls, scores: Structure, plan: Plan, rng: np.random.Generator | None) -> SearchProgress:
        """The argmax of scores with what factors folded in: where it violates no other row it is the answer."""
        folded = plan.fold(scores)
        first = folded.argmax(rng)
        n = len(scores)
        return cls(
            scores=folded,
            plan=plan,
            outputs=first.outputs,
            value=first.score - prices(plan.remaining.rows, first.outputs),
            bound=first.score,
            proof=np.full(n, PROOF),
            method=np.full(n, "argmax", dtype="<U10"),
            seeds=np.zeros(n, np.uint64) if rng is None else rng.integers(1, 2**63, n, dtype=np.uint64),
        )

    def unproved(self) -> IntArray:
        """Instances whose output may not be the best."""
        return np.flatnonzero(~gaps(self.value, self.bound, self.proof)[0])

    def missing(self) -> IntArray:
        """Instances of which no output is known that meets the hard rows, though there may be one."""
        return np.flatnonzero((self.value == -np.inf) & (self.bound > -np.inf))

    def infeasible(self) -> IntArray:
        """Instances that have no output which meets the hard rows."""
        return np.flatnonzero((self.value == -np.inf) & (self.bound == -np.inf))

    def tighten(self, todo: IntArray, bound: FloatArray) -> None:
        """Take over bounds (n_instances,) of the instances ``todo`` where they are lower."""
        self.bound[todo] = np.minimum(self.bound[todo], bound[todo])

    def replace(self, outputs: Mapping[int, Any]) -> None:
        """Take over other outputs of some instances, each by itself."""
        if outputs:
            pieces = self.scores.parts.split_outputs(self.outputs)
            for instance, output in outputs.items():
                pieces[instance] = output
            self.outputs = self.scores.parts.join_outputs(pieces)


def gaps(value: FloatArray, bound: FloatArray, proof: float | FloatArray = PROOF) -> tuple[BoolArray, FloatArray]:
    """Which values are proved by their bounds, and the gaps."""
    known = value > -np.inf
    gap = np.full(value.shape, np.inf)
    np.subtract(bound, value, out=gap, where=known)
    proved = known & (gap <= proof * (1.0 + np.abs(np.where(known, value, 0.0))))
    return proved, np.where(proved, 0.0, np.maximum(gap, 0.0))
