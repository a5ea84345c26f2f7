"""The best assignment of variables that are all tied to each other, two by two, by branch and bound.

    max_y Σ_v unary_v(y_v) + Σ_{u<v} pair_uv(y_u, y_v)

Variables are fixed one after the other. A prefix can become no better than

    bound = score of what is fixed + Σ_{u open} max_k [ unary_u(k) + Σ_{v fixed} pair_vu(y_v, k)
                                                        + ½ Σ_{w open} max_{k'} pair_uw(k, k') ]

since pair_uw(k, k') is at most either of its two maxima. Prefixes that cannot beat the best output known are dropped;
the most promising few are followed first. What is left when all are gone is proved to be the best. Where that takes
many prefixes, pairs first give to their variables what they can (block-coordinate descent on the dual of the linear
relaxation, MPLP: Globerson & Jaakkola 2007), which makes the bound tight wherever the relaxation is.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import FloatArray, IntArray

FOLLOWED = 32
"""Prefixes that are followed together."""
MANY = 2000
"""Prefixes after which it pays to tighten the bound and begin again."""
SWEEPS = 10
"""Passes of the dual over all pairs."""


def best_assignment(unary: FloatArray, pair: FloatArray) -> tuple[IntArray, float, int]:
    """A best assignment, its score, and how many prefixes were looked at.

    unary : (n, K), −inf for labels that a variable does not have
    pair : (n, n, K, K), pair[u, v, a, b] = pair[v, u, b, a], 0 where two are not tied, 0 at [u, u]
    """
    search = _searched(unary, pair, MANY)
    if search is None:
        search = _searched(*_reparametrised(unary, pair), None)
        assert search is not None
    return search.found, search.value, search.seen


def _searched(unary: FloatArray, pair: FloatArray, most: int | None) -> _Search | None:
    """The search at its end; None if it took more than so many prefixes."""
    # the surest first: what they settle, all the others hear
    top = np.sort(unary, axis=1)
    gap = top[:, -1] - (top[:, -2] if unary.shape[1] > 1 else 0.0)
    order = np.argsort(-np.where(np.isfinite(gap), gap, np.inf), kind="stable")
    search = _Search(unary[order], pair[np.ix_(order, order)], most)
    search.follow(0, np.zeros((1, 0), np.int64), np.zeros(1), search.unary[None])
    if search.given_up:
        return None
    search.found = np.empty(len(unary), np.int64)
    search.found[order] = search.best
    return search


def _reparametrised(unary: FloatArray, pair: FloatArray) -> tuple[FloatArray, FloatArray]:
    """The same scores, with as much of the pairs in the unary terms as lowers the bound."""
    unary, pair = unary.copy(), pair.copy()
    n = len(unary)
    for _ in range(SWEEPS):
        for u in range(n):
            for v in range(u + 1, n):
                table = pair[u, v]
                if not table.any():
                    continue
                whole = table + unary[u][:, None] + unary[v][None, :]
                mine, theirs = whole.max(axis=1) / 2.0, whole.max(axis=0) / 2.0
                with np.errstate(invalid="ignore"):
                    rest = np.where(whole > -np.inf, whole - mine[:, None] - theirs[None, :], -np.inf)
                unary[u], unary[v], pair[u, v], pair[v, u] = mine, theirs, rest, rest.T
    return unary, pair


class _Search:
    """Depth first, a few prefixes at a time, the most promising first."""

    found: IntArray

    def __init__(self, unary: FloatArray, pair: FloatArray, most: int | None) -> None:
        self.unary, self.pair, self.n, self.most = unary, pair, len(unary), most
        self.best = np.zeros(len(unary), np.int64)
        self.value, self.seen = -np.inf, 0
        half = pair.max(axis=3) / 2.0  # (u, w, k): what u may hope for from w
        half[np.arange(self.n), np.arange(self.n)] = 0.0
        # (level, u, k): from all that are open when ``level`` variables are fixed
        self.hope = np.cumsum(half[:, ::-1], axis=1)[:, ::-1].transpose(1, 0, 2)

    @property
    def given_up(self) -> bool:
        return self.most is not None and self.seen > self.most

    def follow(self, level: int, prefix: IntArray, score: FloatArray, unary: FloatArray) -> None:
        """prefix : (P, level);  unary : (P, n − level, K) unary scores and pairs with what is fixed."""
        if level == self.n:
            at = int(np.argmax(score))
            if score[at] > self.value:
                self.value, self.best = float(score[at]), prefix[at]
            return
        p, k = unary.shape[0], unary.shape[2]
        self.seen += p * k
        if self.given_up:
            return
        parent, label = np.repeat(np.arange(p), k), np.tile(np.arange(k), p)
        new = score[parent] + unary[parent, 0, label]
        further = unary[parent, 1:] + self.pair[level, level + 1 :].transpose(1, 0, 2)[label]
        hope = further + self.hope[level + 1, level + 1 :] if level + 1 < self.n else further
        bound = new + hope.max(axis=2, initial=-np.inf).sum(axis=1) if level + 1 < self.n else new
        order = np.argsort(-bound, kind="stable")
        order = order[bound[order] > -np.inf]
        for first in range(0, len(order), FOLLOWED):
            some = order[first : first + FOLLOWED]
            some = some[bound[some] > self.value]
            if not len(some):
                return
            longer = np.column_stack((prefix[parent[some]], label[some]))
            self.follow(level + 1, longer, new[some], further[some])
