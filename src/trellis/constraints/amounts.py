"""Which values count as numbers in expressions: those of Python and numpy, but not True and False."""

from __future__ import annotations

from typing import Any

import numpy as np


def is_number(value: Any) -> bool:
    """Whether it is a real number."""
    return isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)


def is_whole(value: Any) -> bool:
    """Whether it is a whole number."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def is_text(value: Any) -> bool:
    """Whether it is a string that says something."""
    return isinstance(value, str) and bool(value.strip())
