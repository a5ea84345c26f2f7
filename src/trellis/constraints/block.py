"""Rows of one constraint before they are checked and put together with those of others."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from trellis.constraints.context import Context
from trellis.constraints.link_rows import LinkRows
from trellis.constraints.rows import COUPLING
from trellis.constraints.sparsity import Sparsity
from trellis.data.ragged import BoolArray, FloatArray, IntArray


@dataclass(frozen=True)
class Block:
    """Rows  Σ coefficient · part ≤ bound  (or = bound), entries sorted by row and part, each pair once.

    row, part, coefficient : (n_entries,)
    bound : (n_rows,)
    instance : (n_rows,)     inside the batch, or COUPLING
    sign, offset : what a reader is told: his count is sign · (Σ + offset), offset (n_rows,)
    subject : his count in words
    where : row number -> "sentence 3, which has 2 tokens"
    slot : (n_rows,) the token that a row is about; None where rows are not about single tokens
    """

    row: IntArray
    part: IntArray
    coefficient: FloatArray
    bound: FloatArray
    equality: bool
    instance: IntArray
    sign: int
    offset: FloatArray
    subject: str
    where: Callable[[int], str]
    slot: IntArray | None = None

    def __len__(self) -> int:
        return len(self.bound)


RowsOrImplicit = Block | Sparsity | LinkRows
"""What a constraint compiles to: rows, or an l1/linf block or rows about links, which stay implicit."""


@dataclass(frozen=True)
class Units:
    """What a constraint has one row for: every token, every instance, the corpus, or every key.

    row : (n_slots,)      the row that each slot counts in
    instance : (n_rows,)  inside the batch, or COUPLING
    slot : (n_rows,)      the token that a row is about; None where rows are not about single tokens
    """

    row: IntArray
    instance: IntArray
    where: Callable[[int], str]
    slot: IntArray | None = None

    def __len__(self) -> int:
        return len(self.instance)


def token_units(context: Context) -> Units:
    """One row a token."""

    def where(row: int) -> str:
        instance = int(context.instance[row])
        return f"token {row - int(context.batch.offsets[instance])} of instance {context.batch.first + instance}"

    slots = np.arange(context.n_slots, dtype=np.int64)
    return Units(slots, context.instance, where, slots)


def instance_units(context: Context) -> Units:
    """One row an instance."""

    def where(row: int) -> str:
        n = int(context.batch.lengths[row])
        return f"instance {context.batch.first + row}, which has {n} token{'' if n == 1 else 's'}"

    return Units(context.instance, np.arange(len(context.batch), dtype=np.int64), where)


def corpus_units(context: Context) -> Units:
    """One row in all."""
    n = context.n_slots
    return Units(np.zeros(n, dtype=np.int64), np.full(1, COUPLING), lambda row: f"the corpus, which has {n} tokens")


def key_units(codes: IntArray, strings: list[str], english: str) -> Units:
    """One row a value of a key that occurs."""
    present, row = np.unique(codes, return_inverse=True)
    size = np.bincount(row, minlength=len(present))

    def where(number: int) -> str:
        return f"{english} {strings[int(present[number])]!r}, which occurs {size[number]} times"

    return Units(row.astype(np.int64), np.full(len(present), COUPLING), where)


def merge(
    row: IntArray, part: IntArray, coefficient: FloatArray, n_parts: int
) -> tuple[IntArray, IntArray, FloatArray]:
    """Entries sorted by row and part, those of one pair added up, zeros left out."""
    pair = row * np.int64(n_parts) + part
    if np.any(np.diff(pair) <= 0):
        order = np.argsort(pair, kind="stable")
        pair, coefficient = pair[order], coefficient[order]
        first = np.flatnonzero(np.concatenate(([True], np.diff(pair) > 0)))
        coefficient = np.add.reduceat(coefficient, first)
        row, part = row[order][first], part[order][first]
    kept: BoolArray = coefficient != 0
    if not kept.all():
        row, part, coefficient = row[kept], part[kept], coefficient[kept]
    return row, part, coefficient
