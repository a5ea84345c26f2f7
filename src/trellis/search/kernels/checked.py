"""Beam search with Python functions that look at every prefix (Chang 2011, eq. 3.1).

As in :mod:`beam`, prefixes are ranked by what their completions can have at best. Functions lower that: they are called
in the order of this rank until as many prefixes as the beam is wide are known to be better than the next. No two
prefixes are taken to have the same future, since a function may see a difference.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from trellis.constraints.implicit import Checks
from trellis.data.ragged import IntArray
from trellis.search.kernels.prefix import clear_slot, curved_price, extend, load_slot, look_ahead, room_ahead
from trellis.search.kernels.terms import ChainArrays, Terms


def search(
    scores: ChainArrays, terms: Terms, checks: Sequence[Checks], i: int, width: int
) -> tuple[int, IntArray, float, float]:
    """The first slot of instance i, the labels of the best output found, its value (−∞: none), and a bound on all."""
    lo, n = int(scores.offsets[i]), int(scores.offsets[i + 1] - scores.offsets[i])
    if n == 0:
        return lo, np.zeros(0, np.int64), 0.0, 0.0
    ahead = room_ahead(scores, terms, np.array([i]))
    look_ahead(scores, terms, i, ahead)
    n_rows = int(terms.row_start[i + 1] - terms.row_start[i])
    curved = bool(terms.term_start[i + 1] > terms.term_start[i])
    names = checks[0].labels
    beam: list[tuple[float, float, tuple[int, ...], Any]] = [(0.0, 0.0, (), np.zeros(n_rows))]
    lost = -np.inf
    for t in range(n):
        load_slot(terms, lo + t, ahead)
        matrix, row = scores.edge[scores.edge_index[lo + t]], scores.node[scores.node_index[lo + t]]
        found = []
        for _, value, labels, sums in beam:
            step = row + (scores.start if t == 0 else matrix[labels[-1]])
            for b in np.flatnonzero(value + step + ahead.best[t] > -np.inf).tolist():
                moved = np.empty(n_rows)
                before = labels[-1] if t else 0
                added = value + step[b] - extend(terms, ahead, i, t, before, b, sums, moved)
                rank = added + ahead.best[t, b] - (curved_price(terms, ahead, i, t, b, moved) if curved else 0.0)
                if rank > -np.inf:
                    found.append((rank, added, (*labels, b), moved))
        clear_slot(terms, lo + t, ahead)
        beam, below = _checked(found, checks, i, names, width)
        lost = max(lost, below)
    if not beam:
        return lo, np.zeros(n, np.int64), -np.inf, lost
    value, _, labels, _ = beam[0]
    return lo, np.array(labels), value, max(lost, value)


def _checked(
    found: list[tuple[float, float, tuple[int, ...], Any]],
    checks: Sequence[Checks],
    i: int,
    names: Sequence[str],
    width: int,
) -> tuple[list[tuple[float, float, tuple[int, ...], Any]], float]:
    """The best prefixes after what functions take, best first, and the highest rank that was left out."""
    found.sort(key=lambda one: -one[0])
    kept: list[tuple[float, float, tuple[int, ...], Any]] = []
    for rank, value, labels, sums in found:
        if len(kept) >= width and kept[width - 1][0] >= rank:
            return kept[:width], max(rank, *(one[0] for one in kept[width:]), -np.inf)
        shown, price = tuple(names[k] for k in labels), 0.0
        for one in checks:
            broken = one.step(i, shown)
            price += broken * one.price if broken else 0.0
        if price < np.inf:
            kept.append((rank - price, value - price, labels, sums))
            kept.sort(key=lambda one: -one[0])
    return kept[:width], max((one[0] for one in kept[width:]), default=-np.inf)
