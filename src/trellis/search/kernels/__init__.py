"""Fast paths of the search, by the kind of structure they know.

A module listed here knows more of a structure than its parts. It has a class ``Search``, made of the rows that do not
factor and kept for many decodings, whose methods take a :class:`trellis.search.progress.SearchProgress` and instances:

    methods : tuple[str, ...]                         which of the following it has
    beam(progress, todo, width)                       beam search of this width
    kbest(progress, k, width) -> outputs, value, bound    k outputs of every instance: see ``ilp.kbest``
    astar(progress, todo, most_nodes) -> capped       A*; the instances that needed to store more prefixes than that

Tests compare each with trying all outputs, and integer programming (:mod:`trellis.search.ilp`) serves where there is
none.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from trellis.engine.kernel_cache import guard

guard()
_MODULES = {"chain": "trellis.search.kernels.chain", "categorical": "trellis.search.kernels.chain"}


def register(kind: str, module: str) -> None:
    """Let the module with this dotted name search structures of this kind."""
    _MODULES[kind] = module


def fast_path(kind: str) -> ModuleType | None:
    """The module that knows structures of this kind, if there is one.

    >>> fast_path("an unheard-of kind") is None
    True
    """
    name = _MODULES.get(kind)
    return None if name is None else import_module(name)


def kinds_with(method: str) -> list[str]:
    """The kinds of structures that a method serves.

    >>> kinds_with("beam")
    ['categorical', 'chain']
    """
    return sorted(kind for kind, module in _MODULES.items() if method in import_module(module).Search.methods)
