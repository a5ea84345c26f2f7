"""Engines: order, bits, bounds, errors."""

from __future__ import annotations

import gc
import random
import threading
import time
import weakref
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest

from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.engine import Engine, SerialEngine, Shard, ThreadEngine, engine_for, shards_of, summed
from trellis.engine.threads import usable_cores
from trellis.errors import DataError, InfeasibleError, ShardError

ENGINES: list[Engine] = [SerialEngine(), ThreadEngine(1), ThreadEngine(2), ThreadEngine(4)]
every_engine = pytest.mark.parametrize("engine", ENGINES, ids=str)


def shards(n: int, size: int = 10) -> list[Shard]:
    return [Shard(i, range(i * size, (i + 1) * size)) for i in range(n)]


@dataclass(frozen=True, eq=False)
class Counts:
    """Statistics of the kind models have."""

    table: FloatArray
    total: float

    def __add__(self, other: Counts) -> Counts:
        return Counts(self.table + other.table, self.total + other.total)


def test_shards_cut_a_batch_without_gaps_and_know_their_numbers() -> None:
    lengths = np.random.default_rng(0).integers(0, 60, 3_000)
    whole = Batch.of_rows(np.zeros((0, 1)))
    assert shards_of(whole) == []
    batch = Batch(np.concatenate(([0], np.cumsum(lengths))), np.zeros(lengths.sum()), np.ones(len(lengths)))
    cut = shards_of(batch)
    assert len(cut) > 4
    assert [i for shard in cut for i in shard.instances] == list(range(3_000))
    assert [shard.index for shard in cut] == list(range(len(cut)))
    assert sum(shard.of(batch).n_slots for shard in cut) == batch.n_slots
    later = shards_of(batch.instances(2_000, 3_000))
    assert [i for shard in later for i in shard.numbers] == list(range(2_000, 3_000))
    assert later[0].of(batch.instances(2_000, 3_000)).first == 2_000
    assert str(Shard(1, range(3, 4), first=10)) == "shard 1 (instance 13)"


@every_engine
def test_results_come_in_shard_order_whatever_ends_first(engine: Engine) -> None:
    def slow_first(shard: Shard) -> int:
        time.sleep(0.002 * (shard.index % 3 == 0))
        return shard.index

    assert list(engine.map(slow_first, shards(30))) == list(range(30))
    assert list(engine.map(slow_first, iter(shards(3)))) == [0, 1, 2]
    assert list(engine.map(slow_first, [])) == []


def test_sums_have_the_same_bits_for_every_number_of_threads() -> None:
    values = np.random.default_rng(0).standard_normal((40, 10, 7)) * 10.0 ** np.arange(-9, 12)[:10, None]
    waits = random.Random(0)

    def collect(shard: Shard) -> Counts:
        time.sleep(waits.random() * 0.003)  # so that threads end in another order each time
        part = values[shard.index]
        return Counts(part.T @ part, float(np.log(np.abs(part)).sum()))

    sums = [summed(engine.map(collect, shards(40))) for engine in ENGINES for _ in range(2)]
    for other in sums[1:]:
        assert other.table.tobytes() == sums[0].table.tobytes()
        assert other.total == sums[0].total
    # the order matters to these numbers, or equality would say nothing
    backwards = [collect(shard) for shard in reversed(shards(40))]
    total = backwards[0]
    for one in backwards[1:]:
        total = total + one
    assert total.table.tobytes() != sums[0].table.tobytes()


@every_engine
def test_sums_begin_with_the_start_given(engine: Engine) -> None:
    assert summed(engine.map(lambda shard: shard.index, shards(4)), 10) == 16
    assert summed(engine.map(lambda shard: shard.index, []), 10) == 10
    with pytest.raises(DataError, match="nothing to sum"):
        summed(engine.map(lambda shard: shard.index, []))


@every_engine
def test_only_a_few_statistics_are_alive_at_once(engine: Engine) -> None:
    alive: weakref.WeakSet[Counts] = weakref.WeakSet()
    lock = threading.Lock()
    most = 0

    def collect(shard: Shard) -> Counts:
        nonlocal most
        counts = Counts(np.zeros(3), 1.0)
        with lock:
            alive.add(counts)
            most = max(most, len(alive))
        return counts

    assert summed(engine.map(collect, shards(200))).total == 200
    threads = getattr(engine, "threads", 1)
    # those in the window, those just handed over, the total before and after an addition
    assert most <= 2 * threads + threads + 4


