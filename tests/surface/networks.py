"""Estimators of ``trellis.neural`` for the table of examples.py; PyTorch is needed."""

from __future__ import annotations

from typing import Any

import pytest

from trellis import CRF, RelationModel

torch = pytest.importorskip("torch")

from trellis.neural import (  # noqa: E402
    BiLSTM,
    NeuralClassifier,
    NeuralCRF,
    NeuralParser,
    NeuralParts,
    NeuralRelations,
)

torch.set_num_threads(1)
TINY = {"char_size": 0, "hidden": 4, "layers": 1, "min_count": 1, "dropout": 0.0}


class LabelsByLength(torch.nn.Module):
    """Scores of three labels by the length of a word."""

    def __init__(self) -> None:
        super().__init__()
        self.scores = torch.nn.Parameter(torch.zeros(8, 3))

    def forward(self, batch: Any, parts: Any) -> Any:
        lengths = [min(len(word), 7) for word in batch.column("word").strings()]
        return parts.grid(), self.scores[lengths]


def parts() -> NeuralParts:
    return NeuralParts(LabelsByLength(), CRF(["D", "N", "V"]), max_iter=20, learning_rate=0.1)


def crf() -> NeuralCRF:
    return NeuralCRF(BiLSTM(word_size=4, **TINY), ["D", "N", "V"], max_iter=20, learning_rate=0.05)


def classifier() -> NeuralClassifier:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return NeuralClassifier(torch.nn.Linear(3, 3), max_iter=5, learning_rate=0.1)


def parser() -> NeuralParser:
    encoder = BiLSTM(word_size=4, tag_size=4, **TINY)
    return NeuralParser(encoder, arc_size=4, relation_size=2, max_iter=5, learning_rate=0.05, dropout=0.0)


def relations() -> NeuralRelations:
    encoder = BiLSTM(word_size=4, **TINY)
    return NeuralRelations(encoder, RelationModel(min_count=1), size=4, max_iter=3, learning_rate=0.05, dropout=0.0)
