"""Relations of a transferred parser: those of projected arcs, and for other arcs those that tags suggest.

A labeller of tags alone, learned from the source trees, names the relation of every arc of the target trees. Arcs that
were projected have the relation of their source arc instead. A labeller of the target language learns from both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise

from trellis.apps.parse.projected_arcs import SentencePair, projected_relations
from trellis.data.vocabulary import Vocabulary
from trellis.models.arc_labeller import ArcLabeller
from trellis.models.tree_model import TreeModel

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
