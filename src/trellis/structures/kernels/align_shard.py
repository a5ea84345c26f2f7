"""Both directions of a run of sentence pairs: gather scores, infer or project, hand out posteriors and counts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.align_hmm import add_jumps, set_places
from trellis.structures.kernels.align_max import best_alignment
from trellis.structures.kernels.align_model1 import favour_diagonal
from trellis.structures.kernels.align_project import AGREEMENT, HINTS, new_duals, posteriors, project
from trellis.structures.kernels.align_work import HMM, new_work

ALIKE = -2
"""The cell of a pair that the table does not have and whose words are spelled alike."""


class Pairs(NamedTuple):
    """Coded sentence pairs; cells of pair s are at cell_offsets[s] + i · J + j. Codes < 0 are unknown
    words; cells < 0 are not in the table (``ALIKE``, or −1).
    """

    source: np.ndarray
    source_offsets: np.ndarray
    target: np.ndarray
    target_offsets: np.ndarray
    cells: np.ndarray
    cell_offsets: np.ndarray


class Tables(NamedTuple):
    """Translation probabilities.

    pair : (n_pairs, 2) t₁(f | e), t₂(e | f);  null1 : (V_f + 1,) t₁(f | null), null2 : (V_e + 1,) t₂(e | null)
    unseen1 : (V_e + 1,) t₁ of a pair that is not in the table, given e;  unseen2 : (V_f + 1,) t₂ given f
    alike1, alike2 : the same for a pair that is not in the table and whose words are spelled alike
    The last entry of each is that of unknown words.
    """

    pair: np.ndarray
    null1: np.ndarray
    null2: np.ndarray
    unseen1: np.ndarray
    unseen2: np.ndarray
    alike1: np.ndarray
    alike2: np.ndarray


class Shares(NamedTuple):
    """What a shard gives back; cells and tokens are counted from the shard's first."""

    forward: np.ndarray  # (n_cells,) q₁(i, j)
    backward: np.ndarray  # (n_cells,) q₂(i, j)
    null_forward: np.ndarray  # (n_target_tokens,)
    null_backward: np.ndarray  # (n_source_tokens,)
    jumps: np.ndarray  # (2, 2 L + 1) correlations, reversed; times c(d) the expected jumps
    ends: np.ndarray  # (2, 2 L + 1) expected jumps to the end of the sentence, and those that need no factor c(d)
    jump_weight: np.ndarray  # (2, 2 L + 2) differences of Σ occupancy / Σ c over the jumps possible there
    firsts: np.ndarray  # (2, L + 1) expected first places
    first_weight: np.ndarray  # (2, L + 2)
    log_partition: np.ndarray  # (n_pairs, 2) log Z of each direction
    value: np.ndarray  # (n_pairs,) dual value V
    residual: np.ndarray  # (n_pairs,) of KKT, or at γ = 0 ``align_bundle.residual_of``
    evaluations: np.ndarray  # (n_pairs,)
    best_forward: np.ndarray  # (n_target_tokens,) source place of each target word in the best alignment, −1: null
    best_backward: np.ndarray  # (n_source_tokens,)


@njit(nogil=True, cache=True)
def new_shares(n_pairs, n_cells, n_source, n_target, longest):
    """Zeroed results of a shard."""
    return Shares(
        np.zeros(n_cells, np.float32),
        np.zeros(n_cells, np.float32),
        np.zeros(n_target, np.float32),
        np.zeros(n_source, np.float32),
        np.zeros((2, 2 * longest + 1)),
        np.zeros((2, 2 * longest + 1)),
        np.zeros((2, 2 * longest + 2)),
        np.zeros((2, longest + 1)),
        np.zeros((2, longest + 2)),
        np.zeros((n_pairs, 2)),
        np.zeros(n_pairs),
        np.zeros(n_pairs),
        np.zeros(n_pairs, np.int32),
        np.full(n_target, -1, np.int32),
        np.full(n_source, -1, np.int32),
    )


