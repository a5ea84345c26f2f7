"""Trellis learns structured predictors from rules, expected counts, agreements and a handful of labels.

The public names are those of ``__init__.pyi``. Each is loaded on first use, so that ``import trellis`` costs
milliseconds and pulls in neither numba, scipy nor matplotlib:

>>> import trellis
>>> issubclass(trellis.TrellisError, Exception)
True
"""

from __future__ import annotations

from trellis._lazy import importer, listed
from trellis._version import __version__ as __version__

_LISTED = listed(__file__)
_EXPORTS = {name: module for name, module in _LISTED.items() if module != "trellis"}
_SUBPACKAGES = tuple(name for name, module in _LISTED.items() if module == "trellis")

__all__ = ["__version__", *_EXPORTS]

__getattr__ = importer(__name__, globals(), _LISTED)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_SUBPACKAGES})
