"""Shared code of tasks that learn trees without punctuation: parsing of whole sentences, and model files.

Relations of a transferred parser are those of projected arcs, and for other arcs those that tags suggest: a labeller of
tags alone, learned from the source trees, names the relation of every arc of the target trees, and a labeller of the
target language learns from both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import Any

from trellis.apps.parse.parser import ScoresTrees, tagged
from trellis.apps.parse.projected_arcs import SentencePair, projected_relations
from trellis.apps.parse.tree_text import Stripped, strip, with_heads
from trellis.data.document import Document
from trellis.data.tokens import as_documents
from trellis.data.vocabulary import Vocabulary
from trellis.models.arc_labeller import ArcLabeller
from trellis.models.inference import Inference
from trellis.models.saving import SavedEstimator
from trellis.models.state import Member
from trellis.models.tree_model import TreeModel, warn_of_long

LABELLER = Member("labeller_", ArcLabeller, "labeller_", optional=True)


class TreeTask(ScoresTrees, SavedEstimator):
    """Subclasses learn ``model_``, and perhaps ``labeller_``, which names relations."""

    n_jobs: int | None
    model_: Any
    labeller_: ArcLabeller | None = None

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def infer(self, sentences: Iterable[Document]) -> Inference:
        """Inference on tagged sentences without their punctuation: labels (heads), marginals, log-partitions, ..."""
        stripped = self._stripped(as_documents(sentences))
        found: Inference = self.model_.infer([own.words for own in stripped])
        return found

    def _stripped(self, sentences: Sequence[Document]) -> list[Stripped]:
        self._check_fitted()
        self.model_.n_jobs = self.n_jobs
        return [strip(s, text) for s, text in zip(sentences, tagged(sentences), strict=True)]

    def predict(self, sentences: Iterable[Document]) -> list[Document]:
        """Tagged sentences with the column "head" filled; punctuation hangs on the word under the root.

        Sentences of more than 500 words, punctuation aside, are parsed in pieces, with a warning.
        """
        given = as_documents(sentences)
        stripped = self._stripped(given)
        found = self.model_.infer([own.words for own in stripped])
        warn_of_long(found.batch.lengths, [(s.path, s.line) for s in given])
        trees = found.labels
        relations = self._relations(found)
        return [
            with_heads(s, own.whole(heads), None if named is None else own.whole_relations(named))
            for s, own, heads, named in zip(given, stripped, trees, relations, strict=True)
        ]

    def _relations(self, found: Inference) -> Sequence[Sequence[str] | None]:
        """The relations of the words of each sentence to their heads; None where they are unknown."""
        if self.labeller_ is None:
            return [None] * len(found.batch)
        flat = self.labeller_.predict(found.batch, found.outputs)
        return [flat[low:high] for low, high in pairwise(found.batch.offsets.tolist())]

    def _check_settings(self) -> None:
        """Refuse settings that cannot be."""


Tree = Sequence[int]


def learn_relations(
    model: TreeModel, pairs: Sequence[SentencePair], trees: Sequence[Tree], min_count: int
) -> ArcLabeller | None:
    """A labeller of target arcs; None if no source arc has a relation.

    model : encodes tagged sentences;  trees : of the target sentences
    """
    named = [pair for pair in pairs if pair.relations is not None and any(pair.relations)]
    if not named:
        return None
    tags = [[(tag, tag) for _, tag in pair.source] for pair in named]
    kinds = Vocabulary(sorted({tag for own in tags for tag, _ in own}), kind="word")
    by_tags = ArcLabeller().fit(
        TreeModel.encode(model, tags, [pair.heads for pair in named]), [pair.relations for pair in named], kinds
    )
    suggested = relations_of(by_tags, model, [[(tag, tag) for _, tag in pair.target] for pair in pairs], trees)
    relations = []
    for pair, heads, own in zip(pairs, trees, suggested, strict=True):
        given = projected_relations(pair)
        relations.append([given.get((head, c)) or own[c - 1] for c, head in enumerate(heads, start=1)])
    counts = Counter(word.lower() for pair in pairs for word, _ in pair.target)
    frequent = Vocabulary((word for word, n in counts.items() if n >= min_count), kind="word")
    text = [pair.target for pair in pairs]
    return ArcLabeller().fit(TreeModel.encode(model, text, trees), relations, frequent)


def relations_of(
    labeller: ArcLabeller, model: TreeModel, text: Sequence[Sequence[tuple[str, str]]], trees: Sequence[Tree]
) -> list[list[str]]:
    """The relations of the words of each sentence to their heads."""
    batch = TreeModel.encode(model, text, trees)
    flat = labeller.predict(batch, batch.labels)
    return [flat[low:high] for low, high in pairwise(batch.offsets.tolist())]
