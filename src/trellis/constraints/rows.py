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

from trellis.constraints.forbidden import Forbidden
from trellis.constraints.link_rows import LinkRows
from trellis.constraints.sparsity import Sparsity
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import BoolArray, FloatArray, IntArray, offsets_of, owners, take_rows
from trellis.structures.functionals import Functionals
from trellis.structures.parts import Parts
from trellis.structures.results import Posterior

COUPLING = -1
"""The instance of a row that names parts of more than one instance."""


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
        group = np.cumsum([0, *(len(one.groups) for one in shards)])
        heads = [
            replace(one.head(), instance=one.instance + first[i], group=one.group + group[i])
            for i, one in enumerate(shards)
        ]
        n = sum(map(len, shards))
        joined: dict[str, Any] = {
            name: np.concatenate([getattr(one, name) for one in heads])
            for name in ("part", "coefficient", "bound", "equality", "instance", "group", "constraint")
        }
        groups = (np.concatenate([getattr(one.groups, name) for one in heads]) for name in ("kind", "norm", "amount"))
        return cls(
            parts, shards[0].names, np.zeros(n + 1, np.int64), row_number=np.arange(n), groups=Groups(*groups),
            forbidden=next((one.forbidden for one in shards if len(one.forbidden)), Forbidden()), **joined,
        )  # fmt: skip

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

    @cached_property
    def functionals(self) -> Functionals:
        """φ of all rows, for expectations under scores and derivatives along them."""
        return self.parts.functionals(self.start, self.part, self.coefficient, self.instance)

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

    def with_explicit_sparsity(self) -> Rows:
        """The same, with every l1/linf block written out as rows (one per occurrence and label): for small problems."""
        out = self
        for block in self.sparsity:
            k, n = block.width, len(block) * block.width
            n_groups, number = block.n_keys * k, len(out.names)
            labels = np.tile(np.arange(k), len(block))
            new = np.full(n, COUPLING)
            out = replace(
                out,
                names=(*out.names, block.name),
                start=np.concatenate([out.start, out.start[-1] + 1 + np.arange(n)]),
                part=np.concatenate([out.part, block.parts.reshape(-1)]),
                coefficient=np.concatenate([out.coefficient, np.ones(n)]),
                bound=np.concatenate([out.bound, np.zeros(n)]),
                equality=np.concatenate([out.equality, np.zeros(n, dtype=np.bool_)]),
                instance=np.concatenate([out.instance, new]),
                group=np.concatenate([out.group, len(out.groups) + np.repeat(block.key, k) * k + labels]),
                constraint=np.concatenate([out.constraint, np.full(n, number)]),
                row_number=np.concatenate([out.row_number, len(out) + np.arange(n)]),
                groups=Groups(
                    np.concatenate([out.groups.kind, np.full(n_groups, Kind.PENALTY, np.int8)]),
                    np.concatenate([out.groups.norm, np.full(n_groups, Norm.LINF, np.int8)]),
                    np.concatenate([out.groups.amount, np.full(n_groups, block.strength)]),
                ),
            )
        return replace(out, sparsity=())

    def written_out(self) -> Rows:
        """The same, with implicit rows about links written out, in canonical order; l1/linf blocks stay."""
        if not self.implicit:
            return self
        n_rows, n_groups = len(self), len(self.groups)
        blocks = [(one, one.written(self.parts)) for one in self.implicit]
        lengths = [np.diff(self.start), *(np.diff(written.start) for _, written in blocks)]
        group, kind, norm, amount = [self.group], [self.groups.kind], [self.groups.norm], [self.groups.amount]
        for one, written in blocks:
            present, place = np.unique(written.instance, return_inverse=True)
            group.append(n_groups + place)
            n_groups += len(present)
            kind.append(np.full(len(present), one.strength.kind, np.int8))
            norm.append(np.full(len(present), one.strength.norm, np.int8))
            amount.append(np.full(len(present), one.strength.amount))
        sizes = [len(written.instance) for _, written in blocks]
        out = replace(
            self,
            start=offsets_of(np.concatenate(lengths)),
            part=np.concatenate([self.part, *(written.part for _, written in blocks)]),
            coefficient=np.concatenate([self.coefficient, *(written.coefficient for _, written in blocks)]),
            bound=np.concatenate([self.bound, np.repeat([one.bound for one, _ in blocks], sizes)]),
            equality=np.concatenate([self.equality, np.repeat([one.equality for one, _ in blocks], sizes)]),
            instance=np.concatenate([self.instance, *(written.instance for _, written in blocks)]),
            group=np.concatenate(group),
            constraint=np.concatenate([self.constraint, np.repeat([one.constraint for one, _ in blocks], sizes)]),
            row_number=np.concatenate([self.row_number, n_rows + np.arange(sum(sizes))]),
            groups=Groups(np.concatenate(kind), np.concatenate(norm), np.concatenate(amount)),
            implicit=(),
        )
        return out.canonical()

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
        )
