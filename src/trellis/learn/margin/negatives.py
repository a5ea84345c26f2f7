"""Negative examples generated from positive ones: binary supervision without annotation.

Shuffled sentences and random pairs are wrong with very high probability (Chang 2011, sec. 5.4.1, 6.1 and 6.4).
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any, TypeVar

from trellis.errors import DataError
from trellis.models.estimator import generator

A = TypeVar("A", bound=Hashable)
B = TypeVar("B", bound=Hashable)


def shuffled(X: Sequence[Sequence[Any]], *, per_sentence: int = 1, random_state: Any = None) -> list[list[Any]]:
    """Every sentence ``per_sentence`` times with its tokens in random order; one that has no other order is left out.

    >>> shuffled([["a", "b", "c"], ["a"]], random_state=0)
    [['c', 'a', 'b']]
    """
    rng, made = generator(random_state), []
    for sentence in X:
        given = list(sentence)
        for _ in range(per_sentence if any(token != given[0] for token in given) else 0):
            other = [given[i] for i in rng.permutation(len(given))]
            while other == given:
                other = [given[i] for i in rng.permutation(len(given))]
            made.append(other)
    return made


def random_pairs(pairs: Sequence[tuple[A, B]], n: int, *, random_state: Any = None) -> list[tuple[A, B]]:
    """n different pairs of a left and a right side of the given ones that do not belong together.

    >>> random_pairs([("a", 1), ("b", 2)], 2, random_state=0)
    [('b', 1), ('a', 2)]
    """
    rng, together = generator(random_state), set(pairs)
    left, right = list({a: None for a, _ in pairs}), list({b: None for _, b in pairs})
    if n > len(left) * len(right) - len(together):
        raise DataError(
            f"{n} random pairs were requested, but {len(left)} left and {len(right)} right sides make only "
            f"{len(left) * len(right) - len(together)} that do not belong together"
        )
    made: dict[tuple[A, B], None] = {}
    while len(made) < n:
        pair = left[int(rng.integers(len(left)))], right[int(rng.integers(len(right)))]
        if pair not in together:
            made[pair] = None
    return list(made)
