"""Potentials of one sentence pair in one direction: gathered from its scores, and its places and moves."""

from __future__ import annotations

import numpy as np
from numba import njit

from trellis.structures.kernels.align_work import (
    ALIKE,
    ANY,
    EMISSION,
    FACTOR,
    FIRST,
    HMM,
    JUMP,
    JUMP_REVERSED,
    LEAVE,
    MODEL1,
    MOVE,
    MOVE_REVERSED,
    NULL,
    STOP,
    TILTED,
    shape_of,
    whole_vectors,
    work_for,
)
from trellis.structures.kernels.lanes import LANES, add, load, multiply, smaller, splat, store, total


@njit(nogil=True, cache=True)
def gather(shape, words, moves, work):
    """Potentials of a pair, to the power 1/γ; return what scaling took from log Z."""
    if moves.kind == HMM:
        set_places(shape, words.rows, moves, work)
    for t in range(shape.n_obs):
        for i in range(shape.n_places, whole_vectors(shape.n_places)):
            work.matrices[EMISSION, t, i] = 0.0
    if words.cells.shape[0] == 0:
        return exponentials(shape, words, moves, work)
    read_table(shape, words, moves, work)
    if moves.power == 1.0:
        return 0.0
    return raise_rows(shape.n_obs, shape.n_places, moves.power, work)


@njit(nogil=True, cache=True)
def read_table(shape, words, moves, work):
    """Probabilities of links and null links of a pair, with those of places that do not depend on each other."""
    cells, table, column, alike = words.cells, words.table, words.column, words.alike
    observed, other, null_table = words.observed, words.other, words.null_table
    matrices, places, of_words = work.matrices, work.places, work.words
    for i in range(shape.n_places):
        places[ANY, i] = words.unseen[other[shape.place + i]]
    for t in range(shape.n_obs):
        of_words[NULL, t] = null_table[observed[shape.observed + t]] * moves.p_null
        at = shape.link + t * shape.step
        for i in range(shape.n_places):
            k = cells[at + i * shape.place_step]
            # No branch, since nobody can predict which cells have an entry: the table has one for those without.
            known = 1.0 * (k >= 0)
            matrices[EMISSION, t, i] = known * table[max(k, 0), column] + (1.0 - known) * places[ANY, i]
            if k == ALIKE:
                matrices[EMISSION, t, i] = alike[other[shape.place + i]]
    if moves.kind == MODEL1:
        place_alone(shape.n_obs, shape.n_places, moves.pull, moves.p_null, work)


@njit(nogil=True, cache=True)
def exponentials(shape, words, moves, work):
    """The potentials of log-scores, each word's divided by its largest; return Σ log of the divisors."""
    more = moves.power * np.log(moves.p_null) if moves.kind == HMM else 0.0
    lost = 0.0
    for t in range(shape.n_obs):
        at, null = shape.link + t * shape.step, words.null[shape.observed + t] + more
        top = null
        for i in range(shape.n_places):
            top = max(top, words.link[at + i * shape.place_step])
        if top == -np.inf:
            top = 0.0
        lost += top
        work.words[NULL, t] = np.exp(null - top)
        for i in range(shape.n_places):
            work.matrices[EMISSION, t, i] = np.exp(words.link[at + i * shape.place_step] - top)
    return lost


@njit(nogil=True, cache=True)
def gather_logs(shape, words, moves, work):
    """Log-scores of a pair in TILTED and NULL, whatever their range."""
    is_table = words.cells.shape[0] > 0
    if is_table:
        read_table(shape, words, moves, work)
    more = moves.power * np.log(moves.p_null) if moves.kind == HMM else 0.0
    for t in range(shape.n_obs):
        at = shape.link + t * shape.step
        if is_table:
            work.words[NULL, t] = moves.power * np.log(work.words[NULL, t])
        else:
            work.words[NULL, t] = words.null[shape.observed + t] + more
        for i in range(shape.n_places):
            if is_table:
                work.matrices[TILTED, t, i] = moves.power * np.log(work.matrices[EMISSION, t, i])
            else:
                work.matrices[TILTED, t, i] = words.link[at + i * shape.place_step]


