"""A vocabulary: names and their numbers in arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np

from trellis.data.ragged import LabelArray
from trellis.errors import DataError, UnknownNameError


class Vocabulary:
    """Ordered set of distinct strings, numbered by position.

    Parameters
    ----------
    names : iterable of str
        Members.
    kind : str, default="name"
        What error messages call a member, such as "label".
    unknown : str or None, default=None
        Member that stands for all other names, so that ``encode`` never fails.

    Examples
    --------
    >>> tags = Vocabulary(["DET", "NOUN"], kind="tag")
    >>> tags.encode(["NOUN", "DET"]).tolist(), tags[1], len(tags)
    ([1, 0], 'NOUN', 2)
    """

    __slots__ = ("_number", "kind", "names", "unknown")

    def __init__(self, names: Iterable[str], *, kind: str = "name", unknown: str | None = None) -> None:
        given: Any = names
        if isinstance(given, str | bytes) or not isinstance(given, Iterable) or getattr(given, "ndim", 1) == 0:
            raise DataError(f"a vocabulary is made of a list of {kind}s, got {names!r:.80}")
        self.names: tuple[str, ...] = tuple(names)
        self.kind = kind
        self.unknown = unknown
        for name in self.names:
            if not isinstance(name, str):
                raise DataError(f"a {kind} is a string, but {name!r} is of type {type(name).__name__}")
        self._number = {name: i for i, name in enumerate(self.names)}
        if len(self._number) != len(self.names):
            twice = [name for name, n in Counter(self.names).items() if n > 1]
            raise DataError(f"a vocabulary holds each {kind} once, but {twice[0]!r} occurs more than once")
        if unknown is not None and unknown not in self._number:
            raise DataError(f"the unknown {kind} {unknown!r} must itself be in the vocabulary")

    def __len__(self) -> int:
        return len(self.names)

    def __iter__(self) -> Iterator[str]:
        return iter(self.names)

    def __contains__(self, name: object) -> bool:
        return name in self._number

    def __getitem__(self, number: int) -> str:
        return self.names[number]

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Vocabulary)
            and self.names == other.names
            and self.kind == other.kind
            and self.unknown == other.unknown
        )

    def __hash__(self) -> int:
        return hash((self.names, self.kind, self.unknown))

    def __repr__(self) -> str:
        return f"Vocabulary({len(self)} {self.kind}s)"

    def number(self, name: str) -> int:
        """The number of a name. An unknown name gets that of ``unknown``, or raises an error with similar names."""
        found = self._number.get(name)
        if found is not None:
            return found
        if self.unknown is not None:
            return self._number[self.unknown]
        raise UnknownNameError(self.kind, name, self.names)

    def encode(self, names: Iterable[str]) -> LabelArray:
        """Numbers of many names."""
        lookup = self._number
        if self.unknown is not None:
            unknown = lookup[self.unknown]
            return np.fromiter((lookup.get(name, unknown) for name in names), dtype=np.int32)
        try:
            return np.fromiter((lookup[name] for name in names), dtype=np.int32)
        except KeyError as missing:
            raise UnknownNameError(self.kind, missing.args[0], self.names) from None

    def decode(self, numbers: Iterable[int]) -> list[str]:
        return [self.names[i] for i in numbers]
