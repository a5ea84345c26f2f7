"""The ``trellis`` command and shared code of its subcommands, which are in the applications."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import NoReturn


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Run one command line, as :func:`trellis.cli.app.main` does."""
    try:
        from trellis.cli import app  # which imports the commands, and they import this package

        app.main(arguments)
    except KeyboardInterrupt:  # while modules are imported, or an error is printed
        sys.stderr.write("interrupted\n")
        sys.exit(130)


__all__ = ["main"]
