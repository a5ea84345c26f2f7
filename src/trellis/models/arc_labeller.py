"""ArcLabeller: the relation of every arc of a tree that is given, by a classifier on features of its two ends.

    p(relation | h, c, x) ∝ exp w[relation] · f(h, c, x)

Trained by stochastic steps (AdaGrad) on the likelihood of the relations of given trees.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.ragged import LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.loop import ArrayState, Loop, Settings, Step, StepResult
from trellis.models.arc_keys import text_of
from trellis.models.kernels import arc_labels
from trellis.models.saving import SavedEstimator
from trellis.models.state import table_of_rows, used_rows, vocabulary
from trellis.structures import TreeParts


class _LabelPass(Step[ArrayState]):
    """A pass of AdaGrad over arcs whose relation is known (``labels``, −1 elsewhere)."""

    def __init__(self, model: ArcLabeller, batch: Batch, labels: LabelArray) -> None:
        self.model, self.batch, self.labels, self.text = model, batch, labels, model._text(batch)
        self.squares = np.full(model.weights_.shape, 1e-3, np.float32)

    def run(self, gamma: float, state: ArrayState, rng: np.random.Generator) -> StepResult:
        model, batch = self.model, self.batch
        found = arc_labels.label_pass(
            self.text, rng.permutation(len(batch)), batch.labels, self.labels, model.weights_, self.squares,
            model.learning_rate,
        )  # fmt: skip
        return StepResult(None, float(found), state, evaluations=len(batch))


@dataclass(eq=False, repr=False, kw_only=True)
class ArcLabeller(SavedEstimator):
    """Relations of the arcs of given trees.

    bits : there are 2^bits places for features;  max_iter : passes;  learning_rate : of AdaGrad
    verbose : show the progress of ``fit``

    It takes the batches that :class:`trellis.models.arc_parser.ArcParser` encodes.
    Learned: ``weights_`` (2^bits, n_relations), ``relation_names_`` and ``word_names_``; ``history_`` of ``fit``.
    """

    bits: int = 17
    max_iter: int = 4
    learning_rate: float = 0.1
    random_state: int | None = 0
    verbose: bool = False

    saved: ClassVar = {
        "relations": vocabulary("relation_names_", may_be_empty=False), "words": vocabulary("word_names_")
    }  # fmt: skip
    ARRAYS: ClassVar = {
        "places": ArrayOf(np.int64, ("used",), low=0),
        "rows": ArrayOf(np.float32, ("used", "relations")),
    }

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "weights_")

    def fit(self, batch: Batch, relations: Sequence[Sequence[str | None] | None], words: Vocabulary) -> Self:
        """batch : with heads for labels;  relations : of its words, None where unknown;  words : those that are
        frequent"""
        self._check_types()
        self._check_settings()
        flat = [r for own, n in zip(relations, batch.lengths, strict=True) for r in (own or [None] * int(n))]
        if len(flat) != batch.n_slots:
            raise DataError(f"expected a relation for each of {batch.n_slots} words but got {len(flat)}")
        self.relation_names_ = Vocabulary(sorted({r for r in flat if r is not None}), kind="relation")
        if not len(self.relation_names_):
            raise DataError("no arc has a relation, so there is none to learn")
        self.word_names_ = words
        labels = np.array([-1 if r is None else self.relation_names_.number(r) for r in flat], np.int32)
        shape = (1 << self.bits, len(self.relation_names_))
        self.weights_ = np.zeros(shape, np.float32)
        settings = Settings(
            max_iter=self.max_iter, random_state=self.random_state, verbose=self.verbose, title="learning relations"
        )
        self.history_ = Loop(_LabelPass(self, batch, labels), settings).run().history
        return self

    def predict(self, batch: Batch, heads: LabelArray) -> list[str]:
        """The relation of every word of a batch to its head (n_words,)."""
        self._check_fitted()
        labels = np.zeros(batch.n_slots, np.int32)
        arc_labels.best_labels(self._text(batch), heads, self.weights_, labels)
        return self.relation_names_.decode(labels.tolist())

    def _text(self, batch: Batch) -> Any:
        return text_of(batch, TreeParts(batch.offsets), self.word_names_, self.bits)

    def _saved_arrays(self) -> dict[str, NDArray[Any]]:
        return used_rows(self.weights_, "rows")

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        checked = check_arrays(self.ARRAYS, arrays, relations=len(self.relation_names_))
        self.weights_ = table_of_rows(checked["places"], checked["rows"], 1 << self.bits)

    def _check_settings(self) -> None:
        self._check_whole(bits=4, max_iter=1, random_state=0)
        self._check_within(bits=(4, 26), learning_rate=(1e-300, 1e300))
