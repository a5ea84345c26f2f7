"""Least and largest value of a row over label sequences, and the parts that sequences of least value never use.

A row says something of a stretch of slots in each instance that it names. Outside the stretch every label may follow
any other, so a row's values are those of chains that consist of the stretches alone, with coefficients for scores:
least and largest value are best scores, and a part is never used at the least value if its max-marginal stays below.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, offsets_of, owners
from trellis.structures.chain import Chain
from trellis.structures.chain_parts import ChainChange, ChainParts
from trellis.structures.part_set import PartSet

AT_ONCE = 1 << 22
"""Transitions of the stretches that are looked at together."""


@dataclass(frozen=True)
class Stretches:
    """Stretches of slots, each an instance of a chain.

    row, first : (n,) the row of each, and its first slot;  added : the coefficients
    """

    row: IntArray
    first: IntArray
    parts: ChainParts
    added: ChainChange

    def scores(self, sign: float) -> Chain:
        """The coefficients times the sign."""
        node = None if self.added.node is None else sign * self.added.node
        return self.parts.zeros().apply(ChainChange(node, self.added.pattern, sign * self.added.patterns))

    @property
    def slots(self) -> IntArray:
        """The slots, as numbers of the batch."""
        offsets = self.parts.offsets
        return np.arange(offsets[-1]) + np.repeat(self.first - offsets[:-1], np.diff(offsets))


def stretches_of(parts: ChainParts, start: IntArray, part: IntArray, coefficient: FloatArray) -> Iterator[Stretches]:
    """What rows name, some stretches at a time."""
    k, n_node = parts.n_labels, parts.n_node_parts
    is_node = part < n_node
    last = np.where(is_node, part // k, (part - n_node) // (k * k))
    code = owners(start) * np.int64(parts.n_instances) + owners(parts.offsets)[last]
    order = np.argsort(code, kind="stable")
    code, last, is_node, part, coefficient = code[order], last[order], is_node[order], part[order], coefficient[order]
    begin = np.flatnonzero(np.diff(code, prepend=-1))
    if not len(begin):
        return
    first = np.minimum.reduceat(np.where(is_node, last, last - 1), begin)
    offsets = offsets_of(np.maximum.reduceat(last, begin) - first + 1)
    row, end = code[begin] // parts.n_instances, np.append(begin[1:], len(code))
    cuts = np.searchsorted(offsets, np.arange(0, offsets[-1], max(AT_ONCE // (k * k), 1)))
    for a, b in zip(cuts, np.append(cuts[1:], len(begin)), strict=True):
        if a == b:
            continue
        inside, entry = ChainParts(offsets[a : b + 1] - offsets[a], k), slice(begin[a], end[b - 1])
        moved = last[entry] + np.repeat(inside.offsets[:-1] - first[a:b], (end - begin)[a:b])
        cell = np.where(
            is_node[entry], moved * k + part[entry] % k,
            inside.n_node_parts + moved * (k * k) + (part[entry] - n_node) % (k * k),
        )  # fmt: skip
        yield Stretches(row[a:b], first[a:b], inside, inside.change(cell, coefficient[entry]))


def row_extremes(
    parts: ChainParts, start: IntArray, part: IntArray, coefficient: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """(n_rows,) each: the least and the largest value of every row."""
    low, high = np.zeros(len(start) - 1), np.zeros(len(start) - 1)
    for some in stretches_of(parts, start, part, coefficient):
        np.add.at(low, some.row, -some.scores(-1.0).argmax().score)
        np.add.at(high, some.row, some.scores(1.0).argmax().score)
    return low, high


def parts_never_least(
    parts: ChainParts, start: IntArray, part: IntArray, coefficient: FloatArray, margin: FloatArray
) -> PartSet:
    """Parts that no output with the least value of a row uses: labels, and transitions as patterns of boundaries.

    A transition is left out where one of its two labels is listed.
    """
    k, labels, slots, which = parts.n_labels, [], [], []
    patterns: dict[bytes, int] = {}
    for some in stretches_of(parts, start, part, coefficient):
        inside, n = some.parts, some.parts.n_slots
        best = some.scores(-1.0).max_marginals()
        lengths = np.diff(inside.offsets)
        least = np.repeat(np.maximum.reduceat(best[: n * k].reshape(n, k).max(axis=1), inside.offsets[:-1]), lengths)
        limit = least - np.repeat(margin[some.row], lengths)
        used = best[: n * k].reshape(n, k) >= limit[:, None]
        own, label = np.nonzero(~used)
        labels.append(parts.label(some.slots[own], label))
        never = best[n * k :].reshape(n, k, k) < limit[:, None, None]
        never &= used[:, None, :] & np.roll(used, 1, axis=0)[:, :, None] & inside.has_boundary()[:, None, None]
        own = np.flatnonzero(never.any(axis=(1, 2)))
        kinds, kind = np.unique(np.packbits(never[own].reshape(len(own), k * k), axis=1), axis=0, return_inverse=True)
        number = np.array([patterns.setdefault(one.tobytes(), len(patterns)) for one in kinds], np.int64)
        slots.append(some.slots[own])
        which.append(number[kind.reshape(-1)])
    if not labels:
        return PartSet.of(np.zeros(0, np.int64))
    cells = [np.flatnonzero(np.unpackbits(np.frombuffer(one, np.uint8), count=k * k)) for one in patterns]
    at = parts.transition(np.concatenate(slots), 0, 0)
    changes = PartSet.of_pieces(
        at, np.concatenate(which), offsets_of([len(one) for one in cells]),
        np.concatenate([np.zeros(0, np.int64), *cells]),
    )  # fmt: skip
    return PartSet.union([PartSet.of(np.concatenate(labels)), changes])
