"""Encoders: what turns the tokens of a batch into a vector for each, as estimators that make a ``torch.nn.Module``.

An encoder learns from a batch what it has to know (words, characters), and builds a network ``forward(batch) ->
(n_slots, width)``. Its settings and what it learned are part of a model's file.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Mapping
from itertools import pairwise
from typing import Any, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.batch import Batch
from trellis.errors import DataError, UnknownNameError
from trellis.models.saving import SavedEstimator

ENCODERS = ("bilstm", "wordllama")


class Encoder(SavedEstimator):
    """Base of encoders: ``learn`` once, ``build`` as often as a model begins anew."""

    @property
    def width(self) -> int:
        """Numbers in the vector of a token."""
        raise NotImplementedError

    def learn(self, batch: Batch) -> None:
        """Learn words and the like from a batch."""
        raise NotImplementedError

    def build(self) -> Any:
        """A network with new parameters: batch -> (n_slots, width)."""
        raise NotImplementedError

    def learned_from(self, batch: Batch) -> Self:
        """An encoder of these settings that has learned from a batch."""
        made = type(self)(**self.get_params(deep=False))
        made.check_settings()
        made.learn(batch)
        return made

    def plain(self) -> Self:
        """An encoder of these settings that has learned nothing."""
        return type(self)(**self.get_params(deep=False))

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        raise NotImplementedError

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        raise NotImplementedError


def encoder_of(module: Any, **settings: Any) -> Encoder | None:
    """The encoder that a model's ``module`` names or is; None: it is a module of one's own.

    settings : of the BiLSTM, where the name stands for one
    """
    if isinstance(module, Encoder):
        return copy.copy(module)
    if not isinstance(module, str | os.PathLike):
        return None
    from trellis.neural.bilstm import BiLSTM
    from trellis.neural.vectors import WordVectors

    name = os.fspath(module)
    if name == "bilstm":
        return BiLSTM(**settings)
    if name == "wordllama" or os.path.isfile(name):
        return BiLSTM(**settings, vectors=WordVectors(name, window=0))
    if os.path.isdir(name) or "/" in name:
        from trellis.neural.pretrained import Pretrained

        return Pretrained(name)
    error = UnknownNameError("encoder", name, ENCODERS)
    error.add_note(
        "(an encoder is 'bilstm', 'wordllama', a text file of word vectors, or the folder or name/of/a Hugging Face "
        "model)"
    )
    raise error


FEW_TEXTS, FEW_PASSES = 10_000, (10, 40)
"""Number of texts over all passes of a network for few texts, and the minimum and maximum number of passes."""


def small_encoder(encoder: str | None) -> Encoder | None:
    """The encoder of this name, a small one if it is trained from scratch."""
    return encoder_of(encoder, word_size=50, char_size=50, hidden=64, layers=1, min_count=1)


def for_few_texts(encoder: str | None, n_texts: int) -> tuple[Encoder | None, dict[str, Any]]:
    """A small encoder, and how a network over it is trained on ``n_texts`` texts."""
    passes = int(np.clip(-(-FEW_TEXTS // n_texts), *FEW_PASSES))
    return small_encoder(encoder), {"max_iter": passes, "batch_size": 4, "learning_rate": 0.005}


class GivenModule(nn.Module):
    """A module of one's own, which is given what it takes: what ``inputs`` makes of a batch, or by default the vectors
    of the tokens as a tensor, and sentences as lists of words where tokens are words."""

    def __init__(self, module: Any, inputs: Callable[[Batch], Any] | None) -> None:
        super().__init__()
        self.module, self.inputs = module, inputs

    def forward(self, batch: Batch) -> Any:
        if self.inputs is not None:
            given = self.inputs(batch)
            return self.module(*given) if isinstance(given, tuple) else self.module(given)
        return self.module(self._vectors(batch) if batch.features is not None else sentences_of(batch))

    def _vectors(self, batch: Batch) -> Any:
        features = batch.features if isinstance(batch.features, np.ndarray) else batch.features.toarray()
        like = next(self.module.parameters(), None)
        dtype, device = (torch.float32, "cpu") if like is None else (like.dtype, like.device)
        return torch.from_numpy(np.ascontiguousarray(features)).to(device, dtype, non_blocking=True)


def sentences_of(batch: Batch) -> list[list[str]]:
    """The words of a batch, a list for each sentence."""
    words, ends = batch.column("word").strings(), batch.offsets.tolist()
    return [words[low:high] for low, high in pairwise(ends)]


def check_scores_of(tensor: Any, shape: tuple[int, ...], what: str) -> Any:
    """The scores that a module gave, which must have this shape."""
    if not isinstance(tensor, torch.Tensor) or tuple(tensor.shape) != shape:
        found = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else type(tensor).__name__
        raise DataError(f"the module must give {what}, a tensor of shape {shape}, but gave {found}")
    return tensor
