"""Pretrained: a Hugging Face transformer as an encoder, its subwords pooled to words, frozen or fine-tuned.

A model's file holds the transformer whole: its configuration, its tokeniser and its weights.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.arrays import check_arrays
from trellis.data.batch import Batch
from trellis.errors import DataError
from trellis.neural.encoders import Encoder, sentences_of

POOLINGS = ("first", "mean")


class _PretrainedHeader(TypedDict):
    """What a file keeps beside the arrays."""

    configuration: str
    tokeniser: str


@dataclass(eq=False, repr=False)
class Pretrained(Encoder):
    """A transformer of Hugging Face, whose subword vectors are pooled to words.

    Parameters
    ----------
    path : path
        Folder of a model, or its name on the Hugging Face hub, which ``transformers`` downloads once.
    frozen : bool, default=False
        Do not train the transformer, only what is built on it.
    pooling : {"first", "mean"}, default="first"
        Vector of a word: that of its first subword, or the mean of all.
    learning_rate : float, default=5e-05
        Largest step size of the transformer's own parameters.
    longest : int, default=500
        Subwords of a sentence that are read at once; longer ones are read in pieces.
    """

    path: Any
    _: KW_ONLY
    frozen: bool = False
    pooling: str = "first"
    learning_rate: float = 5e-5
    longest: int = 500

    learned_names = _PretrainedHeader
    not_saved = (*Encoder.not_saved, "path")

    @property
    def width(self) -> int:
        return int(json.loads(self.configuration_)["hidden_size"])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "configuration_")

    def learn(self, batch: Batch) -> None:
        transformers = _transformers()
        try:
            self.transformer_ = transformers.AutoModel.from_pretrained(self.path)
            tokeniser = transformers.AutoTokenizer.from_pretrained(self.path)
        except (OSError, ValueError) as error:
            raise DataError(f"there is no transformer at {self.path!s}: {str(error).splitlines()[0]}") from error
        if not tokeniser.is_fast:
            raise DataError(f"{self.path!s} has no fast tokeniser (tokenizer.json), which says where words begin")
        self.configuration_ = json.dumps(self.transformer_.config.to_dict(), sort_keys=True)
        self.tokeniser_ = tokeniser.backend_tokenizer.to_str()

    def learned_from(self, batch: Batch) -> Self:
        if self.path is None:  # it comes from a file, which holds all of it
            return copy.copy(self)
        return super().learned_from(batch)

    def plain(self) -> Self:
        return copy.copy(self)

    def build(self) -> Any:
        given = getattr(self, "transformer_", None)
        body = _of_configuration(self.configuration_) if given is None else copy.deepcopy(given)
        return Transformer(self, body)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        return {"configuration": self.configuration_, "tokeniser": self.tokeniser_}, {}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.path = None
        self._check_settings()
        check_arrays({}, arrays)
        self.configuration_, self.tokeniser_ = names["configuration"], names["tokeniser"]
        if not isinstance(json.loads(self.configuration_), dict):
            raise DataError("the configuration of its transformer is not a table")

    def _check_settings(self) -> None:
        self._check_names(pooling=POOLINGS)
        self._check_whole(longest=8)
        self._check_within(learning_rate=(0.0, 1.0))


class Transformer(nn.Module):
    """The network of a :class:`Pretrained`."""

    pretrained = True

    def __init__(self, encoder: Pretrained, body: Any) -> None:
        super().__init__()
        self.body, self.pooling, self.longest, self.rate = body, encoder.pooling, encoder.longest, encoder.learning_rate
        self.frozen = encoder.frozen
        self.tokeniser = _tokeniser(encoder.tokeniser_)
        if self.frozen:
            self.body.requires_grad_(False)

    def train(self, mode: bool = True) -> Transformer:
        super().train(mode and not self.frozen)
        return self

    def forward(self, batch: Batch) -> Any:
        """(n_slots, width)"""
        device = next(self.body.parameters()).device
        pieces, slots, first = [], [], 0
        for sentence in sentences_of(batch):
            for own, words in self._pieces(sentence):
                pieces.append(own)
                slots.append([-1 if w is None else first + w for w in words])
            first += len(sentence)
        longest = max(map(len, pieces))
        ids = np.zeros((len(pieces), longest), np.int64)
        mask = np.zeros((len(pieces), longest), np.int64)
        slot = np.full((len(pieces), longest), -1, np.int64)
        for row, (own, places) in enumerate(zip(pieces, slots, strict=True)):
            ids[row, : len(own)], mask[row, : len(own)], slot[row, : len(own)] = own, 1, places
        flat = slot.ravel()
        used = np.flatnonzero(flat >= 0)
        if self.pooling == "first":
            used = used[np.unique(flat[used], return_index=True)[1]]
        hidden = self.body(
            input_ids=torch.from_numpy(ids).to(device), attention_mask=torch.from_numpy(mask).to(device)
        ).last_hidden_state.reshape(ids.size, -1)
        rows = hidden[torch.from_numpy(used).to(device)]
        target = torch.from_numpy(flat[used]).to(device)
        found = hidden.new_zeros(batch.n_slots, hidden.shape[1]).index_add(0, target, rows)
        counts = np.bincount(flat[used], minlength=batch.n_slots)
        return found / torch.from_numpy(np.maximum(counts, 1)).to(device, hidden.dtype)[:, None]

    def _pieces(self, sentence: list[str]) -> list[tuple[list[int], list[int | None]]]:
        """Numbers of subwords, and the word of each (None: a mark of the model's own), in pieces not too long."""
        found, start = [], 0
        while start < len(sentence):
            stop = min(start + self.longest, len(sentence))
            while True:
                coded = self.tokeniser.encode(sentence[start:stop], is_pretokenized=True)
                if len(coded.ids) <= self.longest or stop == start + 1:
                    break
                stop = start + max((stop - start) // 2, 1)
            words = [None if w is None else start + w for w in coded.word_ids]
            found.append((coded.ids[: self.longest], words[: self.longest]))
            start = stop
        return found


def _of_configuration(text: str) -> Any:
    """A transformer with new parameters; a configuration from a file builds known architectures alone."""
    transformers = _transformers()
    given = json.loads(text)
    kind = given.pop("model_type", None)
    for name in ("auto_map", "_name_or_path", "trust_remote_code"):
        given.pop(name, None)
    layers = [v for k, v in given.items() if "layers" in k and isinstance(v, int)]
    if kind not in transformers.CONFIG_MAPPING or any(n > MOST_LAYERS for n in layers):
        raise DataError(f"its transformer is of type {kind!r} with {layers} layers, which cannot be")
    return transformers.AutoModel.from_config(transformers.CONFIG_MAPPING[kind](**given))


MOST_LAYERS = 200
"""Layers of a transformer that a file may ask for."""


def _tokeniser(text: str) -> Any:
    try:
        from tokenizers import Tokenizer
    except ModuleNotFoundError:
        raise DataError(NEEDED) from None
    try:
        made = Tokenizer.from_str(text)
    except Exception as error:  # of the Rust library
        raise DataError(f"its tokeniser cannot be read: {error}") from error
    made.no_padding()
    made.no_truncation()
    return made


def _transformers() -> Any:
    try:
        import transformers
    except ModuleNotFoundError:
        raise DataError(NEEDED) from None
    return transformers


NEEDED = "pretrained encoders need the transformers package: pip install 'trellis-learn[transformers]'"
