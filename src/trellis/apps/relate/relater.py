"""Relater: entities and relations, learned from rules, labelled and unlabelled sentences."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.apps.parse.tagger import Tagger
from trellis.apps.relate.inference import ANY_NUMBER, Change, RelationInference, changes, changes_of_whole
from trellis.apps.relate.mentions import MentionFinder, joined, split_long, with_mentions, with_tags
from trellis.constraints import Constraint, parse_rules
from trellis.constraints.relations import CountsLike, OnePerPair, counts_like
from trellis.data.batch import Batch
from trellis.data.document import Document, Relation, Span
from trellis.data.files import FilePath, text_of
from trellis.data.related import SentenceLike, as_related, is_labelled
from trellis.engine import engine_for, threads_for
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.learn.codl import CoDL
from trellis.learn.training import Training
from trellis.learn.uem import UEM
from trellis.loop.history import History
from trellis.metrics.fields import RelationScores, score_relations
from trellis.models.crf import CRF
from trellis.models.documentation import documented
from trellis.models.model import rows_of
from trellis.models.relation_model import MOST_SUMMED, RelationModel
from trellis.models.saving import SavedEstimator, members_from_archive, members_to_archive
from trellis.models.state import InnerHeader

METHODS = {"uem": None, "pr": 1.0, "codl": -np.inf, "supervised": None}
"""Names of methods and their γ; None: as it is given, or there is none."""
MOST_EVALUATIONS = 40
"""Of a sentence's rows by a quasi-Newton solver, where rows are exact; few, since what sweeps leave is small."""


class _RelaterHeader(TypedDict, total=False):
    """What a file keeps beside the arrays."""

    files: dict[str, str]
    shares: list[dict[str, float] | None]
    within: list[dict[str, float] | None]
    history: list[dict[str, Any]]
    model: InnerHeader
    finder: InnerHeader | None
    tagger: InnerHeader | None


