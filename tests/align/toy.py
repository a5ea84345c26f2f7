"""A made-up language pair: every source word has one translation, adjectives move behind their nouns."""

import numpy as np

NOUNS = ["cat", "dog", "house", "tree", "river", "stone", "bird", "road"]
ADJECTIVES = ["red", "old", "small", "wide", "green"]
VERBS = ["sees", "likes", "finds", "draws"]
WORD = {w: w[::-1] + "o" for w in NOUNS + ADJECTIVES + VERBS} | {"the": "la", "a": "un"}


def toy_text(n, seed=0):
    """n pairs of word lists, and the true links of each."""
    rng = np.random.default_rng(seed)
    pairs, links = [], []
    for _ in range(n):
        source, target, true = [], [], []

        def add(word, source=source, target=target, true=true):
            true.append((len(source), len(target)))
            source.append(word)
            target.append(WORD[word])

        for part in range(2):
            add(str(rng.choice(["the", "a"])))
            if rng.random() < 0.5:
                adjective, noun = str(rng.choice(ADJECTIVES)), str(rng.choice(NOUNS))
                true += [(len(source), len(target) + 1), (len(source) + 1, len(target))]
                source += [adjective, noun]
                target += [WORD[noun], WORD[adjective]]
            else:
                add(str(rng.choice(NOUNS)))
            if part == 0:
                add(str(rng.choice(VERBS)))
        pairs.append((source, target))
        links.append(set(true))
    return pairs, links
