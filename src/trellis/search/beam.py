"""Decoding by beam search (Chang 2011, section 3.1.2), with violations counted while prefixes grow."""

from __future__ import annotations

from trellis.data.ragged import IntArray
from trellis.search.kernels import beam as kernel
from trellis.search.progress import Progress
from trellis.structures.kernels.notice import tell_if_compiling


def improve(progress: Progress, todo: IntArray, width: int) -> None:
    """Search the instances ``todo`` with a beam of the given width."""
    bound = progress.bound.copy()
    tell_if_compiling(kernel.search)
    kernel.search(
        *progress.arrays(), todo, width, progress.seeds, progress.labels[None], progress.value[None], bound
    )  # fmt: skip
    progress.tighten(todo, bound)
    progress.method[todo] = "beam"
