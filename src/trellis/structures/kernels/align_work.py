"""What the alignment kernels share: the scores of a direction, scratch space for one pair, and gathering the one into
the other.

A *direction* has observed words t = 0..J−1, each of which is linked to a place i = 0..I−1 of the other sentence or to
null. Links are numbered source word by source word in both directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.lanes import LANES, add, load, multiply, smaller, splat, store, total

ALONE = 0
"""Words do not look at each other, and their scores say everything."""
MODEL1 = 1
"""The same, with places as IBM Model 1 has them."""
HMM = 2

NOT_IN_TABLE = -1
ALIKE = -2
"""The cell of a pair of words that the table does not have and that are spelled alike."""


class Pairs(NamedTuple):
    """Where the sentences of each pair begin; link (i, j) of pair s is link_offsets[s] + i · n_target + j."""

    source_offsets: np.ndarray
    target_offsets: np.ndarray
    link_offsets: np.ndarray


class Words(NamedTuple):
    """Scores of links and of null links.

    link : (n_links,), null : (n_observed,) log-scores; empty where they are read from a table of probabilities:
    table : (n_entries, 2) of which ``column`` is this direction's;  cells : (n_links,) the entry of each link, or < 0
    observed, other : (n_words,) codes of the observed words and of those at the places, −1: unknown, the last entry of
    null_table : (V + 1,) of observed words;  unseen, alike : (V + 1,) of pairs without an entry, by the other word
    """

    link: np.ndarray
    null: np.ndarray
    table: np.ndarray
    column: int
    cells: np.ndarray
    observed: np.ndarray
    other: np.ndarray
    null_table: np.ndarray
    unseen: np.ndarray
    alike: np.ndarray


class Moves(NamedTuple):
    """How places follow each other, and the power 1/γ to which tables and places are raised (log-scores are not).

    kind : ALONE, MODEL1 or HMM
    jump : (2 L + 1,) c(d) at [L + d], raised;  log_jump : log c, not raised
    jump_sums : (2 L + 2,) running sums of c, not raised
    first : (L + 1,) weights of first places, not raised;  first_sums : (L + 2,)
    pull : (L + 1,) exp((i + ½) / reach) of Model 1, or empty: places are alike
    negligible : anchors with a smaller share of the mass are not expanded
    """

    kind: int
    jump: np.ndarray
    log_jump: np.ndarray
    jump_sums: np.ndarray
    first: np.ndarray
    first_sums: np.ndarray
    pull: np.ndarray
    p_null: float
    power: float
    negligible: float


class Direction(NamedTuple):
    """forward : target words are observed, and places are source words."""

    pairs: Pairs
    forward: bool
    words: Words
    moves: Moves


# matrices of Work, (J + 1, W) each
EMISSION = 0
"""Potentials of links (J, I)."""
TILTED = 1
"""The same times the exponentials of dual variables, or their logs (J, I)."""
LINK = 2
"""Posteriors (J, I)."""
ALPHA = 3
"""Scaled forward probabilities of anchors (J + 1, I)."""
ARRIVING = 4
"""w of :mod:`align_hmm` (J, I)."""

# vectors over places, (W + 1,) each; the last entry is that of "none yet"
LEAVE, FIRST, STOP, FOLLOWING, OCCUPANCY, FIRST_LINK, ANY = range(7)
FINAL = 7
"""STOP / Z."""
LEAVING = 8
"""Σ_i c(i − a) w_t(i), with the row after it for the end of its last vector."""

# vectors over jumps d, (2 W + 1,) each, at [W + d]
JUMP, JUMP_REVERSED = 0, 1
"""c(d) and c(−d), raised."""
EXPECTED = 2
"""Expected jumps, if they were found in log space."""

# vectors over observed words, (J + 1,) each
NULL, NULL_LINK, NONE, SCALE = range(4)
"""Potentials of null links, p₀ included; their posteriors; alpha of "none yet"; 1 / scale."""
IN_LOGS = 4
"""First entry: whether the last inference was done in log space."""


class Work(NamedTuple):
    """Scratch space for one direction of pairs with up to J observed words and I places.

    Rows have room for W places, whole vectors (see :mod:`lanes`), and hold zeros from the last place to the end of its
    vector. There are few arrays with many rows: an array costs every call of a kernel that it is handed to.
    """

    matrices: np.ndarray  # (5, J + 1, W)
    places: np.ndarray  # (10, W + 1)
    jumps: np.ndarray  # (3, 2 W + 1)
    words: np.ndarray  # (5, J + 1)
    active: np.ndarray  # (W,) numbers of places


@njit(nogil=True, cache=True)
def whole_vectors(n):
    """n, or the next multiple of LANES."""
    return -(-n // LANES) * LANES


@njit(nogil=True, cache=True)
def new_work(n_obs, n_places):
    """Scratch space for pairs up to the given size."""
    w = whole_vectors(n_places)
    return Work(
        np.zeros((5, n_obs + 1, w)),
        np.zeros((10, w + 1)),
        np.zeros((3, 2 * w + 1)),
        np.zeros((5, n_obs + 1)),
        np.zeros(w, np.int64),
    )


@njit(nogil=True, cache=True)
def work_for(pairs, chosen, forward):
    """Scratch space for the longest of the chosen pairs."""
    longest_source, longest_target = 1, 1
    for s in chosen:
        longest_source = max(longest_source, pairs.source_offsets[s + 1] - pairs.source_offsets[s])
        longest_target = max(longest_target, pairs.target_offsets[s + 1] - pairs.target_offsets[s])
    if forward:
        return new_work(longest_target, longest_source)
    return new_work(longest_source, longest_target)


class Shape(NamedTuple):
    """Where one pair lies: J, I, the first observed word and the first place in the flat texts, the first link, and the
    steps from link to link by observed word and by place."""

    n_obs: int
    n_places: int
    observed: int
    place: int
    link: int
    step: int
    place_step: int


@njit(nogil=True, cache=True)
def shape_of(s, pairs, forward):
    """The shape of pair s in one direction."""
    so, to, link = pairs.source_offsets[s], pairs.target_offsets[s], pairs.link_offsets[s]
    n_source, n_target = pairs.source_offsets[s + 1] - so, pairs.target_offsets[s + 1] - to
    if forward:
        return Shape(n_target, n_source, to, so, link, 1, n_target)
    return Shape(n_source, n_target, so, to, link, n_target, 1)


@njit(nogil=True, cache=True)
def gather(shape, words, moves, work):
    """Potentials of a pair, to the power 1/γ; return what scaling took from log Z."""
    if moves.kind == HMM:
        set_places(shape.n_places, moves, work)
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
    work = work_for(direction.pairs, np.arange(n_pairs), direction.forward)
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
def set_places(n_places, moves, work):
    """Fill LEAVE, FIRST, STOP and jumps for a sentence of I places; all to the power 1/γ."""
    jump, sums, power, places, jumps = moves.jump, moves.jump_sums, moves.power, work.places, work.jumps
    middle, width, wide = jump.shape[0] // 2, places.shape[1] - 1, whole_vectors(n_places)
    real = (1.0 - moves.p_null) ** power
    norm = moves.first_sums[n_places + 1]
    for a in range(n_places):
        possible, start = sums[middle + n_places - a + 1] - sums[middle - a], moves.first[a] / norm
        share = 1.0 / possible if power == 1.0 else possible**-power
        places[LEAVE, a] = real * share
        places[STOP, a] = jump[middle + n_places - a] * share
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


@njit(nogil=True, cache=True)
def log_places(n_places, moves):
    """Logs of jumps (2 I + 1,), and of leave (I,), first (I,) and stop (I + 1,) as ``set_places`` has them."""
    sums, power, middle = moves.jump_sums, moves.power, moves.log_jump.shape[0] // 2
    real = np.log(1.0 - moves.p_null)
    jump = power * moves.log_jump[middle - n_places : middle + n_places + 1]
    leave, first, stop = np.empty(n_places), np.empty(n_places), np.empty(n_places + 1)
    for a in range(n_places):
        total = np.log(sums[middle + n_places - a + 1] - sums[middle - a])
        leave[a] = power * (real - total)
        stop[a] = power * (moves.log_jump[middle + n_places - a] - total)
    total = np.log(moves.first_sums[n_places + 1])
    for i in range(n_places):
        first[i] = power * (np.log(moves.first[i]) - total + real)
    stop[n_places] = power * (np.log(moves.first[n_places]) - total)
    return jump, leave, first, stop