@njit(nogil=True, cache=True)
def write_scores(direction, link, null):
    """Log-scores of all links (n_links,) and null links (n_observed,), those of the HMM's places left out."""
    n_pairs = direction.pairs.link_offsets.shape[0] - 1
    words, moves = direction.words, direction.moves
    work = work_for(direction, np.arange(n_pairs))
    more = moves.power * np.log(moves.p_null) if moves.kind == HMM else 0.0
    for s in range(n_pairs):
        shape = shape_of(s, direction.pairs, direction.forward)
        if shape.n_places == 0:
            continue
        gather_logs(shape, words, moves, work)
        for t in range(shape.n_obs):
            null[shape.observed + t] = work.words[NULL, t] - more
            for i in range(shape.n_places):
                link[shape.link + t * shape.step + i * shape.place_step] = work.matrices[TILTED, t, i]


@njit(nogil=True, cache=True)
def place_alone(n_obs, n_places, pull, p_null, work):
    """Multiply EMISSION by p(i | t) of Model 1: (1 − p₀)/I, or, with a reach as in Dyer et al. 2013,

        p(i | t) ∝ exp(−|i + ½ − (t + ½) I/J| / reach),

    which differs in that the reach is counted in words, so that short sentences hardly feel it.
    """
    matrices, places, real = work.matrices, work.places, 1.0 - p_null
    wide, width, row = whole_vectors(n_places), matrices.shape[2], places.shape[1]
    rises, falls, near = FIRST * row, LEAVE * row, ANY * row
    for i in range(wide):
        inside = i < n_places
        places[FIRST, i] = (pull[i] if pull.shape[0] else 1.0) if inside else 0.0
        places[LEAVE, i] = 1.0 / places[FIRST, i] if inside else 0.0
    for t in range(n_obs):
        at = 1.0
        if pull.shape[0]:
            centre = (t + 0.5) * n_places / n_obs
            # exp(c / reach): logarithms of the table are linear in the place.
            below = int(centre)
            at = pull[below] * (pull[1] / pull[0]) ** (centre - below - 0.5)
        up, down, sums = splat(1.0 / at), splat(at), splat(0.0)
        for i in range(0, wide, LANES):
            here = smaller(multiply(up, load(places, rises + i)), multiply(down, load(places, falls + i)))
            store(places, near + i, here)
            sums = add(sums, here)
        share = splat(real / total(sums))
        for i in range(0, wide, LANES):
            k = t * width + i
            store(matrices, k, multiply(load(matrices, k), multiply(share, load(places, near + i))))


@njit(nogil=True, cache=True)
def raise_rows(n_obs, n_places, power, work):
    """Raise to a power after dividing rows by their largest entry, against underflow; return Σ log of the divisors."""
    matrices, words = work.matrices, work.words
    lost = 0.0
    for t in range(n_obs):
        top = words[NULL, t]
        for i in range(n_places):
            top = max(top, matrices[EMISSION, t, i])
        lost += np.log(top)
        words[NULL, t] = (words[NULL, t] / top) ** power
        for i in range(n_places):
            matrices[EMISSION, t, i] = (matrices[EMISSION, t, i] / top) ** power
    return lost * power


@njit(nogil=True, cache=True)
def norm_of_jumps(a, n_places, row, moves):
    """Σ_{k=0..I} c(k − a) r(k − a) of an anchor whose word has this row of factors."""
    sums, factors = moves.jump_sums, moves.factors
    middle, reach = moves.log_jump.shape[0] // 2, factors.shape[1] // 2
    total = sums[middle + n_places - a + 1] - sums[middle - a]
    if row > 0:
        for d in range(max(-reach, -a), min(reach, n_places - a) + 1):
            total += (factors[row, reach + d] - 1.0) * (sums[middle + d + 1] - sums[middle + d])
    return total


