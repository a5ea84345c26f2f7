"""Arcs of one language projected to another through word links, and which are trusted (Ganchev et al. 2010, sec. 7.1).

An arc from p to c of the source tree becomes an arc from p' to c' for every p' linked to p and c' linked to c. Links
may be many to many: a word may be given several heads. The word under the source root gives an arc from the root.

Projected heads that are kept in predicted trees, and the η that they speak for (Ganchev et al. 2010, footnote 10).

Parsers are learned at each η from half of the sentence pairs; k_i(η) of the n_i words of pair i of the other half that
are given heads keep one. Most are kept at η*. Taken is the loosest η that is not worse by more than a standard error
of the difference,

    D(η) = Σ_i d_i / Σ_i n_i ≤ √(Σ_i (d_i − D(η) n_i)²) / Σ_i n_i,    d_i = k_i(η*) − k_i(η),

since η is to be no tighter than the text asks for: the one-standard-error rule of Breiman et al. 1984 over pairs.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from trellis.apps.parse.tree_text import Stripped
from trellis.data.ragged import IntArray
from trellis.errors import DataError

LIKE_TAGS = (
    ("NOUN", "PROPN", "PRON", "NUM", "SYM"), ("VERB", "AUX"), ("ADJ", "ADV", "NUM", "DET"), ("DET", "PRON"),
    ("ADP", "SCONJ", "PART"), ("ADV", "SCONJ"), ("CCONJ", "SCONJ"), ("VERB", "ADJ"), ("INTJ", "ADV"), ("PART", "ADV"),
)  # fmt: skip
"""Universal tags that words which translate each other may have beside equal ones."""
PREDICATES = ("VERB", "AUX")
"""A sentence without one of these is taken for a fragment."""

PROPER_NOUN, COMPOUND, FLAT = "PROPN", "compound", "flat"
"""A tag and two relations of Universal Dependencies."""

_PAIRS = {(a, b) for group in LIKE_TAGS for a in group for b in group}

Link = tuple[int, int]


@dataclass(frozen=True)
class SentencePair:
    """A sentence pair without punctuation: tagged words, the source tree, and links (i, j) between places from 0.

    relations : of the source words to their heads, None where unknown
    """

    source: list[tuple[str, str]]
    heads: list[int]
    target: list[tuple[str, str]]
    links: list[Link]
    relations: Sequence[str | None] | None = None


def strip_pair(
    source: Stripped,
    heads: Sequence[int | None],
    target: Stripped,
    links: Iterable[Link],
    number: int,
    relations: Sequence[str | None] | None = None,
) -> SentencePair | None:
    """A pair with links between stripped words; None where a side has no words or the source no whole tree.

    relations : of all words of the source sentence
    """
    ahead, back = ({place: k for k, place in enumerate(side.places)} for side in (source, target))
    kept = []
    for i, j in links:
        if not (0 <= i < source.length and 0 <= j < target.length):
            raise DataError(
                f"pair {number} has {source.length} and {target.length} words, so it has no link {i}-{j}"
            )  # fmt: skip
        if i in ahead and j in back:
            kept.append((ahead[i], back[j]))
    whole = [head for head in heads if head is not None]
    if not source.words or not target.words or len(whole) != len(heads):
        return None
    own = None if relations is None else [relations[place] for place in source.places]
    return SentencePair(source.words, whole, target.words, kept, own)


def is_fragment(pair: SentencePair) -> bool:
    """Whether a side has no verb."""
    return not all(any(tag in PREDICATES for _, tag in side) for side in (pair.source, pair.target))


def projected(pair: SentencePair) -> list[tuple[int, int]]:
    """The projected arcs (head, child) of a pair, words from 1, through links between words of like tags."""
    return sorted(projected_relations(pair))


def projected_relations(pair: SentencePair) -> dict[tuple[int, int], str | None]:
    """The projected arcs (head, child) of a pair, and the relation that each has in the source tree."""
    links = [(i, j) for i, j in pair.links if _may_translate(pair.source[i][1], pair.target[j][1])]
    targets: dict[int, list[int]] = {}
    for i, j in links:
        targets.setdefault(i, []).append(j)
    found: dict[tuple[int, int], str | None] = {}
    for i, j in links:
        head, relation = pair.heads[i], None if pair.relations is None else pair.relations[i]
        if head == 0:
            found.setdefault((0, j + 1), relation)
        for k in targets.get(head - 1, ()) if head else ():
            if k != j:
                found.setdefault((k + 1, j + 1), relation)
    return found


def left_headed_names(pair: SentencePair) -> SentencePair:
    """The pair with names of several proper nouns headed by their first word (``flat``), not by their last.

    Universal Dependencies has ``flat`` for names, but English treebanks have ``compound`` for many of them.
    """
    if pair.relations is None:
        return pair
    heads, relations = list(pair.heads), list(pair.relations)
    for last, (_, tag) in enumerate(pair.source):
        own = [c for c in range(last) if heads[c] == last + 1]
        parts = [c for c in own if relations[c] == COMPOUND and pair.source[c][1] == tag == PROPER_NOUN]
        if not parts:
            continue
        first = parts[0]
        for c in range(len(heads)):
            if heads[c] == last + 1 and c != first:
                heads[c] = first + 1
        heads[first], relations[first] = heads[last], relations[last]
        heads[last] = first + 1
        for c in (*parts[1:], last):
            relations[c] = FLAT
    return replace(pair, heads=heads, relations=relations)


def coverage(pair: SentencePair) -> float:
    """The share of target words that a projected arc gives a head."""
    return len({child for _, child in projected_relations(pair)}) / len(pair.target)


def _may_translate(one: str, other: str) -> bool:
    return one == other or (one, other) in _PAIRS


ETAS = (0.6, 0.7, 0.8, 0.9, 0.95, 1.0)
"""What is tried."""


def conserved(pairs: Sequence[SentencePair], trees: Sequence[Sequence[int]]) -> tuple[IntArray, IntArray]:
    """Of each pair: words with given heads that keep one in its tree, and words with given heads."""
    kept, words = np.zeros((2, len(pairs)), dtype=np.int64)
    for i, (pair, heads) in enumerate(zip(pairs, trees, strict=True)):
        given = set(projected(pair))
        children = {c for _, c in given}
        words[i] = len(children)
        kept[i] = sum((heads[c - 1], c) in given for c in children)
    return kept, words


def loosest(kept: Mapping[float, IntArray], words: IntArray) -> float:
    """The η that is taken, of the words kept in each pair at every η that was tried."""
    best = max(kept.values(), key=np.sum)

    def is_no_worse(own: IntArray) -> bool:
        fewer = best - own
        share = fewer.sum() / max(words.sum(), 1)
        return bool(fewer.sum() <= np.sqrt(np.sum((fewer - share * words) ** 2)))

    return min(eta for eta, own in kept.items() if is_no_worse(own))
