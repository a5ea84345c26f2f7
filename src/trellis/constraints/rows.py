"""The compiled form of constraints: sparse rows over the part index space of a batch.

    row r:   E_q[φ_r] ≤ bound_r   (or = bound_r),      φ_r(y) = Σ_{entries of r} coefficient · [y uses part]

One form serves three uses: expectations (projection), 0/1 programs (integer search) and violation counts of an
output or a prefix of one (beam, A*). Rows are of two kinds: *local* ones name parts of one instance, *coupling* ones
of many. A norm group is a set of rows whose violations are measured together; see :mod:`strength`.

Hard rows that can only hold if some parts are never used are not rows: they are ``forbidden`` parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.constraints.implicit import Checks, Forbidden, LinkRows, Sparsity
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows
from trellis.errors import ConstraintError, DataError
from trellis.structures.parts import Parts
from trellis.structures.results import Posterior
from trellis.structures.structure import Structure

COUPLING = -1
"""The instance of a row that names parts of more than one instance."""
OF_ROWS = ("part", "coefficient", "bound", "equality", "instance", "constraint")
"""Arrays that stand one after the other where rows do; groups, and where entries begin, are counted on."""


@dataclass(frozen=True)
class Groups:
    """Norm groups: what each one's amount means. Arrays of one entry a group.

    kind : Kind;  norm : Norm;  amount : ε, σ, or 0 for hard
    """

    kind: NDArray[np.int8]
    norm: NDArray[np.int8]
    amount: FloatArray

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def uniform(cls, n: int, kind: Kind, norm: Norm, amount: float) -> Groups:
        """n groups of one strength."""
        return cls(np.full(n, kind, np.int8), np.full(n, norm, np.int8), np.full(n, float(amount)))

    def take(self, numbers: IntArray) -> Groups:
        return Groups(self.kind[numbers], self.norm[numbers], self.amount[numbers])


@dataclass(frozen=True)
class Rows:
    """Rows over ``parts``, in compressed sparse row layout.

    start : (n_rows + 1,)            entries of row r are start[r] .. start[r + 1] − 1
    part : (n_entries,)              part numbers, increasing inside a row
    coefficient : (n_entries,)
    bound : (n_rows,)
    equality : (n_rows,) bool        E = bound rather than E ≤ bound
    instance : (n_rows,)             number of the instance inside this batch, or COUPLING; local rows come first,
                                     in the order of instances
    group : (n_rows,)                norm group; its rows are all local to one instance, or all coupling
    constraint : (n_rows,)           which of ``names`` the row came from
    row_number : (n_rows,)           number of the row in the rows of the whole corpus (shards of it keep these)
    forbidden :                      parts that no output may use, by the constraint that says so
    sparsity :                       l1/linf blocks, whose many rows are implicit
    implicit :                       local rows about links that are not written out
    checks :                         Python functions of prefixes, for search alone
    """

    parts: Parts
    names: tuple[str, ...]
    start: IntArray
    part: IntArray
    coefficient: FloatArray
    bound: FloatArray
    equality: BoolArray
    instance: IntArray
    group: IntArray
    constraint: IntArray
    row_number: IntArray
    groups: Groups
    forbidden: Forbidden = field(default_factory=Forbidden)
    sparsity: tuple[Sparsity, ...] = ()
    implicit: tuple[LinkRows, ...] = ()
    checks: tuple[Checks, ...] = ()

    @classmethod
    def none(cls, parts: Parts) -> Rows:
        """No constraint at all."""
        i, f = np.zeros(0, dtype=np.int64), np.zeros(0)
        nothing = Groups(np.zeros(0, np.int8), np.zeros(0, np.int8), f)
        return cls(parts, (), np.zeros(1, np.int64), i, f, f, np.zeros(0, np.bool_), i, i, i, i, nothing)

    def __len__(self) -> int:
        return len(self.bound)

    @property
    def n_local(self) -> int:
        """Local rows are rows 0 .. n_local − 1."""
        return int(np.count_nonzero(self.instance != COUPLING))

    def head(self) -> Rows:
        """The same without entries: what there is to know of rows that are worked on elsewhere."""
        none = np.zeros(0)
        return replace(self, start=np.zeros(len(self) + 1, np.int64), part=none.astype(np.int64), coefficient=none)

    @classmethod
    def of_shards(cls, parts: Parts, shards: Sequence[Rows]) -> Rows:
        """The heads of local rows of shards, one shard after the other; of forbidden parts, some if there are any."""
        first = np.cumsum([0, *(one.parts.n_instances for one in shards)])
        heads = [replace(one.head(), instance=one.instance + first[i]) for i, one in enumerate(shards)]
        forbidden = next((one.forbidden for one in shards if len(one.forbidden)), Forbidden())
        joined = heads[0].followed_by(*heads[1:])
        return replace(joined, parts=parts, forbidden=forbidden, sparsity=(), implicit=(), checks=())

    @cached_property
    def largest(self) -> FloatArray:
        """(n_rows,): the largest |coefficient| of each row."""
        largest = np.zeros(len(self))
        filled = np.flatnonzero(np.diff(self.start))
        if len(filled):
            largest[filled] = np.maximum.reduceat(np.abs(self.coefficient), self.start[filled])
        return largest

    @property
    def entry_row(self) -> IntArray:
        """(n_entries,): the row of each entry."""
        return owners(self.start)

    @cached_property
    def entry_instance(self) -> IntArray:
        """(n_entries,): the instance of each entry's part."""
        return self.parts.instance_of(self.part)

    @cached_property
    def mask(self) -> Any:
        """The change of scores that forbids what is forbidden."""
        return self.forbidden.mask(self.parts)

    def expect(self, q: Posterior, weights: FloatArray | None = None) -> FloatArray:
        """A · marginals: E_q[φ_r] of every row; with ``weights`` (n_instances,) sums over weighted instances."""
        if not len(self):
            return np.zeros(0)
        values = self.coefficient * q.at(self.part)
        if weights is not None:
            values *= weights[self.entry_instance]
        return np.bincount(self.entry_row, values, minlength=len(self)).astype(np.float64, copy=False)

    def pull(self, dual: FloatArray) -> FloatArray:
        """−Aᵀ dual, entry by entry: what dual variables (n_rows,) add to the score of each entry's part."""
        return -dual[self.entry_row] * self.coefficient

    def evaluate(self, outputs: Any) -> FloatArray:
        """φ_r(y) of every row for one output of every instance."""
        used = self.parts.of(outputs)
        if not (len(used) and len(self.part)):
            return np.zeros(len(self))
        if self.parts.n_parts <= 8 * len(self.part):
            table = np.zeros(self.parts.n_parts, dtype=np.bool_)
            table[used] = True
            is_used = table[self.part]
        else:
            # a table of all parts would be the largest array in the house
            near = np.minimum(np.searchsorted(used, self.part), len(used) - 1)
            is_used = used[near] == self.part
        hit = np.flatnonzero(is_used)
        row = np.searchsorted(self.start, hit, side="right") - 1
        return np.bincount(row, self.coefficient[hit], minlength=len(self)).astype(np.float64, copy=False)

    def excess(self, values: FloatArray) -> FloatArray:
        """How far values of the rows are beyond their bounds: (φ − b)⁺, or |φ − b| for an equality."""
        over = values - self.bound
        return np.where(self.equality, np.abs(over), np.maximum(over, 0.0))

    def select(self, keep: BoolArray) -> Rows:
        """The rows where ``keep`` holds, with their groups renumbered; forbidden parts and sparsity stay."""
        if np.all(keep) and len(np.unique(self.group)) == len(self.groups):
            return self  # and no copy: entries are the largest arrays in training under rules
        return self._renumbered(np.flatnonzero(keep))

    def _renumbered(self, numbers: IntArray) -> Rows:
        """The rows with these numbers in this order, with their groups renumbered."""
        used, group = np.unique(self.group[numbers], return_inverse=True)
        return replace(self.reorder(numbers), group=group.astype(np.int64), groups=self.groups.take(used))

    def reorder(self, numbers: IntArray) -> Rows:
        """The rows with these numbers in this order; of rows that stand together entries are views."""
        entries: IntArray | slice
        if len(numbers) and np.all(np.diff(numbers) == 1):
            start = self.start[numbers[0] : numbers[-1] + 2]
            start, entries = start - start[0], slice(int(start[0]), int(start[-1]))
        else:
            start, entries = take_rows(self.start, numbers)
        return replace(
            self,
            start=start,
            part=self.part[entries],
            coefficient=self.coefficient[entries],
            bound=self.bound[numbers],
            equality=self.equality[numbers],
            instance=self.instance[numbers],
            group=self.group[numbers],
            constraint=self.constraint[numbers],
            row_number=self.row_number[numbers],
        )

    def followed_by(self, *others: Rows) -> Rows:
        """These rows and then others over the same parts, in norm groups of their own; all else stays."""
        every, n = (self, *others), sum(map(len, others))
        joined: dict[str, Any] = {name: np.concatenate([getattr(one, name) for one in every]) for name in OF_ROWS}
        first = np.cumsum([0, *(len(one.groups) for one in every)])
        groups = (np.concatenate([getattr(one.groups, name) for one in every]) for name in ("kind", "norm", "amount"))
        return replace(
            self,
            start=offsets_of(np.concatenate([np.diff(one.start) for one in every])),
            group=np.concatenate([one.group + first[i] for i, one in enumerate(every)]),
            row_number=np.concatenate([self.row_number, len(self) + np.arange(n)]),
            groups=Groups(*groups),
            **joined,
        )

    def with_explicit_sparsity(self) -> Rows:
        """The same, with every l1/linf block written out as rows (one per occurrence and label): for small problems."""
        made = []
        for number, block in enumerate(self.sparsity, start=len(self.names)):
            k, n = block.width, len(block) * block.width
            group = np.repeat(block.key, k) * k + np.tile(np.arange(k), len(block))
            made.append(
                Rows(
                    self.parts, self.names, np.arange(n + 1), block.parts.reshape(-1), np.ones(n), np.zeros(n),
                    np.zeros(n, np.bool_), np.full(n, COUPLING), group, np.full(n, number), np.arange(n),
                    Groups.uniform(block.n_keys * k, Kind.PENALTY, Norm.LINF, block.strength),
                )
            )  # fmt: skip
        names = (*self.names, *(block.name for block in self.sparsity))
        return replace(self.followed_by(*made), names=names, sparsity=())

    def written_out(self) -> Rows:
        """The same, with implicit rows about links written out, in canonical order; l1/linf blocks stay."""
        if not self.implicit:
            return self
        made = []
        for one in self.implicit:
            (start, part, coefficient, instance), s = one.written(self.parts), one.strength
            n, (present, group) = len(instance), np.unique(instance, return_inverse=True)
            made.append(
                Rows(
                    self.parts, self.names, start, part, coefficient, np.full(n, one.bound),
                    np.full(n, one.equality), instance, group, np.full(n, one.constraint), np.arange(n),
                    Groups.uniform(len(present), s.kind, s.norm, s.amount),
                )
            )  # fmt: skip
        return replace(self.followed_by(*made), implicit=()).canonical()

    def weighted(self, weights: FloatArray) -> Rows:
        """The same, with coupling rows that count the parts of instance i weights[i] times."""
        of_coupling = np.repeat(self.instance == COUPLING, np.diff(self.start))
        factor = np.where(of_coupling, weights[self.entry_instance], 1.0)
        return replace(self, coefficient=self.coefficient * factor)

    def canonical(self) -> Rows:
        """Local rows first, by instance, and inside one by group; then coupling rows by group.

        So the local rows of a shard stand together, and so do the rows of every group.
        """
        order = np.lexsort((self.group, self.instance, self.instance == COUPLING))
        return self if np.array_equal(order, np.arange(len(self))) else self.reorder(order)

    def local(self) -> Rows:
        return self.select(self.instance != COUPLING)

    def coupling(self) -> Rows:
        return self.select(self.instance == COUPLING)

    def take(self, numbers: IntArray, parts: Parts) -> Rows:
        """The local rows of the instances with these (rising) numbers, over ``parts``, which are theirs alone."""
        rows = self.select(np.isin(self.instance, numbers))
        instance, local = self.parts.split(rows.part)
        return replace(
            rows,
            parts=parts,
            part=parts.join(np.searchsorted(numbers, instance), local),
            instance=np.searchsorted(numbers, rows.instance),
            forbidden=Forbidden(),
            sparsity=(),
            implicit=(),
            checks=(),
        )

    def shard(self, first: int, last: int) -> Rows:
        """What concerns instances first..last−1, in the part numbers of that shard alone.

        Every coupling row is kept, with the entries that fall into the shard (perhaps none), so coupling rows have
        the same order in every shard; its bound is the whole row's.
        """
        n_local = self.n_local
        low, high = np.searchsorted(self.instance[:n_local], [first, last])
        rows = self._renumbered(np.concatenate((np.arange(low, high), np.arange(n_local, len(self)))))
        keep, part = self.parts.within(rows.part, first, last)
        if len(part) < len(rows.part):
            of_row = np.bincount(rows.entry_row[keep], minlength=len(rows))
            rows = replace(rows, start=offsets_of(of_row), coefficient=rows.coefficient[keep])
        return replace(
            rows,
            parts=self.parts.shard(first, last),
            part=part,
            instance=np.where(rows.instance == COUPLING, COUPLING, rows.instance - first),
            forbidden=self.forbidden.shard(self.parts, first, last),
            sparsity=tuple(block.shard(self.parts, first, last) for block in self.sparsity),
            implicit=tuple(block.shard(self.parts, first, last) for block in self.implicit),
            checks=tuple(one.shard(first, last) for one in self.checks),
        )


