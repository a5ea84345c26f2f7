"""Opening text and replacing files: the one place where Trellis touches the file system for text.

Reading. A path ending in ``.gz`` is unpacked, ``-`` is standard input. Text is UTF-8, with or without a byte
order mark; a line ends with LF or CRLF, the last one may lack its end. Lines stream: one is held at a time.

Writing. ``writing(path)`` writes to a temporary name beside the target and renames it over the target only when
the body has ended and the bytes are on the disk. After any exception, Ctrl-C and a full disk included, the
temporary file is gone and the old target is as it was. A process that is killed leaves its temporary file behind; the
next one that writes into the folder removes it (:func:`_remove_stale`). A target that is no regular file (a pipe,
``/dev/null``) and standard output cannot be renamed to and are written straight, line by line as they come.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import io
import os
import re
import secrets
import socket
import stat
import sys
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import IO, Any, TextIO

from trellis.errors import DataError

FilePath = str | os.PathLike[str]

STANDARD = "-"
"""The path that means standard input to a reader and standard output to a writer."""

UTF_16 = (b"\xff\xfe", b"\xfe\xff")
ZIP = b"PK\x03\x04"
"""The bytes that such files begin with; models are zip archives."""


def shown(path: FilePath) -> str:
    """What messages call a path that is read; anything but a path is refused."""
    if not isinstance(path, str | os.PathLike):  # a number would be an open file of this process
        raise DataError(f"expected a file name, got {path!r:.80}")
    return "standard input" if path == STANDARD else os.fspath(path)


def reason(error: OSError) -> str:
    """Why a file could not be read or written, in words."""
    return "it is closed" if error.errno == errno.EBADF else str(error.strerror or error)


def lies_in(path: FilePath, folder: FilePath) -> bool:
    """Whether a file is in a folder once links are followed."""
    return Path(os.path.realpath(path)).is_relative_to(os.path.realpath(folder))


def numbered_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """Lines of a text file without their ends, numbered from 1.

    A file that cannot be opened, damaged gzip data and bytes that are not UTF-8 are DataErrors.
    """
    for number, line in lines_or_errors(path):
        if isinstance(line, DataError):
            raise line
        yield number, line


def lines_or_errors(path: FilePath) -> Iterator[tuple[int, str | DataError]]:
    """The same, with the error itself in the place of a line that is not UTF-8: one odd line loses no other."""
    number = 0
    line: str | DataError
    try:
        with _opened(path) as handle:
            for number, raw in enumerate(handle, 1):
                if number == 1 and raw.startswith(ZIP):
                    raise DataError("expected text but found a model or other zip archive", path=shown(path))
                try:
                    line = raw.removesuffix(b"\n").removesuffix(b"\r").decode("utf-8")
                except UnicodeDecodeError as error:
                    found = _not_utf8(path, number, error)
                    if number == 1 and raw[:2] in UTF_16:
                        raise found from None  # no odd line but another encoding
                    yield number, found
                    continue
                if number == 1:
                    line = line.removeprefix("\ufeff")
                    if not line and not raw.endswith(b"\n"):
                        return  # a byte order mark and nothing after it: no line at all
                yield number, line
    except (EOFError, gzip.BadGzipFile, zlib.error) as error:
        raise DataError(
            f"incomplete gzip file ({error}), detected after line {number}; create or download it again",
            path=shown(path),
        ) from error
    except OSError as error:
        raise DataError(f"cannot be read: {reason(error)}", path=shown(path)) from error


def text_of(path: FilePath) -> str:
    """All that a text file holds, a rules file say; lines end with LF, the last one too."""
    return "\n".join(line for _, line in numbered_lines(path)) + "\n"


def whole_lines(path: FilePath) -> Iterator[tuple[int, str]]:
    """The same, of text whose words are written again: a carriage return inside a line could not be, and is refused."""
    for number, line in numbered_lines(path):
        if "\r" in line:
            before = line.partition("\r")[0][-20:]
            raise DataError(
                f"found a carriage return inside the line, after {before!r}: end lines with LF or CRLF",
                path=shown(path),
                line=number,
            )
        yield number, line


@contextmanager
def _opened(path: FilePath) -> Iterator[Iterable[bytes]]:
    shown(path)
    if path == STANDARD:
        if sys.stdin is None:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        yield sys.stdin.buffer
        return
    with _binary(path) as handle:
        if not _is_gzip(path):
            yield handle
        elif not handle.peek(1):
            # GzipFile takes no bytes at all for an empty file, but no gzip program writes that.
            raise EOFError("no bytes in it")
        else:
            # GzipFile's own lines are cut in Python; BufferedReader's in C.
            with gzip.GzipFile(fileobj=handle, mode="rb") as unpacked, io.BufferedReader(unpacked) as lines:
                yield lines


def _binary(path: FilePath) -> io.BufferedReader:
    try:
        return open(path, "rb")
    except ValueError as error:  # a zero byte or a lone surrogate in the name
        raise DataError(f"not a valid file name: {error}", path=repr(path)) from error


def _is_gzip(path: FilePath) -> bool:
    return os.fspath(path).lower().endswith(".gz")


def _not_utf8(path: FilePath, line: int, error: UnicodeDecodeError) -> DataError:
    raw, at = error.object, error.start
    fix = "it starts like UTF-16, convert it" if line == 1 and raw[:2] in UTF_16 else "convert the file"
    return DataError(
        f"expected UTF-8 but byte {at + 1} of the line is 0x{raw[at]:02x} ({error.reason}); {fix} to UTF-8",
        path=shown(path),
        line=line,
    )


@contextmanager
def writing(path: FilePath) -> Iterator[TextIO]:
    """A text file that takes the place of ``path`` when the body ends without an exception.

    ``.gz`` is packed, with no time stamp in it: the same text gives the same bytes.

    >>> import os, tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "words.txt")
    ...     with writing(path) as out:
    ...         _ = out.write("time flies\\n")
    ...         before = os.path.exists(path)
    ...     print(before, list(numbered_lines(path)), os.listdir(folder))
    False [(1, 'time flies')] ['words.txt']
    """
    with writing_bytes(path) as raw:
        packed = None
        if path != STANDARD and _is_gzip(path):
            packed = gzip.GzipFile(filename="", mode="wb", fileobj=raw, mtime=0)
        text = _Text(packed or raw, path, line_buffering=_is_straight(path))
        try:
            yield text
            text.flush()
            if packed is not None:
                packed.close()  # writes gzip's trailer and leaves raw open
        finally:
            # After a failure these would else write once more when they are collected, into whatever is open then.
            with suppress(Exception):
                text.detach()
            if packed is not None:
                with suppress(Exception):
                    packed.close()


@contextmanager
def writing_bytes(path: FilePath) -> Iterator[IO[bytes]]:
    """A binary file that takes the place of ``path`` when the body ends without an exception; nothing is packed."""
    if path == STANDARD:
        with _straight(_Output()) as out:
            yield out
        return
    with _as_data_error(path):
        # A link keeps being a link: what it points at is replaced.
        target = os.path.realpath(path)
        old = _status(target)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise DataError("cannot be written: it is a directory", path=path_text(path))
    if old is not None and not stat.S_ISREG(old.st_mode):
        with _as_data_error(path):
            special = _File(target, os.O_WRONLY, path)
        with _straight(special) as out:
            yield out
        return
    # The name does not grow with the target's, which may be as long as names can be.
    folder = os.path.dirname(target)
    temporary = os.path.join(folder, f".trellis-{_host()}-{os.getpid()}-{secrets.token_hex(8)}.tmp")
    _remove_stale(folder)
    raw: _File | None = None
    try:
        with _as_data_error(path):
            raw = _File(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, path)
            if old is not None:
                os.chmod(temporary, stat.S_IMODE(old.st_mode))
        buffered = io.BufferedWriter(raw)
        yield buffered
        buffered.flush()
        with _as_data_error(path):
            os.fsync(raw.fileno())
            raw.close()
            os.replace(temporary, target)
            _sync_directory(folder)
    except BaseException:
        try:
            if raw is not None:
                raw.close()
        finally:
            with suppress(OSError):
                os.unlink(temporary)
        raise


def check_writable(path: FilePath) -> None:
    """Refuse a file that :func:`writing` could not write, before the work whose result it is to hold."""
    if path == STANDARD:
        return
    with _as_data_error(path):
        target = os.path.realpath(path)
        folder = os.path.dirname(target)
        if os.path.isdir(target):
            raise DataError("cannot be written: it is a directory", path=path_text(path))
        if os.path.exists(target) and not os.path.isfile(target):
            return  # a device or a pipe
        if not os.path.isdir(folder) or not os.access(folder, os.W_OK):
            raise DataError(
                f"cannot be written: the folder {folder} does not exist or is not writable", path=path_text(path)
            )
        longest = os.pathconf(folder, "PC_NAME_MAX") if hasattr(os, "pathconf") else 255
        if len(os.fsencode(os.path.basename(target))) > longest:
            raise DataError(f"cannot be written: its name has more than {longest} bytes", path=path_text(path))


@cache
def _host() -> str:
    """The machine (or container) this process runs on: process numbers of others mean nothing here."""
    return hashlib.sha256(socket.gethostname().encode()).hexdigest()[:8]


def _remove_stale(folder: str) -> None:
    """Remove temporary files that processes of this machine left in the folder when they were killed."""
    if os.name != "posix":  # elsewhere a process cannot be looked for without a signal
        return
    with suppress(OSError):
        for name in os.listdir(folder):
            found = re.fullmatch(r"\.trellis-([0-9a-f]{8})-(\d{1,9})-[0-9a-f]{16}\.tmp", name)
            if found is not None and found[1] == _host() and not _is_alive(int(found[2])):
                with suppress(OSError):
                    os.unlink(os.path.join(folder, name))


def _is_alive(process: int) -> bool:
    with suppress(PermissionError):  # it is somebody else's
        try:
            os.kill(process, 0)
        except ProcessLookupError:
            return False
    return True


@contextmanager
def _straight(raw: io.RawIOBase) -> Iterator[IO[bytes]]:
    """A buffer over a file that is written as it comes; what is left is flushed only when the body succeeds."""
    try:
        buffered = io.BufferedWriter(raw)
        yield buffered
        buffered.flush()
    finally:
        raw.close()


def path_text(path: FilePath) -> str:
    """What messages call a path that is written."""
    return "standard output" if path == STANDARD else os.fspath(path)


@contextmanager
def _as_data_error(path: FilePath) -> Iterator[None]:
    try:
        yield
    except BrokenPipeError:
        # The reader of our output went away (``| head``): the command line ends quietly on this one.
        raise
    except OSError as error:
        raise DataError(f"cannot be written: {reason(error)}", path=path_text(path)) from error
    except DataError:
        raise
    except ValueError as error:
        raise DataError(f"not a valid file name: {error}", path=repr(path)) from error


def _status(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)
    except FileNotFoundError:
        return None


def _is_straight(path: FilePath) -> bool:
    """Whether somebody may be reading what is written while it is."""
    if path == STANDARD:
        return True
    with suppress(OSError, ValueError):
        return not _is_gzip(path) and not stat.S_ISREG(os.stat(path).st_mode)
    return False


def _sync_directory(directory: str) -> None:
    """Make the rename itself last through a power cut, where the system lets a directory be opened."""
    if os.name != "posix":
        return
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


class _File(io.FileIO):
    """A raw file whose failing writes are DataErrors: the exceptions of the body itself stay what they are."""

    def __init__(self, name: str, flags: int, path: FilePath) -> None:
        self._path = path
        # 0o666 and not tempfile's 0o600: the umask decides who may read the result.
        super().__init__(name, "wb", opener=lambda file, _: os.open(file, flags | getattr(os, "O_BINARY", 0), 0o666))

    def write(self, data: Any, /) -> int:
        with _as_data_error(self._path):
            return super().write(data)


class _Output(io.RawIOBase):
    """Standard output as raw bytes; closing it leaves the real one open."""

    def __init__(self) -> None:
        sys.stdout.flush()
        self._target = sys.stdout.buffer

    def writable(self) -> bool:
        return True

    def write(self, data: Any, /) -> int:
        with _as_data_error(STANDARD):
            count = self._target.write(data)
            self._target.flush()
        return count


class _Text(io.TextIOWrapper):
    """UTF-8 with LF ends, whose unencodable strings are DataErrors."""

    def __init__(self, raw: IO[bytes] | gzip.GzipFile, path: FilePath, *, line_buffering: bool) -> None:
        super().__init__(raw, encoding="utf-8", newline="\n", line_buffering=line_buffering)
        self._path = path
        self._empty = True

    def write(self, text: str, /) -> int:
        if self._empty and text:
            self._empty = False
            if text[0] == "\ufeff":
                # Readers drop a byte order mark; text that begins with that character needs one before it.
                super().write("\ufeff")
        try:
            return super().write(text)
        except UnicodeEncodeError as error:
            raise DataError(
                f"cannot be written as UTF-8: lone surrogate {error.object[error.start]!r} in {text[:40]!r}",
                path=path_text(self._path),
            ) from None
