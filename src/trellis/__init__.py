"""Trellis learns structured predictors from rules, expected counts, agreements and a handful of labels.

The public names are those of ``__init__.pyi``. Each is loaded on first use, so that ``import trellis`` costs
milliseconds and pulls in neither numba, scipy nor matplotlib:

>>> import trellis
>>> issubclass(trellis.TrellisError, Exception)
True
"""

from __future__ import annotations

from importlib import import_module
from pathlib import Path

from trellis._version import __version__ as __version__


def _listed() -> dict[str, str]:
    """Public name -> module that defines it; of subpackages this one."""
    lines = Path(__file__).with_suffix(".pyi").read_text(encoding="utf-8").splitlines()
    imports = [line.split() for line in lines if line.startswith("from ")]
    return {name.rstrip(","): words[1] for words in imports for name in words[5::3]}


_EXPORTS = {name: module for name, module in _listed().items() if module != "trellis"}
_SUBPACKAGES = tuple(name for name, module in _listed().items() if module == "trellis")

__all__ = ["__version__", *_EXPORTS]


def __getattr__(name: str) -> object:
    if name in _EXPORTS:
        value = getattr(import_module(_EXPORTS[name]), name)
        globals()[name] = value
        return value
    if name in _SUBPACKAGES:
        return import_module(f"trellis.{name}")
    import sys

    # name and obj let Python add its own "Did you mean"
    message = f"module 'trellis' has no attribute {name!r}"
    raise AttributeError(message, name=name, obj=sys.modules[__name__])


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS, *_SUBPACKAGES})
