"""One file for a model or a checkpoint: a zip of ``header.json`` and one ``name.npy`` an array; no pickle anywhere.

    header.json    {"format": "trellis archive", "version": 1, "content": what the caller gave}
    NAME.npy       NumPy's own format, for each array

The same header and arrays give the same bytes: entries have a fixed date and are stored as they are, since packed
bytes depend on the version of zlib. Every entry carries a checksum, so damage is noticed and not loaded.
"""

from __future__ import annotations

import json
import os
import re
import struct
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.files import FilePath, writing_bytes
from trellis.errors import DataError, ModelFileError

FORMAT = "trellis archive"
VERSION = 1
"""Counts up when an older Trellis could not read what a newer one writes."""

_HEADER = "header.json"
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")


@dataclass(frozen=True)
class Archive:
    """header : what ``write_archive`` was given, as JSON keeps it (a tuple comes back as a list);  arrays : by name."""

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]


def write_archive(path: FilePath, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
    """Write the file; it takes the place of ``path`` only when complete.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.trellis")
    ...     write_archive(path, {"class": "HMM"}, {"start": np.array([0.25, 0.75])})
    ...     archive = read_archive(path)
    >>> archive.header, archive.arrays["start"].tolist()
    ({'class': 'HMM'}, [0.25, 0.75])
    """
    try:
        text = json.dumps({"format": FORMAT, "version": VERSION, "content": dict(header)}, indent=1)
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the header of an archive must be JSON: {error}", path=os.fspath(path)) from error
    checked = {name: _check_array(name, array, os.fspath(path)) for name, array in arrays.items()}
    with writing_bytes(path) as raw, zipfile.ZipFile(raw, "w") as archive:
        with _entry(archive, _HEADER) as out:
            out.write(text.encode("ascii"))
        for name, array in checked.items():
            with _entry(archive, name + ".npy") as out:
                np.lib.format.write_array(out, array, allow_pickle=False)


def read_archive(path: FilePath) -> Archive:
    """Read a file of :func:`write_archive`; one that is not ours, damaged or of a newer format is a ModelFileError."""
    shown = os.fspath(path)
    with _opened(shown) as handle:
        if handle.read(4) != b"PK\x03\x04":
            raise ModelFileError(f"{shown}: not a file that Trellis wrote; expected a model or a checkpoint")
        try:
            with zipfile.ZipFile(handle) as archive:
                header = _read_header(archive, shown)
                names = [name for name in archive.namelist() if name.endswith(".npy")]
                arrays = {name.removesuffix(".npy"): _read_array(archive, name) for name in names}
        except (
            zipfile.BadZipFile, zlib.error, struct.error, EOFError, OSError, MemoryError, ValueError, KeyError,
            IndexError, NotImplementedError, RuntimeError, OverflowError, TypeError, SyntaxError,
        ) as error:  # fmt: skip
            if isinstance(error, ModelFileError):
                raise
            raise ModelFileError(
                f"{shown}: damaged ({str(error) or type(error).__name__}); write or copy it again"
            ) from error
    return Archive(header, arrays)


def _opened(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise ModelFileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _check_array(name: str, array: NDArray[Any], path: str) -> NDArray[Any]:
    if not _ARRAY_NAME.fullmatch(name):
        raise DataError(f"an array cannot be named {name!r}: use letters, digits and _ . / -", path=path)
    checked = np.asarray(array)
    if checked.dtype.hasobject:
        raise DataError(
            f"array {name!r} holds Python objects, which would need pickle: put them in the header", path=path
        )
    return checked


def _entry(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3  # the same on every system
    info.external_attr = 0o644 << 16
    return archive.open(info, "w", force_zip64=True)


def _read_header(archive: zipfile.ZipFile, shown: str) -> dict[str, Any]:
    stranger = f"{shown}: not a file that Trellis wrote"
    if _HEADER not in archive.namelist():
        raise ModelFileError(f"{stranger}: a zip without {_HEADER}")
    parsed = json.loads(archive.read(_HEADER))
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise ModelFileError(f"{stranger}: its {_HEADER} does not say {FORMAT!r}")
    version, content = parsed.get("version"), parsed.get("content")
    if not isinstance(version, int) or not isinstance(content, dict):
        raise ModelFileError(f"{shown}: damaged: its {_HEADER} lacks version or content")
    if version > VERSION:
        raise ModelFileError(
            f"{shown}: written in format {version}, but this Trellis reads formats up to {VERSION}; "
            "install a newer Trellis"
        )
    return content


def _read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    with archive.open(name) as entry:
        array: NDArray[Any] = np.lib.format.read_array(entry, allow_pickle=False)
        # Reading to the very end is what makes zipfile compare the checksum.
        if entry.read(1):
            raise zipfile.BadZipFile(f"{name} is longer than its array")
    return array
