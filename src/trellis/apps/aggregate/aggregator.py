"""Weak labels: combine the votes of several labelling functions into labels with probabilities.

A chain of true labels emits the functions' votes (:class:`~trellis.models.vote_hmm.VoteHMM`). It is learned by MAP-EM
from the votes alone: the prior says that each function is right in nine of ten votes, and near-duplicate functions
count once. Abbreviations that a text explains vote too (:mod:`trellis.apps.aggregate.short_forms`).

    texts ──short forms──▶ votes ──encode──▶ batch ──EM──▶ model ──infer──▶ labels, probabilities

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
from typing import Any, NotRequired, Self, TypedDict

import numpy as np
from numpy.typing import NDArray

from trellis.apps.aggregate.short_forms import SHORT_FORMS, with_short_forms
from trellis.apps.aggregate.words import evidence, learn_words
from trellis.constraints import Constraint, parse_rules
from trellis.data.arrays import split_arrays
from trellis.data.batch import Batch
from trellis.data.bio import BEGINS, GOES_ON
from trellis.data.document import Document
from trellis.data.ragged import FloatArray
from trellis.data.voted import ANY, OUTSIDE, begun, is_bio, kinds_of
from trellis.data.voted_files import as_voted
from trellis.engine import engine_for
from trellis.engine.compiling import compile_ahead
from trellis.engine.progress import Progress
from trellis.errors import DataError, UnknownNameError, check_name
from trellis.learn import UEM, History
from trellis.learn.training import Training
from trellis.models.documentation import documented
from trellis.models.inference import OUTPUTS, POSTERIORS, Inference
from trellis.models.saving import SavedEstimator, from_archive, members_to_archive, to_archive
from trellis.models.state import InnerHeader
from trellis.models.vote_hmm import ABSTAIN, VoteHMM

USUAL_ACCURACY = 0.9
"""Prior accuracy of functions about which nothing is known."""
NETWORK_TOKENS, NETWORK_PASSES = 150_000, (3, 40)
"""Number of tokens over all passes of a network, and the minimum and maximum number of passes."""


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


class _AggregatorHeader(TypedDict):
    """What a file keeps beside the constructor's arguments and the arrays."""

    files: dict[str, str]
    accuracies: list[list[float | None]]
    model: InnerHeader
    network: NotRequired[InnerHeader]


