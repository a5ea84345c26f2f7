"""One line on a terminal when kernels are about to be compiled: it happens once and takes seconds."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

_told = False


def is_compiled(kernel: Any) -> bool:
    """Whether the on-disk cache holds a compiled form of this kernel that is not older than its source."""
    function = kernel.py_func
    source = Path(function.__code__.co_filename)
    cached = list(Path(kernel.stats.cache_path).glob(f"{source.stem}.{function.__qualname__}-*.nbi"))
    return any(index.stat().st_mtime >= source.stat().st_mtime for index in cached)


def tell_if_compiling(kernel: Any) -> None:
    """Say once a process, on a terminal only, that a kernel has to be compiled first."""
    global _told
    if _told:
        return
    _told = True
    if sys.stderr.isatty() and not is_compiled(kernel):
        sys.stderr.write("Compiling numerical kernels: this happens once and takes some seconds.\n")
        sys.stderr.flush()
