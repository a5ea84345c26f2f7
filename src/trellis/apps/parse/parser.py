"""Parser: complete dependency trees, heads and relations, learned from a treebank.

An :class:`~trellis.models.arc_parser.ArcParser` finds the heads, an
:class:`~trellis.models.arc_labeller.ArcLabeller` names the relations; both are in one file.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from trellis.data.batch import Batch
from trellis.data.columns import FILLER
from trellis.data.conllu import heads as heads_of
from trellis.data.document import Document
from trellis.data.ragged import LabelArray
from trellis.data.tokens import as_documents
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.metrics.attachment import TreeScores, compare_trees
from trellis.models.arc_labeller import ArcLabeller
from trellis.models.arc_parser import ArcParser
from trellis.models.documentation import documented
from trellis.models.inference import Constraints, Inference
from trellis.models.saving import SavedEstimator
from trellis.models.state import Member
from trellis.models.tree_model import TreeModel, warn_of_long

LOG_LINEAR_PASSES = 5
"""Passes over the trees without an encoder."""
NETWORK = "NeuralParser"
"""Class of the model of arcs over an encoder."""


class ScoresTrees:
    """What tasks whose ``predict`` fills the column "head" have in common."""

    predict: Any

    def attachment(self, sentences: Iterable[Document]) -> TreeScores:
        """Attachment of ``predict`` against the trees that the sentences have."""
        gold = as_documents(sentences)
        return compare_trees(gold, self.predict(gold))

    def score(self, X: Iterable[Document], y: object = None) -> float:
        """Share of the words, punctuation aside, that get the head they have in the sentences."""
        return self.attachment(X).plain.uas


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class Parser(ScoresTrees, SavedEstimator):
    """Dependency parser for tagged sentences, with relations.

    Parameters
    ----------
    solver : {"margin", "adagrad", "lbfgs"}, default="margin"
        Optimiser of the model of heads; see :class:`ArcParser`.
    encoder : str or None, default=None
        Encoder of a network: "bilstm", "wordllama", a text file of word vectors, or a Hugging Face transformer (folder
        or name). Needs PyTorch. By default, the model is log-linear.
    max_iter : int or None, default=None
        Passes over the trees. By default 5, or 30 with an encoder.
    min_count : int, default=2
        Words that occur less often are treated as unknown. They are represented by their suffix.
    bits : int, default=22
        Size of the feature table, as a power of 2.
    label_passes : int, default=4
        Passes over the relations. 0: heads only.
    random_state : int or None, default=0
        Seed of the order of sentences.
    device : str, default="cpu"
        Where the network of an encoder runs: "cpu" or "cuda".
    n_jobs : int or None, default=None
        Number of threads of prediction.

    Examples
    --------
    >>> from trellis.data.document import Document
    >>> tree = Document(("dogs", "bark"), ("N", "V"), {"head": ("2", "0"), "deprel": ("nsubj", "root")})
    >>> parser = Parser(bits=12, min_count=1).fit([tree])
    >>> found = parser.predict([Document(("cats", "sleep"), ("N", "V"))])[0]
    >>> found.columns["head"], found.columns["deprel"]
    (('2', '0'), ('nsubj', 'root'))
    """

    solver: str = "margin"
    encoder: str | None = None
    max_iter: int | None = None
    learning_rate: float = 0.02
    min_count: int = 2
    bits: int = 22
    l2: float = 0.1
    label_passes: int = 4
    random_state: int | None = 0
    device: str = "cpu"
    n_jobs: int | None = None
    verbose: bool = False

    saved: ClassVar = {
        "arcs": Member("arcs_", (ArcParser, NETWORK), "arcs_"),
        "labeller": Member("labeller_", ArcLabeller, "labeller_", optional=True),
    }
    not_saved = (*SavedEstimator.not_saved, "encoder", "device")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "arcs_")

    def fit(self, X: Iterable[Document], y: object = None) -> Self:
        """Learn from sentences with tags for labels, and the columns "head" and "deprel".

        Trees with crossing arcs are left out (``arcs_.n_left_out_``); but their relations are used.
        """
        self._check_types()
        trees = [s for s in as_documents(X) if len(s)]
        self._check_settings()
        text, heads = tagged(trees), [heads_of(s) for s in trees]
        self.labeller_ = None
        relations = [[None if r == FILLER else r for r in s.columns.get("deprel", ())] or None for s in trees]
        if self.encoder is not None:
            self.arcs_ = self._network().fit(text, heads, relations=relations if self.label_passes else None)
            return self
        compile_ahead("parse")
        arcs = self._log_linear().fit(text, heads)
        if self.label_passes and any(r is not None for own in relations if own for r in own):
            labeller = ArcLabeller(max_iter=self.label_passes, random_state=self.random_state, verbose=self.verbose)
            self.labeller_ = labeller.fit(TreeModel.encode(arcs, text, heads), relations, arcs.word_names_)
        self.arcs_ = arcs
        return self

    def infer(self, sentences: Iterable[Document], constraints: Constraints = ()) -> Inference:
        """Inference on tagged sentences: labels (heads), marginals, ...; relations are found for the best heads.

        constraints : on arcs, under which the best trees are searched
        """
        self._check_fitted()
        self.arcs_.n_jobs = self.n_jobs
        found: Inference = self.arcs_.infer(tagged(as_documents(sentences)), constraints)
        return found

    def predict(self, sentences: Iterable[Document], constraints: Constraints = ()) -> list[Document]:
        """The sentences with the columns "head" and "deprel" filled; other annotation is kept.

        Sentences of more than 500 words are parsed in pieces, with a warning.

        constraints : on arcs, such as ``arcs(head=root, child=column("upos") == "VERB") >= 1``
        """
        given = as_documents(sentences)
        found = self.infer(given, constraints)
        warn_of_long(found.batch.lengths, [(s.path, s.line) for s in given])
        heads = found.outputs
        relations = self._relations(found.batch, heads)
        cells = [str(head) for head in heads.tolist()]
        made, at = [], 0
        for s in given:
            stop = at + len(s)
            columns = {**s.columns, "head": tuple(cells[at:stop]), "deprel": tuple(relations[at:stop])}
            made.append(replace(s, columns=columns))
            at = stop
        return made

    def _relations(self, batch: Batch, heads: LabelArray) -> list[str]:
        """The relation of every word to its head, where relations were learned."""
        if self.labeller_ is not None:
            return self.labeller_.predict(batch, heads)
        if isinstance(self.arcs_, ArcParser) or not len(self.arcs_.relation_names_):
            return [FILLER] * len(heads)
        found: list[str] = self.arcs_.relations_of(batch, heads)
        return found

    def _log_linear(self) -> ArcParser:
        return self._like(ArcParser, max_iter=LOG_LINEAR_PASSES if self.max_iter is None else self.max_iter)

    def _network(self) -> Any:
        from trellis.neural import NeuralParser

        passes = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return NeuralParser(
            self.encoder, device=self.device, random_state=self.random_state, verbose=self.verbose, **passes
        )

    def _check_settings(self) -> None:
        self._check_whole(label_passes=0)
        self._log_linear().check_settings()
        if self.encoder is not None:
            self._network().check_settings()


def tagged(sentences: Sequence[Document]) -> list[list[tuple[str, str]]]:
    """Words with their tags, which every word must have."""
    text = []
    for s in sentences:
        tags = s.labels or (None,) * len(s)
        if None in tags:
            at = tags.index(None)
            raise DataError(
                f"the word {s.tokens[at]!r} has no tag (UPOS): `trellis tag predict` adds tags",
                path=s.path,
                line=s.line_of(at),
            )
        text.append([(word, tag or "") for word, tag in zip(s.tokens, tags, strict=True)])
    return text
