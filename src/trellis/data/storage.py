"""Arrays of a corpus that grow while it is read: in memory and, past a budget, in files that are mapped.

    storage = Storage("4G")
    codes = storage.growing("i")
    codes.extend(...)                       as often as there is something; storage.settle() every now and then
    codes.finished()                        an ordinary array, wherever its bytes are

What uses the array does not know where it is, so the bits are the same. The files have no name (they are unlinked as
soon as they are open, or on systems without that deleted when closed), so nothing is left of them however the process
ends, a kill −9 included, and nobody can change them under it. They lie in ``TMPDIR``, else where the system keeps
temporary files; where that is memory too (a tmpfs), name a folder on a disk.

Mapped pages that were read stay with the process until somebody needs the memory. So that a run's figure says what it
needs, engines let go of them every few shards (:func:`release_mapped`); the system still has them at hand.
"""

from __future__ import annotations

import mmap
import os
import pickle
import re
import tempfile
import threading
import weakref
from array import array
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.on_demand import OnDemand
from trellis.errors import DataError

SHARE = 0.25
"""Of the memory that a run may use, what the corpus may take; models and work need the rest."""
WORKED_OUT = "what is worked out of the text is larger than it may be in memory, and cannot be kept"
AT_ONCE = 4 * 2**20
"""Bytes of an array that are held before they are written, once it is in a file."""
UNBOUNDED = 2**62
T = TypeVar("T")
UNITS = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30, "T": 2**40}

_mapped: weakref.WeakSet[mmap.mmap] = weakref.WeakSet()


def bytes_of(memory: object) -> int:
    """An amount of memory: a number of bytes, or text such as ``500M`` or ``4G``; None: half of what is free.

    >>> bytes_of("1.5G") == 1.5 * 2**30, bytes_of(1000)
    (True, 1000)
    """
    if memory is None:
        return free_memory() // 2
    if isinstance(memory, int) and not isinstance(memory, bool) and memory >= 0:
        return memory
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(?:i?B)?\s*", str(memory), re.IGNORECASE)
    if found is None or isinstance(memory, float | bool):
        raise DataError(f"memory must be a number of bytes, or a number with K, M, G or T such as 4G, not {memory!r}")
    return int(float(found[1]) * UNITS[found[2].upper()])


def free_memory() -> int:
    """Bytes that this process could still get: what the system says is available, or less where a limit is set."""
    free = 4 * 2**30
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            free = next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration, ValueError):
        if hasattr(os, "sysconf") and "SC_AVPHYS_PAGES" in os.sysconf_names:
            free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    limits = []
    for name in ("memory.max", "memory.current"):  # of a container
        try:
            with open(f"/sys/fs/cgroup/{name}", encoding="ascii") as text:
                limits.append(int(text.read()))
        except (OSError, ValueError):
            return free
    return max(0, min(free, limits[0] - limits[1]))


def _folder() -> str:
    return os.environ.get("TMPDIR") or tempfile.gettempdir()


def _temporary() -> Any:
    return tempfile.TemporaryFile(dir=_folder(), prefix="trellis-", buffering=0)


