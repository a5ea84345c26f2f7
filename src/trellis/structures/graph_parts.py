"""Parts of small graphs: values of discrete variables of several kinds, and assignments of the factors over them.

    y = (y_v)_v,   y_v one of the labels of its kind;    a factor f sees the variables of its scope, y_f = (y_v)_{v ∈ f}

Parts are (variable, label), kind after kind, and then (factor, assignment), family after family; inside a block they
are numbered  start + slot · size + code,  where an assignment's code counts its last variable fastest. Without factors
the variables are independent: then this is a product of categoricals, several to an instance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from trellis.data.ragged import BoolArray, FloatArray, IntArray, LabelArray, owners, take_rows
from trellis.errors import DataError, check_name
from trellis.structures.extremes import parts_never_least, row_extremes, some_rows
from trellis.structures.flat import BlockParts
from trellis.structures.part_set import PartSet
from trellis.structures.parts import check_labels, dense_change

if TYPE_CHECKING:
    from trellis.structures.graph import Graph

T = TypeVar("T")


@dataclass(frozen=True)
class Variables:
    """The variables of one kind in every instance.

    offsets : (n_instances + 1,)
    about : names of the kinds that its arguments are of; a relation between two mentions is about two of them
    arguments : (n, len(about)) numbers of the arguments among the variables of their kind in the instance
    """

    name: str
    labels: tuple[str, ...]
    offsets: IntArray
    about: tuple[str, ...] = ()
    arguments: IntArray | None = None

    @property
    def size(self) -> int:
        return len(self.labels)


@dataclass(frozen=True)
class Factors:
    """Factors that see variables of the same kinds.

    kinds : numbers of these kinds;  scope : (n, arity) numbers of the variables among those of their kind and instance
    size : assignments of one factor;  offsets : (n_instances + 1,)
    """

    kinds: tuple[int, ...]
    scope: IntArray
    size: int
    offsets: IntArray


@dataclass(frozen=True)
class GraphParts(BlockParts):
    """Parts of the variables and factors of a batch.

    >>> mentions = Variables("entity", ("Peop", "Loc"), np.array([0, 2, 3]))
    >>> parts = GraphParts((mentions,))
    >>> parts.n_parts, parts.instance_of(np.array([3, 4])).tolist(), parts.variable("entity", np.array([2]), 1).tolist()
    (6, [0, 1], [5])
    """

    variables: tuple[Variables, ...]
    factors: tuple[Factors, ...] = ()
    kind = "graph"
    outputs_are = "graphs"
    has_variables = True

    def __post_init__(self) -> None:
        if len({len(block.offsets) for block in self.blocks}) > 1:
            raise DataError("the variables and factors of a graph must be those of equally many instances")

    def remembered(self, key: str, make: Callable[[], T]) -> T:
        """What ``make`` gives, made once for these parts."""
        memo: dict[str, Any] = self.__dict__.setdefault("_memo", {})
        if key not in memo:
            memo[key] = make()
        found: T = memo[key]
        return found

    @property
    def blocks(self) -> tuple[Variables | Factors, ...]:
        return (*self.variables, *self.factors)

    # families

    def kind_of_variables(self, name: str) -> int:
        """The number of a kind of variables."""
        names = [one.name for one in self.variables]
        check_name("kind of variable", name, names)
        return names.index(name)

    def variable_kind(self, name: str) -> Variables:
        return self.variables[self.kind_of_variables(name)]

    def variable(self, kind: str, number: Any, label: Any) -> Any:
        at = self.kind_of_variables(kind)
        return self.starts[at] + number * self.variables[at].size + label

    def variable_slots(self, kind: str) -> IntArray:
        return self.slots[self.kind_of_variables(kind)]

    def assignments(self, kind: str) -> IntArray:
        at = self.kind_of_variables(kind)
        own = self.variables[at]
        kinds, found = (*map(self.kind_of_variables, own.about), at), np.full(int(own.offsets[-1]), -1, np.int64)
        for number, family in enumerate(self.factors):
            if family.kinds == kinds and own.arguments is not None:
                seen = own.offsets[owners(family.offsets)] + family.scope[:, -1]
                first = self.starts[len(self.variables) + number] + np.arange(len(seen)) * family.size
                alike = np.all(own.arguments[seen] == family.scope[:, :-1], axis=1)
                found[seen[alike]] = first[alike]
        return found

    def together(self, kind: str) -> tuple[IntArray, IntArray]:
        at = self.kind_of_variables(kind)
        first, pair = [np.zeros(0, np.int64)], [np.zeros((0, 2), np.int64)]
        for number, family in enumerate(self.factors):
            if family.kinds == (at, at):
                first.append(self.starts[len(self.variables) + number] + np.arange(len(family.scope)) * family.size)
                pair.append(family.scope + self.variables[at].offsets[owners(family.offsets)][:, None])
        return np.concatenate(first), np.concatenate(pair)

    # instances

    def take(self, numbers: IntArray) -> tuple[GraphParts, IntArray]:
        """The instances with these numbers, in this order, and the parts here that become theirs."""
        blocks: list[Any] = []
        parts = []
        for block, start in zip(self.blocks, self.starts, strict=False):
            offsets, slot = take_rows(block.offsets, numbers)
            parts.append((start + slot[:, None] * block.size + np.arange(block.size)).reshape(-1))
            blocks.append(_of_slots(block, offsets, slot))
        n = len(self.variables)
        return GraphParts(tuple(blocks[:n]), tuple(blocks[n:])), np.concatenate(parts)

    def shard(self, first: int, last: int) -> GraphParts:
        cut = []
        for block in self.blocks:
            low, high = int(block.offsets[first]), int(block.offsets[last])
            cut.append(_of_slots(block, block.offsets[first : last + 1] - low, slice(low, high)))
        n = len(self.variables)
        return GraphParts(tuple(cut[:n]), tuple(cut[n:]))  # type: ignore[arg-type]

    # outputs: a label for every variable, those of an instance together, and in it those of a kind

    @cached_property
    def offsets(self) -> IntArray:
        """(n_instances + 1,): the slots of each instance, one for each of its variables."""
        return np.asarray(sum(one.offsets for one in self.variables), dtype=np.int64)

    @cached_property
    def slots(self) -> list[IntArray]:
        """Of each kind, the slot of every variable."""
        found, before = [], np.zeros(self.n_instances, np.int64)
        for one in self.variables:
            shift = self.offsets[:-1] + before - one.offsets[:-1]
            found.append(np.arange(one.offsets[-1], dtype=np.int64) + shift[owners(one.offsets)])
            before += np.diff(one.offsets)
        return found

    def by_kind(self, outputs: Any, *, unknown: bool = False) -> list[LabelArray]:
        """Labels (n_slots,) kind by kind."""
        flat = np.asarray(outputs)
        if flat.shape != (int(self.offsets[-1]),):
            raise DataError(f"expected a label for each of {self.offsets[-1]} variables but got shape {flat.shape}")
        pairs = zip(self.slots, self.variables, strict=True)
        return [check_labels(flat[slots], len(slots), one.size, unknown=unknown) for slots, one in pairs]

    def in_slots(self, labels: Sequence[Any]) -> LabelArray:
        """Labels of each kind as an output."""
        flat = np.zeros(int(self.offsets[-1]), np.int32)
        for slots, own in zip(self.slots, labels, strict=True):
            flat[slots] = own
        return flat

    def of(self, outputs: LabelArray) -> IntArray:
        given = self.by_kind(outputs)
        codes = [y.astype(np.int64) for y in given] + [self._code_of(family, given) for family in self.factors]
        return np.concatenate(
            [s + np.arange(len(c)) * b.size + c for b, s, c in zip(self.blocks, self.starts, codes, strict=False)]
        )

    def used_by_kind(self, outputs: LabelArray) -> list[IntArray]:
        """Of each kind, the parts of its variables that an output uses."""
        given = self.by_kind(outputs)
        return [s + np.arange(len(y)) * v.size + y for v, s, y in zip(self.variables, self.starts, given, strict=False)]

    def slots_seen(self, parts: IntArray) -> IntArray:
        """The slots of the variables that parts speak of, increasing."""
        found = [np.zeros(0, np.int64)]
        for number, (_, slot, _) in enumerate(self.by_block(parts)):
            if number < len(self.variables):
                found.append(self.slots[number][slot])
                continue
            family = self.factors[number - len(self.variables)]
            owner = owners(family.offsets)[slot]
            for position, kind in enumerate(family.kinds):
                found.append(self.slots[kind][self.variables[kind].offsets[owner] + family.scope[slot, position]])
        return np.unique(np.concatenate(found))

    def _code_of(self, family: Factors, labels: Sequence[LabelArray]) -> IntArray:
        """(n_factors,): the assignment that each factor of a family sees."""
        code = np.zeros(len(family.scope), np.int64)
        owner = owners(family.offsets)
        for position, kind in enumerate(family.kinds):
            own = self.variables[kind]
            code = code * own.size + labels[kind][own.offsets[owner] + family.scope[:, position]]
        return code

    @property
    def output_offsets(self) -> IntArray:
        return self.offsets

    # scores

    def zeros(self) -> Graph:
        from trellis.structures.graph import Graph

        return Graph(self, np.zeros(self.n_parts))

    def change(self, part: IntArray, value: FloatArray) -> FloatArray | None:
        return dense_change(part, value, self.n_parts)

    # rows: variables are free of each other, so that a row is the sum of what it says of each place

    def extremes(self, start: IntArray, part: IntArray, coefficient: FloatArray) -> tuple[FloatArray, FloatArray]:
        low, high = np.zeros(len(start) - 1), np.zeros(len(start) - 1)
        tied = self._tied(start, part)
        for row, _, _, value in self._places(start, part, coefficient):
            np.add.at(low, row, value.min(axis=1))
            np.add.at(high, row, value.max(axis=1))
        if np.any(tied):
            low[tied], high[tied] = row_extremes(self.zeros(), *some_rows(tied, start, part, coefficient))
        return low, high

    def never_least(
        self, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
    ) -> tuple[PartSet, BoolArray]:
        tied, settled = self._tied(start, part), np.ones(len(margin), np.bool_)
        found = [np.zeros(0, np.int64)]
        for row, first, size, value in self._places(start, part, coefficient):
            over = (value > value.min(axis=1, keepdims=True) + margin[row][:, None]) & ~tied[row][:, None]
            found.append((first[:, None] + np.arange(size))[over])
        if np.any(tied):
            rows = some_rows(tied, start, part, coefficient)
            some, settled[tied] = parts_never_least(self.zeros(), *rows, margin[tied])
            found.append(some)
        return PartSet.of(np.unique(np.concatenate(found))), settled

    def _places(
        self, start: IntArray, part: IntArray, coefficient: FloatArray
    ) -> list[tuple[IntArray, IntArray, int, FloatArray]]:
        """Of each block: row, first part, and what the row says of every code, for each place that a row names."""
        row, found = owners(start), []
        for number, (mine, slot, code) in enumerate(self.by_block(part)):
            n_slots, size = int(self.blocks[number].offsets[-1]), self.blocks[number].size
            place, at = np.unique(row[mine] * np.int64(n_slots) + slot, return_inverse=True)
            value = np.zeros((len(place), size))
            np.add.at(value, (at, code), coefficient[mine])
            found.append((place // max(n_slots, 1), self.starts[number] + place % max(n_slots, 1) * size, size, value))
        return found

    def _tied(self, start: IntArray, part: IntArray) -> BoolArray:
        """(n_rows,): whether a row names a factor and anything else, which its variables tie together."""
        n_rows = len(start) - 1
        row, place = owners(start), self.place_of(part)
        new = np.ones(len(row), np.bool_)
        order = np.lexsort((place, row))
        new[1:] = (row[order][1:] != row[order][:-1]) | (place[order][1:] != place[order][:-1])
        n_places = np.bincount(row[order][new], minlength=n_rows)
        n_factors = np.bincount(row, part >= self.starts[len(self.variables)], minlength=n_rows)
        return np.asarray((n_places > 1) & (n_factors > 0))


def _of_slots(block: Variables | Factors, offsets: IntArray, slots: Any) -> Variables | Factors:
    if isinstance(block, Factors):
        return replace(block, offsets=offsets, scope=block.scope[slots])
    return replace(block, offsets=offsets, arguments=None if block.arguments is None else block.arguments[slots])


def factors_over(variables: Sequence[Variables], kinds: Sequence[str], scope: IntArray, offsets: IntArray) -> Factors:
    """Factors over variables of kinds by name; scope : (n, arity) numbers inside the instance."""
    names = [one.name for one in variables]
    numbers = tuple(names.index(kind) for kind in kinds)
    scope = np.asarray(scope, np.int64).reshape(-1, len(numbers))
    owner = owners(offsets)
    for position, number in enumerate(numbers):
        n = np.diff(variables[number].offsets)[owner]
        wrong = np.flatnonzero((scope[:, position] < 0) | (scope[:, position] >= n))
        if len(wrong):
            at = int(wrong[0])
            raise DataError(
                f"a factor of instance {owner[at]} sees {names[number]} {scope[at, position]}, but there are {n[at]}"
            )
    return Factors(numbers, scope, prod(variables[number].size for number in numbers), offsets)
