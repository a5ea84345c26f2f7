"""Fingerprints by content: what must be unchanged for a run to be resumed.

Two things have one fingerprint if they have the same values, whatever their addresses: arrays by their bytes, objects
by their fields, functions by their code. So the data, the compiled rows and the settings of a run can be compared
across processes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from types import CodeType, FunctionType
from typing import Any

import numpy as np


def fingerprint(*things: Any) -> str:
    """Sixteen hexadecimal digits.

    >>> fingerprint([1, "a"], np.arange(3)) == fingerprint([1, "a"], np.arange(3))
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    digest = hashlib.sha256()
    _feed(digest, things, set())
    return digest.hexdigest()[:16]


def _feed(digest: Any, thing: Any, above: set[int]) -> None:
    """Add one thing; ``above`` are the objects it was reached through, so that a loop comes to an end."""
    digest.update(f"<{type(thing).__qualname__}>".encode())
    if thing is None or isinstance(thing, str | bytes | int | float | complex | np.generic):
        digest.update(repr(thing).encode())
        return
    if id(thing) in above:
        return
    above = {*above, id(thing)}
    if isinstance(thing, np.ndarray):
        digest.update(f"{thing.dtype.str}{thing.shape}".encode())
        if thing.dtype == object:
            _feed(digest, thing.tolist(), above)
        else:
            digest.update(np.ascontiguousarray(thing).tobytes())
    elif isinstance(thing, CodeType):
        _feed(digest, [thing.co_code, thing.co_names, thing.co_varnames, thing.co_consts], above)
    elif isinstance(thing, FunctionType):
        cells = [cell.cell_contents for cell in thing.__closure__ or ()]
        _feed(digest, [thing.__code__, thing.__defaults__, thing.__kwdefaults__, cells], above)
    elif isinstance(thing, Mapping):
        for key in sorted(thing, key=repr):
            _feed(digest, key, above)
            _feed(digest, thing[key], above)
    elif isinstance(thing, Sequence | set | frozenset):
        for part in sorted(thing, key=repr) if isinstance(thing, set | frozenset) else thing:
            _feed(digest, part, above)
    elif is_dataclass(thing) and not isinstance(thing, type):
        for field in fields(thing):
            _feed(digest, getattr(thing, field.name), above)
    elif hasattr(thing, "indptr") and hasattr(thing, "data"):  # a sparse matrix
        _feed(digest, [thing.shape, thing.indptr, thing.indices, thing.data], above)
    elif hasattr(thing, "get_params"):
        _feed(digest, thing.get_params(deep=False), above)
    elif isinstance(thing, type) or not (hasattr(thing, "__dict__") or hasattr(thing, "__slots__")):
        digest.update(getattr(thing, "__qualname__", repr(thing)).encode())
    else:
        names = getattr(thing, "__slots__", None) or sorted(vars(thing))
        _feed(digest, {name: getattr(thing, name) for name in names if hasattr(thing, name)}, above)
