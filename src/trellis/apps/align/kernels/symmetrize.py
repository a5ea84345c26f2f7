"""From posteriors and best alignments to sets of links: thresholds and the symmetrisation heuristics.

grow-diag starts from the intersection of both directions and adds neighbours (diagonal ones too) that are in the
union and touch a word without a link, sweeping the grid row by row until nothing changes. final adds links of either
direction of which one word (final-and: both words) has none yet, first the forward direction's, then the backward
one's (Koehn et al. 2005).
"""

from __future__ import annotations

import numpy as np
from numba import njit

POSTERIOR = 0
FORWARD = 1
BACKWARD = 2
INTERSECTION = 3
UNION = 4
GROW_DIAG = 5
GROW_DIAG_FINAL = 6
GROW_DIAG_FINAL_AND = 7

_ROW_STEPS = np.array([-1, 0, 1, 0, -1, -1, 1, 1])
_COLUMN_STEPS = np.array([0, -1, 0, 1, -1, 1, -1, 1])


@njit(nogil=True, cache=True)
def symmetrize(method, forward, backward, grid):
    """Fill grid (I, J) of 0 and 1. forward : (J,) source place of each target word, −1: none;  backward : (I,)."""
    n_source, n_target = grid.shape
    grid[:] = 0
    if method in (FORWARD, UNION):
        for j in range(n_target):
            if forward[j] >= 0:
                grid[forward[j], j] = 1
    if method in (BACKWARD, UNION):
        for i in range(n_source):
            if backward[i] >= 0:
                grid[i, backward[i]] = 1
    if method in (FORWARD, BACKWARD, UNION):
        return
    for j in range(n_target):
        if forward[j] >= 0 and backward[forward[j]] == j:
            grid[forward[j], j] = 1
    if method == INTERSECTION:
        return
    row, column = np.zeros(n_source, np.bool_), np.zeros(n_target, np.bool_)
    for i in range(n_source):
        for j in range(n_target):
            if grid[i, j]:
                row[i] = True
                column[j] = True
    grown = True
    while grown:
        grown = False
        for i in range(n_source):
            for j in range(n_target):
                if not grid[i, j]:
                    continue
                for k in range(8):
                    a, b = i + _ROW_STEPS[k], j + _COLUMN_STEPS[k]
                    if a < 0 or b < 0 or a >= n_source or b >= n_target or (row[a] and column[b]):
                        continue
                    if forward[b] == a or backward[a] == b:
                        grid[a, b] = 1
                        row[a] = True
                        column[b] = True
                        grown = True
    if method == GROW_DIAG:
        return
    both = method == GROW_DIAG_FINAL_AND
    for direction in range(2):
        for i in range(n_source):
            for j in range(n_target):
                if (direction == 0 and forward[j] == i) or (direction == 1 and backward[i] == j):
                    free = (not row[i] and not column[j]) if both else (not row[i] or not column[j])
                    if free:
                        grid[i, j] = 1
                        row[i] = True
                        column[j] = True


@njit(nogil=True, cache=True)
def write_links(
    source_offsets, target_offsets, cell_offsets, forward, backward, best_forward, best_backward, method, threshold,
    count, rows, columns, scores,
):  # fmt: skip
    """Links of a run of pairs, pair by pair in row order. score = mean of both posteriors, or that of one direction.

    With a threshold, links of one direction are those whose posterior reaches it; without, those of its best alignment.
    forward, backward : (n_cells,) posteriors;  best_forward, best_backward : places of best alignments, or empty
    count : (n_pairs + 1,) gets the running number of links;  rows, columns, scores : (n_cells,)
    """
    total = 0
    count[0] = 0
    by_posterior = method == POSTERIOR or (method in (FORWARD, BACKWARD) and threshold > 0.0)
    share = 1.0 if method == FORWARD else 0.0 if method == BACKWARD else 0.5
    for s in range(count.shape[0] - 1):
        so, to, base = source_offsets[s], target_offsets[s], cell_offsets[s]
        n_source, n_target = source_offsets[s + 1] - so, target_offsets[s + 1] - to
        if n_source > 0 and n_target > 0:
            grid = np.zeros((n_source, n_target), np.uint8)
            if not by_posterior:
                symmetrize(method, best_forward[to : to + n_target], best_backward[so : so + n_source], grid)
            for i in range(n_source):
                for j in range(n_target):
                    k = base + i * n_target + j
                    score = share * np.float64(forward[k]) + (1.0 - share) * np.float64(backward[k])
                    if score >= threshold and (by_posterior or grid[i, j]):
                        rows[total] = i
                        columns[total] = j
                        scores[total] = score
                        total += 1
        count[s + 1] = total
