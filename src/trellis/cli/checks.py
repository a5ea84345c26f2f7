"""What several commands check before work starts."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from itertools import combinations

from trellis.errors import DataError

Paths = Mapping[str, str | Iterable[str] | None]
"""Option, or name of an argument -> the file or files it names; None: it was not given."""


def check_files(inputs: Paths, outputs: Paths) -> None:
    """Refuse outputs that would overwrite an input or each other, and folders that are not there or not ours."""
    read, written = _listed(inputs), _listed(outputs)
    for option, path in written:
        if path != "-":
            check_folder(option, path)
    for (one, path), (other, target) in combinations(written, 2):
        if path == target == "-" or (path != "-" and target != "-" and _is_same(path, target)):
            raise DataError(f"{one} and {other} both write to {path}: name two files")
    for option, path in written:
        for other, source in read:
            if path != "-" and source != "-" and _is_same(path, source):
                raise DataError(f"{option} {path} would overwrite {other} {source}: choose another name")


def check_folder(option: str, path: str) -> None:
    """Refuse a file to be written in a folder that is not there or not ours to write to."""
    if os.path.exists(path) and not os.path.isfile(path):
        return  # a device or a pipe is written as it is, whoever's the folder
    folder = os.path.dirname(os.path.realpath(path))
    if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
        raise DataError(f"{option} {path}: the folder {folder} does not exist or cannot be written to")


def _listed(paths: Paths) -> list[tuple[str, str]]:
    given = [(option, [path] if isinstance(path, str) else path or ()) for option, path in paths.items()]
    return [(option, path) for option, several in given for path in several]


def _is_same(one: str, other: str) -> bool:
    """Whether two names are one file, by whatever links; a device (/dev/null) may be written to by several options."""
    if os.path.exists(one) and os.path.exists(other):
        return os.path.samefile(one, other) and os.path.isfile(one)
    return os.path.realpath(one) == os.path.realpath(other)
