"""A small language: sentences of determiner, adjective, noun and verb, with words that have one class each."""

from __future__ import annotations

import numpy as np

WORDS = {
    "D": ["the", "a", "this"],
    "A": ["big", "old", "red", "new"],
    "N": ["dog", "cat", "tree", "house", "man", "bird"],
    "V": ["sees", "finds", "takes", "likes"],
}
SHAPES = ["DNV", "DANV", "DNVDN", "DANVDN", "DNVDAN"]


def sentences(n: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    rng = np.random.default_rng(seed)
    tags = [list(SHAPES[i]) for i in rng.integers(len(SHAPES), size=n)]
    return [[str(rng.choice(WORDS[t])) for t in row] for row in tags], tags
