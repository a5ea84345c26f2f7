"""Learners: unified EM, constraint-driven learning, and related methods.

Public names are imported on first use, so that a command loads only what it needs.
"""

from trellis._lazy import importer, listed

_EXPORTS = listed(__file__)

__all__ = [*_EXPORTS]

__getattr__ = importer(__name__, globals(), _EXPORTS)


def __dir__() -> list[str]:
    return sorted({*globals(), *_EXPORTS})
