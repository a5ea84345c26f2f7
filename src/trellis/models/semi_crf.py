"""SemiCRF: a semi-Markov conditional random field, a CRF over segments of one label (Sarawagi and Cohen 2004).

    p(y | x) ∝ exp( Σ_t Σ_f value(t, f) w[f, y_t] + Σ_{segments} Σ_g value(segment, g) w[g, label]
                    + Σ_{neighbours a, b} edge[a, b] + start[y_1] + stop[y_n] )

Beside the CRF's features of tokens, which a segment sums, a segment has its length, its first and its last word, and
the dictionaries that hold it as a whole. Two segments of one label may stand side by side, as ``again`` weighs it.
Segments are of any length: beyond ``longest`` tokens lengths are not told apart, and what each further token costs is
``edge`` of a label with itself, as in a CRF.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np

from trellis.data.batch import Batch
from trellis.data.bio import BEGINS as MARK
from trellis.data.ragged import LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.models.crf import CRF, Sentences
from trellis.models.documentation import documented
from trellis.models.features import FeatureFunction, describe, named_values
from trellis.models.segment_features import BEGINS, ENDS, WHOLE, SegmentLayout, role_of
from trellis.models.sequence import Labels
from trellis.structures import SegmentParts, Segments


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
        return SegmentLayout(first_pair, pair_label, k, ends, np.zeros(0, dtype=np.int64), role, self.longest)

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
