"""BLAS is at one thread inside a shard and as it was outside."""

from __future__ import annotations

import threading

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from trellis.engine import Engine, SerialEngine, Shard, ThreadEngine
from trellis.engine.blas import blas_at_one_thread
from trellis.errors import ShardError


def blas_threads() -> list[int]:
    return [library["num_threads"] for library in ThreadpoolController().info() if library["user_api"] == "blas"]


@pytest.fixture(autouse=True)
def _several_blas_threads() -> object:
    np.dot(np.ones(2), np.ones(2))
    controller = ThreadpoolController()
    if not controller.select(user_api="blas"):
        pytest.skip("this NumPy has no BLAS whose threads can be set")
    with controller.limit(limits=2, user_api="blas"):
        if set(blas_threads()) != {2}:
            pytest.skip("this BLAS knows one thread only")
        yield


@pytest.mark.parametrize("engine", [SerialEngine(), ThreadEngine(2)], ids=str)
def test_blas_has_one_thread_inside_a_shard_and_its_own_outside(engine: Engine) -> None:
    shards = [Shard(i, range(1)) for i in range(8)]
    assert {n for seen in engine.map(lambda shard: blas_threads(), shards) for n in seen} == {1}
    assert set(blas_threads()) == {2}


@pytest.mark.parametrize("engine", [SerialEngine(), ThreadEngine(2)], ids=str)
def test_blas_is_restored_after_a_failure(engine: Engine) -> None:
    def fail(shard: Shard) -> None:
        raise ValueError

    with pytest.raises(ShardError):
        list(engine.map(fail, [Shard(0, range(1))]))
    assert set(blas_threads()) == {2}


def test_the_first_to_leave_does_not_free_blas_for_those_still_inside() -> None:
    entered, leave = threading.Event(), threading.Event()
    seen: list[list[int]] = []

    def longer() -> None:
        with blas_at_one_thread():
            entered.set()
            leave.wait(10)
            seen.append(blas_threads())

    thread = threading.Thread(target=longer)
    with blas_at_one_thread():
        thread.start()
        entered.wait(10)
    leave.set()
    thread.join()
    assert set(seen[0]) == {1}
    assert set(blas_threads()) == {2}


def test_products_have_the_same_bits_however_many_threads_blas_had() -> None:
    rows = np.random.default_rng(0).random((300, 5_000))

    def product(shard: Shard) -> bytes:
        return (rows @ rows.T).tobytes()

    one_shard = [Shard(0, range(1))]
    [with_two] = SerialEngine().map(product, one_shard)
    with ThreadpoolController().limit(limits=1, user_api="blas"):
        [with_one] = SerialEngine().map(product, one_shard)
    assert with_two == with_one


def test_a_library_first_seen_while_others_are_inside_is_restored_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with blas_at_one_thread():
        # what an import in a shard does: the libraries are looked up again
        monkeypatch.setattr("trellis.engine.blas._n_modules", -1)
        with blas_at_one_thread():
            assert set(blas_threads()) == {1}
        assert set(blas_threads()) == {1}
    assert set(blas_threads()) == {2}


def test_two_maps_taken_in_turns_leave_blas_as_it_was() -> None:
    shards = [Shard(i, range(1)) for i in range(5)]
    pairs = zip(SerialEngine().map(str, shards), ThreadEngine(2).map(str, shards[:3]), strict=False)
    assert len(list(pairs)) == 3
    del pairs  # the serial map has two shards left and ends with its iterator
    assert set(blas_threads()) == {2}
