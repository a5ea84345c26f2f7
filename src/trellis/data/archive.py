"""One file for a model or a checkpoint: a zip of ``header.json`` and one ``name.npy`` per array; no pickle anywhere.

    header.json    {"format": "trellis archive", "version": 2, "content": what the caller gave}
    NAME.npy       NumPy's own format, for each array: truth values, whole and floating numbers
    digest         SHA-256 of the header and of every array with its name, type and shape

The same header and arrays give the same bytes: entries have a fixed date and are stored as they are, since packed
bytes depend on the version of zlib. Files may be untrusted: a file is read only if it has the form that the writer
produces, no entry may claim to be larger than the file, and no other file is opened. The digest detects damage and
manual edits, not forgery. The contents of arrays are checked by the models.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.files import FilePath, writing_bytes
from trellis.errors import DataError, ModelFileError, TrellisError

FORMAT = "trellis archive"
VERSION = 2
"""Counts up when an older Trellis could not read what a newer one writes."""

LARGEST_STREAM = 4 << 30
"""Bytes that are read from a pipe, which are held in memory."""
_BEGIN = b"PK\x03\x04"
_HEADER, _DIGEST, _ARRAY = "header.json", "digest", ".npy"
_ARRAY_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_./-]*")
_KINDS = "biuf"


@dataclass(frozen=True)
class Archive:
    """header : what ``write_archive`` was given, as JSON keeps it (a tuple comes back as a list);  arrays : by name.

    n_bytes : size of the file
    """

    header: dict[str, Any]
    arrays: dict[str, NDArray[Any]]
    n_bytes: int = 0


@contextmanager
def reading(path: FilePath) -> Iterator[None]:
    """Whatever the content of a file makes go wrong is a ModelFileError that names the file."""
    try:
        yield
    except TrellisError as error:
        raise ModelFileError(f"{path}: damaged or written by another version of Trellis: {error}") from error
    except (ArithmeticError, AttributeError, LookupError, MemoryError, RecursionError, TypeError, ValueError) as error:
        raise ModelFileError(f"{path}: damaged or written by another version of Trellis ({error!r})") from error


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
        text = json.dumps({"format": FORMAT, "version": VERSION, "content": dict(header)}, indent=1).encode("ascii")
    except (TypeError, ValueError, RecursionError) as error:
        raise DataError(f"the header of an archive must be JSON: {error}", path=os.fspath(path)) from error
    checked = {name: _check_array(name, array, os.fspath(path)) for name, array in arrays.items()}
    with writing_bytes(path) as raw, zipfile.ZipFile(raw, "w") as archive:
        with _entry(archive, _HEADER) as out:
            out.write(text)
        for name, array in checked.items():
            with _entry(archive, name + _ARRAY) as out:
                np.lib.format.write_array(out, array, allow_pickle=False)
        with _entry(archive, _DIGEST) as out:
            out.write(_digest(text, checked))


def read_archive(path: FilePath) -> Archive:
    """Read a file of :func:`write_archive`; one that is not ours, damaged or of a newer format is a ModelFileError."""
    if not isinstance(path, str | os.PathLike):
        raise DataError(f"expected a file name but got {path!r}")
    shown = os.fspath(path)
    with _opened(shown) as handle:
        begin = handle.read(len(_BEGIN))
        if begin != _BEGIN:
            raise ModelFileError(f"{shown}: not a file that Trellis wrote; expected a model or a checkpoint")
        try:
            content = handle if handle.seekable() else _whole(begin, handle)
            size = content.seek(0, os.SEEK_END)
            with zipfile.ZipFile(content) as archive:
                _check_entries(archive, size)
                text = archive.read(_HEADER)
                header = _read_header(text)
                names = [info for info in archive.infolist() if info.filename.endswith(_ARRAY)]
                arrays = {info.filename.removesuffix(_ARRAY): _read_array(archive, info) for info in names}
                if archive.read(_DIGEST) != _digest(text, arrays):
                    raise ModelFileError("damaged: its parts do not belong together; copy it again")
        except ModelFileError as error:
            raise ModelFileError(f"{shown}: {error}") from None
        except Exception as error:  # whatever zipfile, json and NumPy raise on such bytes
            reason = str(error) or type(error).__name__
            raise ModelFileError(f"{shown}: damaged ({reason}); write or copy it again") from error
    return Archive(header, arrays, size)


def _whole(begin: bytes, stream: IO[bytes]) -> IO[bytes]:
    """What a pipe gives, in memory: the list of entries stands at the end of a zip."""
    found = io.BytesIO(begin)
    size = found.seek(0, os.SEEK_END)
    while block := stream.read(1 << 20):
        size += found.write(block)
        if size > LARGEST_STREAM:
            raise ModelFileError(f"more than {LARGEST_STREAM >> 30} GiB from a pipe: write it to a file first")
    return found


def _opened(path: str) -> IO[bytes]:
    try:
        return open(path, "rb")
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise ModelFileError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from error


def _check_array(name: str, array: NDArray[Any], path: str) -> NDArray[Any]:
    if not _ARRAY_NAME.fullmatch(name):
        raise DataError(f"an array cannot be named {name!r}: use letters, digits and _ . / -", path=path)
    checked = np.asarray(array)
    if checked.dtype.kind not in _KINDS:
        raise DataError(
            f"array {name!r} is of type {checked.dtype}, but a file holds numbers and truth values: "
            "put other things in the header",
            path=path,
        )
    return checked


def _entry(archive: zipfile.ZipFile, name: str) -> IO[bytes]:
    info = zipfile.ZipInfo(name, date_time=(1980, 1, 1, 0, 0, 0))
    info.create_system = 3  # the same on every system
    info.external_attr = 0o644 << 16
    return archive.open(info, "w", force_zip64=True)


def _digest(header: bytes, arrays: Mapping[str, NDArray[Any]]) -> bytes:
    found = hashlib.sha256(header)
    for name, array in arrays.items():
        found.update(f"{name} {array.dtype.str} {array.shape}".encode())
        found.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return found.hexdigest().encode()


def _check_entries(archive: zipfile.ZipFile, size: int) -> None:
    """Refuse what the writer never makes, and claims that go beyond the file's own size, before anything is read."""
    names = archive.namelist()
    if _HEADER not in names:
        raise ModelFileError(f"not a file that Trellis wrote: a zip without {_HEADER}")
    for info in archive.infolist():
        if info.compress_type != zipfile.ZIP_STORED or info.flag_bits & 1:
            raise ModelFileError(f"not written by Trellis: {info.filename!r} in it is compressed or encrypted")
        if info.filename not in (_HEADER, _DIGEST) and not info.filename.endswith(_ARRAY):
            raise ModelFileError(f"not written by Trellis: it contains {info.filename!r}")
    if len(set(names)) != len(names) or sum(info.file_size for info in archive.infolist()) > size:
        raise ModelFileError("damaged: it declares an entry twice, or more data than the file has")


