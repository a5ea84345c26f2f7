"""The sparse table of word pairs that occur in some sentence pair, built by counting sort, and cells looked up in it.

Rows are source words; row e lists the distinct target words that stand opposite e somewhere, rising. Tokens are
counting-sorted by source word; then one source word at a time is worked off, with one stamp a target word to tell
whether the pair has its place already. No pair is hashed: time is one visit a cell.

The places of cells (sentence, i, j) are not kept but found for a few pairs at a time, again word by word: the row of a
word is stamped or, where it is much longer than the word has cells here, searched by halves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

LONG_ROW = 24
"""A row this many times as long as its word has cells is searched: a search costs some forty times a stamp."""


@njit(nogil=True, cache=True)
def sort_tokens(words, of, n_words, starts, order):
    """Counting sort: ``order[starts[w] : starts[w + 1]]`` are the places of words that are w in ``of``, rising."""
    for w in words:
        starts[of[w] + 1] += 1
    for w in range(n_words):
        starts[w + 1] += starts[w]
    fill = starts[:-1].copy()
    for k in range(words.shape[0]):
        w = of[words[k]]
        order[fill[w]] = k
        fill[w] += 1


@njit(nogil=True, cache=True)
def count_row_sizes(starts, order, sentence_of, target, of, target_offsets, within, stamp, sizes, opposite1, opposite2):
    """sizes[e] = number of target words in the row of source word e; ``stamp`` (n_target_words,) starts at −1.

    of : (n_codes,) target words of the text's codes;  within : a :class:`Within`
    opposite1, opposite2 : how many words each word meets, in its row or not
    """
    for e in range(starts.shape[0] - 1):
        allow(e, within)
        size = 0
        last = -1
        for k in range(starts[e], starts[e + 1]):
            s = sentence_of[order[k]]
            if s == last:
                continue
            last = s
            for j in range(target_offsets[s], target_offsets[s + 1]):
                f = of[target[j]]
                if stamp[f] != e:
                    stamp[f] = e
                    opposite1[e] += 1
                    opposite2[f] += 1
                    if allowed(e, f, within):
                        size += 1
        sizes[e] = size


@njit(nogil=True, cache=True)
def fill_rows(starts, order, sentence_of, target, of, target_offsets, within, row_offsets, stamp, row_targets):
    """Write the distinct target words of every row, rising; ``stamp`` starts at −1, as that of ``within``."""
    for e in range(starts.shape[0] - 1):
        allow(e, within)
        free = row_offsets[e]
        last = -1
        for k in range(starts[e], starts[e + 1]):
            s = sentence_of[order[k]]
            if s == last:
                continue
            last = s
            for j in range(target_offsets[s], target_offsets[s + 1]):
                f = of[target[j]]
                if stamp[f] != e:
                    stamp[f] = e
                    if allowed(e, f, within):
                        row_targets[free] = f
                        free += 1
        row_targets[row_offsets[e] : free].sort()


class Within(NamedTuple):
    """A table of coarser words: pairs of words are in a table only if the pair of their coarser words is in this one.

    source, target : (V_e,), (V_f,) coarser words; both empty: there is no such table
    offsets, targets : rows of the coarser table;  stamp : (number of coarser target words,) starts at −1
    """

    source: np.ndarray
    target: np.ndarray
    offsets: np.ndarray
    targets: np.ndarray
    stamp: np.ndarray


@njit(nogil=True, cache=True)
def allow(e, within):
    """Stamp the coarser target words that may stand opposite source word e."""
    if within.source.shape[0]:
        row = within.source[e]
        for k in range(within.offsets[row], within.offsets[row + 1]):
            within.stamp[within.targets[k]] = e


@njit(nogil=True, cache=True)
def allowed(e, f, within):
    """Whether target word f may stand opposite e, for which ``allow`` was called."""
    return within.source.shape[0] == 0 or within.stamp[within.target[f]] == e


@njit(nogil=True, cache=True)
def number_cells(
    source, source_offsets, sentence_of, target, target_offsets, cell_offsets, row_offsets, row_targets, first,
    following, place, done, number, cells, entries,
):  # fmt: skip
    """Number the table's entries that some pairs have, and give each of their cells its entry's number, −1: none.

    first : (V_e,) the first token of each word here, starts at −1;  following : (n_source,) the next one of its word
    place, number : (V_f,) of target words in the row at hand, in the table and here, whatever they start with
    done : (V_f,) the word at hand for which a target word was looked up last, starts at −1
    cells : (n_cells,) and entries : (n_cells,) are written. Returns how many entries there are.
    """
    for t in range(source.shape[0] - 1, -1, -1):
        following[t] = -1
        if source[t] >= 0:
            following[t] = first[source[t]]
            first[source[t]] = t
    n = 0
    for begin in range(source.shape[0]):
        e = source[begin]
        low, high = 0, 0
        if e >= 0:
            if first[e] != begin:
                continue  # done with the first of them
            low, high = row_offsets[e], row_offsets[e + 1]
        width, t = 0, begin
        while t >= 0:
            s = sentence_of[t]
            width += target_offsets[s + 1] - target_offsets[s]
            t = following[t]
        is_stamped = high - low <= LONG_ROW * width
        if is_stamped:
            for p in range(low, high):
                place[row_targets[p]] = p
        t = begin
        while t >= 0:
            s = sentence_of[t]
            start, stop = target_offsets[s], target_offsets[s + 1]
            at = cell_offsets[s] + (t - source_offsets[s]) * (stop - start) - start
            for j in range(start, stop):
                f = target[j]
                if f >= 0 and done[f] != begin:
                    done[f] = begin
                    number[f] = -1
                    p = np.int64(place[f]) if is_stamped else searched(row_targets, low, high, f)
                    # A place of another row, or of none, is not that of f.
                    if low <= p < high and row_targets[p] == f:
                        number[f] = n
                        entries[n] = p
                        n += 1
                cells[at + j] = number[f] if f >= 0 else -1
            t = following[t]
    return n


@njit(nogil=True, cache=True)
def searched(row_targets, low, high, f):
    """The place of f among row_targets[low:high], which rise, or where it would be."""
    while low < high:
        middle = (low + high) // 2
        if row_targets[middle] < f:
            low = middle + 1
        else:
            high = middle
    return low


@njit(nogil=True, cache=True)
def products(cells1, table1, source1, target1, cells2, table2, source2, target2, source_offsets, target_offsets, out):
    """out[k] = the products of what two tables have for cell k, for both directions.

    cells1 : (n_cells,) entries of table1 (n + 1, 2), or below 0: none. Then it has what source1 and target1, (2,
    n_tokens), have: for a pair that is not in the table, and for one that is spelled alike.
    """
    cell = 0
    for s in range(source_offsets.shape[0] - 1):
        for i in range(source_offsets[s], source_offsets[s + 1]):
            e1, e2 = source1[0, i], source2[0, i]
            for j in range(target_offsets[s], target_offsets[s + 1]):
                k, m = cells1[cell], cells2[cell]
                # No branch that nobody can predict: the tables have an entry for cells without one.
                in1, in2 = np.float32(k >= 0), np.float32(m >= 0)
                not1, not2 = np.float32(1.0) - in1, np.float32(1.0) - in2
                a, b = table1[max(k, 0), 0], table1[max(k, 0), 1]
                c, d = table2[max(m, 0), 0], table2[max(m, 0), 1]
                a, b = in1 * a + not1 * e1, in1 * b + not1 * target1[0, j]
                c, d = in2 * c + not2 * e2, in2 * d + not2 * target2[0, j]
                if k < -1:
                    a, b = source1[1, i], target1[1, j]
                if m < -1:
                    c, d = source2[1, i], target2[1, j]
                out[cell, 0] = a * c
                out[cell, 1] = b * d
                cell += 1


@njit(nogil=True, cache=True)
def add_cells(cells, forward, backward, counts):
    """counts[cells[k]] += (forward[k], backward[k]), in the order of the cells; cells < 0 are not in the table."""
    for k in range(cells.shape[0]):
        p = cells[k]
        if p >= 0:
            counts[p, 0] += forward[k]
            counts[p, 1] += backward[k]


@njit(nogil=True, cache=True)
def add_entries(entries, pairs, counts):
    """counts[entries[k]] += pairs[k], for both directions."""
    for k in range(entries.shape[0]):
        counts[entries[k], 0] += pairs[k, 0]
        counts[entries[k], 1] += pairs[k, 1]


@njit(nogil=True, cache=True)
def sentence_numbers(offsets, out):
    """out[token] = number of its sentence."""
    for s in range(offsets.shape[0] - 1):
        for k in range(offsets[s], offsets[s + 1]):
            out[k] = s
