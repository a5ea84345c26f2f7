"""Numba's cache of compiled kernels, guarded: a broken cache costs time but never stops a run.

A file that was cut short (by a full disk, a copy that was stopped) is dropped, and the kernel compiled again. A kernel
that cannot be kept is compiled in every run, with one warning that says why. On a terminal a line says that kernels are
compiled. Other packages' kernels are not touched.

Numba imports ``scipy.linalg`` (17 MB, half a second) to see whether kernels can use BLAS. None of ours does, so it is
only looked for here; kernels of others that use it import it then.
"""

from __future__ import annotations

import os
import sys
import warnings
from contextlib import suppress
from importlib.util import find_spec
from typing import Any


def guard() -> None:
    """From now on kernels of ours have a guarded cache. Every package of kernels calls this before it defines one."""
    global _is_on
    if _is_on:
        return
    _is_on = True
    _postpone_blas()
    try:
        from numba.core.caching import FunctionCache, NullCache
        from numba.core.dispatcher import Dispatcher
    except ImportError:  # a numba that keeps these elsewhere has its own ways
        return

    class GuardedCache(FunctionCache):  # type: ignore[misc]  # numba's classes have no types
        """Whatever goes wrong on the disk is the same as an empty cache."""

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            found = None
            try:
                found = super().load_overload(sig, target_context)
            except Exception:  # a cut pickle raises nearly anything
                with suppress(OSError):
                    os.unlink(self._cache_file._index_path)
            if found is None:
                _announce()
            return found

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except OSError as error:
                _warn(f"{self.cache_path}: {error.strerror or error}")

    class NoCache(NullCache):  # type: ignore[misc]
        """Where no folder at all can be written to."""

        @property
        def cache_path(self) -> str:
            return ""

    dispatchers: Any = Dispatcher
    numbas_own = dispatchers.enable_caching

    def enable_caching(dispatcher: Any) -> None:
        if not dispatcher.py_func.__module__.startswith("trellis."):
            numbas_own(dispatcher)
            return
        dispatcher.targetoptions["no_cfunc_wrapper"] = True  # a way in from C that nobody takes: time to compile
        try:
            dispatcher._cache = GuardedCache(dispatcher.py_func)
        except (OSError, RuntimeError) as error:
            dispatcher._cache = NoCache()
            _warn(str(error))

    dispatchers.enable_caching = enable_caching


_is_on = _announced = _warned = False


def _postpone_blas() -> None:
    """Answer Numba's first question for BLAS, which it asks before any kernel, without importing it."""
    if "numba.np.arraymath" in sys.modules:
        return
    try:
        from numba.np import linalg
    except ImportError:
        return
    numbas_own = getattr(linalg, "ensure_blas", None)

    def look_for_blas() -> None:
        linalg.ensure_blas = numbas_own
        if find_spec("scipy") is None:
            raise ImportError("scipy 0.16+ is required for linear algebra")

    if numbas_own is not None:
        linalg.ensure_blas = look_for_blas


def _announce() -> None:
    """Say once a process, on a terminal only, that kernels have to be compiled first."""
    global _announced
    if not _announced and sys.stderr.isatty():
        sys.stderr.write("Compiling numerical kernels: this happens once and takes some seconds.\n")
        sys.stderr.flush()
    _announced = True


def _warn(reason: str) -> None:
    global _warned
    if not _warned:
        _warned = True
        warnings.warn(
            f"compiled kernels cannot be cached ({reason}), so every run compiles them again: free space there, or "
            "set NUMBA_CACHE_DIR to another folder",
            stacklevel=3,
        )
