"""Numbers in expressions: which values count as such (those of Python and numpy, but not True and False); as text, and
lists as text."""

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


def number(value: float) -> str:
    """A number in as few digits as tell it from all others.

    >>> number(2.0), number(0.1), number(1 / 3)
    ('2', '0.1', '0.3333333333333333')
    """
    short = f"{value:g}"
    return short if float(short) == value else repr(float(value))


def any_of(items: list[str]) -> str:
    """ "a", "a or b", "a, b or c".

    >>> any_of(["a", "b", "c"])
    'a, b or c'
    """
    if not items:
        return "none at all"
    return items[0] if len(items) == 1 else ", ".join(items[:-1]) + " or " + items[-1]
