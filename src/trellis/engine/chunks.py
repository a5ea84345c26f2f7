"""Streams of new text: one chunk at a time is read, processed and released.

A run has enough for every thread and no more, so that memory depends on threads and not on the text. Where one ends
changes nothing in the results: constraints that tie instances together shape training alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from trellis.data import shards
from trellis.engine.threads import threads_for

T = TypeVar("T")
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
