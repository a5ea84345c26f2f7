"""A slot all of whose labels are forbidden: which constraints together do it, and what slack would undo it."""

from __future__ import annotations

from itertools import combinations

import numpy as np

from trellis.constraints.context import Context
from trellis.constraints.forbidden import Forbidden
from trellis.data.ragged import BoolArray
from trellis.errors import InfeasibleError

LARGEST_SET_TRIED = 3
"""Up to this size a smallest conflicting set is found by trying all; beyond it, one from which none can be left out."""


def refuse_dead_slots(forbidden: Forbidden, names: tuple[str, ...], context: Context) -> None:
    """Raise if forbidden parts leave a slot without a label."""
    k, n = context.n_labels, context.n_slots
    if not context.parts.has_labels or not len(forbidden):
        return
    every = context.parts.label(np.arange(n, dtype=np.int64)[:, None], np.arange(k, dtype=np.int64))
    dead = np.flatnonzero(forbidden.contains(every).all(axis=1))
    if len(dead) == 0:
        return
    slot = int(dead[0])
    forbids = np.zeros((len(names), k), dtype=np.bool_)
    for number, some in zip(forbidden.by, forbidden.sets, strict=True):
        forbids[number] = some.contains(every[slot])
    guilty = _smallest_cover(forbids)
    instance = int(context.instance[slot])
    number, token = context.batch.first + instance, slot - int(context.batch.offsets[instance])
    column = context.batch.columns.get("word")
    shown = "" if column is None else f" ({column.vocabulary[int(column.codes[slot])]!r})"
    told = [f"{names[c]!r} {_verdict(forbids[c], context)}" for c in guilty]
    more = f" ({len(dead) - 1} more like it)" if len(dead) > 1 else ""
    slack = _least_slack(forbids[guilty])
    raise InfeasibleError(
        f"token {token}{shown} of instance {number} is left without a label{more}: {'; '.join(told)}. "
        f"Drop one of them, or allow each a slack of {slack:.6g} or a penalty",
        instances=(number,),
        constraints=tuple(names[c] for c in guilty),
        slack=slack,
    )


def _verdict(forbidden: BoolArray, context: Context) -> str:
    """What a constraint leaves of the labels, said the shorter way."""
    if forbidden.all():
        return "forbids every label"
    few = 2 * np.count_nonzero(forbidden) <= len(forbidden)
    names = ", ".join(context.labels[int(k)] for k in np.flatnonzero(forbidden if few else ~forbidden))
    return f"forbids {names}" if few else f"allows only {names}"


def _smallest_cover(forbids: BoolArray) -> list[int]:
    """Constraints (rows) that together forbid every label (column)."""
    able = [int(c) for c in np.flatnonzero(forbids.any(axis=1))]
    for size in range(1, LARGEST_SET_TRIED + 1):
        for chosen in combinations(able, size):
            if forbids[list(chosen)].any(axis=0).all():
                return list(chosen)
    kept = list(able)
    for c in able:
        rest = [other for other in kept if other != c]
        if rest and forbids[rest].any(axis=0).all():
            kept = rest
    return kept


def _least_slack(forbids: BoolArray) -> float:
    """min over label distributions x of the largest violation Σ_k forbids[c, k] x_k of the constraints c."""
    from scipy.optimize import linprog

    n, k = forbids.shape
    found = linprog(
        np.append(np.zeros(k), 1.0),
        A_ub=np.hstack([forbids.astype(np.float64), -np.ones((n, 1))]),
        b_ub=np.zeros(n),
        A_eq=np.append(np.ones(k), 0.0)[None, :],
        b_eq=[1.0],
    )
    return float(found.fun)
