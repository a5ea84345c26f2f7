"""SemiCRF: a semi-Markov conditional random field, a CRF over segments of one label (Sarawagi and Cohen 2004).

    p(y | x) ∝ exp score(y),
    score(y) = Σ_t w·tokens(t, y_t) + Σ_{segments s..t of label k} w·begins(s, k) + w·ends(t, k) + w·whole(s, t, k)
               + length[t − s + 1, k] + Σ_{neighbours} (edge[a, b], or again[k] if a = b = k) + start[y_1] + stop[y_n]

Beside the CRF's features of tokens, which a segment sums, a segment has its length, its first and its last word, and
the dictionaries that hold it as a whole. Two segments of one label may stand side by side, as ``again`` weighs it.
Segments are of any length: beyond ``longest`` tokens lengths are not distinguished, and each further token costs
``edge`` of a label with itself, as in a CRF.

A segment's features stand in the rows of its tokens, under names that tell what they are of:

    "begins: .."     of a segment that begins with this token
    "ends: .."       of a segment that ends with it
    "3 tokens: .."   of a segment of three tokens that ends with it
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import Any, ClassVar, Self
from zlib import crc32

import numpy as np
from scipy import sparse

from trellis.data.batch import Batch
from trellis.data.bio import BEGINS as MARK
from trellis.data.ragged import FloatArray, IntArray, LabelArray, owners
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Additive
from trellis.models.crf import CRF, Sentences
from trellis.models.crf_objective import RowFeatures, WeightLayout, checked_features
from trellis.models.documentation import documented
from trellis.models.features import FeatureFunction, describe, named_values
from trellis.models.kernels import log_linear
from trellis.models.sequence import Labels
from trellis.models.statistics import RowCounts
from trellis.structures import SegmentParts, SegmentPosterior, Segments

BEGINS, ENDS, WHOLE = "begins: ", "ends: ", " tokens: "
_ROLE = re.compile(r"(begins: |ends: )|([0-9]+) tokens: ")
TOKEN, BEGIN, END = 0, -1, -2
"""Roles of features; a number above 0 is that of tokens of a whole segment."""


def role_of(name: str) -> int:
    """What a feature is of.

    >>> role_of("word=a"), role_of("begins: word=a"), role_of("ends: x"), role_of("3 tokens: in cities")
    (0, -1, -2, 3)
    """
    found = _ROLE.match(name)
    if found is None:
        return TOKEN
    return int(found[2]) if found[2] else (BEGIN if found[1] == BEGINS else END)


@dataclass(frozen=True)
class SegmentLayout(WeightLayout):
    """Where each weight stands: those of a CRF, then again (K,) and length (L, K).

    role : (n_features,) what each feature is of;  longest : L
    """

    role: IntArray
    longest: int

    @cached_property
    def key(self) -> int:
        return crc32(self.role.tobytes(), super().key + self.longest)

    @property
    def n_weights(self) -> int:
        return self.n_plain + self.n_labels * (1 + self.longest)

    def own(self, weights: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Weights of what is again (K,), and of lengths (L, K), as views."""
        n, k = self.n_plain, self.n_labels
        return weights[n : n + k], weights[n + k :].reshape(self.longest, k)

    def prepared(self, batch: Batch) -> Any:
        return SegmentFeatures(batch, self)

    def rows(self, features: Any) -> tuple[Any, Any, Any, IntArray, Any]:
        """Features of tokens, of beginnings and of ends (n, n_features); cells (slot · L + length − 1), and theirs."""
        n = features.shape[0]
        row = owners(features.indptr)
        role = self.role[features.indices]

        def chosen(mine: Any, at: IntArray, n_rows: int) -> Any:
            entries = (features.data[mine], features.indices[mine], np.searchsorted(at, np.arange(n_rows + 1)))
            return sparse.csr_array(entries, shape=(n_rows, features.shape[1]))

        tokens, begins, ends = (chosen(role == one, row[role == one], n) for one in (TOKEN, BEGIN, END))
        whole = np.flatnonzero((role > 0) & (role < self.longest))
        cell = row[whole] * self.longest + role[whole] - 1
        order = np.argsort(cell, kind="stable")
        cells, at = np.unique(cell[order], return_inverse=True)
        return tokens, begins, ends, cells, chosen(whole[order], at, len(cells))

    def phi(self, batch: Batch, outputs: LabelArray) -> Any:
        k, n = self.n_labels, batch.n_slots
        parts = SegmentParts(batch.offsets, k, self.longest)
        y = parts.check(outputs).astype(np.int64)
        label, start = y % k, np.flatnonzero(parts.begins(y))
        length = np.diff(np.append(start, n))
        last = start + length - 1
        sentence = np.repeat(np.arange(len(batch)), batch.lengths)
        tokens, begins, ends, cells, whole = self.rows(checked_features(batch, self))
        used = np.full(n, -1, dtype=np.int64)
        used[last] = np.minimum(length, self.longest) - 1
        mine = np.flatnonzero(used[cells // self.longest] == cells % self.longest)
        row, column, value = [], [], []
        for matrix, rows, slots in (
            (tokens, np.arange(n), np.arange(n)), (begins, start, start), (ends, last, last),
            (whole, mine, cells[mine] // self.longest),
        ):  # fmt: skip
            some = matrix[rows]
            slot = np.repeat(slots, np.diff(some.indptr))
            place = log_linear.find_pairs(some.indices, label[slot], self.first_pair, self.pair_label)
            row.append(sentence[slot[place >= 0]])
            column.append(place[place >= 0])
            value.append(some.data[place >= 0])
        inner = np.flatnonzero(parts.has_boundary())
        beside = y[inner] < k
        filled = np.flatnonzero(batch.lengths)
        at, pairs, plain = self.n_pairs, k * k, self.n_plain
        others = [
            (sentence[inner[beside]], at + label[inner[beside] - 1] * k + label[inner[beside]]),
            (sentence[inner[~beside]], plain + label[inner[~beside]]),
            (sentence[last], plain + k + used[last] * k + label[last]),
        ]
        if self.ends:
            others += [
                (filled, at + pairs + label[batch.offsets[:-1][filled]]),
                (filled, at + pairs + k + label[batch.offsets[1:][filled] - 1]),
            ]
        for one, where in others:
            row.append(one)
            column.append(where)
            value.append(np.ones(len(one)))
        entries = (np.concatenate(value), (np.concatenate(row), np.concatenate(column)))
        return sparse.csr_matrix(entries, shape=(len(batch), self.n_weights))


@dataclass(frozen=True)
class SegmentStatistics(Additive):
    """Expected counts: of pairs (n_pairs, 1), of the other weights in their order, and the log-partitions with them."""

    pairs: RowCounts
    others: FloatArray
    log_partition: float

    def vector(self, layout: WeightLayout) -> FloatArray:
        """The counts in the order of the weights (n_weights,)."""
        return np.concatenate([self.pairs.table()[:, 0], self.others])


class SegmentFeatures:
    """A shard with the features of its tokens and segments prepared."""

    def __init__(self, batch: Batch, layout: SegmentLayout) -> None:
        self.batch, self.layout = batch, layout
        tokens, begins, ends, self.cells, whole = layout.rows(checked_features(batch, layout))
        self.tokens, self.begins, self.ends, self.whole = (
            RowFeatures(matrix, layout) for matrix in (tokens, begins, ends, whole)
        )

    def scores(self, weights: FloatArray) -> Segments:
        """The segments of the shard under the given weights."""
        layout, batch = self.layout, self.batch
        pairs, edge, start, stop = layout.split(weights)
        again, length = layout.own(weights)
        extra = None
        if len(self.cells):
            extra = np.zeros((batch.n_slots, layout.longest, layout.n_labels))
            extra.reshape(-1, layout.n_labels)[self.cells] = self.whole.scores(pairs)
        return Segments(
            batch.offsets, self.tokens.scores(pairs), edge, length=length, again=again, begin=self.begins.scores(pairs),
            end=self.ends.scores(pairs), extra=extra, start=start, stop=stop, first=batch.first,
        )  # fmt: skip

    def collect(self, q: SegmentPosterior) -> SegmentStatistics:
        """Expected counts under a posterior whose edge counts are weighted already."""
        batch, layout, k = self.batch, self.layout, self.layout.n_labels
        weight = np.repeat(batch.weights, batch.lengths)
        pairs = self.tokens.counts(batch.offsets, batch.weights, q.node)
        for rows, marginal in ((self.begins, q.begins), (self.ends, q.ends)):
            if len(rows.values):
                pairs = pairs + rows.counts(batch.offsets, batch.weights, marginal)
        if len(self.cells) and q.segment is not None:
            marginal = q.segment.reshape(-1, k)[self.cells]
            each = np.arange(len(self.cells) + 1)
            pairs = pairs + self.whole.counts(each, weight[self.cells // layout.longest], marginal)
        start, stop = np.zeros(k), np.zeros(k)
        log_linear.add_ends(batch.offsets, batch.weights, q.node, start, stop)
        ends = [start, stop] if layout.ends else []
        others = np.concatenate([q.edge_counts.ravel(), *ends, weight @ q.again, q.length_counts.ravel()])
        return SegmentStatistics(pairs, others, float(batch.weights @ q.log_partition))


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class SemiCRF(CRF):
    """Semi-Markov conditional random field: scores whole segments.

    Labels are those of tokens; "B-X" marks the first token of a segment of X that directly follows another one of X.

    Parameters
    ----------
    features : callable or None, default=None
        Function that maps a sentence and a position to a description of the token. By default, tokens are descriptions
        themselves.
    boundaries : callable or None, default=None
        Function that maps a sentence and a position to a description of the token as the first or last one of a
        segment. By default, its word in lower case.
    dictionaries : dict or None, default=None
        Named lists of lower-case phrases; a segment has a feature for each list that contains it.
    longest : int, default=8
        Segment lengths are distinguished up to this number of tokens.

    Attributes
    ----------
    weights_ : ndarray
        Feature weights.
    label_names_ : Vocabulary
        Labels.
    feature_names_ : Vocabulary
        Features.

    Examples
    --------
    >>> text, labels = (
    ...     [["ann", "lee", "bob", "ran"], ["bob", "ann", "ran"]],
    ...     [["P", "P", "B-P", "O"], ["P", "B-P", "O"]],
    ... )
    >>> model = SemiCRF(l2=0.01).fit(text, labels)
    >>> model.predict([["ann", "lee", "bob", "ran"]])
    [['P', 'P', 'B-P', 'O']]
    """

    outputs_are: ClassVar[str] = "segments"
    boundaries: FeatureFunction | None = None
    dictionaries: Mapping[str, Sequence[Sequence[str]]] | None = None
    longest: int = 8
    edge_features: bool = field(default=False, init=False)  # segments have no such weights
    transitions: bool = field(default=True, init=False)

    # text in

    def _describe(self, sentences: Sentences) -> Iterator[Iterator[tuple[str, float]]]:
        own, held = self._function("boundaries"), _held(self.dictionaries or {})
        tokens = describe(sentences, self._function())
        for sentence in sentences:
            words = [_word(token) for token in sentence]
            for t in range(len(sentence)):
                boundary = own(sentence, t) if own is not None else [word for word in words[t : t + 1] if word]
                yield self._of_token(next(tokens), boundary, held, words[max(t + 2 - self.longest, 0) : t + 1])

    def _of_token(
        self, token: Iterator[tuple[str, float]], boundary: Any, held: Mapping[Any, list[str]], words: list[str | None]
    ) -> Iterator[tuple[str, float]]:
        """Features of a token, of segments that begin or end with it, and of whole ones of words that end with it."""
        yield from token
        for name, value in named_values(boundary):
            yield BEGINS + name, value
            yield ENDS + name, value
        for n in range(1, len(words) + 1 if held else 1):
            for name in held.get(tuple(words[-n:]), ()):
                yield f"{n}{WHOLE}{name}", 1.0

    def _labelled(self, blank: Sentences, y: Labels | None, weights: Any) -> Batch:
        codes = Vocabulary(codes_of(list(self.label_names_)), kind="label")
        batch = Batch.from_sentences(blank, y, label_names=codes, weights=weights)
        # one that says it begins a segment where nothing else could be is a label like any other
        k, inner = len(self.label_names_), batch.lengths
        label = batch.labels % k
        first = np.ones(batch.n_slots, dtype=np.bool_)
        first[1:] = False
        first[batch.offsets[:-1][inner > 0]] = True
        before = np.roll(batch.labels, 1)
        alone = first | ((before >= 0) & (before % k != label))
        return batch.with_labels(np.where((batch.labels >= k) & alone, label, batch.labels).astype(np.int32))

    def _learn_label_names(self, X: Any, y: Labels | None) -> Vocabulary:
        found = super()._learn_label_names(X, y)
        if self.labels is not None:
            return found
        names = list(found)
        return Vocabulary([name for name in names if label_of(name, names) == name], kind="label")

    def _learn_layout(self, batch: Batch) -> SegmentLayout:
        k = len(self.label_names_)
        plain = super()._learn_layout(batch.with_labels(np.where(batch.labels < 0, -1, batch.labels % k)))
        return self._layout(plain.first_pair, plain.pair_label)

    def _layout(self, first_pair: Any, pair_label: Any) -> SegmentLayout:
        role = np.array([role_of(name) for name in self.feature_names_], dtype=np.int64)
        k, ends = len(self.label_names_), bool(self.ends)
        return SegmentLayout(first_pair, pair_label, k, ends, True, np.zeros(0, dtype=np.int64), role, self.longest)

    # outputs

    def parts(self, batch: Batch) -> SegmentParts:  # type: ignore[override]
        return SegmentParts(batch.offsets, len(self.label_names_), self.longest)

    def uniform(self, batch: Batch) -> Segments:  # type: ignore[override]
        found = self.parts(batch).zeros()
        found.first = batch.first
        return found

    def decode(self, batch: Batch, labels: LabelArray) -> list[list[str]]:
        codes = codes_of(list(self.label_names_))
        return [[codes[c] for c in labels[lo:hi].tolist()] for lo, hi in pairwise(batch.offsets.tolist())]

    def bare(self) -> Self:
        made = super().bare()
        made.boundaries, made.dictionaries = None, None
        return made

    def _check_settings(self) -> None:
        super()._check_settings()
        self._check_whole(longest=1)


def label_of(name: str, names: Sequence[str]) -> str:
    """The label of a token by its name, which may say that a segment begins with it.

    >>> label_of("B-X", ["X", "O"]), label_of("B-X", ["B-X"])
    ('X', 'B-X')
    """
    bare = name.removeprefix(MARK)
    return bare if bare in names else name


def codes_of(names: Sequence[str]) -> list[str]:
    """Names of the codes of outputs: of labels, and of labels with which a segment begins beside its like.

    >>> codes_of(["X", "O"]), codes_of(["X", "B-X"])
    (['X', 'O', 'B-X', 'B-O'], ['X', 'B-X', 'B-B-X', 'B-B-B-X'])
    """
    found = list(names)
    for name in names:
        mark = MARK + name
        while mark in found:  # a label of one's own may look like this
            mark = MARK + mark
        found.append(mark)
    return found


def _word(token: Any) -> str | None:
    word = token.get("word") if isinstance(token, Mapping) else token
    return word.lower() if isinstance(word, str) else None


def _held(dictionaries: Mapping[str, Sequence[Sequence[str]]]) -> dict[tuple[str, ...], list[str]]:
    """Which dictionaries hold an entry."""
    found: dict[tuple[str, ...], list[str]] = {}
    for name, entries in dictionaries.items():
        for entry in entries:
            found.setdefault(tuple(entry), []).append(name)
    return found
