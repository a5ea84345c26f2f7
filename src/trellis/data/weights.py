"""Weights of instances, as every ``fit(..., sample_weight=...)`` takes them."""

from __future__ import annotations

from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.errors import DataError


def check_sample_weight(weights: Any, n: int) -> FloatArray:
    """(n,): one finite, non-negative number for each of n instances; None: 1 for all; a number: that one for all.

    >>> check_sample_weight(None, 2).tolist(), check_sample_weight([0.5, 2], 2).tolist()
    ([1.0, 1.0], [0.5, 2.0])
    """
    if weights is None:
        return np.ones(n)
    try:
        given = np.asarray(weights)
        checked = np.ascontiguousarray(given, dtype=np.float64) if given.dtype.kind in "biufO" else None
    except (TypeError, ValueError):
        checked = None
    if checked is None:
        raise DataError(f"sample_weight must be a list of numbers, one for each of {n} instances")
    if np.ndim(given) == 0:
        checked = np.full(n, checked.item())
    if checked.shape != (n,):
        found = f"{len(checked)}" if checked.ndim == 1 else f"an array of shape {checked.shape}"
        raise DataError(f"sample_weight must be 1D with one number for each of {n} instances, but got {found}")
    wrong = np.flatnonzero(~((checked >= 0) & np.isfinite(checked)))
    if len(wrong):
        raise DataError(
            f"sample_weight must be finite and not negative, but instance {wrong[0]} has {checked[wrong[0]]:g}"
        )
    return checked