@documented
@dataclass(eq=False, repr=False)
class Relater(SavedEstimator):
    """Find entities and relations, trained from rules, labelled and unlabelled sentences.

    Parameters
    ----------
    rules : str
        Text of a rules file; :meth:`from_file` reads one.
    encoder : str or None, default=None
        Encoder of a network: "bilstm", "wordllama", a text file of word vectors, or a Hugging Face transformer (folder
        or name). Its scores are added to those of features. Needs PyTorch. By default, features alone.
    method : {"uem", "pr", "codl", "supervised"}, default="uem"
        How to learn. One of "uem", "pr" (γ = 1), "codl" or "supervised".
    gamma : float, default=0.5
        Temperature γ of the posteriors. 1: posterior regularization, 0: hard. For method "uem" only.
    exact : bool, default=False
        Enforce rules in every output, not only in expectation, when training on sentences of up to 7 mentions.
    min_count : int, default=2
        Words that occur less often are treated as unknown. Rarer features are dropped.
    finder : bool, default=True
        Learn to find mentions, for sentences without them.
    tagger : object, default=None
        Tagger of the words. By default, tags are used if sentences have them.
    device : str, default="cpu"
        Where the network of an encoder runs: "cpu" or "cuda".

    Attributes
    ----------
    model_ : RelationModel or NeuralRelations
        The trained model.
    constraints_ : list
        Constraints of the rules.
    finder_ : object
        Model that finds mentions, or None.
    tagger_ : Tagger or None
        The tagger.
    history_ : History
        One entry per round.

    Examples
    --------
    >>> rules = 'entities = ["Peop", "Loc"]\\nrelations = ["Live_In"]'
    >>> text = {
    ...     "tokens": ["Ann", "of", "Ely"],
    ...     "mentions": [{"start": 0, "end": 1, "type": "Peop"}, {"start": 2, "end": 3, "type": "Loc"}],
    ...     "relations": [{"first": 0, "second": 1, "type": "Live_In"}],
    ... }
    >>> relater = Relater(rules, finder=False, min_count=1).fit([text])
    >>> [found] = relater.predict([text])
    >>> [mention.label for mention in found.spans]
    ['Peop', 'Loc']
    """

    rules: str
    _: KW_ONLY
    rules_path: str = "rules"
    files: Mapping[str, str] | None = None
    encoder: str | None = None
    method: str = "uem"
    gamma: float = 0.5
    max_iter: int = 4
    unlabelled_weight: float = 1.0
    exact: bool = False
    l2: float = 0.3
    min_count: int = 2
    finder: bool = True
    tagger: Any = None
    projection_tol: float = 1e-4
    device: str = "cpu"
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    not_saved: ClassVar[tuple[str, ...]] = (*SavedEstimator.not_saved, "tagger", "encoder", "device")
    learned_names = _RelaterHeader

    @classmethod
    def from_file(cls, path: FilePath, **settings: Any) -> Self:
        """A relater with the rules of a file."""
        return cls(text_of(path), rules_path=os.fspath(path), **settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    # learning

    def fit(self, X: Iterable[SentenceLike], y: object = None, *, unlabelled: Iterable[SentenceLike] = ()) -> Self:
        """Learn from labelled sentences, and from unlabelled ones, whose mentions are found if not given.

        X : sentences with their mentions and relations;  unlabelled : further sentences

        Sentences are documents or objects with the keys of a JSON line (see "Entities and relations" in the
        documentation); unlabelled ones may be strings.
        """
        self._check_types()
        self._check_settings()
        if self.method != "uem" and self.gamma != type(self).gamma:
            raise DataError(f"gamma requires method 'uem', but method is {self.method!r}: leave it out")
        rules = parse_rules(self.rules, self.rules_path, self.files)
        few = with_tags([text for text in as_related(X) if text.tokens], self.tagger)
        whole = [text for text in few if is_labelled(text)]
        if not whole:
            raise DataError("there is no sentence with all types and relations known to learn from")
        compile_ahead("relate")
        constraints = [c.of(whole) if isinstance(c, CountsLike) else c for c in rules]
        finder = MentionFinder().fit(whole) if self.finder else None
        many = [] if self.method == "supervised" else [text for text in as_related(unlabelled) if text.tokens]
        many = with_tags(many, self.tagger)
        texts = with_mentions([*few, *many] if self.method != "supervised" else whole, finder)
        model: Any = RelationModel(
            rules.kinds.get("entities"), rules.kinds.get("relations"), l2=self.l2, min_count=self.min_count,
            tied=self._tied_in_training(), both_ways=any(isinstance(c, OnePerPair) for c in constraints),
        )  # fmt: skip
        if self.encoder is not None:
            model = self._network(model, len(whole))
        training = Training(
            model, model.encode(texts, fit=True), engine_for(self.n_jobs, self.engine),
            unlabelled_weight=self.unlabelled_weight,
        )  # fmt: skip
        rows_of(model, model.encode(texts[:1]), constraints)  # rules of another task are refused now
        if len(training.free):
            learner = self.learner(constraints)
            learner.train(training)
            self.history_ = learner.history_
        else:
            training.learn_supervised()
            self.history_ = History()
        self.model_, self.constraints_, self.finder_, self.tagger_ = model, constraints, finder, self.tagger
        self.files_ = dict(rules.files)
        return self

    def _network(self, model: RelationModel, n_texts: int = 1) -> Any:
        """A network over the words of sentences, beside the features of the model."""
        from trellis.neural import NeuralRelations
        from trellis.neural.encoders import for_few_texts

        encoder, settings = for_few_texts(self.encoder, n_texts)
        return NeuralRelations(encoder, model, device=self.device, n_jobs=self.n_jobs, **settings)

    def _tied_in_training(self) -> int:
        """Mentions up to which rules hold in every output while it learns."""
        return ANY_NUMBER if self.method == "codl" else MOST_SUMMED if self.exact else 0

    def learner(self, constraints: Sequence[Constraint]) -> UEM | CoDL:
        """The learner that these settings ask for."""
        gamma = METHODS[self.method]
        if self.method == "codl":
            beta = CoDL.beta if self.encoder is None else None  # the mean of two networks has no meaning
            return CoDL(
                None, constraints, beta=beta, max_iter=self.max_iter, n_jobs=self.n_jobs, engine=self.engine,
                verbose=self.verbose,
            )  # fmt: skip
        return UEM(
            None, constraints, gamma=self.gamma if gamma is None else gamma, start="labelled", max_iter=self.max_iter,
            tol=0.0, projection_tol=self.projection_tol, max_evaluations=MOST_EVALUATIONS, track_likelihood=False,
            n_jobs=self.n_jobs, engine=self.engine, verbose=self.verbose,
        )  # fmt: skip

    # prediction

    def predict(self, texts: Iterable[SentenceLike], *, constrained: bool = True) -> list[Document]:
        """Sentences with the type of every mention and all relations, each with its probability.

        The best output under the rules; those that count over a corpus are left out. Mentions are found where a
        sentence has none given. Probabilities are of the model under the rules. A sentence with more than 100 mentions
        is processed in groups of 100, with a warning; relations between groups are not found.
        """
        given = self.with_mentions(texts)
        if not given:
            return []
        pieces, owner = split_long(given)
        found = self.infer(pieces, constrained=constrained)
        return joined(given, _answers(self.model_, pieces, found), owner)

    def infer(self, texts: Iterable[SentenceLike], *, constrained: bool = True) -> RelationInference:
        """Inference on sentences, as they are: labels, marginals, ... of mentions and of pairs of them."""
        batch = self._batch(self.with_mentions(texts))
        return RelationInference(
            self.model_, batch, threads_for(self.n_jobs), self.constraints_ if constrained else None
        )

    def with_mentions(self, texts: Iterable[SentenceLike]) -> list[Document]:
        """Sentences, those without mentions with the ones that are found, and those without tags with tags if there is
        a tagger."""
        self._check_fitted()
        return with_tags(with_mentions(as_related(texts), self.finder_), self.tagger_)

    def score(self, X: Iterable[SentenceLike], y: object = None, *, constrained: bool = True) -> float:
        """F1 of relations; see :meth:`relation_scores`."""
        return self.relation_scores(X, constrained=constrained).relations.mean_f1

    def relation_scores(self, X: Iterable[SentenceLike], *, constrained: bool = True) -> RelationScores:
        """Scores of ``predict`` against labelled sentences, with given mentions."""
        gold = as_related(X)
        return score_relations(gold, self.predict(gold, constrained=constrained))

    def explain(self, texts: Iterable[SentenceLike]) -> list[Change]:
        """How the rules change the model's best outputs, and which rules do; long sentences as in ``predict``."""
        given = self.with_mentions(texts)
        if not given:
            return []
        pieces, owner = split_long(given)
        ruled = self.infer(pieces)
        plain = RelationInference(self.model_, ruled.batch, ruled.engine, None)
        return changes_of_whole(changes(ruled, plain.outputs), pieces, owner)

    def _batch(self, texts: Sequence[Document]) -> Batch:
        """The sentences with nothing known."""
        bare = [tuple(Span(None, m.first, m.last) for m in text.spans or ()) for text in texts]
        pairs = zip(texts, bare, strict=True)
        batch: Batch = self.model_.encode([replace(text, spans=own, relations=None) for text, own in pairs])
        return batch

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        finder = None if self.finder_ is None else self.finder_.crf_
        headers, arrays = members_to_archive({"model": self.model_, "finder": finder, "tagger": self.tagger_})
        names: dict[str, Any] = {
            "files": self.files_,
            "shares": [dict(c.shares or {}) if isinstance(c, CountsLike) else None for c in self.constraints_],
            "within": [
                dict(c.within) if isinstance(c, CountsLike) and isinstance(c.within, Mapping) else None
                for c in self.constraints_
            ],
            "history": [{**entry, "seconds": 0.0} for entry in self.history_.to_json()],
        }
        return {**names, **headers}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        kinds = {"model": (RelationModel, "NeuralRelations"), "finder": CRF, "tagger": Tagger}
        made = members_from_archive(names, arrays, kinds)
        if made["model"] is None:
            raise DataError("it has no model of relations")
        self.files = self.files_ = dict(names.get("files", {}))
        rules = list(parse_rules(self.rules, self.rules_path, self.files))
        if len(rules) != len(names["shares"]):
            raise DataError(f"it has {len(names['shares'])} rules, but its text has {len(rules)}")
        bands = names.get("within", [None] * len(rules))
        self.constraints_ = [
            _counted(c, own, band) if isinstance(c, CountsLike) else c
            for c, own, band in zip(rules, names["shares"], bands, strict=True)
        ]
        self.model_, self.tagger_ = made["model"], made["tagger"]
        self.finder_ = None if made["finder"] is None else MentionFinder.of(made["finder"])
        self.history_ = History.from_json(names["history"])

    def _check_settings(self) -> None:
        self._check_whole(max_iter=1, min_count=1)
        if not isinstance(self.tagger, Tagger | None):
            raise DataError(f"tagger must be a Tagger, got {self.tagger!r:.80}")
        self._check_within(gamma=(0.0, np.inf), l2=(0.0, np.inf), unlabelled_weight=(0.0, np.inf))
        self._check_names(method=METHODS)
        if self.encoder is not None:
            self._network(RelationModel()).check_settings()
            if self.l2 != type(self).l2:
                raise DataError("l2 is the prior of a model without a network: leave out encoder, or l2")


def _counted(rule: CountsLike, shares: Mapping[str, float], within: Mapping[str, float] | None) -> CountsLike:
    """The rule with what was counted in labelled sentences."""
    found = counts_like(dict(shares), rule.within if within is None else dict(within))
    return replace(rule, shares=found.shares, within=found.within)


def _answers(model: Any, texts: Sequence[Document], found: RelationInference) -> list[Document]:
    batch = found.batch
    shares, made = model.confidence(batch, found.outputs, found.posterior), []
    for i, (text, (types, ties)) in enumerate(zip(texts, found.labels, strict=True)):
        n, own = len(types), shares[batch.offsets[i] : batch.offsets[i + 1]]
        mentions = tuple(
            Span(kind, m.first, m.last, probability=float(p))
            for m, kind, p in zip(text.spans or (), types, own, strict=False)
        )
        relations = tuple(
            Relation(a, b, kind, float(own[n + a * (n - 1) + b - (b > a)])) for (a, b), kind in ties.items()
        )
        made.append(replace(text, spans=mentions, relations=relations, predicted=True))
    return made
