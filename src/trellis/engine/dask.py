"""Shards on a Dask cluster: items and their states stay at the workers, parameters and results travel.

    place   each item is sent once, to one worker (groups of items go round the workers in turn), which keeps it
    run     parameters are sent once per worker, the work is asked for group by group, results come back in order; the
            worker keeps the items' new states, and copies of them come back with the results

So a worker that dies costs what it was doing: its items are sent to others, each with the last state known of it, and
that work is done again. One that joins is given its share when the next pass begins. Nothing of this depends on which
worker did what, so the bits are those of one thread.

What is on its way does not grow with the corpus: a group has at most MOST items, and a worker answers when its results
have come to ANSWER bytes; what is left of the group is then asked for anew.
"""

from __future__ import annotations

import asyncio
import atexit
import io
import pickle
import time
import uuid
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

from trellis.engine.blas import blas_at_one_thread
from trellis.engine.engine import I, Placed, R, Shard, Work, numbered, run_shard
from trellis.engine.threads import ThreadEngine, usable_cores
from trellis.errors import DataError, TrellisError

GROUPS = 12
"""Groups of items per worker, or more of them where items are many."""
MOST = 16
"""Items of a group."""
ANSWER = 32 * 2**20
"""Bytes of results after which a worker answers."""
AHEAD = 3
"""Groups under way or waiting at each worker."""
LOOK_EVERY = 1.0
"""Seconds after which it is seen whether the workers that are waited for still live."""
NOTICED = 5.0
"""Seconds in which a scheduler notices that a worker which could not be reached is gone."""
CONNECTING = 10.0
"""Seconds that a scheduler has to answer."""
PATIENCE = 60.0
"""Seconds that a cluster without workers is waited for."""
SLOW = {"distributed.comm.timeouts.tcp": "1h", "distributed.comm.timeouts.connect": "10m"}
"""How long connections of a local cluster may stand still: a busy machine is no dead worker, and whether a process of
one's own lives is known without asking it (Dask gives up after 30 seconds, and a worker with what it keeps is lost)."""
AT_START = {"distributed.scheduler.worker-ttl": None, "distributed.worker.profile.enabled": False}
"""Likewise of signs of life; and profiles, which look at workers every 10 ms."""


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
        self._settings: Any = None

    @classmethod
    def local(cls, workers: int | None = None) -> DaskEngine:
        """A cluster of worker processes on this machine, one per core unless told otherwise; it ends with this one."""
        distributed = _distributed()
        import dask

        settings = dask.config.set(SLOW)
        with dask.config.set(AT_START):
            # No limit of memory: Dask would kill a worker that comes near its share of the machine, and with that send
            # what it keeps to the others, which are no better off.
            cluster = distributed.LocalCluster(
                n_workers=usable_cores() if workers is None else workers, threads_per_worker=1, processes=True,
                dashboard_address=":0", silence_logs=50, memory_limit=0,
            )  # fmt: skip
        engine = cls(distributed.Client(cluster, direct_to_workers=True), direct=True)
        engine._cluster, engine._settings = cluster, settings
        atexit.register(engine.close)
        return engine

    @classmethod
    def connect(cls, address: str) -> DaskEngine:
        """The cluster whose scheduler listens there, such as ``tcp://10.0.0.1:8786``."""
        try:
            client = _distributed().Client(address, timeout=CONNECTING)
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
        if self._settings is not None:
            self._settings, ours = None, self._settings
            ours.__exit__(None, None, None)


