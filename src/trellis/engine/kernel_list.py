"""The kernels that each use of the library needs, and the types they are compiled for: what ``kernels.json`` says.

    {"uses": {"align": [41, 7, ...]}, "kernels": [{"name": ..., "types": [...], "seconds": 0.5, "calls": [3, 4]}]}

A use lists the numbers of the kernels that Python calls in it; ``calls`` are those that a kernel calls itself, all of
them earlier in the list; ``seconds`` is what one took without them when the list was made (``make kernels``). A type is

    "int64", "float64[:,::1]"                     a number, an array (C-contiguous: Numba's notation)
    ["int64", "int64"]                            a tuple
    {"trellis...align_work.Direction": [...]}     a named one
    {"readonly": "int64[:]"}, null                an array that must not be written to; None
    {"literal": 0}, {"omitted": 0}                a constant that Numba has seen through; a default
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("kernels.json")


@dataclass(frozen=True)
class Kernel:
    """A kernel for arguments of certain types; ``calls`` are numbers of others."""

    name: str
    types: list[Any]
    seconds: float
    calls: list[int]

    def function(self) -> Any:
        """What Numba made of it; an AttributeError or ImportError if it has moved since the list was made."""
        return _named(self.name)

    def signature(self) -> tuple[Any, ...]:
        return tuple(map(numba_type, self.types))

    def is_compiled(self) -> bool:
        """Whether this process or the cache on disk has it: known without loading it, in a fifth of a millisecond."""
        function, signature = self.function(), self.signature()
        if signature in function.overloads:
            return True
        cache = function._cache
        return cache._index_key(signature, function.targetctx.codegen()) in cache._cache_file._load_index()


@dataclass(frozen=True)
class KernelList:
    """All kernels, and the numbers of those that Python calls in each use."""

    kernels: list[Kernel]
    uses: dict[str, list[int]]

    def missing(self, uses: Iterable[str]) -> list[int]:
        """Kernels that these uses need and nobody has compiled, in the order of the list; those that moved are not."""
        found: dict[int, bool] = {}
        open_ = [number for use in uses for number in self.uses.get(use, ())]
        while open_:
            number = open_.pop()
            if number not in found:
                found[number] = _is_missing(self.kernels[number])
                open_ += self.kernels[number].calls if found[number] else ()
        return sorted(number for number, missing in found.items() if missing)


def _is_missing(kernel: Kernel) -> bool:
    try:
        return not kernel.is_compiled()
    except Exception:  # moved, or a Numba that keeps its cache in another way: compiled when it is called
        return False


@cache
def read_kernels(path: Path = FILE) -> KernelList:
    """The list that comes with the package."""
    content = json.loads(path.read_text(encoding="utf-8"))
    return KernelList([Kernel(**kernel) for kernel in content["kernels"]], content["uses"])


def numba_type(text: Any) -> Any:
    """The type that the list means.

    >>> numba_type(["int64", "float64[:,::1]"])
    Tuple((int64, Array(float64, 2, 'C', False, aligned=True)))
    """
    import numpy as np
    from numba import from_dtype, types

    if isinstance(text, list):
        return types.BaseTuple.from_types(tuple(map(numba_type, text)))
    if isinstance(text, dict):
        ((key, value),) = text.items()
        if key in ("literal", "omitted"):
            return types.literal(value) if key == "literal" else types.Omitted(value)
        if key == "readonly":
            return numba_type(value).copy(readonly=True)
        return types.BaseTuple.from_types(tuple(map(numba_type, value)), _named(key))
    if text is None:
        return types.none
    name, _, slices = text.partition("[")
    kind = from_dtype(np.dtype(name))
    if not slices:
        return kind
    layout = "C" if slices.endswith("::1]") else "F" if slices.startswith("::1") else "A"
    return types.Array(kind, slices.count(",") + 1, layout)


def _named(name: str) -> Any:
    module, _, attribute = name.rpartition(".")
    return getattr(import_module(module), attribute)
