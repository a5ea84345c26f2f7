"""BLAS held at one thread inside a shard.

Why: the engine brings the cores, and BLAS threads beside it fight for them (two threads of 300 x 300 products on two
cores: 2.8 s against 0.19 s with BLAS at one). And the bits of a product depend on how many threads
BLAS uses, so without this a result would depend on the machine's number of cores.

The setting of a BLAS is one a process for some and one a thread for others. So every shard sets it in its own
thread, and the last shard to end restores what the first one found.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

_lock = threading.Lock()
_inside = 0
_found: Any = None
_controller: Any = None
_n_modules = -1


@contextmanager
def blas_at_one_thread() -> Iterator[None]:
    """Hold every loaded BLAS at one thread; may be entered by many threads at once."""
    global _inside, _found
    with _lock:
        limiter = _loaded_blas().limit(limits=1, user_api="blas")
        if _inside == 0:
            _found = limiter
        _inside += 1
    try:
        yield
    finally:
        with _lock:
            _inside -= 1
            if _inside == 0:
                _found.restore_original_limits()
                _found = None


def _loaded_blas() -> Any:
    """threadpoolctl's view of the libraries in this process, taken again when modules were imported since.

    Taking it costs 0.2 ms, a limit 5 microseconds; SciPy brings a BLAS of its own, perhaps only later.
    """
    global _controller, _n_modules
    if _controller is None or _n_modules != len(sys.modules):
        from threadpoolctl import ThreadpoolController

        _controller = ThreadpoolController()
        _n_modules = len(sys.modules)
    return _controller
