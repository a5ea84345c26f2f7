"""Numba's cache of compiled kernels, guarded: what is wrong with it costs time, and never a run.

A file that was cut short (by a full disk, a copy that was stopped) is dropped, and the kernel compiled again. A kernel
that cannot be kept is compiled in every run, with one warning that says why. Other packages' kernels are not touched.
"""

from __future__ import annotations

import os
import warnings
from contextlib import suppress
from typing import Any


def guard() -> None:
    """From now on kernels of ours have a guarded cache; called before the first of them is defined."""
    try:
        from numba.core.caching import FunctionCache, NullCache
        from numba.core.dispatcher import Dispatcher
    except ImportError:  # a numba that keeps these elsewhere has its own ways
        return

    class GuardedCache(FunctionCache):
        """Whatever goes wrong on the disk is the same as an empty cache."""

        def load_overload(self, sig: Any, target_context: Any) -> Any:
            try:
                return super().load_overload(sig, target_context)
            except Exception:  # a cut pickle raises nearly anything
                with suppress(OSError):
                    os.unlink(self._cache_file._index_path)
                return None

        def save_overload(self, sig: Any, data: Any) -> None:
            try:
                super().save_overload(sig, data)
            except OSError as error:
                _warn(f"{self.cache_path}: {error.strerror or error}")

    class NoCache(NullCache):
        """Where no folder at all can be written to."""

        @property
        def cache_path(self) -> str:
            return ""

    numbas_own = Dispatcher.enable_caching

    def enable_caching(dispatcher: Any) -> None:
        if not dispatcher.py_func.__module__.startswith("trellis."):
            numbas_own(dispatcher)
            return
        try:
            dispatcher._cache = GuardedCache(dispatcher.py_func)
        except (OSError, RuntimeError) as error:
            dispatcher._cache = NoCache()
            _warn(str(error))

    Dispatcher.enable_caching = enable_caching


_told = False


def _warn(reason: str) -> None:
    global _told
    if not _told:
        _told = True
        warnings.warn(
            f"compiled kernels cannot be kept ({reason}), so every run compiles them anew: make room there, or name "
            "another folder in NUMBA_CACHE_DIR",
            stacklevel=3,
        )
