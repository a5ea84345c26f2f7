"""BLAS held at one thread while shards run.

Why: the engine brings the cores, and BLAS threads beside it fight for them (two threads of 300 x 300 products on two
cores that others used too: 2.8 s against 0.19 s with BLAS at one). And the bits of a product depend on how many threads
BLAS uses, so without this a result would depend on the machine's number of cores.

The setting of a BLAS is one a process for some and one a thread for others. So a map sets it in the thread that asked
for it and in each of its workers when they start, and the last map to end restores what the first one found. Not
every shard does so for itself: the calls go through ctypes, which hands the interpreter lock around, and 32
empty shards on two threads took 7 ms that way. Held are the libraries that are loaded when a map begins.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_inside = 0
"""Maps under way in all threads."""
_found: list[Any] = []
"""Limiters that remember the settings found, one for each view of the loaded libraries."""
_controller: Any = None
_n_modules = -1


@contextmanager
def blas_at_one_thread() -> Iterator[None]:
    """Hold every loaded BLAS at one thread; may be entered by many threads at once."""
    global _inside
    with _lock:
        _enter()
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _restore()


def hold_this_thread() -> None:
    """Set one thread for a worker of a map that is under way; the worker ends with its map, so nothing is restored."""
    with _lock:
        # A worker that starts when its map was stopped already must not touch what has been restored.
        if _inside > 0:
            _enter()


def _enter() -> None:
    """Set one thread, and remember what was set before if these libraries have not been met yet.

    Looking which libraries are loaded costs 0.2 ms, a limit 5 microseconds; so the look is taken again only when
    modules were imported since (SciPy brings a BLAS of its own, perhaps only later).
    """
    global _controller, _n_modules
    from threadpoolctl import ThreadpoolController

    is_new = _controller is None or _n_modules != len(sys.modules)
    if is_new:
        _controller = ThreadpoolController()
        _n_modules = len(sys.modules)
    _disown(force=True)
    limiter = _controller.limit(limits=1, user_api="blas")
    _disown()
    if is_new or not _found:
        _found.append(limiter)


def _restore() -> None:
    _disown(force=True)
    # A later view also remembers the earlier libraries, but at the one thread that they then had.
    while _found:
        _found.pop().restore_original_limits()
    _disown()


def _disown(*, force: bool = False) -> None:
    """Let any thread set OpenBLAS's threads.

    From its version 3.8 on threadpoolctl lets only the first thread to set a limit change it. Here the thread that
    ends last restores, whichever it is, so that rule is put aside before and after; our lock takes its place.
    """
    from threadpoolctl import OpenBLASController

    clear = getattr(OpenBLASController, "clear_controlling_thread", None)
    if clear is not None:
        clear(force=force)
