"""StringPairs: two strings, a name in two alphabets say, aligned by segments of their characters.

    score(x, h) = Σ_{segments side by side in h} w · φ(segment, segment, what stands beside them)

Features are those of Chang 2011, table 5.1, written for segments: the two segments; one of them with the character
after it and the other; how long they are. With ``longest = 1`` characters are aligned one to one (sec. 5.4.1), with 3
the segments are those of sec. 6.4.1. Instead of the table's distance of places there is the order of the alignment.

A first guess of alignments (sec. 5.4: there a table of romanisation) comes from the pairs themselves: characters that
stand at like places more often than chance has it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.checks import check_sample_weight
from trellis.data.ragged import FloatArray, IntArray, offsets_of
from trellis.errors import DataError
from trellis.models.arc_keys import key_of
from trellis.models.kernels import segment_features as kernel
from trellis.models.matching.pair_model import Pair, PairBatch, PairModel, check_pairs
from trellis.models.state import table_of_rows, used_rows
from trellis.structures import Monotone, MonotoneParts

MOST = 100
"""Longer strings are no names: tables of their points would not fit."""
NEARNESS = 3.0
"""Characters whose places differ by a third of the string or more are not counted as standing at like places."""
SHRINK = 2.0
"""A pair of characters that was counted so often has half of its log odds."""

Template = tuple[Callable[[str, str], str], Callable[[str, str], str]]
"""What of a segment, and of the character after it, is looked at on either side."""


def _segment(segment: str, after: str) -> str:
    return segment


def _segment_and_after(segment: str, after: str) -> str:
    return f"{segment}|{after}"


def _length(segment: str, after: str) -> str:
    return str(len(segment))


TEMPLATES: tuple[Template, ...] = (
    (_segment, _segment),
    (_segment_and_after, _segment),
    (_segment, _segment_and_after),
    (_length, _length),
)
END = "\n"
"""What stands after the last character."""


@dataclass(frozen=True)
class Strings:
    """Strings and the keys of all their segments.

    first : (n + 1,) place of the first character of each, and one beyond its last
    keys : (n_places, longest + 1, n_templates)
    """

    first: IntArray
    keys: NDArray[np.uint64]


@dataclass(frozen=True)
class StringPairBatch(PairBatch):
    """source, target : (n,) numbers of the strings of each pair;  sources, targets : the strings themselves."""

    source: IntArray = None  # type: ignore[assignment]
    target: IntArray = None  # type: ignore[assignment]
    sources: Strings = None  # type: ignore[assignment]
    targets: Strings = None  # type: ignore[assignment]

    def _taken(self, numbers: IntArray) -> dict[str, Any]:
        return {"source": self.source[numbers], "target": self.target[numbers]}

    def words(self, side: int) -> Batch:
        return Batch.from_sentences([list(pair[side]) for pair in self.pairs])

    @property
    def sides(self) -> tuple[IntArray, IntArray]:
        """How many characters each side of every pair has."""
        both = ((self.sources, self.source), (self.targets, self.target))
        return tuple((strings.first[own + 1] - strings.first[own] - 1) for strings, own in both)  # type: ignore[return-value]


class StringPairs(PairModel):
    """Linear model of the alignments of two strings.

    longest : characters of a segment at most;  bits : there are 2^bits places for features

    >>> model = StringPairs(bits=12)
    >>> batch = model.encode([("dana", "דנה"), ("nadia", "נדיה"), ("dina", "דינה"), ("anna", "אנה")], fit=True)
    >>> model.guess(batch)
    >>> nadia = model.decode(batch, model.scores(batch).argmax().outputs)[1]
    >>> [(aligned.left, aligned.right) for aligned in nadia]
    [('n', 'נ'), ('a', ''), ('d', 'ד'), ('i', 'י'), ('a', 'ה')]
    """

    ARRAYS: ClassVar[dict[str, ArrayOf]] = {
        "places": ArrayOf(np.int64, ("used",), low=0),
        "values": ArrayOf(np.float64, ("used",)),
    }

    def __init__(self, *, longest: int = 1, bits: int = 18) -> None:
        self.longest = longest
        self.bits = bits

    # text in

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> StringPairBatch:
        """X : pairs of strings, or a batch of them, which is itself;  weights : (n,).

        y : alignments as :meth:`decode` gives them, segments side by side in order; None where one is not given
        """
        if fit:
            self._check_settings()
            self._begin()
        if isinstance(X, StringPairBatch):
            own = X if weights is None else replace(X, weights=check_sample_weight(weights, len(X)))
            return self._with_given(own, y)
        pairs = check_pairs(X)
        for i, pair in enumerate(pairs):
            if max(map(len, pair)) > MOST:
                long = max(pair, key=len)
                raise DataError(f"pair {i}: {long[:20]!r}... has {len(long)} characters; at most {MOST} are allowed")
        (source, sources), (target, targets) = (self._strings([pair[side] for pair in pairs], side) for side in (0, 1))
        n = np.array([[len(a) + 1, len(b) + 1] for a, b in pairs], np.int64).reshape(-1, 2)
        batch = StringPairBatch(
            pairs, offsets_of(n.prod(axis=1)), check_sample_weight(weights, len(pairs)),
            source=source, target=target, sources=sources, targets=targets,
        )  # fmt: skip
        return self._with_given(batch, y)

    def _output(self, batch: StringPairBatch, number: int, alignment: Any) -> IntArray:
        """Points of the path; of segments without a partner that stand together, those of the source come first."""
        segments = [tuple(one)[:2] for one in alignment]
        if not all(len(one) == 2 and all(isinstance(side, str) for side in one) for one in segments):
            raise DataError(f"pair {number}: an alignment is a list of segments (left, right), got {alignment!r:.60}")
        whole = tuple("".join(segment[side] for segment in segments) for side in (0, 1))
        if whole != batch.pairs[number]:
            raise DataError(
                f"pair {number}: the segments of the alignment given make {whole}, but the pair is "
                f"{batch.pairs[number]}: give all of them in order, with '' for a missing partner"
            )
        group = np.cumsum([bool(left and right) for left, right in segments])
        paired = [bool(left and right) for left, right in segments]
        order = sorted(range(len(segments)), key=lambda k: (group[k], not paired[k], not segments[k][0]))
        points = np.cumsum([[len(side) for side in segments[k]] for k in order], axis=0).reshape(-1, 2)
        self.parts(batch.instances(number, number + 1)).of([points])  # too long a segment is refused
        return points

    def _strings(self, strings: Sequence[str], side: int) -> tuple[IntArray, Strings]:
        """The number of each string among those that differ, and these."""
        numbers: dict[str, int] = {}
        own = np.array([numbers.setdefault(string, len(numbers)) for string in strings], np.int64)
        first = offsets_of(len(string) + 1 for string in numbers)
        keys = np.zeros((int(first[-1]), self.longest + 1, len(TEMPLATES)), np.uint64)
        for number, string in enumerate(numbers):
            for at in range(len(string) + 1):
                for length in range(min(self.longest, len(string) - at) + 1):
                    segment, after = string[at : at + length], string[at + length : at + length + 1] or END
                    for k, template in enumerate(TEMPLATES):
                        keys[first[number] + at, length, k] = _key(template[side](segment, after))
        return own, Strings(first, keys)

    # a scorer

    def parts(self, batch: StringPairBatch) -> MonotoneParts:
        return MonotoneParts(*batch.sides, self.longest)

    def scores(self, batch: StringPairBatch) -> Monotone:
        """Scores of all steps of the pairs' alignments."""
        parts = self.parts(batch)
        value = np.zeros(parts.n_parts)
        kernel.score_steps(
            batch.source, batch.target, batch.sources.first, batch.targets.first, batch.sources.keys,
            batch.targets.keys, self.longest, self._shift, self.weights_, value,
        )  # fmt: skip
        return Monotone(parts, value, first=batch.first)

    def part_features(self, batch: StringPairBatch, used: IntArray) -> Any:
        instance, i, a, j, b = self.parts(batch).segments(used)
        places = np.zeros((len(used), len(TEMPLATES)), np.int64)
        kernel.step_places(
            batch.sources.first[batch.source[instance]] + i, a, batch.targets.first[batch.target[instance]] + j, b,
            batch.sources.keys, batch.targets.keys, self._shift, places,
        )  # fmt: skip
        start = np.arange(len(used) + 1) * len(TEMPLATES)
        entries = (np.ones(places.size), places.ravel(), start)
        return sparse.csr_matrix(entries, shape=(len(used), self._n_weights()))

    def sizes(self, batch: StringPairBatch) -> FloatArray:
        """κ(x): the characters of both sides."""
        return np.asarray(sum(batch.sides), dtype=np.float64)

    def _shown(self, batch: StringPairBatch, outputs: Any) -> tuple[list[list[Pair]], list[IntArray]]:
        made = []
        for (source, target), path in zip(batch.pairs, outputs, strict=True):
            points = [(0, 0), *map(tuple, np.asarray(path).tolist())]
            made.append([(source[i:k], target[j:m]) for (i, j), (k, m) in pairwise(points)])
        return made, [self.parts(batch).of(outputs)]

    # a first guess

    def guess(self, batch: StringPairBatch) -> None:
        """Weights that align characters which stand at like places of these pairs more often than chance has it."""
        together: dict[Pair, float] = {}
        for source, target in batch.pairs:
            for i, x in enumerate(source):
                for j, y in enumerate(target):
                    near = 1.0 - NEARNESS * abs((i + 0.5) / len(source) - (j + 0.5) / len(target))
                    if near > 0.0:
                        together[x, y] = together.get((x, y), 0.0) + near
        one: dict[str, float] = {}
        two: dict[str, float] = {}
        for (x, y), count in together.items():
            one[x], two[y] = one.get(x, 0.0) + count, two.get(y, 0.0) + count
        total = sum(together.values())
        odds = {
            (x, y): np.log(count * total / (one[x] * two[y])) * count / (count + SHRINK)
            for (x, y), count in together.items()
        }
        kept = [pair for pair, value in odds.items() if value > 0.0]
        keys = [np.array([[[_key(pair[side])]] for pair in kept], np.uint64).reshape(-1, 1, 1) for side in (0, 1)]
        places, at, length = np.zeros((len(kept), 1), np.int64), np.arange(len(kept)), np.zeros(len(kept), np.int64)
        kernel.step_places(at, length, at, length, *keys, self._shift, places)
        self.reset()
        self.weights_[places[:, 0]] = [odds[pair] for pair in kept]

    # one file

    @property
    def _shift(self) -> Any:
        return np.uint64(64 - self.bits)

    def _n_weights(self) -> int:
        return 1 << self.bits

    def _check_settings(self) -> None:
        self._check_whole(longest=1, bits=4)
        self._check_within(longest=(1, 8), bits=(4, 22))

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        return used_rows(self.weights_, "values")

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        self._begin()
        checked = check_arrays(self.ARRAYS, arrays)
        self.weights_ = table_of_rows(checked["places"], checked["values"], self._n_weights())


@lru_cache(maxsize=1 << 18)
def _key(text: str) -> int:
    """A key that is not 0."""
    return key_of(f"c{text}") | 1
