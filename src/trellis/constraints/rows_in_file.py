"""Rows that are kept on disk where they would take too much of the memory that a run may use."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from trellis.constraints.compilation import named
from trellis.constraints.constraint import Constraint
from trellis.constraints.rows import Rows
from trellis.constraints.rule import Rule
from trellis.data.batch import Batch
from trellis.data.storage import SHARE, Spilled, bytes_of

T = TypeVar("T")

ENTRY_BYTES = 24
"""Of an entry of a row, and of what is made of it."""
MANY_ENTRIES = 1_000
"""Of a slot. Where so many fit into memory, it is not looked how many there are."""


def rows_in_file(
    constraints: Sequence[Constraint | Rule],
    parts: Sequence[Batch],
    rows_of: Callable[[Batch], Rows],
    memory: object,
    make: Callable[[Rows], T],
) -> tuple[list[Rows], Sequence[T]] | None:
    """The heads of the rows of each shard, and what ``make`` makes of these rows, in a file; None: memory suffices.

    rows_of : compiles the constraints over a shard
    memory : what the run may use, of which rows have a quarter; how many they are is guessed from the first shard
    Constraints that tie instances together need all instances at once, and stay in memory.
    """
    budget, n_slots = SHARE * bytes_of(memory), sum(part.n_slots for part in parts)
    if len(parts) < 2 or ENTRY_BYTES * MANY_ENTRIES * n_slots <= budget:
        return None
    if not constraints or any(one.ties_instances for one in named(constraints)):
        return None
    if ENTRY_BYTES * len(rows_of(parts[0]).part) * (n_slots / parts[0].n_slots) <= budget:
        return None
    heads: list[Rows] = []

    def each() -> Iterator[T]:
        for part in parts:
            rows = rows_of(part).canonical()
            heads.append(rows.head())
            yield make(rows)

    return heads, Spilled(each())
