"""Small generated corpora for tests of learners."""

from __future__ import annotations

import numpy as np

LABELS = ["D", "N", "V"]
WORDS = {"D": ["the", "a"], "N": ["dog", "cat", "tree", "walk"], "V": ["walk", "sees", "runs"]}
NEXT = {"D": [0.0, 1.0, 0.0], "N": [0.1, 0.2, 0.7], "V": [0.6, 0.3, 0.1]}


def tagged_sentences(n: int, seed: int = 0) -> tuple[list[list[str]], list[list[str]]]:
    """Sentences of 1 to 7 words from a small HMM over three labels, with words that two labels share."""
    rng = np.random.default_rng(seed)
    sentences, tags = [], []
    for length in rng.integers(1, 8, n):
        label, words, labels = str(rng.choice(["D", "N"])), [], []
        for _ in range(length):
            words.append(str(rng.choice(WORDS[label])))
            labels.append(label)
            label = str(rng.choice(LABELS, p=NEXT[label]))
        sentences.append(words)
        tags.append(labels)
    return sentences, tags