@njit(nogil=True, cache=True)
def set_places(shape, rows, moves, work):
    """Fill LEAVE, FIRST, STOP and moves for a sentence of I places; all to the power 1/γ."""
    jump, power, places, jumps, near = moves.jump, moves.power, work.places, work.jumps, work.near
    middle, width, reach, n_places = jump.shape[0] // 2, places.shape[1] - 1, near.shape[1] // 2, shape.n_places
    wide, real = whole_vectors(n_places), (1.0 - moves.p_null) ** power
    norm = moves.first_sums[n_places + 1]
    for a in range(n_places):
        row = rows[shape.place + a] if rows.shape[0] else 0
        work.rows[a] = row
        for k in range(near.shape[1]):
            near[FACTOR, k, a] = moves.factors[row, k] if power == 1.0 else moves.factors[row, k] ** power
        possible, start = norm_of_jumps(a, n_places, row, moves), moves.first[a] / norm
        share = 1.0 / possible if power == 1.0 else possible**-power
        places[LEAVE, a] = real * share
        places[STOP, a] = jump[middle + n_places - a] * share
        if n_places - a <= reach:
            places[STOP, a] *= near[FACTOR, reach + n_places - a, a]
        places[FIRST, a] = real * (start if power == 1.0 else start**power)
    places[STOP, width] = (moves.first[n_places] / norm) ** power
    for d in range(1 - n_places, n_places):
        jumps[JUMP, width + d] = jump[middle + d]
        jumps[JUMP_REVERSED, width - d] = jump[middle + d]
    for i in range(n_places, wide):
        places[LEAVE, i] = 0.0
        places[STOP, i] = 0.0
        places[FIRST, i] = 0.0
        jumps[JUMP, width + i] = 0.0
        jumps[JUMP_REVERSED, width + i] = 0.0
    set_moves(n_places, work)


@njit(nogil=True, cache=True)
def set_moves(n_places, work):
    """Fill MOVE and MOVE_REVERSED."""
    matrices, jumps, near, wide = work.moves, work.jumps, work.near, whole_vectors(n_places)
    width, n_jumps, reach = matrices.shape[2], jumps.shape[1], near.shape[1] // 2
    other = matrices.shape[1] * width
    for a in range(n_places):
        for i in range(0, wide, LANES):
            store(matrices, a * width + i, load(jumps, width - a + i))
            store(matrices, other + a * width + i, load(jumps, n_jumps + width - a + i))
    for a in range(n_places):
        if work.rows[a] > 0:
            for i in range(max(0, a - reach), min(n_places, a + reach + 1)):
                factor = near[FACTOR, reach + i - a, a]
                matrices[MOVE, a, i] *= factor
                matrices[MOVE_REVERSED, i, a] *= factor


@njit(nogil=True, cache=True)
def log_places(shape, rows, moves):
    """Logs of moves (I, I) from place to place, of first (I,) and of stop (I + 1,), as ``set_places`` has them."""
    n_places, power, factors = shape.n_places, moves.power, moves.factors
    middle, reach, real = moves.log_jump.shape[0] // 2, factors.shape[1] // 2, np.log(1.0 - moves.p_null)
    move, first, stop = np.empty((n_places, n_places)), np.empty(n_places), np.empty(n_places + 1)
    for a in range(n_places):
        row = rows[shape.place + a] if rows.shape[0] else 0
        total = np.log(norm_of_jumps(a, n_places, row, moves))
        for i in range(n_places + 1):
            score = moves.log_jump[middle + i - a] - total
            if abs(i - a) <= reach:
                score += np.log(factors[row, reach + i - a])
            if i < n_places:
                move[a, i] = power * (score + real)
            else:
                stop[a] = power * score
    total = np.log(moves.first_sums[n_places + 1])
    for i in range(n_places):
        first[i] = power * (np.log(moves.first[i]) - total + real)
    stop[n_places] = power * (np.log(moves.first[n_places]) - total)
    return move, first, stop
