"""Decoding by Lagrangian relaxation, its gap closed as far as wanted by the best outputs under the final prices.

For every λ, value(y) ≤ tilted(y) = score(y) − λ·(φ(y) − b) + c(λ) (see :mod:`kernels.dual`). So if the k-th best output
by tilted score has a tilted score no larger than the best value among those before it, that value is the largest.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import FloatArray, IntArray
from trellis.search.kernels import dual, layout
from trellis.search.kernels.arguments import Terms
from trellis.search.plan import arrays_of
from trellis.search.progress import Progress
from trellis.search.single import scores_of

FIRST_LIST = 16
"""Length of the first list of best outputs; each next one is four times as long."""


def improve(progress: Progress, todo: IntArray, most_steps: int = 200, most_outputs: int = 1024) -> None:
    """Search the instances ``todo``: subgradient steps, then lists of up to ``most_outputs`` outputs."""
    scores, terms = arrays_of(progress.scores), progress.plan.terms
    bound = progress.bound.copy()
    duals = np.zeros(len(terms.bound))
    dual.relax(scores, terms, todo, most_steps, progress.labels, progress.value, bound, duals)
    progress.tighten(todo, bound)
    for i in np.intersect1d(todo, progress.unproved()).tolist():
        _close(progress, terms, duals, i, most_outputs)
    progress.method[todo] = "relaxation"


def _close(progress: Progress, terms: Terms, duals: FloatArray, instance: int, most_outputs: int) -> None:
    """Look through the best outputs by tilted score until none that follows can be better."""
    lam = duals[terms.row_start[instance] : terms.row_start[instance + 1]]
    constant = dual.conjugate(terms, instance, lam, np.zeros(len(lam)))
    scores = scores_of(progress.scores, instance)
    if scores.n_slots == 0:
        return
    first, K = int(progress.scores.offsets[instance]), scores.n_labels
    node, edge = np.zeros((scores.n_slots, K)), np.zeros((scores.n_slots, K, K))
    dual.tilts(terms, first, lam, node, edge)
    tilted = scores.tilt(node, edge)
    k, n_seen = FIRST_LIST, 0
    while n_seen < most_outputs:
        k = min(k, most_outputs)
        best = tilted.kbest(k)
        n_found = int(np.count_nonzero(best.score[:, 0] > -np.inf))
        price, paid = np.empty(n_found), np.empty(n_found)
        layout.price_list(terms, instance, first, best.labels[:n_found], lam, price, paid)
        value = best.score[:n_found, 0] + paid - price
        top = int(np.argmax(value))
        if value[top] > progress.value[instance]:
            progress.replace(instance, best.labels[top], float(value[top]))
        bound = float(best.score[-1, 0] + constant) if n_found == k else -np.inf
        progress.bound[instance] = min(progress.bound[instance], max(bound, progress.value[instance]))
        if progress.bound[instance] == progress.value[instance] or n_found < k:
            return
        n_seen, k = k, 4 * k
