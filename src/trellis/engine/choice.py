"""Which engine a learner asked for."""

from __future__ import annotations

from typing import Any

from trellis.engine.engine import Engine
from trellis.engine.serial import SerialEngine
from trellis.engine.threads import ThreadEngine, check_threads, usable_cores
from trellis.errors import DataError

_clusters: dict[str, Engine] = {}
"""Engines by the name they were asked for: one cluster serves all learners of a process."""


def threads_for(threads: int | None = 1) -> SerialEngine | ThreadEngine:
    """The engine of this process for a number of threads; None: one thread for each core this process may use.

    >>> threads_for(1), threads_for(4)
    (SerialEngine(), ThreadEngine(threads=4))
    """
    if threads is None:
        threads = usable_cores()
    check_threads(threads)
    return SerialEngine() if threads == 1 else ThreadEngine(threads)


def engine_for(threads: int | None = 1, engine: Any = None) -> Engine:
    """The engine asked for: threads of this process, or what ``engine`` says.

    engine : an engine; "dask": worker processes on this machine, as many as ``threads``; "tcp://host:port": the Dask
        cluster whose scheduler listens there
    """
    if engine is None:
        return threads_for(threads)
    if not isinstance(engine, str):
        if not callable(getattr(engine, "place", None)) or isinstance(engine, type):
            raise DataError(f"engine must be an engine, 'dask' or the address of a Dask scheduler, got {engine!r}")
        found: Engine = engine
        return found
    if engine != "dask" and "://" not in engine:
        raise DataError(f"engine must be 'dask' or the address of a Dask scheduler, 'tcp://host:port', got {engine!r}")
    if engine not in _clusters:
        from trellis.engine.dask import DaskEngine

        _clusters[engine] = DaskEngine.local(threads) if engine == "dask" else DaskEngine.connect(engine)
    return _clusters[engine]
