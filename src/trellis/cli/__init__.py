"""The ``trellis`` command: one file a command, put together in :mod:`trellis.cli.app`."""

from trellis.cli.app import main

__all__ = ["main"]
