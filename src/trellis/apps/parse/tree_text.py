"""Sentences without their punctuation, and their trees as trees of whole sentences.

Punctuation says little about who hangs on whom and is stripped where trees are learned without a treebank (Klein &
Manning 2004). In whole sentences it hangs on the word that hangs on the root.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from trellis.data.columns import FILLER
from trellis.data.conllu import heads as heads_of
from trellis.data.document import Document

PUNCTUATION = ("PUNCT",)
"""Tags of what is stripped."""
PUNCTUATION_RELATION, ROOT_RELATION = "punct", "root"
"""Relations of Universal Dependencies."""


@dataclass(frozen=True)
class Stripped:
    """The words of a sentence that are no punctuation.

    words : (word, tag) each;  places : of these words in the sentence, counted from 0;  length : of the sentence
    """

    words: list[tuple[str, str]]
    places: list[int]
    length: int

    def heads(self, sentence: Document) -> list[int | None]:
        """The heads of these words in a sentence's tree; who hung on punctuation hangs on its head."""
        whole, new = heads_of(sentence), {place + 1: k for k, place in enumerate(self.places, start=1)}
        found: list[int | None] = []
        for place in self.places:
            head, steps = whole[place], 0
            while head and head not in new and steps < self.length:
                head, steps = whole[head - 1], steps + 1
            found.append(None if head is None else new.get(head, 0))
        return found

    def whole(self, heads: Sequence[int]) -> list[int]:
        """A tree of these words as a tree of the whole sentence."""
        top = next((place + 1 for place, head in zip(self.places, heads, strict=True) if head == 0), 0)
        found = [top] * self.length
        if not self.places:  # nothing but punctuation: the first stands for the sentence
            return [0, *[1] * self.length][: self.length]
        for place, head in zip(self.places, heads, strict=True):
            found[place] = self.places[head - 1] + 1 if head else 0
        return found

    def whole_relations(self, relations: Sequence[str]) -> list[str]:
        """The relations of these words as those of the whole sentence."""
        found = [PUNCTUATION_RELATION] * self.length
        if found and not self.places:
            found[0] = ROOT_RELATION
        for place, relation in zip(self.places, relations, strict=True):
            found[place] = relation
        return found


def strip(sentence: Document, text: Sequence[tuple[str, str]]) -> Stripped:
    """A sentence, whose tagged words are ``text``, without its punctuation."""
    places = [place for place, (_, tag) in enumerate(text) if tag not in PUNCTUATION]
    return Stripped([text[place] for place in places], places, len(sentence))


def with_heads(sentence: Document, heads: Sequence[int], relations: Sequence[str] | None = None) -> Document:
    """The sentence with another tree; without ``relations`` they are unknown."""
    named = tuple(relations) if relations is not None else (FILLER,) * len(sentence)
    return replace(sentence, columns={**sentence.columns, "head": tuple(map(str, heads)), "deprel": named})
