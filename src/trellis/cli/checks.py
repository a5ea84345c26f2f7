"""What several commands check before work starts."""

from __future__ import annotations

import os

from trellis.errors import DataError


def check_folder(option: str, path: str) -> None:
    """Refuse a file to be written in a folder that is not there or not ours to write to."""
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise DataError(f"{option} {path}: the folder {folder} does not exist or cannot be written to")