@njit(nogil=True, cache=True)
def gather(s, pairs, tables, directions, inv_gamma, first, second):
    """Scores of both directions of pair s, to the power 1/γ; return what scaling took from (log Z₁, log Z₂)."""
    so, to = pairs.source_offsets[s], pairs.target_offsets[s]
    n_source, n_target = pairs.source_offsets[s + 1] - so, pairs.target_offsets[s + 1] - to
    cells = pairs.cells[pairs.cell_offsets[s] : pairs.cell_offsets[s + 1]]
    e1, e2, n1, n2 = first.emission, second.emission, first.null_emission, second.null_emission
    for i in range(n_source):
        e = pairs.source[so + i]
        n2[i] = tables.null2[e] * directions[1].p_null
        row = e2[i]
        for j in range(n_target):
            k = cells[i * n_target + j]
            if k >= 0:
                e1[j, i] = tables.pair[k, 0]
                row[j] = tables.pair[k, 1]
            elif k == ALIKE:
                e1[j, i] = tables.alike1[e]
                row[j] = tables.alike2[pairs.target[to + j]]
            else:
                e1[j, i] = tables.unseen1[e]
                row[j] = tables.unseen2[pairs.target[to + j]]
    for j in range(n_target):
        n1[j] = tables.null1[pairs.target[to + j]] * directions[0].p_null
    if directions[0].kind == HMM:
        set_places(n_source, directions[0], inv_gamma, first)
        set_places(n_target, directions[1], inv_gamma, second)
    else:
        favour_diagonal(n_target, n_source, directions[0].pull, e1)
        favour_diagonal(n_source, n_target, directions[1].pull, e2)
    if inv_gamma == 1.0:
        return 0.0, 0.0
    return raise_rows(n_target, n_source, e1, n1, inv_gamma), raise_rows(n_source, n_target, e2, n2, inv_gamma)


@njit(nogil=True, cache=True)
def raise_rows(n_obs, n_places, emission, null, power):
    """Raise to a power after dividing rows by their largest entry, against underflow; return Σ log of the divisors."""
    lost = 0.0
    for t in range(n_obs):
        top = null[t]
        for i in range(n_places):
            top = max(top, emission[t, i])
        lost += np.log(top)
        null[t] = (null[t] / top) ** power
        for i in range(n_places):
            emission[t, i] = (emission[t, i] / top) ** power
    return lost * power


@njit(nogil=True, cache=True)
def take_logs(n_obs, n_places, work, constraints):
    """tilted = log of what the posteriors were made of."""
    made_of = work.tilted if constraints else work.emission
    for t in range(n_obs):
        for i in range(n_places):
            work.tilted[t, i] = np.log(made_of[t, i])


@njit(nogil=True, cache=True)
def collect_places(direction_index, n_obs, n_places, direction, work, beam, out):
    """Add the pair's expected jumps, ends and first places, and the weights of the M-step's denominators."""
    sums, middle = direction.jump_sums, direction.jump.shape[0] // 2
    weight, ends = out.jump_weight[direction_index], out.ends[direction_index]
    if work.in_logs[0]:
        for d in range(-n_places, n_places + 1):
            ends[middle + d] += work.jumps[n_places + d]
    else:
        add_jumps(n_obs, n_places, work, beam, out.jumps[direction_index])
    for a in range(n_places):
        ends[middle + n_places - a] += work.alpha[n_obs, a] * work.final[a]
        share = work.occupancy[a] / (sums[middle + n_places - a + 1] - sums[middle - a])
        weight[middle - a] += share
        weight[middle + n_places - a + 1] -= share
    firsts, first_weight = out.firsts[direction_index], out.first_weight[direction_index]
    for i in range(n_places):
        firsts[i] += work.first_link[i]
    firsts[n_places] += work.alpha[n_obs, n_places] * work.final[n_places]
    share = work.occupancy[n_places] / direction.first_sums[n_places + 1]
    first_weight[0] += share
    first_weight[n_places + 1] -= share


@njit(nogil=True, cache=True)
def longest_sides(start, stop, pairs):
    """Words of the longest source and of the longest target side of a run of pairs, at least 1."""
    longest_source, longest_target = 1, 1
    for s in range(start, stop):
        longest_source = max(longest_source, pairs.source_offsets[s + 1] - pairs.source_offsets[s])
        longest_target = max(longest_target, pairs.target_offsets[s + 1] - pairs.target_offsets[s])
    return longest_source, longest_target


@njit(nogil=True, cache=True)
def mark_hints(s, n_source, n_target, constraints, pairs, hints, hinted):
    """Fill ``hinted`` (≥ I, ≥ J) for pair s; return the constraints that concern it: hints only where it has some."""
    if not constraints & HINTS:
        return constraints
    base = pairs.cell_offsets[s]
    n_hints = 0
    for i in range(n_source):
        for j in range(n_target):
            hinted[i, j] = hints[base + i * n_target + j]
            n_hints += hinted[i, j]
    return constraints if n_hints else constraints & ~HINTS