class AtWorkers(Placed[I]):
    """Items that workers keep; ``items`` here are what they are made of anew when a worker has died.

    Items are asked for in groups, runs of them that one worker has: a message costs a worker about as much as a small
    shard does.
    """

    def __init__(self, engine: DaskEngine, items: Sequence[I], shards: Sequence[Shard]) -> None:
        super().__init__(shards)
        self.engine, self.client, self.items = engine, engine.client, items
        self.name, self.done = uuid.uuid4().hex, 0
        workers = engine.workers() if len(items) else []
        size = min(MOST, max(1, len(items) // max(1, GROUPS * len(workers))))
        self.groups = [range(first, min(first + size, len(items))) for first in range(0, len(items), size)]
        self.worker = [workers[number % len(workers)] for number in range(len(self.groups))]
        self.absent, self.stale = set(range(len(self.groups))), set(range(len(self.groups)))
        """Groups that their worker does not have, and those whose states there are not those known here."""
        weakref.finalize(self, engine.gone.append, self.name)

    def restore(self, states: Sequence[Any]) -> None:
        super().restore(states)
        self.stale = set(range(len(self.groups)))

    def run(self, work: Work[R], parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[R]:
        if not len(self.items):
            return
        self.spread()
        asked = _Pass(self, _Given(work, parameters, tuple(self.engine.gone)), own)
        states: list[Any] = []
        whole, most = False, AHEAD * len(set(self.worker))
        try:
            for group in range(len(self.groups) + most):
                while next(iter(asked.pending), group) <= group - most:
                    for result, state in asked.next():
                        states.append(state)
                        yield result
                if group < len(self.groups):
                    asked.ask(group)
            whole = True
        finally:
            asked.cancel()
            if whole:
                self.states, self.done = states, self.done + 1
            else:
                self.stale = set(range(len(self.groups)))

    def spread(self) -> None:
        """Give the groups of workers that have died to those that live, and those that have joined their share."""
        alive, known = self.engine.workers(), set(self.worker)
        for group, worker in enumerate(self.worker):
            to = alive[group % len(alive)]
            if worker not in alive or to not in known:
                self.worker[group] = to
                self.absent.add(group)
                if worker in alive:
                    forgotten = self.client.submit(_forget, self.name, group, workers=[worker], pure=False)
                    _distributed().fire_and_forget(forgotten)


class _Pass:
    """One pass over placed items: what was sent to the workers, and what is under way there."""

    def __init__(self, placed: AtWorkers[Any], given: _Given, own: Sequence[Any] | None) -> None:
        self.placed, self.content, self.own = placed, given, own
        self.client, self.direct = placed.client, placed.engine.direct
        self.pending: dict[int, Any] = {}
        """Groups that were asked for, in order; None in place of a future: the worker could not be reached."""
        self.first: dict[int, int] = {}
        """Of a group of which something has been answered, how many items that were."""
        self.given = self._send()

    def _send(self) -> Any:
        while True:
            try:
                # To these alone: a message to another one that dies, or is just starting again, would never end.
                return self._scattered(self.content, broadcast=True, workers=sorted(set(self.placed.worker)))
            except Exception as error:
                self._see_who_died(error)
                self.placed.spread()

    def _scattered(self, content: Any, **to: Any) -> Any:
        """Send something to workers."""
        how = {"direct": self.direct, "hash": False, "asynchronous": True, **to}
        return self._looked_after(partial(self.client.scatter, content, **how))

    def _looked_after(self, action: Callable[[], Any]) -> Any:
        """What a message to workers, or from them, comes to. A TimeoutError where one has died: it may then never end.

        It is waited for however long it takes. Messages that were given up and begun anew after a time would pile up
        on a busy machine, each with all that it carries.
        """

        async def message() -> Any:
            return await action()

        under_way = asyncio.run_coroutine_threadsafe(message(), self.client.loop.asyncio_loop)
        try:
            while True:
                try:
                    return under_way.result(LOOK_EVERY)
                except TimeoutError:
                    if under_way.done() or self._somebody_died():
                        raise
        finally:
            under_way.cancel()

    def ask(self, group: int) -> None:
        """Ask a group's worker for its work; items and states are sent along where it has not got them."""
        try:
            self.pending[group] = self._asked(group)
        except Exception as error:
            self._see_who_died(error)
            self.pending[group] = None

    def _asked(self, group: int) -> Any:
        placed = self.placed
        run, first = slice(placed.groups[group].start, placed.groups[group].stop), self.first.get(group, 0)
        here = {"workers": [placed.worker[group]], "allow_other_workers": False, "pure": False, "priority": first}
        sent = None
        if group in placed.stale or group in placed.absent:
            items = None
            if group in placed.absent:
                items = self._scattered(_Kept(placed.items[run], [], None), workers=here["workers"])
            when = placed.done, first
            sent = self.client.submit(_keep, placed.name, group, items, placed.states[run], when, **here)
            placed.absent.discard(group)
            if first == 0:  # else those of the items before are not what this pass made of them
                placed.stale.discard(group)
        own = None if self.own is None else self.own[run]
        return self.client.submit(
            _work, placed.name, group, placed.shards[run], (placed.done, first), self.given, own, sent, **here
        )

    def next(self) -> list[tuple[Any, Any]]:
        """Results and new states of the group that was asked for first, or of as many of its items as are known; then
        the rest is asked for. If its worker dies, another does it."""
        group = next(iter(self.pending))
        while True:
            if self.pending[group] is None:
                self._recover()
            try:
                answer = partial(self.client.gather, self.pending[group], asynchronous=True)
                found = self._looked_after(answer)
                if found is not None:
                    return self._answers(group, found)
                # It was done once more than is known here; or what was sent was cancelled before it was kept.
                self.placed.absent.add(group)
                self.ask(group)
            except TrellisError:
                raise
            except TimeoutError:
                if self._somebody_died():
                    self._recover()
            except Exception as error:
                self._see_who_died(error)
                self._recover()

    def _answers(self, group: int, found: bytes) -> list[tuple[Any, Any]]:
        stream, answers = io.BytesIO(found), []
        while stream.tell() < len(found):
            answers.append(pickle.load(stream))
        self.first[group] = self.first.get(group, 0) + len(answers)
        if self.first[group] < len(self.placed.groups[group]):
            self.ask(group)
        else:
            del self.pending[group]
        return answers

    def _somebody_died(self) -> bool:
        return not set(self.placed.worker) <= set(self.placed.engine.workers())

    def _see_who_died(self, error: Exception) -> None:
        """Raise an error anew unless a worker has died: Dask's own word for that differs by when it went."""
        deadline = time.monotonic() + (NOTICED if isinstance(error, OSError | KeyError) else 0.0)
        while not self._somebody_died():
            if time.monotonic() > deadline:
                raise error
            time.sleep(0.05)

    def _recover(self) -> None:
        """Some worker has died, and with it perhaps the only copy of something sent: ask for all anew."""
        waiting = list(self.pending)
        self.cancel()
        self.placed.spread()
        self.given = self._send()
        for group in waiting:
            self.placed.stale.add(group)
            self.ask(group)

    def cancel(self) -> None:
        """Let go of what is under way."""
        for future in self.pending.values():
            if future is not None:
                with suppress(Exception):
                    future.cancel(force=True)
        self.pending = {}


# at a worker


@dataclass(frozen=True)
class _Given:
    """What one pass sends to every worker; gone : names of placed items that need not be kept."""

    work: Any
    parameters: Any
    gone: tuple[str, ...]


@dataclass
class _Kept:
    """A group that is kept here, or on its way.

    when : how many passes its states have seen, and how many of its items the pass under way; None: unclear
    """

    items: Sequence[Any]
    states: list[Any]
    when: tuple[int, int] | None


_kept: dict[tuple[str, int], _Kept] = {}


def _keep(name: str, group: int, sent: _Kept | None, states: list[Any], when: tuple[int, int]) -> None:
    known = _kept.get((name, group)) if sent is None else sent
    if known is not None:
        _kept[name, group] = _Kept(known.items, states, when)


def _forget(name: str, group: int) -> None:
    _kept.pop((name, group), None)


def _work(
    name: str, group: int, shards: list[Shard], when: tuple[int, int], given: _Given, own: Sequence[Any] | None,
    sent: None,
) -> bytes | None:  # fmt: skip
    """Work on a group that is kept here: results and new states, one after the other, until they come to ANSWER bytes.

    None: it is not kept here, or not with the states asked for.
    """
    for key in [key for key in list(_kept) if key[0] in given.gone]:
        _forget(*key)
    kept = _kept.get((name, group))
    if kept is None or kept.when != when:
        return None
    kept.when, (done, number), answers = None, when, io.BytesIO()
    with blas_at_one_thread():
        while number < len(shards) and answers.tell() < ANSWER:
            more = () if own is None else (own[number],)
            asked = (given.parameters, kept.items[number], kept.states[number], *more)
            answer = run_shard(given.work, shards[number], *asked)
            # As one piece: Dask's messages cost by the number of arrays in them.
            pickle.dump(answer, answers, pickle.HIGHEST_PROTOCOL)
            kept.states[number] = answer[1]
            number += 1
    kept.when = (done, number) if number < len(shards) else (done + 1, 0)
    return answers.getvalue()


def _distributed() -> Any:
    try:
        import distributed
    except ImportError:
        raise DataError("the Dask engine needs dask.distributed: pip install 'trellis-learn[dask]'") from None
    return distributed
