"""Shards on a Dask cluster: items and their states stay at the workers, parameters and results travel.

    place   each item is sent once, to one worker (items go round the workers in turn), which keeps it
    run     parameters are sent once per worker, the work is asked for item by item, results come back in order; the
            worker keeps the item's new state, and a copy of it comes back with the result

So a worker that dies costs what it was doing: its items are sent to others, each with the last state known of it, and
that work is done again. Nothing of this depends on which worker did what, so the bits are those of one thread.
"""

from __future__ import annotations

import atexit
import time
import uuid
import weakref
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from trellis.engine.blas import blas_at_one_thread
from trellis.engine.engine import I, Placed, R, Work, numbered, run_shard
from trellis.engine.shards import Shard
from trellis.engine.threads import ThreadEngine, usable_cores
from trellis.errors import DataError, TrellisError

AHEAD = 3
"""Items under way or waiting at each worker."""
LOOK_EVERY = 1.0
"""Seconds after which it is seen whether the worker that is waited for still lives."""
PATIENCE = 60.0
"""Seconds that a cluster without workers is waited for."""


class DaskEngine:
    """Runs shards on the workers of a Dask cluster.

    client : a ``dask.distributed.Client``; see :meth:`local` and :meth:`connect`
    direct : whether this process can reach the workers, and need not go through the scheduler
    """

    def __init__(self, client: Any, *, direct: bool = False) -> None:
        self.client, self.direct = client, direct
        self.gone: list[str] = []
        """Names of what nobody holds any more: workers forget it when they next hear of us."""
        self._cluster: Any = None

    @classmethod
    def local(cls, workers: int | None = None) -> DaskEngine:
        """A cluster of worker processes on this machine, one per core unless told otherwise; it ends with this one."""
        distributed = _distributed()
        cluster = distributed.LocalCluster(
            n_workers=usable_cores() if workers is None else workers, threads_per_worker=1, processes=True,
            dashboard_address=None, silence_logs=50,
        )  # fmt: skip
        engine = cls(distributed.Client(cluster, direct_to_workers=True), direct=True)
        engine._cluster = cluster
        atexit.register(engine.close)
        return engine

    @classmethod
    def connect(cls, address: str) -> DaskEngine:
        """The cluster whose scheduler listens there, such as ``tcp://10.0.0.1:8786``."""
        try:
            client = _distributed().Client(address, timeout="10s")
        except (OSError, ValueError, TimeoutError) as error:
            raise DataError(f"there is no Dask scheduler at {address!r} ({error}): start one, dask scheduler") from None
        engine = cls(client)
        atexit.register(engine.close)
        return engine

    @property
    def near(self) -> ThreadEngine:
        """Threads of this process."""
        return ThreadEngine(usable_cores())

    def place(self, items: Sequence[I], shards: Sequence[Shard] | None = None) -> AtWorkers[I]:
        return AtWorkers(self, items, numbered(len(items)) if shards is None else shards)

    def workers(self) -> list[str]:
        """Addresses of the workers that live."""
        deadline = time.monotonic() + PATIENCE
        while time.monotonic() < deadline:
            found = sorted(self.client.scheduler_info(n_workers=-1)["workers"])
            if found:
                return found
            time.sleep(0.1)
        raise DataError("the Dask cluster has no workers: start some, dask worker tcp://...")

    def close(self) -> None:
        """Let go of the cluster; one of our own ends."""
        with suppress(Exception):
            self.client.close(timeout=2)
            if self._cluster is not None:
                self._cluster.close(timeout=5)


