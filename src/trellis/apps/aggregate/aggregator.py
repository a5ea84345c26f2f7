"""Weak labels: texts with the votes of several labelling functions in, one labelling with probabilities out.

A chain of true labels emits the functions' votes (:class:`~trellis.models.vote_hmm.VoteHMM`). It is learned by MAP-EM
from the votes alone: the prior says that each function is right in nine of ten votes, and near-duplicate functions
count once. Where a text explains an abbreviation, "nitric oxide ( NO )", the short form gets the label of the long form
if no function votes on it (:mod:`trellis.apps.aggregate.short_forms`).

>>> texts = [
...     {"tokens": ["aspirin", "helps"], "spans": {"dictionary": [[0, 1, "DRUG"]]}},
...     {"tokens": ["take", "aspirin"], "spans": {"dictionary": [[1, 2, "DRUG"]], "suffix": [[1, 2, "DRUG"]]}},
... ]
>>> Aggregator().fit(texts).labels_
[['B-DRUG', 'O'], ['O', 'B-DRUG']]
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.apps.aggregate.short_forms import short_form_evidence
from trellis.constraints import Constraint, RulesFile, parse_rules
from trellis.data.checks import check_label_lists, check_list
from trellis.data.ragged import FloatArray
from trellis.data.voted import ANY, OUTSIDE, VotedText, bio_labels, is_bio, kinds_of
from trellis.data.voted_files import voted_of
from trellis.engine import engine_for
from trellis.engine.compiling import compile_ahead
from trellis.engine.progress import Progress
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM, History
from trellis.learn.training import Training
from trellis.models.saving import SavedEstimator, from_archive, to_archive
from trellis.models.vote_hmm import VoteHMM

USUAL_ACCURACY = 0.9
"""Prior accuracy of functions about which nothing is known."""


@dataclass(frozen=True)
class FunctionAccuracy:
    """Estimates for one labelling function.

    accuracy : expected share of right votes among its votes for an entity (for any label, where there is no "O"); None
        if it has no such vote
    votes : number of these votes;  coverage : share of all tokens that it votes on
    """

    accuracy: float | None
    votes: int
    coverage: float


class _Names(TypedDict):
    """What a file keeps beside the constructor's arguments and the arrays."""

    kinds: list[str]
    bio: bool
    files: dict[str, str]
    functions: list[str]
    accuracies: list[list[float | None]]
    model: dict[str, Any]


