"""Arrays that the alignment kernels share: parameters of a direction, and scratch space for one sentence pair."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

MODEL1 = 0
HMM = 1


NO_PULL = np.zeros(0)


class Direction(NamedTuple):
    """How places follow each other in one direction.

    jump, jump_reversed : (2 L + 1,) c(d) and c(−d) at [L + d], to the power 1/γ;  L longer than any sentence
    jump_sums : (2 L + 2,) Σ_{l<k} of the unpowered jumps
    first : (L + 1,) unnormalised weights of the first place;  first_sums : (L + 2,)
    pull : (L + 1,) exp((i + ½) / reach) of Model 1 (``align_model1.favour_diagonal``), or empty: places are alike
    """

    kind: int
    jump: np.ndarray
    jump_reversed: np.ndarray
    jump_sums: np.ndarray
    first: np.ndarray
    first_sums: np.ndarray
    p_null: float
    pull: np.ndarray = NO_PULL


class Work(NamedTuple):
    """Scratch space for one direction of pairs with up to J observed and I generating words."""

    emission: np.ndarray  # (J, I) t(f_t | e_i)
    null_emission: np.ndarray  # (J,) p₀ t(f_t | null)
    tilted: np.ndarray  # (J, I) emission times the exponentials of the dual variables
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
