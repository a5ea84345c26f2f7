"""Segmentations as a 0/1 program: a unit of flow through states (token, label, length so far).

    a variable for each    way into the first state of a segment: transitions, ``again``, the first token of an instance
                           step from a state to the next: the segment goes on
                           end of a segment
    in each state          what comes in goes on or ends
    at each inner boundary what ends with label a goes into transitions from a, or is again a

The flow is that of a network, so every vertex of the polytope is an output.
"""

from __future__ import annotations

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.structures.polytope import Polytope
from trellis.structures.segment_parts import SegmentParts


def segment_polytope(parts: SegmentParts, score: FloatArray, closed: IntArray) -> Polytope:
    """Without variables that use closed parts, or parts whose score (n_parts,) is −inf."""
    from scipy.sparse import csr_array

    n, k, longest = parts.n_slots, parts.n_labels, parts.longest
    inner, labels = parts.has_boundary(), np.arange(k, dtype=np.int64)
    first, right = np.flatnonzero(~inner), np.flatnonzero(inner)
    place = np.arange(n) - np.repeat(parts.offsets[:-1], np.diff(parts.offsets))

    # way into a segment: slot, label before (−1: none), label
    at = np.concatenate([np.repeat(first, k), np.repeat(right, k * k)])
    before = np.concatenate([np.full(len(first) * k, -1), np.tile(np.repeat(labels, k), len(right))])
    label = np.concatenate([np.tile(labels, len(first)), np.tile(np.tile(labels, k), len(right))])
    # steps (slot, label, length before the slot) and ends (slot, label, length)
    t, own, size = (one.ravel() for one in np.meshgrid(np.arange(n), labels, np.arange(longest), indexing="ij"))
    steps = inner[t] & (size < place[t])
    ends = size <= place[t]

    def state(slot: IntArray, of: IntArray, length: IntArray) -> IntArray:
        return (slot * k + of) * longest + length

    n_ways, n_steps, n_ends = len(at), int(steps.sum()), int(ends.sum())
    variable = np.arange(n_ways + n_steps + n_ends)
    way, step, end = variable[:n_ways], variable[n_ways : n_ways + n_steps], variable[n_ways + n_steps :]
    hub, start = n * k * longest, n * k * longest + n * k
    last = np.ones(n, dtype=np.bool_)
    last[:-1] = ~inner[1:]
    goes_on = ~last[t[ends]]
    has_before = before >= 0
    flow = [  # equation, variable, sign
        (state(at, label, 0 * label), way, 1.0),
        (hub + (at[has_before] - 1) * k + before[has_before], way[has_before], -1.0),
        (start + np.searchsorted(first, at[~has_before]), way[~has_before], 1.0),
        (state(t[steps], own[steps], np.minimum(size[steps] + 1, longest - 1)), step, 1.0),
        (state(t[steps] - 1, own[steps], size[steps]), step, -1.0),
        (state(t[ends], own[ends], size[ends]), end, -1.0),
        (hub + t[ends][goes_on] * k + own[ends][goes_on], end[goes_on], 1.0),
    ]
    other = has_before & (before != label)
    same = has_before & (before == label)
    use = [  # part, variable
        (parts.label(at, label), way),
        (parts.transition(at[other], before[other], label[other]), way[other]),
        (parts.again(at[same], label[same]), way[same]),
        (parts.label(t[steps], own[steps]), step),
        (parts.transition(t[steps], own[steps], own[steps]), step),
        (parts.segment(t[ends], size[ends] + 1, own[ends]), end),
    ]
    part, user = (np.concatenate(side) for side in zip(*use, strict=True))
    shut = ~(score > -np.inf)
    shut[closed] = True
    is_open = np.bincount(user, shut[part], minlength=len(variable)) == 0
    kept = np.flatnonzero(is_open)
    value = np.bincount(user, np.where(shut[part], 0.0, score[part]), minlength=len(variable))[kept].astype(np.float64)
    rows, columns = (np.concatenate([one[i] for one in flow]) for i in (0, 1))
    signs = np.concatenate([np.full(len(row), sign) for row, _, sign in flow])
    bound = np.zeros(start + len(first))
    bound[start:] = 1.0
    matrix = csr_array((signs, (rows, columns)), shape=(len(bound), len(variable)))[:, kept]
    used = csr_array((np.ones(len(part)), (part, user)), shape=(parts.n_parts, len(variable)))[:, kept]
    n_label, again = n * k, parts.again(np.arange(n)[:, None], labels)

    def outputs(x: FloatArray) -> LabelArray:
        """The label of each slot that is used most, and whether a segment begins beside its like."""
        share = used @ x
        y = share[:n_label].reshape(n, k).argmax(axis=1)
        begun = share[again][np.arange(n), y] > 0.5
        return np.asarray(y + k * begun, dtype=np.int32)

    return Polytope(matrix, bound, csr_array(used), value, np.ones(len(kept), np.bool_), outputs)
