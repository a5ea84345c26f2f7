"""What the alignment kernels share: the scores of a direction, and scratch space for one pair.

A *direction* has observed words t = 0..J−1, each of which is linked to a place i = 0..I−1 of the other sentence or to
null. Links are numbered source word by source word in both directions.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from trellis.structures.kernels.lanes import LANES

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
    rows : (n_words,) rows of ``Moves.factors`` of the words at the places, or empty: all 0
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
    rows: np.ndarray


class Moves(NamedTuple):
    """How places follow each other, and the power 1/γ to which tables and places are raised (log-scores are not).

    kind : ALONE, MODEL1 or HMM
    jump : (2 L + 1,) c(d) at [L + d], raised;  log_jump : log c, not raised
    jump_sums : (2 L + 2,) running sums of c, not raised
    factors : (K, 2 R + 1) of jumps from −R to R by the word at the anchor, not raised
    first : (L + 1,) weights of first places, not raised;  first_sums : (L + 2,)
    pull : (L + 1,) exp((i + ½) / reach) of Model 1, or empty: places are alike
    negligible : anchors with a smaller share of the mass are not expanded
    """

    kind: int
    jump: np.ndarray
    log_jump: np.ndarray
    jump_sums: np.ndarray
    factors: np.ndarray
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

# matrices of Work.moves, (W + 1, W) each
MOVE, MOVE_REVERSED = 0, 1
"""c(i − a) r(i − a), raised, at [a, i] and at [i, a]."""

# matrices of Work.near, (2 R + 1, W) each, at [R + d, a]
FACTOR, EXPECTED_NEAR = 0, 1
"""r(d) of the word at the anchor, raised, and expected jumps d from there."""

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
    moves: np.ndarray  # (2, W + 1, W)
    near: np.ndarray  # (2, 2 R + 1, W)
    rows: np.ndarray  # (W,) of factors, by the word at each place


@njit(nogil=True, cache=True)
def whole_vectors(n):
    """n, or the next multiple of LANES."""
    return -(-n // LANES) * LANES


@njit(nogil=True, cache=True)
def new_work(n_obs, n_places, n_near):
    """Scratch space for pairs up to the given size; n_near : 2 R + 1."""
    w = whole_vectors(n_places)
    return Work(
        np.zeros((5, n_obs + 1, w)),
        np.zeros((10, w + 1)),
        np.zeros((3, 2 * w + 1)),
        np.zeros((5, n_obs + 1)),
        np.zeros(w, np.int64),
        np.zeros((2, w + 1, w)),
        np.zeros((2, n_near, w)),
        np.zeros(w, np.int64),
    )


@njit(nogil=True, cache=True)
def work_for(direction, chosen):
    """Scratch space for the longest of the chosen pairs."""
    pairs, n_near, longest_source, longest_target = direction.pairs, direction.moves.factors.shape[1], 1, 1
    for s in chosen:
        longest_source = max(longest_source, pairs.source_offsets[s + 1] - pairs.source_offsets[s])
        longest_target = max(longest_target, pairs.target_offsets[s + 1] - pairs.target_offsets[s])
    if direction.forward:
        return new_work(longest_target, longest_source, n_near)
    return new_work(longest_source, longest_target, n_near)


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
