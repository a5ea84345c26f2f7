"""Targets of expectations: their distances with derivatives, and constraints that are none.

penalty l2    σ ‖ξ‖₂            ξ = E − b, of an inequality where it is beyond b
penalty l1    σ ‖ξ‖₁
squared       (σ/2) ‖ξ‖₂²
kl            σ Σ_k b_k log(b_k / E_k) − b_k + E_k
hard          λ·ξ + (ρ/2) ‖ξ‖₂² at multipliers λ    (the augmented Lagrangian; Nocedal & Wright 2006, chapter 17)
"""

from __future__ import annotations

import numpy as np

from trellis.constraints.rows import COUPLING, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.ragged import FloatArray
from trellis.errors import ConstraintError

DISTANCES = ("l1", "l2", "squared", "kl")
CORNER = 0.1
"""‖ξ‖₂ is √(‖ξ‖₂² + CORNER²) − CORNER: a target that is met is a corner of the norm, at which L-BFGS would stop; so is
|ξ| of every row in L1."""
STIFF = 20.0
"""ρ of a hard target, over the sum of its squared coefficients, which is about four times its variance at most."""
TINY = 1e-300


def distances(
    rows: Rows, expected: FloatArray, distance: str | None, weights: FloatArray, multiplier: FloatArray
) -> tuple[float, FloatArray]:
    """Σ_g w_g distance_g, and its derivative by the expectation of each row (n_rows,), without w.

    distance : for all groups; None: what the strength of each says;  multiplier : (n_rows,) λ of hard rows
    """
    groups, of = rows.groups, rows.group
    kind, norm, amount = groups.kind[of], groups.norm[of], groups.amount[of]
    weight = np.where(rows.instance == COUPLING, 1.0, weights[rows.instance])
    over, stiff, hard = expected - rows.bound, stiffness(rows), kind == Kind.HARD
    pull = multipliers(rows, expected, multiplier)
    held = (pull**2 - multiplier**2) / (2.0 * stiff)
    over = np.where(rows.equality, over, np.maximum(over, 0.0))
    if distance == "kl":
        target, own = rows.bound, np.maximum(expected, TINY)
        value = np.where(target > 0, target * np.log(np.maximum(target, TINY) / own), 0.0) - target + own
        slope = 1.0 - target / own
    else:
        squared = kind == Kind.SQUARED if distance is None else np.full(len(of), distance == "squared")
        single = norm == Norm.L1 if distance is None else np.full(len(of), distance == "l1")
        squares = over**2
        whole = np.bincount(of, squares, minlength=len(groups))[of]
        size = np.sqrt(np.where(single, squares, whole) + CORNER**2)  # of the row alone, or of its group
        rows_of_size = np.where(single, 1, np.bincount(of, minlength=len(groups))[of])
        value = np.where(squared, 0.5 * squares, (size - CORNER) / rows_of_size)
        slope = np.where(squared, 1.0, 1.0 / size) * over
    return float(weight @ np.where(hard, held, amount * value)), np.where(hard, pull, amount * slope)


def stiffness(rows: Rows) -> FloatArray:
    """(n_rows,): ρ of each row."""
    squares = np.bincount(rows.entry_row, rows.coefficient**2, minlength=len(rows))
    return STIFF / np.maximum(squares, 1e-12)


def multipliers(rows: Rows, expected: FloatArray, multiplier: FloatArray) -> FloatArray:
    """λ + ρ ξ of hard rows, at least 0 of inequalities, and 0 of others."""
    pull = multiplier + stiffness(rows) * (expected - rows.bound)
    pull = np.where(rows.equality, pull, np.maximum(pull, 0.0))
    return np.where(rows.groups.kind[rows.group] == Kind.HARD, pull, 0.0)


def check_targets(rows: Rows, distance: str | None) -> None:
    """Say which constraint is no target of an expectation."""

    def fail(number: int, why: str) -> None:
        raise ConstraintError(f"constraint {rows.names[number]!r} {why}")

    if len(rows.forbidden) or rows.sparsity or rows.implicit or rows.checks:
        raise ConstraintError(
            "GE moves the model's own expectations and cannot make an output impossible, nor count labels per word: "
            "give hard rules a penalty, .penalty(σ, 'squared'), and leave few_labels_per to method 'pr'"
        )
    groups, of_group = rows.groups, np.zeros(len(rows.groups), dtype=np.int64)
    of_group[rows.group] = rows.constraint
    for number in of_group[(groups.kind == Kind.SLACK) | (groups.kind == Kind.LEARNED)].tolist():
        fail(number, "has no price: GE takes hard targets and those with a penalty, .penalty(σ, 'squared')")
    if distance is None:
        for number in of_group[(groups.kind == Kind.PENALTY) & (groups.norm == Norm.LINF)].tolist():
            fail(number, "has a norm whose corners GE cannot follow: use 'l1', 'l2' or 'squared'")
    if distance == "kl":
        for number in rows.constraint[
            (groups.kind[rows.group] != Kind.HARD) & (~rows.equality | (rows.bound < 0))
        ].tolist():
            fail(
                number, "is no target share, and 'kl' is a distance of shares: write shares({label: share}, where=...)"
            )
