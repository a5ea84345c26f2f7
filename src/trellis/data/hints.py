"""Validation of JSON values against the type hints of a constructor or a dataclass."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints, is_typeddict

from trellis.errors import DataError


def check_hints(asks: Callable[..., Any], values: Any, what: str) -> dict[str, Any]:
    """The values by name, where each is of the type that the hints of a function (class, dataclass) give its name.

    A name without a hint is refused.

    >>> check_hints(check_hints, {"what": 3}, "setting")
    Traceback (most recent call last):
        ...
    trellis.errors.DataError: setting 'what' must be str, but is 3
    """
    return check_table(hints_of(asks), values, what)


def check_table(hints: Mapping[str, Any], values: Any, what: str) -> dict[str, Any]:
    """The values by name, where each name has a hint and its value is of that type."""
    if not isinstance(values, dict):
        raise DataError(f"expected a table of {what}s by name, but found {values!r:.60}")
    for name, value in values.items():
        if name not in hints:
            raise DataError(f"{what} {name!r:.60} is not allowed here; allowed are {', '.join(hints) or 'none'}")
        if not fits(value, hints[name]):
            asked = getattr(hints[name], "__name__", hints[name])
            raise DataError(f"{what} {name!r} must be {asked}, but is {value!r:.60}")
    return values


def hints_of(asks: Callable[..., Any]) -> dict[str, Any]:
    """Types by name: of arguments, of a dataclass's fields, of the entries of a class that is a table by name."""
    hints = get_type_hints(asks)
    return {one.name: hints[one.name] for one in fields(asks)} if is_dataclass(asks) else hints


def fits(value: Any, hint: Any) -> bool:
    """Whether a value is of a type, as far as JSON tells types apart: a whole number is a float and 0 a truth value.

    >>> fits([1, 2.5], Sequence[float]), fits([1, "a"], Sequence[float]), fits(None, int | None), fits(True, int)
    (True, False, True, False)
    >>> fits(10**30, int), fits(10**30, float)
    (True, False)
    """
    kind, parts = get_origin(hint) or hint, get_args(hint)
    if kind is Any:
        return True
    if kind in (Union, types.UnionType):
        return any(fits(value, part) for part in parts)
    if kind is int:
        return isinstance(value, int) and not isinstance(value, bool)
    if kind is float:  # larger whole numbers are no float64 to NumPy
        return isinstance(value, float) or (fits(value, int) and abs(value) < 2**63)
    if kind is bool:
        return isinstance(value, bool) or value in (0, 1)
    if kind is Callable:  # a file holds the name of one
        return callable(value) or (fits(value, dict[str, str]) and list(value) == ["function"])
    if is_typeddict(kind):
        hints = hints_of(kind)
        return isinstance(value, dict) and all(
            name in hints and fits(part, hints[name]) for name, part in value.items()
        )
    if issubclass(kind, Mapping):
        return isinstance(value, Mapping) and all(
            fits(name, parts[0]) and fits(part, parts[1]) for name, part in value.items()
        )
    if issubclass(kind, Sequence) and parts:
        return isinstance(value, Sequence) and all(fits(part, parts[0]) for part in value)
    return isinstance(value, kind)
