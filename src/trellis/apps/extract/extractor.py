"""Extractor: fields of texts, learned from rules, a few labelled texts and many unlabelled ones."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import chain, repeat, zip_longest
from pathlib import Path
from typing import Any, NotRequired, Self, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from trellis.apps.extract.encoding import Unlabelled, encoded, learning_corpus, naming, side_by_side
from trellis.apps.extract.features import boundary_features
from trellis.apps.extract.learning import (
    MODEL_KINDS,
    coded,
    infer_with,
    new_hmm,
    new_network,
    token_features,
    trained_crf,
)
from trellis.apps.extract.rules import ExtractionRules, RulesLike, label_names
from trellis.apps.extract.usual_fields import usual_fields
from trellis.apps.extract.word_classes import WordClasses
from trellis.constraints.compilation import named
from trellis.constraints.expression import Written
from trellis.constraints.penalties import check_penalties
from trellis.constraints.rules.features import TextFeature
from trellis.data.arrays import split_arrays
from trellis.data.batch import Batch
from trellis.data.bio import Labels, split_bio
from trellis.data.checks import check_names
from trellis.data.corpus import Corpus
from trellis.data.document import Document, fields_of
from trellis.data.files import FilePath, shown
from trellis.data.on_demand import OnDemand
from trellis.data.places import labelled_by_spans
from trellis.data.ragged import LabelArray
from trellis.data.storage import Storage
from trellis.data.tokens import WORDS, TextLike, as_documents, each_document
from trellis.data.vocabulary import Vocabulary
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError
from trellis.learn.ccm import CCM, METHODS
from trellis.loop.history import History
from trellis.models import CRF, HMM, SemiCRF
from trellis.models.documentation import documented
from trellis.models.features import FeatureFunction
from trellis.models.inference import Inference
from trellis.models.saving import SavedEstimator, from_archive, members_to_archive, to_archive
from trellis.models.semi_crf import codes_of
from trellis.models.state import InnerHeader
from trellis.models.views import Views
from trellis.search.methods import SEARCHES, WIDEST_BEAM


class _ExtractorHeader(TypedDict):
    """What a file keeps beside the constructor's arguments and the model's arrays."""

    rules: str | list[Written]
    rules_path: str
    without: list[str]
    usual: dict[str, float]
    files: dict[str, str]
    labels: list[str]
    common: list[str]
    penalties: dict[str, float]
    duals: dict[str, float]
    history: list[dict[str, Any]]
    model: dict[str, Any]
    network: NotRequired[InnerHeader]


@documented
@dataclass(eq=False, repr=False)
class Extractor(SavedEstimator):
    """Extract fields from texts, with models of label sequences under rules.

    The default CRF is trained on labelled texts and on pseudo-labelled ones. Pseudo-labels come from the product of two
    models under the rules: an HMM trained on all texts by ``method``, and a CRF trained on the labelled texts only.

    Parameters
    ----------
    rules : path, str or list of Constraint
        Path of a rules file, its text, or a list of constraints. A string is a path if it has one line and ends in
        ".toml" or names an existing file.
    labels : list of str or None, default=None
        Labels, if the rules do not declare them. By default, those of the labelled texts.
    model_kind : {"crf", "semi-crf", "hmm"} or None, default=None
        Model to learn. One of "crf", "semi-crf" (whole fields) or "hmm". Default: "crf", or "semi-crf" if labelled
        texts contain adjacent fields of one label.
    encoder : str or None, default=None
        Encoder of a network: "bilstm", "wordllama", a text file of word vectors, or a Hugging Face transformer (folder
        or name). The network predicts together with the CRF. Needs PyTorch. By default, the CRF predicts alone.
    features : callable or None, default=None
        Function that maps a sentence and a position to additional features of the token, for CRFs.
    method : str or None, default=None
        How to learn. One of "pr", "codl", "uem", "hard-em", "em" or "supervised". Default: "pr"; "codl" with
        ``k_best``.
    gamma : float or None, default=None
        Temperature γ of the posteriors. 1: posterior regularization, 0: hard. For method "uem" only.
    beta : float or None, default=0.7
        Weight of the labelled texts' parameters in each round.
    hard : bool, default=False
        Treat rules of strength "learned" as hard where possible.
    k_best : int, default=1
        Learn from this many best outputs per text ("codl", "hard-em").
    smoothing : float, default=0.5
        Weight of the prior of learned penalties.
    min_count : int or None, default=None
        Words that occur less often are treated as unknown. The HMM then emits their shape. By default, it depends on
        the amount of text.
    transition_prior : float, default=1.01
        Dirichlet parameter α of the HMM's transitions.
    emission_prior : float, default=1.001
        Dirichlet parameter α of the HMM's emissions.
    back_off : float, default=1.0
        Weight with which the HMM backs off from words to shapes, and from transitions after a punctuation mark to all
        transitions. 0 is a plain HMM.
    usual_fields : bool, default=True
        Penalise texts without a field that every labelled text has.
    random_state : int or None, default=0
        Seed of the random start, used if nothing is labelled, and of a network.
    device : str, default="cpu"
        Where the network of an encoder runs: "cpu" or "cuda".

    Attributes
    ----------
    ccm_ : CCM
        The trained learner with its model, penalties and history.
    kind_ : str
        Kind of the trained model.
    label_names_ : Vocabulary
        Labels.
    classes_of_words_ : object
        Words and shapes that the HMM emits.
    n_repeated_ : int
        Number of unlabelled texts that ``fit`` left out because they are the same as a labelled one.

    Examples
    --------
    >>> rules = 'labels = ["NAME", "YEAR"]'
    >>> few, labels = ["Ann Lee 1999"], [["NAME", "NAME", "YEAR"]]
    >>> extractor = Extractor(rules, max_iter=2).fit(few, labels, unlabelled=["Bob Ray 2001", "Cy Fox 1987"])
    >>> extractor.predict(["Di Fox 2003"])
    [['NAME', 'NAME', 'YEAR']]
    """

    rules: RulesLike
    _: KW_ONLY
    labels: Sequence[str] | None = None
    rules_path: str = "rules"
    files: Mapping[str, str] | None = None
    model_kind: str | None = None
    encoder: str | None = None
    features: FeatureFunction | None = None
    method: str | None = None
    gamma: float | None = None
    beta: float | None = 0.7
    max_iter: int = 5
    hard: bool = False
    k_best: int = 1
    smoothing: float = 0.5
    beam: int = 50
    search: str = "auto"
    min_count: int | None = None
    transition_prior: float = 1.01
    emission_prior: float = 1.001
    back_off: float = 1.0
    usual_fields: bool = True
    random_state: int | None = 0
    device: str = "cpu"
    n_jobs: int | None = None
    engine: Any = None
    memory: int | str | None = None
    verbose: bool = False

    learned_names = _ExtractorHeader
    not_saved = (*SavedEstimator.not_saved, "rules", "rules_path", "encoder", "device")  # a file holds what was read
    tokeniser_ = WORDS
    text_features_ = cast("tuple[TextFeature, ...]", ())

    @classmethod
    def from_file(cls, path: FilePath, **settings: Any) -> Self:
        """An extractor with the rules of a file; the same as ``Extractor(Path(path), ...)``."""
        return cls(Path(shown(path)), **settings)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "ccm_")

    # learning

    def fit(
        self,
        X: Iterable[TextLike],
        y: Iterable[Sequence[str | None] | None] | None = None,
        *,
        unlabelled: Iterable[TextLike] = (),
        dev: Iterable[TextLike] | None = None,
        without: Sequence[str] = (),
    ) -> Self:
        """Learn from texts (strings, lists of tokens, or texts that were read with their labels).

        y : labels of the tokens of each text; None for an unlabelled text or token
        unlabelled : further texts, in any iterable; one that is the same as a labelled text is left out
        dev : texts whose accuracy is recorded in the history
        without : names of rules that are left out
        """
        self._check_types()
        self._check_settings()
        without = check_names(without, "without")
        self._take_rules(ExtractionRules.read(self.rules, self.rules_path, self.files))
        labelled = self.texts(X, y)
        others = Unlabelled(labelled, each_document(unlabelled, self.tokeniser_))
        some = (text for text in chain(labelled, others) if len(text))
        first = next(some, None)
        if first is None:
            raise DataError("there is no text to learn from: give labelled or unlabelled texts")
        self.label_names_ = names = label_names(self.rules_.parsed, labelled, self.labels)
        self.usual_ = usual_fields(labelled, names, self.smoothing) if self.usual_fields else {}
        self.constraints_, self.without_ = self.rules_.chosen(self.usual_, without), list(without)
        self.kind_ = self.model_kind or (
            "semi-crf" if self.encoder is None and side_by_side(labelled, names) else "crf"
        )
        every, storage = chain([first], some), Storage(self.memory)
        corpus, self.classes_of_words_, with_labels = learning_corpus(every, names, self.min_count, storage)
        texts = OnDemand(len(corpus.batch), lambda number: with_labels.get(number) or corpus.sentence(number))
        self.n_repeated_ = others.n_repeated
        free = np.flatnonzero(~corpus.batch.complete)
        with naming(OnDemand(len(free), lambda number: texts[int(free[number])])):
            judged = None if dev is None else (encoded(self.texts(dev), names, self.classes_of_words_), None)
            ccm = self._like(CCM, model=new_hmm(self), constraints=self.constraints_, method=self.method_)
            self.ccm_ = ccm.fit(corpus, dev=judged)
        if self.kind_ != "hmm":
            self.ccm_.model_ = trained_crf(self, texts)
        return self

    def _take_rules(self, rules: ExtractionRules) -> None:
        self.rules_ = rules
        self.tokeniser_, self.text_features_ = rules.parsed.tokeniser, tuple(rules.parsed.features.values())

    def texts(self, X: Iterable[TextLike], y: Iterable[Labels | None] | None = None) -> list[Document]:
        """Texts as documents: strings are tokenised as the rules say, and spans become labels if there are none."""
        return [labelled_by_spans(text) for text in as_documents(X, y, self.tokeniser_)]

    @property
    def method_(self) -> str:
        """The training method."""
        return self.method or ("pr" if self.k_best == 1 and self.max_iter > 0 else "codl")

    def corpus(self, texts: Iterable[TextLike], *, labels: bool = True, again: bool = False) -> Corpus:
        """Encode texts as the model takes them.

        labels : keep the labels that the texts have.
        again : labels mark where a field begins right after another one of the same label.
        """
        self._check_fitted()
        return encoded(self.texts(texts), self.label_names_, self.classes_of_words_, labels=labels, again=again)

    def batch(self, texts: Iterable[TextLike], *, labels: bool = True) -> Batch:
        """Encode texts with the vocabularies of the trained model."""
        self._check_fitted()
        return coded(self, self.ccm_.model_, self.texts(texts), labels=labels)

    # prediction

    def infer(self, texts: Iterable[TextLike], *, constrained: bool = True, transductive: bool = False) -> Inference:
        """Inference on texts: labels, marginals, violations of rules, ...

        constrained : under the rules
        transductive : whether to enforce rules over the corpus on these texts; by default, they are left out
        """
        self._check_fitted()
        if constrained:
            compile_ahead("predict")
        return infer_with(self, self.ccm_.model_, self.texts(texts), constrained, transductive)

    def predict(self, texts: Iterable[TextLike], *, constrained: bool = True) -> list[list[str]]:
        """Return a label for every token of every text.

        texts : strings, lists of tokens, sentences or texts, in a list or any other iterable.
        """
        found: list[list[str]] = self.infer(texts, constrained=constrained).labels
        return found

    def codes(self, labels: Iterable[Sequence[str]]) -> LabelArray:
        """Predicted labels as codes."""
        numbers = {name: code for code, name in enumerate(codes_of(list(self.label_names_)))}
        return np.array([numbers[label] for own in labels for label in own], dtype=np.int32)

    def extract(
        self, texts: Iterable[TextLike], *, constrained: bool = True, probabilities: bool = True
    ) -> list[Document]:
        """Return the texts as documents with ``labels`` of their tokens and fields as ``spans``.

        texts : strings, lists of tokens or documents, in a list or any other iterable.
        probabilities : compute the probability of every field; takes about as long again.
        """
        from trellis.apps.extract.confidence import field_probabilities

        texts = self.texts(texts)
        inference = self.infer(texts, constrained=constrained)
        shares: Any = (
            field_probabilities(self, texts, inference.labels, inference=inference) if probabilities else repeat(())
        )
        found = []
        for text, own, sure in zip(texts, inference.labels, shares, strict=False):
            fields = fields_of(text, own)
            spans = [replace(f, probability=p) for f, p in zip_longest(fields, sure[: len(fields)])]
            found.append(replace(text, labels=tuple(own), spans=spans, relations=None, predicted=True))
        return found

    def score(
        self, X: Iterable[TextLike], y: Iterable[Sequence[str | None] | None] | None = None, *, constrained: bool = True
    ) -> float:
        """Accuracy over the tokens with a known label; labels that the model does not know count as errors."""
        texts = self.texts(X, y)
        found = self.predict(texts, constrained=constrained)
        right = [
            split_bio(a)[1] == split_bio(b)[1]
            for t, labels in zip(texts, found, strict=True)
            for a, b in zip(t.labels or (), labels, strict=False)
            if a is not None
        ]
        if not right:
            raise DataError("no gold label is known, so there is no accuracy")
        return float(np.mean(right))

    # one file

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        self._check_fitted()
        members = getattr(self.ccm_.model_, "members", [self.ccm_.model_])  # a CRF, perhaps with a network
        header, arrays = to_archive(members[0])
        network, more = members_to_archive({"network": members[1] if len(members) > 1 else None})
        names = _ExtractorHeader(
            rules=self.rules_.to_json(self.label_names_.names),
            rules_path=self.rules_.path,
            without=self.without_,
            usual=self.usual_,
            files=dict(self.rules_.parsed.files),
            labels=list(self.label_names_),
            common=sorted(self.classes_of_words_.common),
            penalties=self.ccm_.penalties_,
            duals=self.ccm_.duals_,
            # without times: the same data gives the same file
            history=[{**entry, "seconds": 0.0} for entry in self.ccm_.history_.to_json()],
            model=header,
        )
        return {**names, **network}, {**arrays, **more}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._check_settings()
        self.files = dict(names["files"])
        self._take_rules(ExtractionRules.from_json(names["rules"], names["rules_path"], self.files))
        self.rules, self.rules_path = self.rules_.given, self.rules_.path
        self.without_ = list(names["without"])
        self.label_names_ = Vocabulary(names["labels"], kind="label")
        self.usual_ = {label: float(price) for label, price in names["usual"].items()}
        for label, price in self.usual_.items():
            if label not in self.label_names_ or not 0.0 <= price < np.inf:
                raise DataError(
                    f"a usual field must have a known label and a penalty of 0 or more, but found {label!r} with "
                    f"{price}"
                )
        self.constraints_ = self.rules_.chosen(self.usual_, self.without_)
        self.classes_of_words_ = WordClasses(frozenset(names["common"]))
        # the model is an HMM if there was nothing to train a CRF on
        kinds: list[Any] = [CRF if self.model_kind is None else MODEL_KINDS[self.model_kind], HMM]
        own = split_arrays(arrays, ["network_", ""] if "network" in names else [""])
        model: Any = from_archive(names["model"], own[""], tuple(kinds))
        self.kind_ = self.model_kind or ("semi-crf" if isinstance(model, SemiCRF) else "crf")
        if model.label_names_ != self.label_names_:
            raise DataError(f"the labels of the model in it must be {list(self.label_names_)}, but are not")
        if isinstance(model, CRF):
            model.features = token_features(self)
        if isinstance(model, SemiCRF):
            model.boundaries = boundary_features
        if "network" in names:
            model = Views([model, from_archive(names["network"], own["network_"], ("NeuralCRF",))])
            model._check_labels()
        penalties = check_penalties(names["penalties"], named(self.constraints_))
        self.ccm_ = self._like(CCM, model=model, constraints=self.constraints_, method=self.method_)
        self.ccm_.model_ = model
        self.ccm_.penalties_, self.ccm_.duals_ = penalties, dict(names["duals"])
        self.ccm_.history_ = History.from_json(names["history"])

    def _check_settings(self) -> None:
        self._check_names(model_kind=MODEL_KINDS, search=SEARCHES)
        if self.encoder is not None:
            if self.model_kind not in (None, "crf"):
                raise DataError(f"an encoder scores the labels of a CRF: leave out model_kind={self.model_kind!r}")
            new_network(self, ["label"]).check_settings()
        self._check_names(method=METHODS)
        self._check_whole(max_iter=0, k_best=1, beam=1, min_count=1, random_state=0)
        self._check_within(beam=(1, WIDEST_BEAM), beta=(0.0, 1.0), smoothing=(0.0, np.inf), gamma=(0.0, np.inf))