@pytest.mark.slow
@every_engine
def test_nothing_runs_far_ahead_of_the_reader(engine: Engine) -> None:
    started: list[int] = []
    results = engine.map(lambda shard: started.append(shard.index), shards(100))
    assert started == []
    next(results)
    time.sleep(0.02)
    assert len(started) <= 2 * getattr(engine, "threads", 1) + 1
    del results
    gc.collect()
    time.sleep(0.02)
    stopped_at = len(started)
    time.sleep(0.02)
    assert len(started) == stopped_at


@every_engine
def test_shards_are_drawn_only_when_there_is_room(engine: Engine) -> None:
    drawn: list[int] = []

    def source() -> Iterator[Shard]:
        for shard in shards(100):
            drawn.append(shard.index)
            yield shard

    next(iter(engine.map(lambda shard: 0, source())))
    assert len(drawn) <= 2 * getattr(engine, "threads", 1) + 1


@every_engine
def test_a_bug_in_a_shard_is_a_shard_error_with_its_cause(engine: Engine) -> None:
    def fail(shard: Shard) -> int:
        if shard.index in (3, 5):
            time.sleep(0.01 * (shard.index == 3))  # the fifth fails first
            raise ZeroDivisionError("deep inside")
        return shard.index

    results = engine.map(fail, [Shard(s.index, s.instances, first=100) for s in shards(20)])
    assert [next(results) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ShardError) as e:
        next(results)
    assert str(e.value) == "shard 3 (instances 130-139) failed: ZeroDivisionError: deep inside"
    assert e.value.instances == range(130, 140)
    assert isinstance(e.value.__cause__, ZeroDivisionError)
    with pytest.raises(StopIteration):
        next(results)


@every_engine
@pytest.mark.parametrize("error", [InfeasibleError("no tree", instances=(31,)), DataError("bad", path="f", line=3)])
def test_our_own_errors_surface_as_themselves_with_a_note(engine: Engine, error: Exception) -> None:
    fresh = type(error)(str(error))

    def fail(shard: Shard) -> int:
        if shard.index == 3:
            raise fresh
        return 0

    with pytest.raises(type(error)) as e:
        list(engine.map(fail, shards(10)))
    assert e.value is fresh
    assert e.value.__notes__ == ["in shard 3 (instances 30-39)"]


@every_engine
def test_stop_iteration_in_a_shard_does_not_end_the_map_quietly(engine: Engine) -> None:
    def fail(shard: Shard) -> int:
        raise StopIteration

    with pytest.raises(ShardError, match="StopIteration"):
        list(engine.map(fail, shards(3)))


@every_engine
def test_a_failing_shard_starts_no_further_ones(engine: Engine) -> None:
    started: list[int] = []

    def fail(shard: Shard) -> None:
        started.append(shard.index)
        raise ValueError

    with pytest.raises(ShardError, match="shard 0 "):
        list(engine.map(fail, shards(100)))
    time.sleep(0.02)
    assert len(started) <= 2 * getattr(engine, "threads", 1)


@every_engine
def test_the_callers_floating_point_checks_hold_in_a_shard(engine: Engine) -> None:
    with np.errstate(divide="raise"), pytest.raises(ShardError, match="FloatingPointError"):
        list(engine.map(lambda shard: np.ones(1) / np.zeros(1), shards(2)))


def test_threads_do_run_at_once() -> None:
    both = threading.Barrier(2, timeout=10)
    assert list(ThreadEngine(2).map(lambda shard: both.wait() >= 0, shards(2))) == [True, True]


def test_a_map_within_a_shard_works() -> None:
    def inner(shard: Shard) -> int:
        return summed(ThreadEngine(2).map(lambda s: len(s.instances), shards(4, size=shard.index)))

    assert list(ThreadEngine(2).map(inner, shards(4))) == [0, 4, 8, 12]


def test_engine_for_chooses_by_the_number_of_threads() -> None:
    assert engine_for() == engine_for(None) == engine_for(1) == SerialEngine()
    assert engine_for(3) == ThreadEngine(3)
    assert engine_for(-1) == engine_for(usable_cores())
    for wrong in (0, -2, 1.5, True, "2"):
        with pytest.raises(DataError, match="n_jobs must be a whole number, 1 or more"):
            engine_for(wrong)  # type: ignore[arg-type]
        with pytest.raises(DataError, match="threads must be a whole number, 1 or more"):
            ThreadEngine(wrong)  # type: ignore[arg-type]
