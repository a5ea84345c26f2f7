"""Freed memory kept for the next shard, where the C library can be told so.

Why: a shard's posteriors are a few megabytes, which glibc by default takes from the kernel and gives back every time.
The pages then arrive one fault at a time, and threads wait for each other in the kernel. Measured on two cores, a
round of EM with 45 labels: 30 ms on one thread and 21 ms on two; with freed memory kept, 27 ms and 15 ms.

The price is bounded: at most KEPT bytes stay with the process after they are freed. ``TRELLIS_KEEP_MEMORY=0`` in the
environment leaves the C library alone.
"""

from __future__ import annotations

import ctypes
import os
import sys
from contextlib import suppress

LARGEST_ON_HEAP = 64 * 2**20
KEPT = 128 * 2**20
_M_TRIM_THRESHOLD, _M_MMAP_THRESHOLD = -1, -3
_asked = False


def keep_freed_memory() -> None:
    """Ask glibc, once a process; elsewhere nothing happens."""
    global _asked
    if _asked:
        return
    _asked = True
    if not sys.platform.startswith("linux") or os.environ.get("TRELLIS_KEEP_MEMORY") == "0":
        return
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return  # another C library than glibc
    mallopt(_M_MMAP_THRESHOLD, LARGEST_ON_HEAP)
    mallopt(_M_TRIM_THRESHOLD, KEPT)


def give_back_memory() -> None:
    """Return to the system what is free after large arrays went, and would else lie between those that stayed."""
    if sys.platform.startswith("linux"):
        with suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)
