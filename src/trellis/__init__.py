"""Trellis learns structured predictors from rules, expected counts, agreements and a handful of labels.

Every name below is loaded on first use, so that ``import trellis`` costs milliseconds and pulls in neither
numba, scipy nor matplotlib:

>>> import trellis
>>> issubclass(trellis.TrellisError, Exception)
True

To export a name, add it to ``_EXPORTS`` and to the ``TYPE_CHECKING`` block (a test holds the two together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis._version import __version__ as __version__

# public name -> module that defines it
_EXPORTS = {
    "TrellisError": "trellis.errors",
}

# subpackages that ``trellis.<name>`` finds without an import statement of its own
_SUBPACKAGES = ("data", "errors")

__all__ = ["__version__", *_EXPORTS]

if TYPE_CHECKING:
    from trellis import data as data
    from trellis import errors as errors
    from trellis.errors import TrellisError as TrellisError
else:
    # Hidden from type checkers, which would otherwise believe that any misspelt name exists.

    def __getattr__(name: str) -> object:
        import sys
        from importlib import import_module

        if name in _EXPORTS:
            value = getattr(import_module(_EXPORTS[name]), name)
            globals()[name] = value
            return value
        if name in _SUBPACKAGES:
            return import_module(f"trellis.{name}")
        # name and obj let Python add its own "Did you mean"
        message = f"module 'trellis' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])

    def __dir__() -> list[str]:
        return sorted({*globals(), *_EXPORTS, *_SUBPACKAGES})
