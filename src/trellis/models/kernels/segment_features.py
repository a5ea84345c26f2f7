"""Features of segments of two strings side by side, hashed to places of a weight vector.

    score(step) = Σ_{templates k} w[place(source key k of its one segment, target key k of the other, k)]

Each side has a 64-bit key for every segment and template; a key of 0 says that the template has nothing to say there.
Steps are numbered as in :mod:`trellis.structures.monotone`.
"""

from __future__ import annotations

from numba import njit

from trellis.models.kernels.arc_features import M1, M2, place


@njit(nogil=True, cache=True)
def score_steps(source, target, source_first, target_first, source_keys, target_keys, longest, shift, weights, value):
    """source, target : (n_pairs,) numbers of strings;  *_first : (n_strings + 1,) places of each and one beyond
    *_keys : (n_places, longest + 1, n_templates);  value : (n_parts,) to be filled in."""
    at = 0
    for pair in range(len(source)):
        s, t = source_first[source[pair]], target_first[target[pair]]
        n, m = source_first[source[pair] + 1] - s - 1, target_first[target[pair] + 1] - t - 1
        for i in range(n + 1):
            for j in range(m + 1):
                for a in range(longest + 1):
                    for b in range(longest + 1):
                        if a + b == 0:
                            continue
                        if a <= i and b <= j:
                            total = 0.0
                            for k in range(source_keys.shape[2]):
                                one, two = source_keys[s + i - a, a, k], target_keys[t + j - b, b, k]
                                if one != 0 and two != 0:
                                    total += weights[place(one * M1 + two * M2, k, shift)]
                            value[at] = total
                        at += 1


@njit(nogil=True, cache=True)
def step_places(source_place, source_length, target_place, target_length, source_keys, target_keys, shift, places):
    """places : (n_steps, n_templates) where the features of each step stand, −1 for none, to be filled in."""
    for step in range(len(places)):
        for k in range(places.shape[1]):
            one = source_keys[source_place[step], source_length[step], k]
            two = target_keys[target_place[step], target_length[step], k]
            places[step, k] = place(one * M1 + two * M2, k, shift) if one != 0 and two != 0 else -1
