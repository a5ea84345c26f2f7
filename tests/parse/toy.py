"""A grammar small enough to be learned from a few dozen sentences: (determiner) adjective* noun verb (noun phrase)."""

from __future__ import annotations

import numpy as np

from trellis.data.document import Document

WORDS = {
    "DET": ["the", "a"],
    "ADJ": ["old", "red", "small"],
    "NOUN": ["dog", "cat", "house", "tree", "gardener"],
    "VERB": ["sees", "likes", "plants"],
    "PUNCT": ["."],
}


def sentence(rng: np.random.Generator) -> Document:
    """The subject hangs on the verb to its right, the object on the verb to its left."""
    tags: list[str] = []
    heads: list[int] = []
    relations: list[str] = []

    def phrase() -> int:
        first = len(tags)
        tags.extend(["DET"] * int(rng.random() < 0.7) + ["ADJ"] * int(rng.integers(0, 3)) + ["NOUN"])
        noun = len(tags)
        for tag in tags[first:-1]:
            heads.append(noun)
            relations.append("det" if tag == "DET" else "amod")
        heads.append(-1)
        relations.append("")
        return noun

    subject = phrase()
    tags.append("VERB")
    verb = len(tags)
    heads.append(0)
    relations.append("root")
    heads[subject - 1], relations[subject - 1] = verb, "nsubj"
    if rng.random() < 0.6:
        thing = phrase()
        heads[thing - 1], relations[thing - 1] = verb, "obj"
    tags.append("PUNCT")
    heads.append(verb)
    relations.append("punct")
    words = tuple(str(rng.choice(WORDS[tag])) for tag in tags)
    return Document(words, tuple(tags), {"head": tuple(map(str, heads)), "deprel": tuple(relations)})


def treebank(n: int, seed: int = 0) -> list[Document]:
    rng = np.random.default_rng(seed)
    return [sentence(rng) for _ in range(n)]


def pairs(trees: list[Document]) -> tuple[list[list[tuple[str, str]]], list[list[int]]]:
    """Tagged words, and heads."""
    text = [list(zip(s.tokens, s.labels or (), strict=True)) for s in trees]
    return text, [[int(h) for h in s.columns["head"]] for s in trees]
