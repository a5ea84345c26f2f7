"""What tasks share that learn a model of trees without punctuation: whole sentences parsed, and one file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, TypedDict

from numpy.typing import NDArray

from trellis.data.sentence import Sentence
from trellis.data.tokens import as_sentences
from trellis.models.saving import InnerHeader, SavedEstimator, from_archive, to_archive
from trellis.tasks.parse import ScoresTrees, tagged
from trellis.tasks.tree_text import strip, with_heads


class SavedTrees(TypedDict):
    """What a file keeps beside the arrays."""

    model: InnerHeader


class TreeTask(ScoresTrees, SavedEstimator):
    """Subclasses learn ``model_``, which is one of ``kinds``."""

    learned_names: ClassVar[Any] = SavedTrees
    kinds: ClassVar[tuple[type, ...]]
    n_jobs: int | None
    model_: Any

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def predict(self, sentences: Iterable[Sentence]) -> list[Sentence]:
        """Tagged sentences, of any length, with the column "head" filled; punctuation hangs on the word under the
        root."""
        self._check_fitted()
        given = as_sentences(sentences)
        self.model_.n_jobs = self.n_jobs
        stripped = [strip(s, text) for s, text in zip(given, tagged(given), strict=True)]
        trees = self.model_.predict([own.words for own in stripped])
        return [with_heads(s, own.whole(heads)) for s, own, heads in zip(given, stripped, trees, strict=True)]

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        header, arrays = to_archive(self.model_)
        return {"model": header}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.model_ = from_archive(names["model"], arrays, self.kinds)

    def _check_settings(self) -> None:
        """Refuse settings that cannot be."""
