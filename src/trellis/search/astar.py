"""Decoding by A* (Chang 2011, theorem 1): exact, with a cap on the prefixes stored for an instance."""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import IntArray
from trellis.search.kernels import astar as kernel
from trellis.search.progress import Progress
from trellis.structures.kernels.notice import tell_if_compiling


def improve(progress: Progress, todo: IntArray, most_nodes: int) -> IntArray:
    """Search the instances ``todo``; those that hit the cap are returned, with a bound but perhaps no answer."""
    bound = progress.bound.copy()
    status = np.zeros(len(progress.value), dtype=np.int8)
    tell_if_compiling(kernel.search)
    kernel.search(
        *progress.arrays(), todo, most_nodes, progress.seeds, progress.labels, progress.value, bound, status
    )  # fmt: skip
    progress.tighten(todo, bound)
    capped = status[todo] == kernel.CAPPED
    progress.method[todo[~capped]] = "astar"
    return np.asarray(todo[capped])
