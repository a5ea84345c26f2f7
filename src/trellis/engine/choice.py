"""Which engine a learner asked for."""

from __future__ import annotations

from typing import Any

from trellis.data.checks import is_whole
from trellis.engine.engine import Engine
from trellis.engine.local import SerialEngine
from trellis.engine.threads import ThreadEngine, usable_cores
from trellis.errors import DataError

_clusters: dict[str, Engine] = {}
"""Engines by the name they were asked for: one cluster serves all learners of a process."""


def threads_for(n_jobs: int | None = None) -> SerialEngine | ThreadEngine:
    """The engine of this process for so many threads; None: one, −1: one for each core this process may use.

    >>> threads_for(), threads_for(4)
    (SerialEngine(), ThreadEngine(threads=4))
    """
    threads: Any = 1 if n_jobs is None else usable_cores() if n_jobs == -1 else n_jobs
    if not is_whole(threads) or threads < 1:
        raise DataError(f"n_jobs must be a whole number, 1 or more, or -1 for every core, but is {n_jobs!r}")
    return SerialEngine() if threads == 1 else ThreadEngine(int(threads))


def engine_for(n_jobs: int | None = None, engine: Any = None) -> Engine:
    """The engine asked for: threads of this process, or what ``engine`` says.

    engine : an engine; "dask": worker processes on this machine, as many as ``n_jobs``; "tcp://host:port": the Dask
        cluster whose scheduler listens there
    """
    if engine is None:
        return threads_for(n_jobs)
    if not isinstance(engine, str):
        if not callable(getattr(engine, "place", None)) or isinstance(engine, type):
            raise DataError(f"engine must be an engine, 'dask' or the address of a Dask scheduler, got {engine!r}")
        found: Engine = engine
        return found
    if engine != "dask" and "://" not in engine:
        raise DataError(f"engine must be 'dask' or the address of a Dask scheduler, 'tcp://host:port', got {engine!r}")
    if engine not in _clusters:
        from trellis.engine.dask import DaskEngine

        _clusters[engine] = (
            DaskEngine.local(threads_for(n_jobs).n_workers) if engine == "dask" else DaskEngine.connect(engine)
        )
    return _clusters[engine]
