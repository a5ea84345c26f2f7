"""Checks of arguments: lists of instances, of labels, of weights; pairs, whole numbers.

A wrong argument is a :class:`~trellis.errors.DataError` that says what was expected and what was found.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence, Set
from numbers import Integral, Real
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray
from trellis.errors import DataError

SIDES = (("source", "target"), ("left", "right"))
NOT_A_LABEL = "NaN is no label: write None where a label is not known"


def is_list(item: Any) -> bool:
    """Whether something is a list of tokens, labels or numbers: a sequence that is not text, or a 1-D array.

    >>> [is_list(one) for one in (["a"], ("a",), "a", np.array(["a"]), np.array("a"), {"a"})]
    [True, True, False, True, False, False]
    """
    if isinstance(item, np.ndarray):
        return item.ndim == 1
    return isinstance(item, Sequence) and not isinstance(item, str | bytes | bytearray)


def listed(items: Any) -> Any:
    """Rows of a table of pandas, polars or Arrow as dictionaries, a column as a list; other things as they are."""
    library = type(items).__module__.partition(".")[0]
    if library == "pyarrow" and hasattr(items, "to_pylist"):
        return items.to_pylist()
    if library == "polars":
        frame = items.collect() if hasattr(items, "collect") else items
        return frame.to_dicts() if hasattr(frame, "to_dicts") else frame.to_list()
    if library == "pandas" and hasattr(items, "tolist"):
        return [_plain(one) for one in items.tolist()]
    if library == "pandas" and hasattr(items, "to_dict"):
        return [{name: _plain(cell) for name, cell in row.items()} for row in items.to_dict("records")]
    return items


def _plain(cell: Any) -> Any:
    """A cell of pandas with None where it is missing, and lists for arrays."""
    if isinstance(cell, np.ndarray):
        return [_plain(one) for one in cell.tolist()]
    return None if (isinstance(cell, float) and cell != cell) or type(cell).__name__ == "NAType" else cell


def sides_of(pair: Any) -> tuple[Any, ...]:
    """Both sides of a pair: a sequence of two, or a row of a table with "source" and "target", or "left" and "right".

    Anything else has no sides, ().

    >>> sides_of(["a", "b"]), sides_of({"left": "a", "right": "b", "match": True}), sides_of("ab")
    (('a', 'b'), ('a', 'b'), ())
    """
    if isinstance(pair, Mapping):
        return next((tuple(map(pair.get, names)) for names in SIDES if set(names) <= pair.keys()), ())
    return tuple(pair) if is_list(pair) else ()


def check_list(items: Any, what: str) -> Iterable[Any]:
    """Return an iterable of instances as it is, or the rows of a table; a single instance, a mapping, a set or a
    number is refused.

    what : what it is a list of, for the message.
    """
    items = listed(items)
    single = isinstance(items, str | bytes | bytearray | Mapping | Set) or not isinstance(items, Iterable)
    if isinstance(items, str) and "\0" not in items and os.path.isfile(items):
        raise DataError(f"expected a list of {what}, got the name of a file: read {items!r} first")
    if single or (isinstance(items, np.ndarray) and items.ndim == 0):
        raise DataError(f"expected a list of {what}, got {type(items).__name__}: put it in brackets, [...]")
    found: Iterable[Any] = items
    return found


def check_names(names: Any, what: str) -> list[str]:
    """Return a list of strings; ``what`` is the argument, for the message."""
    if not isinstance(names, Iterable) or isinstance(names, str | bytes | Mapping | np.ndarray):
        raise DataError(f"{what} must be a list of names, got {names!r:.80}")
    given = list(names)
    for name in given:
        if not isinstance(name, str):
            raise DataError(f"{what} must be a list of names, but has {name!r:.80} in it")
    return given


def check_label_lists(y: Any) -> list[Sequence[str | None] | None] | None:
    """Labels of sequences: for each instance a list of strings, None where a label or all of them are unknown.

    >>> check_label_lists(np.array([["N", "V"], ["N", "N"]]))
    [['N', 'V'], ['N', 'N']]
    """
    if y is None:
        return None
    try:
        given = check_list(y, "label lists")
    except DataError:
        raise DataError(
            f"labels must be a list with one list for each sentence, but y is a {type(y).__name__}"
        ) from None
    made: list[Sequence[str | None] | None] = []
    for number, own in enumerate(given):
        if own is not None and not is_list(own):
            raise DataError(
                f"the labels of sentence {number} are {own!r:.80}: expected a list of labels, or None for unknown ones"
            )
        labels = own.tolist() if isinstance(own, np.ndarray) else own
        for label in labels if not set(map(type, labels or ())) <= {str, type(None)} else ():
            if isinstance(label, Real) and np.isnan(float(label)):
                raise DataError(NOT_A_LABEL)
            if not isinstance(label, str | None):
                raise DataError(f"labels must be strings, or None where unknown: sentence {number} has {label!r:.80}")
        made.append(labels)
    return made


def check_dev(dev: Any) -> None:
    """Refuse development data that is not None or a pair (X, y)."""
    if dev is not None and not (isinstance(dev, tuple) and len(dev) == 2):
        raise DataError("dev must be a pair (X, y) of instances and their labels")


def check_flag(name: str, value: Any) -> bool:
    """Return a truth value; ``name`` is the argument, for the message."""
    if not isinstance(value, bool | np.bool_):
        raise DataError(f"{name} must be True or False, got {value!r:.80}")
    return bool(value)


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, Python's or NumPy's, and not a truth value."""
    return isinstance(value, Integral) and not isinstance(value, bool)


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