@njit(nogil=True, cache=True)
def hand_out(s, start, pairs, value, z1, z2, residual, evaluations, first, second, out):
    """Put what was found for pair s into the results of the shard that begins with ``start``."""
    so, to = pairs.source_offsets[s], pairs.target_offsets[s]
    n_source, n_target = pairs.source_offsets[s + 1] - so, pairs.target_offsets[s + 1] - to
    n = s - start
    out.log_partition[n, 0] = z1
    out.log_partition[n, 1] = z2
    out.value[n] = value
    out.residual[n] = residual
    out.evaluations[n] = evaluations
    base = pairs.cell_offsets[s] - pairs.cell_offsets[start]
    for i in range(n_source):
        for j in range(n_target):
            out.forward[base + i * n_target + j] = first.link[j, i]
            out.backward[base + i * n_target + j] = second.link[i, j]
        out.null_backward[so - pairs.source_offsets[start] + i] = second.null_link[i]
    for j in range(n_target):
        out.null_forward[to - pairs.target_offsets[start] + j] = first.null_link[j]


@njit(nogil=True, cache=True)
def hand_out_best(s, start, pairs, directions, first, second, out):
    """Put the best alignments of pair s under the log scores in ``tilted`` into the results of the shard."""
    so, to = pairs.source_offsets[s], pairs.target_offsets[s]
    n_source, n_target = pairs.source_offsets[s + 1] - so, pairs.target_offsets[s + 1] - to
    forward = out.best_forward[to - pairs.target_offsets[start] :]
    backward = out.best_backward[so - pairs.source_offsets[start] :]
    best_alignment(n_target, n_source, first.tilted, directions[0], first, forward)
    best_alignment(n_source, n_target, second.tilted, directions[1], second, backward)


@njit(nogil=True, cache=True)
def run_shard(
    start, stop, pairs, tables, directions, constraints, reliability, inv_gamma, beam, tolerance, max_evaluations,
    hints, warm, collect, decode, out,
):  # fmt: skip
    """Pairs start..stop−1 into ``out``, γ > 0; γ = 0 is :mod:`align_linear`.

    collect : whether expected jumps are wanted;  decode : whether best alignments under q are wanted
    hints : (n_cells,) 1 where a link is hinted, or empty;  warm : (n_cells,) λ/γ of the last round, updated, or empty
    """
    longest_source, longest_target = longest_sides(start, stop, pairs)
    first, second = new_work(longest_target, longest_source), new_work(longest_source, longest_target)
    duals, old = new_duals(longest_source, longest_target), new_duals(longest_source, longest_target)
    step, previous = new_duals(longest_source, longest_target), new_duals(longest_source, longest_target)
    hinted = np.zeros((longest_source, longest_target), np.uint8)
    for s in range(start, stop):
        co = pairs.cell_offsets[s]
        n_source = pairs.source_offsets[s + 1] - pairs.source_offsets[s]
        n_target = pairs.target_offsets[s + 1] - pairs.target_offsets[s]
        if n_source == 0 or n_target == 0:
            continue
        lost1, lost2 = gather(s, pairs, tables, directions, inv_gamma, first, second)
        here = mark_hints(s, n_source, n_target, constraints, pairs, hints, hinted)
        if here == 0:
            z1 = posteriors(n_target, n_source, first.emission, directions[0], inv_gamma, beam, first)
            z2 = posteriors(n_source, n_target, second.emission, directions[1], inv_gamma, beam, second)
            value, worst, evaluations = z1 + z2, 0.0, 1
        else:
            duals[1][:] = 0.0
            step[1][:] = 0.0
            for i in range(n_source):
                for j in range(n_target):
                    duals[0][i, j] = warm[co + i * n_target + j] if warm.shape[0] else 0.0
            value, z1, z2, worst, evaluations = project(
                n_source, n_target, here, reliability, inv_gamma, beam, tolerance, max_evaluations,
                duals, old, step, previous, hinted, directions, first, second,
            )  # fmt: skip
            if warm.shape[0] and here & AGREEMENT:
                for i in range(n_source):
                    for j in range(n_target):
                        warm[co + i * n_target + j] = duals[0][i, j]
        value += lost1 + lost2
        hand_out(s, start, pairs, value, z1 + lost1, z2 + lost2, worst, evaluations, first, second, out)
        if not (-np.inf < value < np.inf):
            continue
        if decode:
            take_logs(n_target, n_source, first, here)
            take_logs(n_source, n_target, second, here)
            hand_out_best(s, start, pairs, directions, first, second, out)
        if collect and directions[0].kind == HMM:
            collect_places(0, n_target, n_source, directions[0], first, beam, out)
            collect_places(1, n_source, n_target, directions[1], second, beam, out)
