"""Search in label sequences: beam search and A* over the slots of chains. A categorical is a chain of one slot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from trellis.search.kernels import astar, beam, checked
from trellis.search.kernels.terms import ChainArrays, terms_of

if TYPE_CHECKING:
    from trellis.data.ragged import FloatArray, IntArray
    from trellis.search.prices import Priced
    from trellis.search.progress import SearchProgress


class Search:
    """The rows that do not factor, laid out by slot, and the methods that search with them."""

    methods = ("beam", "kbest", "astar")

    def __init__(self, remaining: Priced) -> None:
        self.terms = terms_of(remaining)

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


def arrays_of(progress: SearchProgress) -> ChainArrays:
    """The scores as the kernels take them."""
    scores: Any = progress.scores
    chain = scores.as_chain()
    t = chain.tables
    return ChainArrays(chain.offsets, t.node, chain.node_index, t.edge, chain.edge_index, t.start, t.stop)
