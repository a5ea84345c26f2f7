"""Both directions of a run of sentence pairs at γ = 0; apart from ``align_shard``, since few need it compiled."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_bundle import LARGEST_BUNDLE, project_linear
from trellis.structures.kernels.align_shard import gather, hand_out, hand_out_best, longest_sides, mark_hints
from trellis.structures.kernels.align_work import new_work


@njit(nogil=True, cache=True)
def run_linear_shard(
    start, stop, pairs, tables, directions, constraints, reliability, tolerance, max_evaluations, hints, decode, out,
):  # fmt: skip
    """Pairs start..stop−1 into ``out``; arguments as of ``align_shard.run_shard``. Jumps are always counted."""
    longest_source, longest_target = longest_sides(start, stop, pairs)
    first, second = new_work(longest_target, longest_source), new_work(longest_source, longest_target)
    hinted = np.zeros((longest_source, longest_target), np.uint8)
    for s in range(start, stop):
        n_source = pairs.source_offsets[s + 1] - pairs.source_offsets[s]
        n_target = pairs.target_offsets[s + 1] - pairs.target_offsets[s]
        if n_source == 0 or n_target == 0:
            continue
        gather(s, pairs, tables, directions, 1.0, first, second)
        here = mark_hints(s, n_source, n_target, constraints, pairs, hints, hinted)
        value, z1, z2, residual, evaluations = project_linear(
            n_source, n_target, here, reliability, tolerance, max_evaluations, LARGEST_BUNDLE, hinted, directions,
            first, second, out,
        )  # fmt: skip
        hand_out(s, start, pairs, value, z1, z2, residual, evaluations, first, second, out)
        if decode and -np.inf < value < np.inf:
            hand_out_best(s, start, pairs, directions, first, second, out)
