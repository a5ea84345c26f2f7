"""What is plain of the best alignment of two graphs, before a linear program is asked.

A word pair p is worth  gain[p] + Σ_{edge pairs with p} edge_gain,  where the other end is mapped too. At most this is
less than nothing: no best alignment maps p. At least this is more than nothing and nobody else wants its words: all
best ones do, as they do where a word that must not be deleted has no other choice. Each answer makes others plain.
"""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def settle(pair_offsets, edge_offsets, words, ends, gain, edge_gain, must_one, must_two, state, wanted_one, wanted_two):
    """state : (n_pairs,) 0 where it is open; becomes 1 where a pair is mapped for certain and −1 where it is not.

    must_one, must_two : (n_words,) bools, words that may not be deleted;  wanted_one, wanted_two : zeros, to count in
    Where no alignment is possible all pairs of an instance stay open.
    """
    most, least = gain.copy(), gain.copy()
    for i in range(len(pair_offsets) - 1):
        low, high = pair_offsets[i], pair_offsets[i + 1]
        for p in range(low, high):
            wanted_one[words[p, 0]] += 1
            wanted_two[words[p, 1]] += 1
        moved, possible = high > low, True
        while moved and possible:
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
                if state[p] != 0:
                    continue
                one, two = words[p, 0], words[p, 1]
                if (must_one[one] and wanted_one[one] == 1) or (must_two[two] and wanted_two[two] == 1):
                    state[p] = 1
                    moved = True
                    for q in range(low, high):
                        if state[q] == 0 and (words[q, 0] == one or words[q, 1] == two):
                            state[q] = -1
                            wanted_one[words[q, 0]] -= 1
                            wanted_two[words[q, 1]] -= 1
                            possible = possible and (wanted_one[words[q, 0]] > 0 or not must_one[words[q, 0]])
                            possible = possible and (wanted_two[words[q, 1]] > 0 or not must_two[words[q, 1]])
                elif most[p] <= 0.0 and not must_one[one] and not must_two[two]:
                    state[p] = -1
                    wanted_one[one] -= 1
                    wanted_two[two] -= 1
                    moved = True
                elif least[p] >= 0.0 and wanted_one[one] == 1 and wanted_two[two] == 1:
                    state[p] = 1
                    moved = True
        if not possible:
            state[low:high] = 0
