"""What the alignment kernels share: the scores of a direction, scratch space for one pair, and gathering the one into
the other.

A *direction* has observed words t = 0..J−1, each of which is linked to a place i = 0..I−1 of the other sentence or to
null. Links are numbered source word by source word in both directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

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
    jump, jump_reversed : (2 L + 1,) c(d) and c(−d) at [L + d], raised;  log_jump : log c, not raised
    jump_sums : (2 L + 2,) running sums of c, not raised
    first : (L + 1,) weights of first places, not raised;  first_sums : (L + 2,)
    pull : (L + 1,) exp((i + ½) / reach) of Model 1, or empty: places are alike
    negligible : anchors with a smaller share of the mass are not expanded
    """

    kind: int
    jump: np.ndarray
    jump_reversed: np.ndarray
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


class Work(NamedTuple):
    """Scratch space for one direction of pairs with up to J observed words and I places."""

    emission: np.ndarray  # (J, I) potentials of links
    null_emission: np.ndarray  # (J,) of null links, p₀ included
    tilted: np.ndarray  # (J, I) emission times the exponentials of dual variables, or logs
    leave: np.ndarray  # (I,)
    first: np.ndarray  # (I,)
    stop: np.ndarray  # (I + 1,)
    alpha: np.ndarray  # (J + 1, I + 1)
    scale: np.ndarray  # (J,)
    following: np.ndarray  # (I + 1,)
    final: np.ndarray  # (I + 1,) stop / Z
    w: np.ndarray  # (J, I)
    x: np.ndarray  # (I + 1,)
    active: np.ndarray  # (I + 1,)
    link: np.ndarray  # (J, I)
    null_link: np.ndarray  # (J,)
    occupancy: np.ndarray  # (I + 1,)
    first_link: np.ndarray  # (I,)
    in_logs: np.ndarray  # (1,) whether the last inference was done in log space
    jumps: np.ndarray  # (2 I + 1,) expected jumps, if it was


@njit(nogil=True, cache=True)
def new_work(n_obs, n_places):
    """Scratch space for pairs up to the given size."""
    j, i = max(n_obs, 1), max(n_places, 1)
    return Work(
        np.zeros((j, i)),
        np.zeros(j),
        np.zeros((j, i)),
        np.zeros(i),
        np.zeros(i),
        np.zeros(i + 1),
        np.zeros((j + 1, i + 1)),
        np.zeros(j),
        np.zeros(i + 1),
        np.zeros(i + 1),
        np.zeros((j, i)),
        np.zeros(i + 1),
        np.zeros(i + 1, np.int64),
        np.zeros((j, i)),
        np.zeros(j),
        np.zeros(i + 1),
        np.zeros(i),
        np.zeros(1, np.bool_),
        np.zeros(2 * i + 1),
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
    if words.cells.shape[0] == 0:
        return exponentials(shape, words, moves, work)
    read_table(shape, words, moves, work)
    if moves.power == 1.0:
        return 0.0
    return raise_rows(shape.n_obs, shape.n_places, work.emission, work.null_emission, moves.power)


@njit(nogil=True, cache=True)
def read_table(shape, words, moves, work):
    """Probabilities of links and null links of a pair, with those of places that do not depend on each other."""
    cells, table, column, unseen, alike = words.cells, words.table, words.column, words.unseen, words.alike
    observed, other, null_table = words.observed, words.other, words.null_table
    emission, null = work.emission, work.null_emission
    for t in range(shape.n_obs):
        null[t] = null_table[observed[shape.observed + t]] * moves.p_null
        row = emission[t]
        at = shape.link + t * shape.step
        for i in range(shape.n_places):
            k = cells[at + i * shape.place_step]
            if k >= 0:
                row[i] = table[k, column]
            elif k == ALIKE:
                row[i] = alike[other[shape.place + i]]
            else:
                row[i] = unseen[other[shape.place + i]]
    if moves.kind == MODEL1:
        place_alone(shape.n_obs, shape.n_places, moves, emission)


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
        work.null_emission[t] = np.exp(null - top)
        for i in range(shape.n_places):
            work.emission[t, i] = np.exp(words.link[at + i * shape.place_step] - top)
    return lost


@njit(nogil=True, cache=True)
def gather_logs(shape, words, moves, work):
    """Log-scores of a pair in work.tilted and work.null_emission, whatever their range."""
    is_table = words.cells.shape[0] > 0
    if is_table:
        read_table(shape, words, moves, work)
    more = moves.power * np.log(moves.p_null) if moves.kind == HMM else 0.0
    for t in range(shape.n_obs):
        at = shape.link + t * shape.step
        if is_table:
            work.null_emission[t] = moves.power * np.log(work.null_emission[t])
        else:
            work.null_emission[t] = words.null[shape.observed + t] + more
        for i in range(shape.n_places):
            if is_table:
                work.tilted[t, i] = moves.power * np.log(work.emission[t, i])
            else:
                work.tilted[t, i] = words.link[at + i * shape.place_step]


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
            null[shape.observed + t] = work.null_emission[t] - more
            for i in range(shape.n_places):
                link[shape.link + t * shape.step + i * shape.place_step] = work.tilted[t, i]


@njit(nogil=True, cache=True)
def place_alone(n_obs, n_places, moves, emission):
    """Multiply emission (≥ J, ≥ I) by p(i | t) of Model 1: (1 − p₀)/I, or, with a reach as in Dyer et al. 2013,

        p(i | t) ∝ exp(−|i + ½ − (t + ½) I/J| / reach),

    which differs in that the reach is counted in words, so that short sentences hardly feel it.
    """
    pull, real = moves.pull, 1.0 - moves.p_null
    near = np.empty(n_places)
    for t in range(n_obs):
        if pull.shape[0] == 0:
            for i in range(n_places):
                emission[t, i] *= real / n_places
            continue
        centre = (t + 0.5) * n_places / n_obs
        # exp(c / reach): logarithms of the table are linear in the place.
        below = int(centre)
        at = pull[below] * (pull[1] / pull[0]) ** (centre - below - 0.5)
        total = 0.0
        for i in range(n_places):
            near[i] = pull[i] / at if i + 0.5 <= centre else at / pull[i]
            total += near[i]
        share = real / total
        for i in range(n_places):
            emission[t, i] *= share * near[i]


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
def set_places(n_places, moves, work):
    """Fill leave (I,), first (I,) and stop (I + 1,) for a sentence of I places; all to the power 1/γ."""
    jump, sums, first_sums, power = moves.jump, moves.jump_sums, moves.first_sums, moves.power
    middle = jump.shape[0] // 2
    real = (1.0 - moves.p_null) ** power
    for a in range(n_places):
        total = (sums[middle + n_places - a + 1] - sums[middle - a]) ** -power
        work.leave[a] = real * total
        work.stop[a] = jump[middle + n_places - a] * total
    total = first_sums[n_places + 1]
    for i in range(n_places):
        work.first[i] = (moves.first[i] / total) ** power * real
    work.stop[n_places] = (moves.first[n_places] / total) ** power


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
