"""Applications, one folder each: estimator, features, commands and report section of a task.

The library imports none of them. What it needs to find, an application declares in its ``__init__.py``:

    CLASSES    saved class -> module, for :func:`trellis.models.load_model`
    SECTIONS   class -> "module:function" of its report page, for :func:`trellis.report.pages.report`
    READERS    class -> "module:function" that reads the texts of a report, where they are not labelled tokens

and the ``register`` function of its module ``commands`` adds its commands to the program (:mod:`trellis.cli.app`).
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules


@cache
def applications() -> tuple[str, ...]:
    """The names of the folders, in alphabetical order."""
    return tuple(sorted(found.name for found in iter_modules(__path__)))


@cache
def declared(name: str) -> dict[str, str]:
    """The tables of this name of all applications, as one."""
    found: dict[str, str] = {}
    for application in applications():
        found.update(getattr(import_module(f"{__name__}.{application}"), name, {}))
    return found