def _read_header(text: bytes) -> dict[str, Any]:
    parsed = json.loads(text)
    if not isinstance(parsed, dict) or parsed.get("format") != FORMAT:
        raise ModelFileError(f"not a file that Trellis wrote: its {_HEADER} does not say {FORMAT!r}")
    if set(parsed) != {"format", "version", "content"}:
        raise ModelFileError(f"damaged: its {_HEADER} holds {', '.join(sorted(parsed))}")
    version, content = parsed.get("version"), parsed.get("content")
    if not isinstance(version, int) or not isinstance(content, dict):
        raise ModelFileError(f"damaged: its {_HEADER} lacks version or content")
    if version != VERSION:
        what = "install a newer Trellis" if version > VERSION else "train the model anew with this one"
        raise ModelFileError(f"written in format {version}, but this Trellis reads format {VERSION}: {what}")
    return content


def _read_array(archive: zipfile.ZipFile, info: zipfile.ZipInfo) -> NDArray[Any]:
    with archive.open(info) as entry:
        version = np.lib.format.read_magic(entry)
        shape, _, dtype = {(1, 0): _header_1, (2, 0): _header_2}[version](entry)
        claimed = entry.tell() + dtype.itemsize * math.prod(shape)
        if dtype.kind not in _KINDS or min(shape, default=0) < 0 or claimed != info.file_size:
            raise ModelFileError(f"damaged: {info.filename!r} claims to hold {dtype} of shape {shape}, and does not")
    with archive.open(info) as entry:
        array: NDArray[Any] = np.lib.format.read_array(entry, allow_pickle=False)
        entry.read(1)  # to the very end: only there does zipfile compare the checksum
    return array


_header_1, _header_2 = np.lib.format.read_array_header_1_0, np.lib.format.read_array_header_2_0