@documented
@dataclass(eq=False, repr=False)
class Aggregator(SavedEstimator):
    """Combine the votes of labelling functions into labels.

    The model is an HMM over votes, estimated with a prior on the accuracy of each function. With ``encoder``, a network
    that learns from the HMM's posteriors is evidence as well.

    Parameters
    ----------
    labels : list of str or None, default=None
        Labels, or entity types of BIO votes. By default, those in the votes.
    coarse : dict or None, default=None
        Votes that stand for one of several types or labels: name to list. ``*`` stands for any of them.
    accuracy : float or dict, default=0.9
        Prior accuracy of the functions. In Python also one number per function; others have 0.9.
    prior_strength : float, default=10.0
        Weight of the prior accuracy, as a multiple of the function's votes. 0: plain EM.
    entity_bias : float, default=2.0
        Bonus of entities, in log-odds. For BIO votes only: functions miss more entities than they invent.
    short_forms : bool, default=True
        Use abbreviations defined in a text as votes of a function named "short forms". For BIO votes.
    rules : str or None, default=None
        Text of a rules file, in which every function is a column.
    encoder : str or None, default=None
        Encoder of a network: "bilstm", "wordllama", a text file of word vectors, or a Hugging Face transformer (folder
        or name). The words are evidence beside the votes. Needs PyTorch. By default, words are not used.
    max_iter : int, default=100
        Rounds of training. Training may stop earlier.
    device : str, default="cpu"
        Where the network of an encoder runs: "cpu" or "cuda".

    Attributes
    ----------
    model_ : HMM
        The trained model.
    labels_ : list
        Labels of the training texts, one for each token.
    text_labels_ : list of str
        Label of each training text, where functions label whole texts.
    probabilities_ : list of ndarray
        Label probabilities of the training texts.
    accuracies_ : dict
        Estimated accuracy, votes and coverage of each function.
    label_names_ : list of str
        Columns of ``probabilities_``.
    functions_ : list of str
        Names of the functions.
    network_ : NeuralCRF or None
        The network over words.
    history_ : History
        One entry per round.

    Examples
    --------
    >>> votes = [{"tokens": ["take", "aspirin"], "spans": {"list": [[1, 2, "DRUG"]], "cue": [[1, 2, "*"]]}}]
    >>> Aggregator().fit(votes).labels_
    [['O', 'B-DRUG']]
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
    encoder: str | None = None
    max_iter: int = 100
    tol: float = 1e-5
    device: str = "cpu"
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    learned_names = _AggregatorHeader
    not_saved = (*SavedEstimator.not_saved, "encoder", "device")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "learner_")

    def fit(self, X: Iterable[Any], y: object = None) -> Self:
        """Learn from texts with votes: documents, or mappings with the keys of an input line (see "Weak labels" in the
        documentation).
        """
        self._check_types()
        self._check_settings()
        texts = voted_texts(X)
        if not any(len(text) for text in texts):
            raise DataError("there is no text: all texts are empty" if texts else "there is no text: the list is empty")
        functions = list(dict.fromkeys(name for text in texts for name in text.votes))
        meanings = self._meanings(texts)
        compile_ahead("aggregate")
        if self.short_forms and is_bio(meanings):
            with Progress("finding abbreviations", len(texts), self.verbose, "texts") as progress:
                texts = [with_short_forms(text) for text in progress.over(texts)]
            functions += [SHORT_FORMS] if any(SHORT_FORMS in text.votes for text in texts) else []
        with Progress("counting votes", len(texts), self.verbose, "texts") as progress:
            progress.advance(0)
            model = VoteHMM(
                list(dict.fromkeys(label for labels in meanings.values() for label in labels)), functions, meanings,
                accuracy=self._accuracy_of(functions), strength=self.prior_strength, n_jobs=self.n_jobs,
            )  # fmt: skip
            batch = model.encode(texts, fit=True)
            model.begin(batch)
            progress.advance(len(texts))
        self.network_: Any = None
        self._take(model, self._read_rules())
        self.learner_.train(Training(model, batch, engine_for(self.n_jobs, self.engine)))
        self.history_ = self.learner_.history_
        if self.encoder is not None:
            self.network_, words = learn_words(self.learner_, texts, self._network, self.verbose)
            batch = replace(batch, features=words)
        with Progress("labelling", len(texts), self.verbose, "texts") as progress:
            progress.advance(0)
            if is_bio(meanings):
                model.offset_[[name.startswith(BEGINS) for name in self.label_names_]] = self.entity_bias
            inference = self.learner_.infer(batch).compute(OUTPUTS, POSTERIORS)
            self.labels_, self.probabilities_ = inference.labels, inference.marginals
            self.accuracies_ = _accuracies(model, batch, self.probabilities_)
            progress.advance(len(texts))
        return self

    @property
    def text_labels_(self) -> list[str]:
        """Label of each training text, where functions label whole texts."""
        self._check_fitted()
        if any(len(labels) != 1 for labels in self.labels_):
            raise DataError("the functions label tokens, so a text has no single label: use labels_")
        return [label for [label] in self.labels_]

    # prediction

    def infer(self, X: Iterable[Any], *, transductive: bool = False) -> Inference:
        """Inference on texts with votes: labels, marginals, ...

        transductive : whether to enforce rules over the corpus on these texts; by default, they are left out
        """
        self._check_fitted()
        return self.learner_.infer(self._batch(X), transductive=transductive).compute(OUTPUTS, POSTERIORS)

    def predict(self, X: Iterable[Any], *, transductive: bool = False) -> list[list[str]]:
        """Labels of every token of (new) texts with votes; ``labels_`` has those of the training texts."""
        found: list[list[str]] = self.infer(X, transductive=transductive).labels
        return found

    def predict_proba(self, X: Iterable[Any], *, transductive: bool = False) -> list[FloatArray]:
        """P(label) of every token, (n_tokens, n_labels) for each text, columns as in ``label_names_``."""
        found: list[FloatArray] = self.infer(X, transductive=transductive).marginals
        return found

    def score(self, X: Iterable[Any], y: Sequence[Sequence[str]]) -> float:
        """Token accuracy: share of the tokens whose predicted label is that in ``y``."""
        batch = self._batch(X, y)
        return self.learner_.infer(batch).accuracy()

    def _batch(self, X: Iterable[Any], y: Sequence[Sequence[str]] | None = None) -> Batch:
        """Texts encoded, with the evidence of the network over words."""
        texts = self._seen(X)
        batch = self.model_.encode(texts, y)
        return batch if self.network_ is None else replace(batch, features=evidence(self.network_, texts))

    def _seen(self, X: Iterable[Any]) -> list[Document]:
        self._check_fitted()
        texts = voted_texts(X)
        voting = {name for text in texts for name in text.votes}
        if voting and voting.isdisjoint(self.functions_):
            raise UnknownNameError("labelling function", min(voting), self.functions_)
        return [with_short_forms(text) for text in texts] if SHORT_FORMS in self.functions_ else texts

    # names

    def _meanings(self, texts: Sequence[Document]) -> dict[str, list[str]]:
        """Every possible vote, and the labels that it may mean."""
        votes = list(dict.fromkeys(vote for text in texts for own in text.votes.values() for vote in own if vote))
        if not votes:
            raise DataError(
                "no function votes on any token, so there is nothing to aggregate: check the key or column of the votes"
            )
        kinds = kinds_of(votes, self.coarse or {}) if self.labels is None else list(self.labels)
        if not kinds:
            raise DataError("all votes are coarse labels or O: name the types, labels=[...] or --labels")
        coarse = {ANY: kinds, **{name: list(parts) for name, parts in (self.coarse or {}).items()}}
        for name, parts in coarse.items():
            for part in parts:
                if part not in kinds:
                    made = UnknownNameError("label", part, kinds)
                    made.add_note(f"(it is listed in the coarse label {name!r})")
                    raise made
        found = {**{kind: [kind] for kind in kinds}, **coarse}
        if is_bio(votes):
            marked = [(mark, name, parts) for name, parts in found.items() for mark in (BEGINS, GOES_ON)]
            return {OUTSIDE: [OUTSIDE], **{mark + name: [mark + part for part in own] for mark, name, own in marked}}
        return found

    def _accuracy_of(self, functions: Sequence[str]) -> float | dict[str, float]:
        if not isinstance(self.accuracy, Mapping):
            return self.accuracy
        for name in self.accuracy:
            check_name("labelling function", name, functions)
        return {name: self.accuracy.get(name, USUAL_ACCURACY) for name in functions}

    def _read_rules(self) -> list[Constraint]:
        self.files_: dict[str, str] = {}
        if self.rules is None:
            return []
        parsed = parse_rules(self.rules, self.rules_path, self.files)
        self.files_ = dict(parsed.files)
        return list(parsed)

    def _network(self, n_tokens: int = 1) -> Any:
        """A network over words, before it is trained on so many tokens."""
        from trellis.neural import NeuralCRF
        from trellis.neural.encoders import small_encoder

        passes = int(np.clip(-(-NETWORK_TOKENS // max(n_tokens, 1)), *NETWORK_PASSES))
        return NeuralCRF(
            small_encoder(self.encoder), max_iter=passes, batch_size=8, learning_rate=0.005, device=self.device,
            n_jobs=self.n_jobs,
        )  # fmt: skip

    def _take(self, model: VoteHMM, constraints: list[Constraint]) -> None:
        self.network_ = None
        self.model_, self.functions_, self.label_names_ = model, list(model.functions), list(model.labels)
        self.learner_ = UEM(
            model, constraints, start="model", max_iter=self.max_iter, tol=self.tol, n_jobs=self.n_jobs,
            track_likelihood=False, verbose=self.verbose,
        )  # fmt: skip
        self.learner_.model_ = model

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        header, arrays = to_archive(self.model_)
        rows = [[one.accuracy, one.votes, one.coverage] for one in self.accuracies_.values()]
        network, more = members_to_archive({"network": self.network_})
        names = _AggregatorHeader(files=self.files_, accuracies=rows, model=header)
        return {**names, **network}, {**arrays, **more}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.files = dict(names["files"])
        own = split_arrays(arrays, ["network_", ""] if "network" in names else [""])
        self._take(from_archive(names["model"], own[""], VoteHMM, n_jobs=self.n_jobs), self._read_rules())
        if "network" in names:
            self.network_ = from_archive(names["network"], own["network_"], ("NeuralCRF",), n_jobs=self.n_jobs)
            if list(self.network_.label_names_) != self.label_names_:
                raise DataError(f"the labels of the network in it must be {self.label_names_}, but are not")
        rows = names["accuracies"]
        if len(rows) != len(self.functions_) or any(len(row) != 3 for row in rows):
            raise DataError("expected accuracy, votes and coverage of every function")
        table = zip(self.functions_, rows, strict=True)
        self.accuracies_ = {name: FunctionAccuracy(a, int(n or 0), float(c or 0.0)) for name, (a, n, c) in table}
        self.history_ = History([])

    def _check_settings(self) -> None:
        self._check_whole(max_iter=1)
        self._check_within(prior_strength=(0.0, 1e9), entity_bias=(-1e3, 1e3), tol=(0.0, np.inf))
        if self.encoder is not None:
            self._network().check_settings()
        given: list[Any] = [*self.accuracy.values()] if isinstance(self.accuracy, Mapping) else [self.accuracy]
        for share in given:
            if isinstance(share, bool) or not isinstance(share, int | float) or not 0.0 <= share <= 1.0:
                raise DataError(f"an accuracy must be between 0 and 1, but found {share!r}")
        if isinstance(self.labels, str):
            raise DataError(f"labels must be a list of names, got {self.labels!r}")


def voted_texts(X: Iterable[Any]) -> list[Document]:
    """Texts with votes, given as documents, mappings or a table."""
    return [begun(text) for text in as_voted(X)]


def labelled_record(
    tokens: Sequence[str], labels: Sequence[str], probabilities: FloatArray, number: Mapping[str, int]
) -> dict[str, Any]:
    """The JSON object of a text: its labels with their probabilities; number : of each label among the columns."""
    share = [round(float(probabilities[t, number[label]]), 6) for t, label in enumerate(labels)]
    return {"tokens": tokens, "labels": labels, "probability": share}


def _accuracies(model: VoteHMM, batch: Batch, probabilities: Sequence[FloatArray]) -> dict[str, FunctionAccuracy]:
    """Expected share of right votes of every function."""
    node = np.concatenate(probabilities)
    entity = np.array([vote not in (ABSTAIN, OUTSIDE) for vote in model.votes_.names])
    table = {}
    for name in model.functions:
        codes = batch.column(name).codes
        voted = entity[codes]
        right, n = float((node * model.allows_[codes])[voted].sum()), int(voted.sum())
        table[name] = FunctionAccuracy(right / n if n else None, n, float(np.mean(codes > 0)))
    return table
