"""The sparse table of word pairs that occur in some sentence pair, built by counting sort.

Rows are source words; row e lists the distinct target words that stand opposite e somewhere, in order of first
appearance. Every cell (sentence, i, j) holds the place of its pair (e_i, f_j) in the table. Tokens are
counting-sorted by source word; then one source word at a time is worked off, with one stamp a target word to
tell whether the pair has its place already. Nothing is sorted and no pair is hashed: time is one visit a cell.
"""

from __future__ import annotations

from numba import njit


@njit(nogil=True, cache=True)
def sort_tokens(words, n_words, starts, order):
    """Counting sort: ``order[starts[w] : starts[w + 1]]`` are the places of word w, rising. Codes < 0 are left out."""
    for w in words:
        if w >= 0:
            starts[w + 1] += 1
    for w in range(n_words):
        starts[w + 1] += starts[w]
    fill = starts[:-1].copy()
    for k in range(words.shape[0]):
        w = words[k]
        if w >= 0:
            order[fill[w]] = k
            fill[w] += 1


@njit(nogil=True, cache=True)
def count_row_sizes(starts, order, sentence_of, target, target_offsets, stamp, sizes):
    """sizes[e] = number of distinct target words opposite source word e; ``stamp`` (n_target_words,) starts at −1."""
    for e in range(starts.shape[0] - 1):
        size = 0
        last = -1
        for k in range(starts[e], starts[e + 1]):
            s = sentence_of[order[k]]
            if s == last:
                continue
            last = s
            for j in range(target_offsets[s], target_offsets[s + 1]):
                f = target[j]
                if f >= 0 and stamp[f] != e:
                    stamp[f] = e
                    size += 1
        sizes[e] = size


@njit(nogil=True, cache=True)
def fill_rows(
    starts, order, sentence_of, source_offsets, target, target_offsets, cell_offsets, row_offsets,
    stamp, place, row_targets, cells,
):  # fmt: skip
    """Give each pair its place in ``row_targets`` and each cell the place of its pair; ``stamp`` starts at −1."""
    for e in range(starts.shape[0] - 1):
        free = row_offsets[e]
        for k in range(starts[e], starts[e + 1]):
            token = order[k]
            s = sentence_of[token]
            lo, hi = target_offsets[s], target_offsets[s + 1]
            at = cell_offsets[s] + (token - source_offsets[s]) * (hi - lo)
            for j in range(lo, hi):
                f = target[j]
                if stamp[f] != e:
                    stamp[f] = e
                    place[f] = free
                    row_targets[free] = f
                    free += 1
                cells[at + j - lo] = place[f]


@njit(nogil=True, cache=True)
def look_up_cells(
    starts, order, sentence_of, source, source_offsets, target, target_offsets, cell_offsets, row_offsets,
    row_targets, missing, stamp, place, cells,
):  # fmt: skip
    """Places of the cells of new text in an existing table; ``missing`` where the table has no such pair.

    starts, order : the new text's source tokens sorted by word; codes < 0 stand for words the table does not know
    """
    for k in range(source.shape[0]):
        if source[k] < 0:
            s = sentence_of[k]
            width = target_offsets[s + 1] - target_offsets[s]
            at = cell_offsets[s] + (k - source_offsets[s]) * width
            for j in range(width):
                cells[at + j] = missing
    for e in range(starts.shape[0] - 1):
        if starts[e] == starts[e + 1]:
            continue
        for place_in_row in range(row_offsets[e], row_offsets[e + 1]):
            f = row_targets[place_in_row]
            stamp[f] = e
            place[f] = place_in_row
        for k in range(starts[e], starts[e + 1]):
            token = order[k]
            s = sentence_of[token]
            lo, hi = target_offsets[s], target_offsets[s + 1]
            at = cell_offsets[s] + (token - source_offsets[s]) * (hi - lo)
            for j in range(lo, hi):
                f = target[j]
                cells[at + j - lo] = place[f] if f >= 0 and stamp[f] == e else missing


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
def number_within(cells, stamp, entries):
    """Give the table's entries numbers of their own among these cells, by first appearance, in place.

    stamp : (n_table,) starts and ends at −1;  entries : (n_cells,) the entry of each number, written
    """
    n = 0
    for k in range(cells.shape[0]):
        p = cells[k]
        if p < 0:
            continue
        if stamp[p] < 0:
            stamp[p] = n
            entries[n] = p
            n += 1
        cells[k] = stamp[p]
    for k in range(n):
        stamp[entries[k]] = -1
    return n


@njit(nogil=True, cache=True)
def sentence_numbers(offsets, out):
    """out[token] = number of its sentence."""
    for s in range(offsets.shape[0] - 1):
        for k in range(offsets[s], offsets[s + 1]):
            out[k] = s
