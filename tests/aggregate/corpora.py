"""Generated texts whose true labels are known, and labelling functions that are right as often as they are told."""

from __future__ import annotations

import numpy as np

from trellis.data.document import Document
from trellis.data.voted import follows

LABELS = ["O", "B-DRUG", "I-DRUG", "B-PAIN", "I-PAIN"]


def drawn(n_texts=300, accuracy=(0.95, 0.85, 0.7), coverage=(0.6, 0.6, 0.6), seed=0):
    """Texts and their true labels; each function sees a share of the entities and is right on a share of its votes."""
    rng = np.random.default_rng(seed)
    may = follows(LABELS)
    texts, gold = [], []
    for _ in range(n_texts):
        labels, before = [], len(LABELS)
        for _ in range(int(rng.integers(4, 14))):
            weights = np.where(may[before], np.where(np.arange(len(LABELS)) == 0, 6.0, 1.0), 0.0)
            before = int(rng.choice(len(LABELS), p=weights / weights.sum()))
            labels.append(LABELS[before])
        votes = {}
        for j, (right, seen) in enumerate(zip(accuracy, coverage, strict=True)):
            own = [None] * len(labels)
            for t, label in enumerate(labels):
                if label != "O" and rng.random() < seen:
                    own[t] = label
            # false alarms on "O" tokens, as many as bring the share of right votes to what is wanted
            n_wrong = sum(v is not None for v in own) * (1 - right) / right
            for t, label in enumerate(labels):
                if label == "O" and rng.random() < n_wrong / max(labels.count("O"), 1):
                    own[t] = "B-DRUG"
            votes[f"f{j}"] = tuple(own)
        words = tuple(f"{label.lower()}{rng.integers(30)}" for label in labels)
        texts.append(Document(words, votes=votes))
        gold.append(labels)
    return texts, gold


def agreement(found, gold):
    """Share of the tokens that are labelled as they should be."""
    pairs = [(a, b) for own, true in zip(found, gold, strict=True) for a, b in zip(own, true, strict=True)]
    return float(np.mean([a == b for a, b in pairs]))


def true_accuracies(texts, gold):
    """Share of right votes of each function."""
    table = {}
    for name in texts[0].votes:
        own = [
            vote == label
            for text, labels in zip(texts, gold, strict=True)
            for vote, label in zip(text.votes[name], labels, strict=True)
            if vote is not None
        ]
        table[name] = float(np.mean(own))
    return table