class AtWorkers(Placed[I]):
    """Items that workers keep; ``items`` here are what they are made of anew when a worker has died."""

    def __init__(self, engine: DaskEngine, items: Sequence[I], shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self.engine, self.client, self.items = engine, engine.client, items
        self.name, self.done = uuid.uuid4().hex, 0
        workers = engine.workers() if len(items) else []
        self.worker = [workers[number % len(workers)] for number in range(len(items))]
        self.absent, self.stale = set(range(len(items))), set(range(len(items)))
        """Items that their worker does not have, and those whose state there is not the one known here."""
        weakref.finalize(self, engine.gone.append, self.name)

    def restore(self, states: Sequence[Any]) -> None:
        super().restore(states)
        self.stale = set(range(len(self.items)))

    def run(self, work: Work[R], parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[R]:
        if not len(self.items):
            return
        asked = _Pass(self, _Given(work, parameters, tuple(self.engine.gone)), own)
        states, whole = list(self.states), False
        most = AHEAD * len(set(self.worker))
        try:
            for number in range(len(self.items)):
                if len(asked.pending) == most:
                    first, (result, states[first]) = asked.next()
                    yield result
                asked.ask(number)
            while asked.pending:
                first, (result, states[first]) = asked.next()
                yield result
            whole = True
        finally:
            asked.cancel()
            if whole:
                self.states, self.done = states, self.done + 1
            else:
                self.stale = set(range(len(self.items)))

    def move_from_the_dead(self) -> None:
        """Give the items of workers that have died to those that live."""
        alive = self.engine.workers()
        for number, worker in enumerate(self.worker):
            if worker not in alive:
                self.worker[number] = alive[number % len(alive)]
                self.absent.add(number)


class _Pass:
    """One pass over placed items: what was sent to the workers, and what is under way there."""

    def __init__(self, placed: AtWorkers[Any], given: _Given, own: Sequence[Any] | None) -> None:
        self.placed, self.content, self.own = placed, given, own
        self.client, self.direct = placed.client, placed.engine.direct
        self.given = self._send()
        self.pending: dict[int, Any] = {}

    def _send(self) -> Any:
        return self.client.scatter(self.content, direct=self.direct, broadcast=True, hash=False)

    def ask(self, number: int) -> None:
        """Ask an item's worker for its work; item and state are sent along where it has not got them."""
        placed = self.placed
        here = {"workers": [placed.worker[number]], "allow_other_workers": False, "pure": False}
        sent = None
        if number in placed.stale or number in placed.absent:
            item = None
            if number in placed.absent:
                item = self.client.scatter(
                    _Item(placed.items[number]), workers=here["workers"], direct=self.direct, hash=False
                )
            sent = self.client.submit(_keep, placed.name, number, item, placed.states[number], placed.done, **here)
            placed.stale.discard(number)
            placed.absent.discard(number)
        more = () if self.own is None else (self.own[number],)
        self.pending[number] = self.client.submit(
            _work, placed.name, placed.shards[number], placed.done, self.given, more, sent, **here
        )

    def next(self) -> tuple[int, tuple[Any, Any]]:
        """The item that was asked for first: its number, result and new state. If its worker dies, another does it."""
        number = next(iter(self.pending))
        while True:
            try:
                found = self.pending[number].result(timeout=LOOK_EVERY)
                if found is not None:
                    del self.pending[number]
                    return number, found
                self.placed.stale.add(number)  # it was done once more than is known here
                self.ask(number)
            except TrellisError:
                raise
            except Exception as error:
                # Dask's own word for a worker that is gone differs by when it went.
                died = not set(self.placed.worker) <= set(self.placed.engine.workers())
                if not died and not isinstance(error, TimeoutError):
                    raise
                if died:
                    self._recover()

    def _recover(self) -> None:
        """Some worker has died, and with it perhaps the only copy of something sent: ask for all anew."""
        waiting = list(self.pending)
        self.cancel()
        self.placed.move_from_the_dead()
        self.given = self._send()
        for number in waiting:
            self.placed.stale.add(number)
            self.ask(number)

    def cancel(self) -> None:
        """Let go of what is under way."""
        for future in self.pending.values():
            future.cancel(force=True)
        self.pending = {}


# at a worker


@dataclass(frozen=True)
class _Given:
    """What one pass sends to every worker; gone : names of placed items that need not be kept."""

    work: Any
    parameters: Any
    gone: tuple[str, ...]


@dataclass(frozen=True)
class _Item:
    """An item on its way."""

    item: Any


_kept: dict[tuple[str, int], list[Any]] = {}
"""[item, state, number of passes that the state has seen] of each item that is kept here."""


def _keep(name: str, number: int, item: _Item | None, state: Any, done: int) -> None:
    if item is not None:
        _kept[name, number] = [item.item, state, done]
    elif (name, number) in _kept:
        _kept[name, number][1:] = state, done


def _work(name: str, shard: Shard, done: int, given: _Given, more: tuple[Any, ...], sent: None) -> Any:
    """Work on an item that is kept here. None: it is not, or not with the state of the pass before."""
    for key in [key for key in list(_kept) if key[0] in given.gone]:
        _kept.pop(key, None)
    found = _kept.get((name, shard.index))
    if found is None or found[2] != done:
        return None
    with blas_at_one_thread():
        result, state = run_shard(given.work, shard, given.parameters, found[0], found[1], *more)
    found[1:] = state, done + 1
    return result, state


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise DataError("the Dask engine needs dask.distributed: pip install 'trellis-learn[dask]'") from None
    return distributed