@contextmanager
def _kept_on_disk(what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise DataError(
            f"{what} in the temporary folder {_folder()}: {error.strerror or error}; name another folder in TMPDIR, or "
            "allow more --memory"
        ) from error


class Storage:
    """Where the arrays of one corpus grow.

    memory : what the whole run may use, see :func:`bytes_of`; the corpus is held in memory up to a quarter of it
    """

    def __init__(self, memory: object = None) -> None:
        self.budget = int(SHARE * bytes_of(memory))
        self.arrays: list[Growing] = []
        self.is_on_disk = False

    def growing(self, code: str) -> Growing:
        """A new array; code : of its type, as in ``array.array``."""
        self.arrays.append(Growing(code))
        return self.arrays[-1]

    def settle(self) -> None:
        """See whether the arrays have outgrown the budget; if so they go on in files."""
        if not self.is_on_disk and sum(one.n_bytes for one in self.arrays) > self.budget:
            self.is_on_disk = True
        if self.is_on_disk:
            for one in self.arrays:
                if one.file is None or one.n_bytes >= AT_ONCE:
                    one.write()


class Growing:
    """An array that grows at its end."""

    def __init__(self, code: str) -> None:
        self.held, self.file = array(code), None  # type: tuple[array[Any], Any]
        self.extend, self.append = self.held.extend, self.held.append
        self.n_written = 0

    def __len__(self) -> int:
        """Number of entries so far."""
        return self.n_written + len(self.held)

    @property
    def n_bytes(self) -> int:
        """Bytes held in memory."""
        return len(self.held) * self.held.itemsize

    def write(self) -> None:
        """Write what is held to the file."""
        if not len(self.held):
            return
        with _kept_on_disk("the text is larger than it may be in memory, and cannot be kept"):
            if self.file is None:
                self.file = _temporary()
                weakref.finalize(self, self.file.close)  # also where reading ends with an error
            _write(self.file, self.held)
        self.n_written += len(self.held)
        del self.held[:]

    def finished(self) -> NDArray[Any]:
        """All entries; nothing can be added any more."""
        dtype = np.dtype(self.held.typecode)
        if self.file is None:
            return np.frombuffer(self.held, dtype) if len(self.held) else np.zeros(0, dtype)  # takes no empty ones
        self.write()
        # A private mapping that may be written to (nobody does): kernels know no other arrays.
        found = mmap.mmap(self.file.fileno(), self.n_written * self.held.itemsize, access=mmap.ACCESS_COPY)
        self.file.close()
        _mapped.add(found)
        return np.frombuffer(found, dtype)


def _write(file: Any, content: Any) -> None:
    """All of it: the file may take less at a time."""
    with memoryview(content).cast("B") as left:
        done = 0
        while done < len(left):
            done += file.write(left[done:])


class Spilled(OnDemand[T]):
    """A list of things in a file without a name, each of which is made anew whenever it is asked for.

    >>> some = Spilled({"number": n} for n in range(3))
    >>> len(some), some[1], some[1:]
    (3, {'number': 1}, [{'number': 1}, {'number': 2}])
    """

    def __init__(self, things: Iterable[T]) -> None:
        self.ends, self.lock = [0], threading.Lock()
        with _kept_on_disk(WORKED_OUT):
            self.file = _temporary()
            weakref.finalize(self, self.file.close)
            for thing in things:
                content = pickle.dumps(thing, pickle.HIGHEST_PROTOCOL)
                _write(self.file, content)
                self.ends.append(self.ends[-1] + len(content))
        self.numbers = range(len(self.ends) - 1)

    def make(self, which: int) -> T:
        content = memoryview(bytearray(self.ends[which + 1] - self.ends[which]))
        with self.lock:
            self.file.seek(self.ends[which])
            done = 0
            while done < len(content):
                done += self.file.readinto(content[done:])
        found: T = pickle.loads(content)
        return found


def mapped_zeros(shape: tuple[int, ...], dtype: Any) -> NDArray[Any]:
    """Zeros to work on, in a file without a name that goes with the array; room for all of it is taken at once."""
    kind = np.dtype(dtype)
    size = int(np.prod(shape)) * kind.itemsize
    if not size:
        return np.zeros(shape, kind)
    with _kept_on_disk(WORKED_OUT), _temporary() as file:
        if hasattr(os, "posix_fallocate"):
            os.posix_fallocate(file.fileno(), 0, size)  # a full disk is reported now, not by a signal later
        else:
            file.truncate(size)
        found = mmap.mmap(file.fileno(), size)
    _mapped.add(found)
    return np.frombuffer(found, kind).reshape(shape)


def release_mapped() -> None:
    """Let go of the pages of mapped arrays; who reads them gets them again."""
    for one in list(_mapped):
        if hasattr(mmap, "MADV_DONTNEED"):
            one.madvise(mmap.MADV_DONTNEED)
