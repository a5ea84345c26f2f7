"""Import of an optional library; a missing one is answered with the command that installs it."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from trellis.errors import DataError


def needed(module: str, extra: str) -> Any:
    """The module; extra : of trellis-learn, that brings it."""
    try:
        return import_module(module)
    except ImportError:
        name = module.partition(".")[0]
        raise DataError(f"{name} is not installed: pip install 'trellis-learn[{extra}]'") from None