@dataclass(eq=False, repr=False)
class Aggregator(SavedEstimator):
    """Combines the votes of labelling functions into one labelling.

    labels : the types of entities (of BIO votes), or the labels; None: those that functions vote for
    coarse : name -> the types or labels that a vote of this name may mean; ``*`` means any of them
    accuracy : prior share of right votes, a number or function -> number (0.9 for functions that are not named)
    prior_strength : weight of that prior, in multiples of each function's own votes; 0: plain EM
    entity_bias : added to the log-score of every entity (of BIO votes) once the model is learned: functions leave out
        more entities than they invent
    short_forms : whether an explained abbreviation gets the label of its long form where no function votes
    rules : text of a rules file (docs/rules.md), in which every function is a column
    rules_path : name of the rules in messages, and the folder in which dictionaries are looked for
    files : contents of the dictionary files that the rules name; None: they are read when it learns
    gamma : temperature of the posteriors under rules, 1: posterior regularization
    max_iter, tol : rounds of EM: at most so many, or until the objective changes by less than this share

    Learned: ``model_`` (the HMM), ``labels_`` and ``probabilities_`` of the training texts, ``accuracies_``,
    ``history_``, ``label_names_``, ``functions_``.
    """

    labels: Sequence[str] | None = None
    _: KW_ONLY
    coarse: Mapping[str, Sequence[str]] | None = None
    accuracy: float | Mapping[str, float] = USUAL_ACCURACY
    prior_strength: float = 10.0
    entity_bias: float = 2.0
    short_forms: bool = True
    rules: str | None = None
    rules_path: str = "rules"
    files: Mapping[str, str] | None = None
    gamma: float = 1.0
    max_iter: int = 100
    tol: float = 1e-5
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    learned_names = _Names

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    # learning

    def fit(self, X: Iterable[Any], y: object = None) -> Self:
        """Learn from texts with votes: VotedTexts, or mappings with the keys of docs/aggregation.md."""
        self._check_settings()
        texts = _texts(X)
        if not any(len(text) for text in texts):
            raise DataError("there is no text: every one is empty" if texts else "there is no text: the list is empty")
        self._learn_names(texts)
        compile_ahead("aggregate")
        model = self._model()
        with Progress("preparing", 2, self.verbose) as progress:
            progress.advance(0, "coding votes")
            batch = model.encode(texts, fit=True)
            progress.advance(1, "counting votes")
            model.begin(batch)
            progress.advance(2)
        learner = UEM(
            model, self._constraints(), gamma=self.gamma, start="model", max_iter=self.max_iter, tol=self.tol,
            n_jobs=self.n_jobs, track_likelihood=False, verbose=self.verbose,
        )  # fmt: skip
        self.learner_ = learner.train(Training(model, batch, engine_for(self.n_jobs, self.engine)))
        self.model_, self.history_ = model, learner.history_
        with Progress("labelling", 4, self.verbose) as progress:
            progress.advance(0, "accuracies of functions")
            self.accuracies_ = self._accuracies(texts, self.learner_.predict_proba(texts))
            if self.bio_:
                model.offset_[[name.startswith("B-") for name in self.label_names_]] = self.entity_bias
            progress.advance(1, "short forms")
            texts = self._with_short_forms(texts)
            progress.advance(2, "labels")
            self.labels_ = self.learner_.predict(texts)
            progress.advance(3, "probabilities")
            self.probabilities_ = self.learner_.predict_proba(texts)
            progress.advance(4)
        return self

    def _constraints(self) -> list[Constraint]:
        return [] if self._rules is None else list(self._rules)

    @staticmethod
    def texts(X: Iterable[Any]) -> list[VotedText]:
        """Texts with votes in the one form that everything here takes."""
        return _texts(X)

    # prediction

    def predict(self, X: Iterable[Any]) -> list[list[str]]:
        """A label for every token of texts with votes, new ones as a rule; those of training are in ``labels_``."""
        seen = self._seen(X)
        found: list[list[str]] = self.learner_.predict(seen)
        return found

    def predict_proba(self, X: Iterable[Any]) -> list[FloatArray]:
        """P(label) of every token, (n_tokens, n_labels) for each text, columns as in ``label_names_``."""
        seen = self._seen(X)
        found: list[FloatArray] = self.learner_.predict_proba(seen)
        return found

    def score(self, X: Iterable[Any], y: Sequence[Sequence[str]]) -> float:
        """Share of the tokens that get the label they have in ``y``."""
        found, gold = self.predict(X), check_label_lists(y) or []
        if list(map(len, found)) != [len(own or ()) for own in gold]:
            raise DataError(f"y must have a list of labels for each of {len(found)} texts, one label for each token")
        pairs = [pair for own, labels in zip(found, gold, strict=True) for pair in zip(own, labels or (), strict=True)]
        if not pairs:
            raise DataError("there are no tokens, so there is no accuracy")
        return sum(one == other for one, other in pairs) / len(pairs)

    def _seen(self, X: Iterable[Any]) -> list[VotedText]:
        self._check_fitted()
        return self._with_short_forms(_texts(X))

    def _with_short_forms(self, texts: list[VotedText]) -> list[VotedText]:
        """Texts with evidence for the short forms that they explain."""
        if not self.bio_ or not self.short_forms:
            return texts
        found = zip(texts, self.learner_.predict(texts), self.learner_.predict_proba(texts), strict=True)
        return [replace(t, evidence=short_form_evidence(t, own, node, self.label_names_)) for t, own, node in found]

    # names

    def _learn_names(self, texts: Sequence[VotedText]) -> None:
        self._rules: RulesFile | None = None
        if self.rules is not None:
            self._rules = parse_rules(self.rules, self.rules_path, self.files)
        self.files_ = {} if self._rules is None else dict(self._rules.files)
        self.functions_ = list(dict.fromkeys(name for text in texts for name in text.votes))
        votes = list(dict.fromkeys(vote for text in texts for own in text.votes.values() for vote in own if vote))
        if not votes:
            raise DataError(
                "no function votes on any token, so there is nothing to put together: is it the right key or column?"
            )
        for function in self.accuracy if isinstance(self.accuracy, Mapping) else ():
            if function not in self.functions_:
                raise UnknownNameError("labelling function", function, self.functions_)
        self.bio_ = is_bio(votes)
        self._name_labels(kinds_of(votes, self.coarse or {}) if self.labels is None else list(self.labels))
        for text in texts:
            for name, own in text.votes.items():
                for vote in own:
                    if vote is not None and vote not in self.meanings_:
                        raise self._unknown(vote, name, text)

    def _name_labels(self, kinds: list[str]) -> None:
        """Labels from types, and what every possible vote means."""
        self.kinds_ = kinds
        if not kinds:
            raise DataError("every vote is a coarse one or O: name the types that there are, labels=[...] or --labels")
        self.label_names_ = bio_labels(kinds) if self.bio_ else kinds
        coarse = {ANY: list(kinds), **{name: list(parts) for name, parts in (self.coarse or {}).items()}}
        for name, parts in coarse.items():
            for part in parts:
                if part not in kinds:
                    made = UnknownNameError("label", part, kinds)
                    made.add_note(f"(the coarse label {name!r} is said to mean it)")
                    raise made
        of_kind = {**{kind: [kind] for kind in kinds}, **coarse}
        if not self.bio_:
            self.meanings_ = of_kind
            return
        self.meanings_ = {OUTSIDE: [OUTSIDE]}
        for name, parts in of_kind.items():
            self.meanings_ |= {f"{prefix}-{name}": [f"{prefix}-{part}" for part in parts] for prefix in "BI"}

    def _unknown(self, vote: str, function: str, text: VotedText) -> UnknownNameError:
        made = UnknownNameError("label", vote, list(self.meanings_), path=text.path, line=text.line)
        made.add_note(f"(it is a vote of function {function!r}; declare it by labels, or as a coarse label)")
        return made

    def _accuracies(self, texts: Sequence[VotedText], found: Sequence[FloatArray]) -> dict[str, FunctionAccuracy]:
        number = {name: k for k, name in enumerate(self.label_names_)}
        allowed = {vote: [number[name] for name in names] for vote, names in self.meanings_.items()}
        n_tokens = sum(map(len, texts))
        table = {}
        for function in self.functions_:
            right, votes, said = 0.0, 0, 0
            for text, node in zip(texts, found, strict=True):
                for t, vote in enumerate(text.votes.get(function, ())):
                    said += vote is not None
                    if vote is not None and vote != OUTSIDE:
                        votes += 1
                        right += float(node[t, allowed[vote]].sum())
            table[function] = FunctionAccuracy(right / votes if votes else None, votes, said / max(n_tokens, 1))
        return table

    def _model(self) -> VoteHMM:
        accuracy: Any = self.accuracy
        if isinstance(accuracy, Mapping):
            accuracy = {name: accuracy.get(name, USUAL_ACCURACY) for name in self.functions_}
        return VoteHMM(
            self.label_names_, self.functions_, self.meanings_, accuracy=accuracy, strength=self.prior_strength,
            n_jobs=self.n_jobs,
        )  # fmt: skip

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        header, arrays = to_archive(self.model_)
        names = _Names(
            kinds=self.kinds_,
            bio=self.bio_,
            files=self.files_,
            functions=self.functions_,
            accuracies=[[a.accuracy, a.votes, a.coverage] for a in self.accuracies_.values()],
            model=header,
        )
        return {**names}, arrays

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.files = self.files_ = dict(names["files"])
        self._rules = None if self.rules is None else parse_rules(self.rules, self.rules_path, self.files)
        self.bio_, self.functions_ = bool(names["bio"]), list(names["functions"])
        self._name_labels(list(names["kinds"]))
        model = from_archive(names["model"], arrays, VoteHMM, n_jobs=self.n_jobs)
        if list(model.label_names_) != self.label_names_:
            raise DataError(f"the model in it must be a VoteHMM over {self.label_names_}, and is not")
        if list(model.functions) != self.functions_ or dict(model.meanings) != self.meanings_:
            raise DataError("the model in it must be one of the same functions and votes, and is not")
        if len(names["accuracies"]) != len(self.functions_) or any(len(row) != 3 for row in names["accuracies"]):
            raise DataError("expected accuracy, votes and coverage of every function")
        rows = zip(self.functions_, names["accuracies"], strict=True)
        self.accuracies_ = {f: FunctionAccuracy(a, int(n or 0), float(c or 0.0)) for f, (a, n, c) in rows}
        self.model_ = model
        self.learner_ = UEM(model, self._constraints(), gamma=self.gamma, max_iter=self.max_iter, n_jobs=self.n_jobs)
        self.learner_.model_ = model
        self.history_ = History([])

    def _check_settings(self) -> None:
        self._check_whole(max_iter=1)
        self._check_within(prior_strength=(0.0, 1e9), entity_bias=(-1e3, 1e3))
        self._check_within(tol=(0.0, np.inf), gamma=(1e-6, np.inf))
        given: list[Any] = [*self.accuracy.values()] if isinstance(self.accuracy, Mapping) else [self.accuracy]
        for share in given:
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
                raise DataError(f"accuracy is a share of right votes between 0 and 1, but found {share!r}")
        if isinstance(self.labels, str):
            raise DataError(f"labels must be a list of names, got {self.labels!r}")


def _texts(X: Iterable[Any]) -> list[VotedText]:
    if isinstance(X, VotedText):
        raise DataError("expected a list of texts with votes, got a single one: put it in brackets, [text]")
    given = check_list(X, "texts with votes")
    return [_begun(x if isinstance(x, VotedText) else voted_of(x, what=f"text {i}")) for i, x in enumerate(given)]


def _begun(text: VotedText) -> VotedText:
    """The text with an ``I-`` vote that continues nothing read as ``B-``, as conlleval does."""
    found = {}
    for function, votes in text.votes.items():
        before = (None, *votes[:-1])
        found[function] = tuple(
            f"B-{v[2:]}" if v is not None and v[:2] == "I-" and (b is None or b[1:] != v[1:]) else v
            for b, v in zip(before, votes, strict=False)
        )
    return replace(text, votes=found) if found != text.votes else text
