"""Search in label sequences: beam search, A* and Lagrangian relaxation over the slots of chains.

A categorical is a chain of one slot. The gap of the relaxation is closed as far as wanted by the best outputs under
its final prices: for every λ, value(y) ≤ tilted(y) = score(y) − λ·(φ(y) − b) + c(λ) (see :mod:`dual`), so if the k-th
best output by tilted score has a tilted score no larger than the best value among those before it, that value is the
largest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.search.kernels import astar, beam, checked, dual
from trellis.search.kernels.terms import ChainArrays, price_list, terms_of

if TYPE_CHECKING:
    from trellis.data.ragged import FloatArray, IntArray
    from trellis.search.prices import Priced
    from trellis.search.progress import SearchProgress

MOST_STEPS = 200
"""Of the relaxation."""
FIRST_LIST, LONGEST_LIST = 16, 1024
"""Length of the first list of best outputs that closes its gap; each next one is four times as long."""


class Search:
    """The rows that do not factor, laid out by slot, and the methods that search with them."""

    methods = ("beam", "kbest", "astar", "relaxation")

    def __init__(self, remaining: Priced) -> None:
        self.rows, self.terms = remaining.rows, terms_of(remaining)

    def beam(self, progress: SearchProgress, todo: IntArray, width: int) -> None:
        """Beam search (Chang 2011, section 3.1.2), with violations counted while prefixes grow."""
        bound = progress.bound.copy()
        beam.search(
            arrays_of(progress), self.terms, todo, width, progress.seeds, progress.outputs[None],
            progress.value[None], bound,
        )  # fmt: skip
        progress.tighten(todo, bound)
        progress.method[todo] = "beam"

    def checked_beam(self, progress: SearchProgress, todo: IntArray, width: int) -> None:
        """Beam search with Python functions that look at every prefix."""
        for i in todo.tolist():
            low, labels, value, bound = checked.search(
                arrays_of(progress), self.terms, progress.plan.rows.checks, i, width
            )
            if value > progress.value[i]:
                progress.outputs[low : low + len(labels)], progress.value[i] = labels, value
            progress.bound[i] = min(progress.bound[i], max(bound, progress.value[i]))
        progress.method[todo] = "beam"

    def kbest(self, progress: SearchProgress, k: int, width: int) -> tuple[Any, FloatArray, FloatArray]:
        """By beam search: outputs (k, n_slots), values (k, n_instances) with −∞ where there is none, bounds of the
        others (n_instances,)."""
        n = len(progress.value)
        outputs, value = np.tile(progress.outputs, (k, 1)), np.full((k, n), -np.inf)
        value[0], bound = progress.value, progress.bound.copy()
        if k > 1:
            scores, seeds = arrays_of(progress), np.zeros(n, np.uint64)
            beam.search(scores, self.terms, np.arange(n), max(width, 2 * k), seeds, outputs, value, bound)
            missing = np.repeat(value == -np.inf, np.diff(scores.offsets), axis=1)
            outputs = np.where(missing, outputs[0], outputs)
        return outputs, value, bound

    def astar(self, progress: SearchProgress, todo: IntArray, most_nodes: int) -> IntArray:
        """A* (Chang 2011, theorem 1): exact, with a cap on the prefixes stored per instance.

        Instances that hit the cap are returned, with a bound but perhaps no answer.
        """
        bound = progress.bound.copy()
        status = np.zeros(len(progress.value), dtype=np.int8)
        astar.search(
            arrays_of(progress), self.terms, todo, most_nodes, progress.seeds, progress.outputs, progress.value,
            bound, status,
        )  # fmt: skip
        progress.tighten(todo, bound)
        capped = status[todo] == astar.CAPPED
        progress.method[todo[~capped]] = "astar"
        return np.asarray(todo[capped])

    def relaxation(self, progress: SearchProgress, todo: IntArray) -> None:
        """Subgradient steps, then lists of best outputs where a gap is left."""
        bound, duals = progress.bound.copy(), np.zeros(len(self.rows))
        dual.relax(
            arrays_of(progress), self.terms, todo, MOST_STEPS, progress.outputs, progress.value, bound, duals
        )  # fmt: skip
        progress.tighten(todo, bound)
        for i in np.intersect1d(todo, progress.unproved()).tolist():
            self._close(progress, i, duals[self.terms.row_start[i] : self.terms.row_start[i + 1]])
        progress.method[todo] = "relaxation"

    def _close(self, progress: SearchProgress, i: int, lam: FloatArray) -> None:
        """Look through the best outputs of instance i by tilted score until none that follows can be better."""
        constant = dual.conjugate(self.terms, i, lam, np.zeros(len(lam)))
        scores, rows = _chain(progress).instances(i, i + 1), self.rows.shard(i, i + 1)
        if scores.n_slots == 0:
            return
        low = int(_chain(progress).offsets[i])
        tilted = scores.add(rows.part, rows.pull(lam))
        k, n_seen = FIRST_LIST, 0
        while n_seen < LONGEST_LIST:
            best = tilted.kbest(k)
            n_found = int(np.count_nonzero(best.score[:, 0] > -np.inf))
            price, paid = np.empty(n_found), np.empty(n_found)
            price_list(self.terms, i, low, best.labels[:n_found], lam, price, paid)
            value = best.score[:n_found, 0] + paid - price
            top = int(np.argmax(value))
            if value[top] > progress.value[i]:
                progress.outputs[low : low + scores.n_slots] = best.labels[top]
                progress.value[i] = value[top]
            bound = float(best.score[-1, 0] + constant) if n_found == k else -np.inf
            progress.bound[i] = min(progress.bound[i], max(bound, progress.value[i]))
            if progress.bound[i] == progress.value[i] or n_found < k:
                return
            n_seen, k = k, min(4 * k, LONGEST_LIST)


def arrays_of(progress: SearchProgress) -> ChainArrays:
    """The scores as the kernels take them."""
    chain = _chain(progress)
    t = chain.tables
    return ChainArrays(chain.offsets, t.node, chain.node_index, t.edge, chain.edge_index, t.start, t.stop)


def _chain(progress: SearchProgress) -> Any:
    scores: Any = progress.scores
    return scores.as_chain()
