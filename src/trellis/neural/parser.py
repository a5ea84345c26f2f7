"""NeuralParser: dependency trees whose arcs are scored by a network, with a biaffine product (Dozat & Manning 2017).

    p(y | x) ∝ exp Σ_{(h, c) in y} arc(h, c),      arc(h, c) = [d_c; 1]ᵀ U [e_h; 1],    d = f(v), e = g(v)
    p(r | h, c)  ∝ exp relation_r(h, c),           the same product for every relation

with v the encoder's vectors. Trees have one root and, unless they must be projective, may have crossing arcs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.batch import Batch, Column
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.models.documentation import documented
from trellis.models.log_linear import Dev
from trellis.models.state import InnerHeader, SavedVocabulary, vocabulary_from_json, vocabulary_to_json
from trellis.models.tree_model import MOST_WORDS, Heads, TreeModel
from trellis.neural.arborescence import padded_arcs, tree_log_partition
from trellis.neural.encoders import encoder_of
from trellis.neural.model import NeuralModel
from trellis.neural.targets import Targets
from trellis.structures import Arcs, SpanningTrees, TreePosterior, Trees
from trellis.structures.kernels import tree_check

Relations = Sequence[Sequence[str | None] | None]
RELATION = "deprel"
"""The column with the relation of each word to its head; the empty one where it is not known."""


class _ParserHeader(TypedDict):
    """What a file keeps beside the arrays."""

    tags: SavedVocabulary
    relations: SavedVocabulary
    encoder: InnerHeader | None


class Biaffine(nn.Module):
    """[d; 1]ᵀ U [e; 1] for all pairs, for each of ``n_outputs``."""

    def __init__(self, size: int, n_outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(n_outputs, size + 1, size + 1))

    def reset_parameters(self) -> None:
        """Begin with products of 0: all trees alike."""
        nn.init.zeros_(self.weight)

    def pairs(self, child: Any, head: Any) -> Any:
        """(b, n, size) and (b, m, size) -> (b, n_outputs, n, m)."""
        return torch.einsum("bni,oij,bmj->bonm", _one(child), self.weight, _one(head))

    def given(self, child: Any, head: Any) -> Any:
        """(n, size) and (n, size) -> (n, n_outputs)."""
        return torch.einsum("ni,oij,nj->no", _one(child), self.weight, _one(head))


class Layer(nn.Module):
    """A linear layer with its non-linearity and dropout."""

    def __init__(self, width: int, size: int, dropout: float) -> None:
        super().__init__()
        self.linear, self.dropout = nn.Linear(width, size), nn.Dropout(dropout)

    def forward(self, vectors: Any) -> Any:
        return self.dropout(nn.functional.leaky_relu(self.linear(vectors), 0.1))


class ArcNetwork(nn.Module):
    """Scores of arcs and of relations over the vectors of an encoder."""

    def __init__(self, body: Any, width: int, sizes: tuple[int, int], n_relations: int, dropout: float) -> None:
        super().__init__()
        self.body, (arc, relation) = body, sizes
        self.root = nn.Parameter(torch.zeros(width))
        self.child, self.head = Layer(width, arc, dropout), Layer(width, arc, dropout)
        self.arcs = Biaffine(arc, 1)
        self.relation_child, self.relation_head = (Layer(width, relation, dropout) for _ in range(2))
        self.relations = Biaffine(relation, n_relations) if n_relations else None

    def forward(self, batch: Batch) -> tuple[Any]:
        return (self.arc_scores(batch, self.body(batch) if batch.n_slots else self.root.new_zeros(0, len(self.root))),)

    def arc_scores(self, batch: Batch, vectors: Any) -> Any:
        """(n_parts,): sentence by sentence a square [child, head] whose diagonal is the root."""
        filled = batch.lengths[batch.lengths > 0]
        if not len(filled):
            return vectors.new_zeros(0)
        device, n, longest = vectors.device, len(filled), int(filled.max())
        sentence = np.repeat(np.arange(n), filled)
        place = np.arange(len(sentence)) - np.repeat(np.cumsum(filled) - filled, filled)
        at = torch.from_numpy(sentence * longest + place).to(device, non_blocking=True)
        child = _padded(self.child(vectors), at, n, longest)
        head = _padded(self.head(vectors), at, n, longest)
        square = self.arcs.pairs(child, head)[:, 0]
        to_root = self.arcs.pairs(child, self.head(self.root).expand(n, 1, -1))[:, 0]
        diagonal = torch.eye(longest, dtype=torch.bool, device=device)
        square = torch.where(diagonal, to_root, square)
        offsets = np.concatenate([[0], np.cumsum(filled)]).astype(np.int64)
        places = padded_arcs(offsets)
        inside = np.flatnonzero(places.ravel() < int((filled**2).sum()))
        return square.reshape(-1)[torch.from_numpy(inside).to(device, non_blocking=True)]

    def relation_scores(self, vectors: Any, child: IntArray, head: IntArray) -> Any:
        """(n, n_relations) of arcs from ``head`` to ``child`` (n,), both rows of the vectors, −1 for the root."""
        device = vectors.device
        rows = torch.cat([vectors, self.root[None]])
        children = self.relation_child(rows)[torch.from_numpy(child).to(device, non_blocking=True)]
        heads = self.relation_head(rows)[torch.from_numpy(head % len(rows)).to(device, non_blocking=True)]
        assert self.relations is not None
        return self.relations.given(children, heads)


@documented
@dataclass(eq=False, repr=False)
class NeuralParser(NeuralModel, TreeModel):
    """Dependency parser with biaffine scores of arcs and relations over an encoder.

    Parameters
    ----------
    module : Encoder or str, default="bilstm"
        Encoder of words. "bilstm" has three layers of 400, over words, characters and tags.
    arc_size : int, default=500
        Size of the layers that arcs are scored from.
    relation_size : int, default=100
        Size of the layers that relations are scored from.
    dropout : float, default=0.33
        Dropout of these layers.
    single_root : bool, default=True
        Exactly one word is attached to the root.
    projective : bool, default=False
        Arcs must not cross.

    Attributes
    ----------
    net_ : torch.nn.Module
        The trained network.
    tag_names_ : Vocabulary
        Tags.
    relation_names_ : Vocabulary
        Relations.
    n_left_out_ : int
        Sentences whose trees ``fit`` could not learn from.
    history_ : History
        Objective and development score of each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether training stopped before ``max_iter``.

    Examples
    --------
    >>> trees = [[("dogs", "N"), ("bark", "V")], [("the", "D"), ("dog", "N"), ("barks", "V")]]
    >>> from trellis.neural import BiLSTM
    >>> small = BiLSTM(word_size=4, char_size=0, tag_size=4, hidden=8, layers=1, min_count=1, dropout=0.0)
    >>> parser = NeuralParser(small, arc_size=8, relation_size=4, max_iter=80, learning_rate=0.05, dropout=0.0)
    >>> parser.fit(trees, [[2, 0], [2, 3, 0]]).predict([[("the", "D"), ("cat", "N"), ("sleeps", "V")]])
    [[2, 3, 0]]
    """

    module: Any = "bilstm"
    _: KW_ONLY
    arc_size: int = 500
    relation_size: int = 100
    dropout: float = 0.33
    single_root: bool = True
    projective: bool = False
    max_iter: int = 30
    weight_decay: float = 0.0
    warmup: float = 0.05

    title = "learning trees"
    learned_names = _ParserHeader

    # text in

    def _encoder(self) -> Any:
        return encoder_of(self.module, tag_size=100, char_size=100, hidden=400, layers=3)

    def _learn(self, batch: Batch) -> None:
        known = batch.column(RELATION).vocabulary.names[:-1] if RELATION in batch.columns else ()
        self.relation_names_ = Vocabulary(known, kind="relation")
        super()._learn(batch)

    # the four verbs

    def _network(self, body: Any, width: int | None) -> Any:
        if width is None:
            raise DataError("a parser needs an encoder such as BiLSTM(), whose vectors its arcs are scored from")
        sizes = self.arc_size, self.relation_size
        return ArcNetwork(body, width, sizes, len(self.relation_names_), self.dropout)

    def _structure(self, batch: Batch, arrays: Sequence[FloatArray]) -> Arcs:
        kind: type[Arcs] = Trees if self.projective else SpanningTrees
        return kind(batch.offsets, arrays[0], single_root=self.single_root, first=batch.first)

    def _rows(self, batch: Batch, q: TreePosterior) -> FloatArray:
        return q.marginal

    def _sizes(self, batch: Batch) -> IntArray:
        return batch.lengths**2

    def _log_partition(self, batch: Batch, tensors: Sequence[Any], weights: FloatArray) -> Any:
        if tensors[0].is_cuda and not self.projective:
            return tree_log_partition(batch.offsets, tensors[0], weights, single_root=self.single_root)
        return super()._log_partition(batch, tensors, weights)

    def likelihood_loss(self, net: Any, part: Targets) -> Any:
        """−Σ w E_q[log p] of arcs, and −Σ w log p(relation) where it is known."""
        batch = part.batch
        vectors = net.body(batch) if batch.n_slots else net.root.new_zeros(0, len(net.root))
        arc = net.arc_scores(batch, vectors)
        target = torch.from_numpy(part.rows).to(arc.device, arc.dtype, non_blocking=True)
        total = self._log_partition(batch, [arc], part.weights) - (arc * target).sum()
        if net.relations is None or RELATION not in batch.columns:
            return total
        column = batch.column(RELATION)
        known = np.flatnonzero((column.codes < len(self.relation_names_)) & (batch.labels >= 0))
        if not len(known):
            return total
        scores = net.relation_scores(vectors, known, _head_rows(batch.offsets, batch.labels)[known])
        gold = torch.from_numpy(column.codes[known].astype(np.int64)).to(arc.device, non_blocking=True)
        weight = torch.from_numpy(np.repeat(part.weights, batch.lengths)[known]).to(arc.device, arc.dtype)
        return total + (weight * nn.functional.cross_entropy(scores, gold, reduction="none")).sum()

    # alone, as an estimator

    def fit(
        self,
        X: Any,
        y: Heads | None = None,
        sample_weight: Any = None,
        *,
        relations: Relations | None = None,
        dev: Dev = None,
    ) -> Self:
        """Supervised training on the sentences whose trees are known; others only teach the encoder its words.

        relations : of the words to their heads, None where unknown
        dev : (X, y) whose score decides which pass is kept

        To learn from known heads and from sentences without trees as well, give the model to a learner.
        """
        self._check_types()
        compile_ahead("parse")
        batch = self._encode_with(X, y, sample_weight, relations)
        usable = self._usable(batch)
        self.n_left_out_ = int(np.count_nonzero(batch.complete)) - len(usable)
        if not len(usable):
            raise DataError(
                "no sentence has a complete tree of this kind, and fit uses only such sentences; to learn from known "
                "heads, train this model with a learner of trellis.learn"
            )
        return self._fitted(batch.take(usable), dev)

    def _encode_with(self, X: Any, y: Any, weights: Any, relations: Relations | None) -> Batch:
        batch = self.encode(X, y, weights, fit=True)
        if relations is None:
            return batch
        if len(relations) != len(batch):
            raise DataError(f"expected relations for {len(batch)} sentences but got {len(relations)}")
        flat = [r for own, n in zip(relations, batch.lengths.tolist(), strict=True) for r in (own or [None] * n)]
        names = Vocabulary([*sorted({r for r in flat if r}), ""], kind="relation")
        codes = names.encode([r or "" for r in flat])
        if len(codes) != batch.n_slots:
            raise DataError(f"expected a relation for each of {batch.n_slots} words but got {len(codes)}")
        made = replace(batch, columns={**batch.columns, RELATION: Column(codes, names)})
        self._learn(made)
        return made

    def _usable(self, batch: Batch) -> IntArray:
        """Sentences whose whole tree is known, one that the model has, and not too long."""
        whole = np.flatnonzero(batch.complete & (batch.weights > 0) & (batch.lengths <= MOST_WORDS))
        some, is_tree = batch.take(whole), np.zeros(len(whole), dtype=np.bool_)
        tree_check.check_trees(some.offsets, some.labels, self.single_root, self.projective, is_tree)
        found: IntArray = whole[is_tree]
        return found

    def relations_of(self, batch: Batch, heads: LabelArray) -> list[str]:
        """The relation of every word of a batch to its head (n_words,)."""
        if not len(self.relation_names_):
            raise DataError("no relations were learned: give fit the relations of the words")
        found, rows = [np.zeros(0, np.int64)], batch.offsets
        with torch.inference_mode():
            for low in range(0, len(batch), 64):
                part = batch.instances(low, min(low + 64, len(batch)))
                if part.n_slots:
                    own = heads[rows[low] : rows[low] + part.n_slots]
                    every = np.arange(part.n_slots)
                    scores = self.net_.relation_scores(self.net_.body(part), every, _head_rows(part.offsets, own))
                    found.append(scores.argmax(dim=1).cpu().numpy())
        return self.relation_names_.decode(np.concatenate(found).tolist())

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names, arrays = self._learned()
        tags, relations = vocabulary_to_json(self.tag_names_), vocabulary_to_json(self.relation_names_)
        return {"tags": tags, "relations": relations, **names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.label_names_ = Vocabulary([], kind="label")
        self.tag_names_ = vocabulary_from_json(names["tags"])
        self.relation_names_ = vocabulary_from_json(names["relations"])
        self._restore(names, arrays)

    def _check_settings(self) -> None:
        self._check_network()
        self._check_whole(arc_size=1, relation_size=1)
        self._check_within(dropout=(0.0, 0.9))


def _one(vectors: Any) -> Any:
    return torch.cat([vectors, vectors.new_ones(*vectors.shape[:-1], 1)], dim=-1)


def _padded(rows: Any, at: Any, n: int, longest: int) -> Any:
    """(n, longest, size): rows (n_words, size) at their places."""
    return rows.new_zeros(n * longest, rows.shape[1]).index_copy(0, at, rows).reshape(n, longest, -1)


def _head_rows(offsets: IntArray, heads: LabelArray) -> IntArray:
    """(n_words,): the row of each word's head, −1 for the root."""
    first = np.repeat(offsets[:-1], np.diff(offsets))
    return np.where(heads > 0, first + heads - 1, -1)
