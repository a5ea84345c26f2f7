"""Shards on a pool of threads: kernels and NumPy let go of the interpreter lock, so threads use the cores.

Pools are kept: starting one costs about 0.3 ms, and a round of EM on a small corpus takes six. Their threads wait
without using the processor and end with the process.

New text is a stream of chunks: one at a time is read, processed and released. A chunk has enough for every thread and
no more, so that memory depends on threads and not on the text. Where one ends changes nothing in the results:
constraints that tie instances together shape training alone.
"""

from __future__ import annotations

import contextvars
import os
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, TypeVar

from trellis.data import shards
from trellis.data.checks import is_whole
from trellis.engine.blas import blas_at_one_thread, hold_this_thread
from trellis.engine.engine import Engine, Shard, run_shard
from trellis.engine.local import Local, SerialEngine, keep_freed_memory
from trellis.errors import DataError

T = TypeVar("T")


@dataclass(frozen=True)
class ThreadEngine(Local):
    """Runs up to ``threads`` shards at once and gives their results in shard order.

    At most 2 ``threads`` shards are under way, waiting, or done and not yet taken. When the caller stops (Ctrl-C, an
    exception, ``close`` of the iterator), or a shard fails, no further shard starts; the exception does not wait
    for those that run, whose results are dropped (the process ends when they have).
    """

    threads: int

    def __post_init__(self) -> None:
        check_threads(self.threads)

    def map(self, function: Callable[[Shard], T], shards: Iterable[Shard]) -> Iterator[T]:
        pending: deque[Future[T]] = deque()
        keep_freed_memory()
        with blas_at_one_thread():
            pool, own = _pool(self.threads)
            try:
                for shard in shards:
                    if len(pending) == 2 * self.threads:
                        yield pending.popleft().result()
                    # The caller's context, np.errstate for one, holds in the shard as it does in one thread.
                    context = contextvars.copy_context()
                    pending.append(pool.submit(context.run, run_shard, function, shard, shard))
                while pending:
                    yield pending.popleft().result()
            finally:
                for waiting in pending:
                    waiting.cancel()
                if own:
                    pool.shutdown(wait=False, cancel_futures=True)

    @property
    def n_workers(self) -> int:
        return self.threads


_pools: dict[tuple[int, int], ThreadPoolExecutor] = {}
_pools_lock = threading.Lock()
_here = threading.local()


def _start_worker() -> None:
    _here.is_worker = True
    hold_this_thread()


def _pool(threads: int) -> tuple[ThreadPoolExecutor, bool]:
    """The kept pool of so many threads, and whether it is the caller's own to shut down.

    A map inside a shard gets a pool of its own: the kept one could be waiting for that very shard. A forked child has
    none of its parent's threads, so pools are kept by process.
    """
    if getattr(_here, "is_worker", False):
        return ThreadPoolExecutor(threads, "trellis-shard", initializer=_start_worker), True
    with _pools_lock:
        key = (os.getpid(), threads)
        if key not in _pools:
            _pools[key] = ThreadPoolExecutor(threads, "trellis-shard", initializer=_start_worker)
        return _pools[key], False


def usable_cores() -> int:
    """Cores this process may run on, which on a shared machine are fewer than there are."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def check_threads(threads: object) -> None:
    """Refuse what is no number of threads."""
    if not isinstance(threads, int) or isinstance(threads, bool) or threads < 1:
        raise DataError(f"threads must be a whole number, 1 or more, but is {threads!r}")


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


R = TypeVar("R")


def cut(items: Iterable[T], size: Callable[[T], int], largest: int, most: float = float("inf")) -> Iterator[list[T]]:
    """Items in runs, each of which ends as soon as its sizes come to ``largest`` or it has ``most`` items.

    >>> list(cut([3, 1, 1, 5, 1], int, 4))
    [[3, 1], [1, 5], [1]]
    """
    run: list[T] = []
    total = 0
    for item in items:
        run.append(item)
        total += size(item)
        if total >= largest or len(run) >= most:
            yield run
            run, total = [], 0
    if run:
        yield run


def chunks(items: Iterable[T], n_jobs: int | None, size: Callable[[Any], int] = len) -> Iterator[list[T]]:
    """Items in runs of as many slots as make a shard for every thread; size : slots of an item."""
    return cut(items, lambda item: size(item) + 1, shards.SMALLEST * threads_for(n_jobs).n_workers)


def by_chunks(
    work: Callable[[list[T]], Iterable[R]], items: Iterable[T], n_jobs: int | None, size: Callable[[Any], int] = len
) -> Iterator[R]:
    """What ``work`` makes of the items, one result after the other."""
    for chunk in chunks(items, n_jobs, size):
        yield from work(chunk)
