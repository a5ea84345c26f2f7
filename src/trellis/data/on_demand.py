"""Lists whose members are created on access."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar, overload

T = TypeVar("T")


class OnDemand(Sequence[T]):
    """A list whose members are made whenever they are asked for, and kept by nobody: there may be many of them.

    >>> squares = OnDemand(4, lambda number: number**2)
    >>> len(squares), squares[3], squares[1:3]
    (4, 9, [1, 4])
    """

    def __init__(self, n: int, make: Callable[[int], T]) -> None:
        self.numbers, self.make = range(n), make

    def __len__(self) -> int:
        return len(self.numbers)

    @overload
    def __getitem__(self, number: int) -> T: ...
    @overload
    def __getitem__(self, number: slice) -> list[T]: ...
    def __getitem__(self, number: int | slice) -> T | list[T]:
        if isinstance(number, slice):
            return [self.make(one) for one in self.numbers[number]]
        return self.make(self.numbers[number])
