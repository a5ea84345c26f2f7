"""NeuralParts: a network scores the parts of the outputs of another model: segments, word alignments, own structures.

p(y | x) ∝ exp Σ_{parts of y} net(x)[part]
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import threads_for
from trellis.errors import DataError
from trellis.models.documentation import documented
from trellis.models.inference import Inference
from trellis.models.log_linear import Dev
from trellis.models.model import own_model
from trellis.models.saving import SavedEstimator, members_from_archive, members_to_archive
from trellis.models.sequence import labelled
from trellis.models.state import InnerHeader
from trellis.neural.encoders import check_scores_of
from trellis.neural.forms import with_all_marginals
from trellis.neural.model import NeuralModel
from trellis.neural.targets import Targets
from trellis.structures import Parts, Structure


class _PartsHeader(TypedDict):
    """What a file keeps beside the arrays."""

    like: InnerHeader


class Shared:
    """A model that copies of a network share."""

    def __init__(self, model: Any) -> None:
        self.model = model

    def __deepcopy__(self, memo: Any) -> Shared:
        return self


class PartNetwork(nn.Module):
    """Scores of all parts (n_parts,) from a module, which may name some parts only."""

    def __init__(self, module: Any, like: Shared) -> None:
        super().__init__()
        self.module, self.like = module, like

    def forward(self, batch: Any) -> tuple[Any]:
        parts = self.like.model.parts(batch)
        found = self.module(batch, parts)
        if isinstance(found, tuple):
            numbers, values = found
            at = torch.as_tensor(numbers, device=values.device).reshape(-1)
            found = values.new_zeros(parts.n_parts).index_add(0, at, values.reshape(-1))
        return (check_scores_of(found, (parts.n_parts,), "a score for each part"),)


@documented
@dataclass(eq=False, repr=False)
class NeuralParts(NeuralModel):
    """A network that scores the parts of another model's outputs: segments, word alignments or structures of your own.

    Parameters
    ----------
    module : torch.nn.Module
        What scores parts: ``module(batch, parts)`` returns a tensor (n_parts,), or an array of part numbers and a
        tensor of their scores; other parts score 0.
    like : estimator
        Model whose outputs these are, such as ``SemiCRF(labels)``. It encodes and decodes text; its scores are not
        used.

    Attributes
    ----------
    net_ : torch.nn.Module
        The trained network.
    like_ : estimator
        The model that encodes and decodes.
    history_ : History
        Objective and development score of each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether training stopped before ``max_iter``.

    Examples
    --------
    >>> from trellis.models import SemiCRF
    >>> class Lengths(torch.nn.Module):
    ...     def __init__(self):
    ...         super().__init__()
    ...         self.scores = torch.nn.Parameter(torch.zeros(3, 2))
    ...
    ...     def forward(self, batch, parts):
    ...         slots, lengths, labels = np.ogrid[: batch.n_slots, 1:4, :2]
    ...         return parts.segment(slots, lengths, labels), self.scores.expand(batch.n_slots, 3, 2)
    >>> text = [["ann", "lee", "bob", "ray"], ["cy", "fox"]]
    >>> model = NeuralParts(Lengths(), SemiCRF(["P", "O"], longest=3), learning_rate=0.1, max_iter=50)
    >>> model.fit(text, [["P", "P", "B-P", "P"], ["P", "P"]]).predict([["di", "orr", "ed", "poe"]])
    [['P', 'P', 'B-P', 'P']]
    """

    module: Any
    like: Any

    at_once: ClassVar[int] = 2**62  # the parts of one instance need not stand together
    learned_names = _PartsHeader
    not_saved = (*NeuralModel.not_saved, "like")

    @property
    def label_names_(self) -> Vocabulary:  # type: ignore[override]
        """Labels of the model whose outputs these are."""
        names: Vocabulary = self.like_.label_names_
        return names

    @property
    def outputs_are(self) -> str:
        """What is predicted."""
        found: str = self.like_.outputs_are
        return found

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "net_")

    # text in, outputs by name

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Any:
        """A batch, as the other model makes it; with ``fit`` the parameters are reset."""
        if not fit:
            self._check_fitted()
            return self._coded(X, y, weights, fit=False)
        self._check_settings()
        self.like_: Any = own_model(self.like, learned=False)
        batch = self._coded(X, y, weights, fit=True)
        self._learn(batch)
        return batch

    def _coded(self, X: Any, y: Any, weights: Any, fit: bool) -> Any:
        return self.like_.encode(X, y, weights, fit=fit)

    def parts(self, batch: Any) -> Parts:
        """The parts of a batch's outputs."""
        found: Parts = self.like_.parts(batch)
        return found

    def decode(self, batch: Any, outputs: Any) -> Any:
        """Outputs by name; of models that do not name them, one code or array of codes for each instance."""
        if hasattr(self.like_, "decode"):
            return self.like_.decode(batch, outputs)
        return self.parts(batch).split_outputs(outputs)

    def probabilities(self, batch: Any, posteriors: Sequence[Any]) -> Any:
        """Posteriors of the batch's shards in the form that ``predict_proba`` gives them."""
        if hasattr(self.like_, "probabilities"):
            return self.like_.probabilities(batch, posteriors)
        parts, found, low = self.parts(batch), list[FloatArray](), 0
        for q in posteriors:
            own = parts.shard(low, low + len(q.log_partition))
            instance, local = own.split(np.arange(own.n_parts, dtype=np.int64))
            found += np.split(q.at(np.lexsort((local, instance))), np.cumsum(own.sizes())[:-1])
            low += len(q.log_partition)
        return found

    def infer(self, X: Any) -> Inference:
        """Inference on instances, or on a batch of ``encode``: labels, marginals, log-partitions, ..."""
        self._check_fitted()
        return Inference(self, X if isinstance(X, Batch) else self.encode(X), threads_for(self.n_jobs))

    def predict(self, X: Any) -> Any:
        """The best output of each instance."""
        return self.infer(X).labels

    def predict_proba(self, X: Any) -> Any:
        """Marginal probabilities, in the form in which the other model gives them."""
        return self.infer(X).marginals

    def score(self, X: Any, y: Any = None, sample_weight: Any = None) -> float:
        """Share of the known labels that ``predict`` gives; without y, labels are those of X."""
        self._check_fitted()
        return self.infer(self.encode(*labelled(self.like_, X, y), sample_weight)).accuracy()

    # the four verbs

    def _network(self, body: Any, width: int | None) -> Any:
        if width is not None:
            raise DataError("an encoder returns vectors of tokens; use a torch.nn.Module to score parts")
        return PartNetwork(body.module, Shared(self.like_))

    def _structure(self, batch: Any, arrays: Sequence[FloatArray]) -> Structure:
        parts = self.parts(batch)
        flat = with_all_marginals(parts.zeros())
        flat.first = batch.first
        return flat.add(np.arange(parts.n_parts, dtype=np.int64), arrays[0])

    def _memo(self, batch: Any) -> dict[str, Any]:
        return super()._memo(batch) if isinstance(batch, Batch) else {}

    def _by_instance(self, batch: Any) -> IntArray:
        """(n_parts,): the parts of the first instance, of the second, and so on."""
        instance, local = (parts := self.parts(batch)).split(np.arange(parts.n_parts, dtype=np.int64))
        found: IntArray = np.lexsort((local, instance))
        return found

    def _rows(self, batch: Any, q: Any) -> FloatArray:
        found: FloatArray = q.at(self._by_instance(batch))
        return found

    def _sizes(self, batch: Any) -> IntArray:
        return self.parts(batch).sizes()

    def _linear(self, part: Targets, tensors: Sequence[Any]) -> list[Any]:
        flat = np.empty_like(part.rows)
        flat[self._by_instance(part.batch)] = part.rows
        return super()._linear(replace(part, rows=flat), tensors)

    # alone, as an estimator

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, dev: Dev = None) -> Self:
        """Supervised training on the instances whose outputs are known.

        dev : (X, y) whose score decides which pass is kept

        To learn from other instances as well, give the model to a learner.
        """
        self._check_types()
        return self._fitted(self._complete(self.encode(*labelled(self.like, X, y), sample_weight, fit=True)), dev)

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        if not isinstance(self.like_, SavedEstimator):
            raise DataError(f"a file cannot hold a {type(self.like_).__name__}, which is not an estimator of Trellis")
        header, arrays = members_to_archive({"like": self.like_})
        return header, {**self._learned()[1], **arrays}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        own = {name: array for name, array in arrays.items() if name.startswith("like_")}
        self.like = self.like_ = members_from_archive(names, own, {"like": SavedEstimator})["like"]
        if not (hasattr(self.like_, "parts") and hasattr(self.like_, "encode")):
            raise DataError("it has no model of outputs")
        self._restore({"encoder": None}, {name: array for name, array in arrays.items() if name not in own})

    def _check_settings(self) -> None:
        self._check_network()
        if not (callable(getattr(self.like, "parts", None)) and callable(getattr(self.like, "encode", None))):
            raise DataError(f"like must be a model, such as SemiCRF(labels), got {self.like!r:.80}")
