"""What is plain of the best alignment of two graphs, before a linear program is asked.

A word pair p is worth  gain[p] + Σ_{edge pairs with p} edge_gain,  where the other end is mapped too. At most this is
less than nothing: no best alignment maps p. At least this is more than nothing and nobody else wants its words: all
best ones do. Each answer makes others plain.
"""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def settle(pair_offsets, edge_offsets, words, ends, gain, edge_gain, state, wanted_one, wanted_two):
    """state : (n_pairs,) 0 where it is open; becomes 1 where a pair is mapped for certain and −1 where it is not.

    wanted_one, wanted_two : (n_words,) zeros, to be counted in
    """
    most, least = gain.copy(), gain.copy()
    for i in range(len(pair_offsets) - 1):
        low, high = pair_offsets[i], pair_offsets[i + 1]
        for p in range(low, high):
            wanted_one[words[p, 0]] += 1
            wanted_two[words[p, 1]] += 1
        moved = high > low
        while moved:
            moved = False
            for p in range(low, high):
                most[p] = gain[p]
                least[p] = gain[p]
            for e in range(edge_offsets[i], edge_offsets[i + 1]):
                for k in range(2):
                    p, other = ends[e, k], ends[e, 1 - k]
                    if state[other] == 1:
                        most[p] += edge_gain[e]
                        least[p] += edge_gain[e]
                    elif state[other] == 0 and p != other:
                        most[p] += max(edge_gain[e], 0.0)
                        least[p] += min(edge_gain[e], 0.0)
                    elif p == other and k == 0:  # an edge from a word to itself
                        most[p] += edge_gain[e]
                        least[p] += edge_gain[e]
            for p in range(low, high):
                if state[p] == 0:
                    alone = wanted_one[words[p, 0]] == 1 and wanted_two[words[p, 1]] == 1
                    if most[p] <= 0.0:
                        state[p] = -1
                        wanted_one[words[p, 0]] -= 1
                        wanted_two[words[p, 1]] -= 1
                        moved = True
                    elif least[p] >= 0.0 and alone:
                        state[p] = 1
                        moved = True