def check_rows(rows: object) -> None:
    """Refuse what is not compiled."""
    if not isinstance(rows, Rows):
        raise ConstraintError(f"expected rows of compile_constraints, got {rows!r:.60}")


def check_same_parts(scores: Structure, rows: Rows) -> None:
    """Refuse rows that were compiled for another batch."""
    check_rows(rows)
    if not isinstance(scores, Structure):
        raise DataError(f"scores must be a structure, as a model's scores(batch) returns it, got {scores!r:.60}")
    ours, theirs = scores.parts, rows.parts
    alike = (ours.kind, ours.n_instances, ours.n_parts) == (theirs.kind, theirs.n_instances, theirs.n_parts)
    # parts of other instances among as many: seen by the first and last part of each local row
    named = np.flatnonzero((np.diff(rows.start) > 0) & (rows.instance != COUPLING))
    ends = np.stack((rows.start[named], rows.start[named + 1] - 1))
    if not (alike and np.all(ours.instance_of(rows.part[ends]) == rows.instance[named])):
        raise DataError(
            f"the rows are over {theirs.n_instances} instances with {theirs.n_parts} parts, the scores over "
            f"{ours.n_instances} with {ours.n_parts}"
            + (", cut otherwise" if alike else "")
            + ": compile the constraints for the batch of the scores"
        )
