"""Attachment scores: the share of words with the correct head, and with the correct head and relation.

    UAS = right heads / words,      LAS = words whose head and relation are right / words

A relation is compared without what follows a colon ("nmod:poss" is "nmod"), as is usual.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from trellis.data.columns import FILLER
from trellis.data.conllu import heads as heads_of
from trellis.data.document import Document
from trellis.errors import DataError

LENGTHS = (10, 20, 40)
"""Scores are also given for sentences of up to so many words."""
PUNCTUATION = "PUNCT"
"""The tag of words that attachment scores leave out."""


@dataclass
class Attachment:
    """Counts of words, of those with the right head, and of those with the right relation to it as well."""

    n_words: int = 0
    n_heads: int = 0
    n_labelled: int = 0

    def add(self, head: bool, relation: bool) -> None:
        self.n_words += 1
        self.n_heads += head
        self.n_labelled += head and relation

    @property
    def uas(self) -> float:
        return self.n_heads / self.n_words if self.n_words else 0.0

    @property
    def las(self) -> float:
        return self.n_labelled / self.n_words if self.n_words else 0.0


@dataclass
class TreeScores:
    """``total``: of all words;  ``plain``: of words that are no punctuation;  ``up_to``: of those, by length of
    sentence.

    Sentences are measured without their punctuation where ``up_to`` goes by length.
    """

    total: Attachment = field(default_factory=Attachment)
    plain: Attachment = field(default_factory=Attachment)
    up_to: dict[int, Attachment] = field(default_factory=lambda: {n: Attachment() for n in LENGTHS})
    n_sentences: int = 0
    n_whole: int = 0

    @property
    def whole(self) -> float:
        """Share of the sentences all of whose heads are right, punctuation aside."""
        return self.n_whole / self.n_sentences if self.n_sentences else 0.0


@dataclass(frozen=True)
class Tree:
    """Heads (None where unknown), relations and which words are punctuation, of one sentence."""

    heads: Sequence[int | None]
    relations: Sequence[str | None]
    punctuation: Sequence[bool]


def score_trees(gold: Iterable[Tree], found: Iterable[Tree]) -> TreeScores:
    """Compare trees sentence by sentence; words whose right head is not known do not count."""
    scores = TreeScores()
    for number, (one, other) in enumerate(zip(gold, found, strict=True), start=1):
        if len(one.heads) != len(other.heads):
            raise DataError(
                f"sentence {number} has {len(one.heads)} words in gold but {len(other.heads)} in the output"
            )
        n_plain = sum(not mark for mark in one.punctuation)
        whole = True
        for c, head in enumerate(one.heads):
            if head is None:
                continue
            is_head = other.heads[c] == head
            is_relation = _bare(one.relations[c]) == _bare(other.relations[c])
            scores.total.add(is_head, is_relation)
            if one.punctuation[c]:
                continue
            whole = whole and is_head
            scores.plain.add(is_head, is_relation)
            for length, own in scores.up_to.items():
                if n_plain <= length:
                    own.add(is_head, is_relation)
        scores.n_sentences += 1
        scores.n_whole += whole
    return scores


def compare_trees(gold: Sequence[Document], found: Sequence[Document]) -> TreeScores:
    """Attachment scores of one file against another; words with the tag PUNCT in gold are punctuation."""
    return score_trees([_tree(s) for s in gold], [_tree(s) for s in found])


def _tree(s: Document) -> Tree:
    relations = s.columns.get("deprel") or (FILLER,) * len(s)
    return Tree(
        heads_of(s),
        [None if r == FILLER else r for r in relations],
        [tag == PUNCTUATION for tag in s.labels or (None,) * len(s)],
    )


def _bare(relation: str | None) -> str | None:
    return None if relation is None else relation.partition(":")[0]
