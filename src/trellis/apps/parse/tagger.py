"""Part-of-speech tagger: a CRF over the word, its prefix and suffixes, its characters and its neighbours.

Raw text is tokenised as the treebank that the tagger learned from is. Text without capitals is tagged without features
of case: every second training sentence is learned from without them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self, TypedDict

from trellis.data.bio import Labels
from trellis.data.checks import check_list
from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.data.on_demand import OnDemand
from trellis.data.tokens import TextLike, as_documents
from trellis.data.treebank_tokens import TreebankTokeniser, plain_apostrophes
from trellis.errors import DataError
from trellis.models.crf import CRF
from trellis.models.documentation import documented
from trellis.models.hmm import HMM
from trellis.models.inference import Constraints, Inference
from trellis.models.saving import SavedEstimator
from trellis.models.state import Entry, Member

ROUNDS = 60
"""Rounds of L-BFGS without an encoder."""
WITHOUT_CASE = 2
"""One in so many training sentences is learned from without features of case."""


class _Tokens(TypedDict):
    """What a file keeps of a tokeniser."""

    whole: list[str]
    before: list[str]
    after: list[str]
    contractions: dict[str, list[str]]
    hyphens: bool


@documented
@dataclass(eq=False, repr=False, kw_only=True)
class Tagger(SavedEstimator):
    """Part-of-speech tagger: a CRF trained on tagged sentences, with a tokeniser learned from them.

    Parameters
    ----------
    encoder : str or None, default=None
        Encoder of a network: "bilstm", "wordllama", a text file of word vectors, or a Hugging Face transformer (folder
        or name). Needs PyTorch. By default, the model is log-linear.
    min_count : int, default=2
        Words that occur less often are treated as unknown. Rarer features are dropped.
    max_iter : int or None, default=None
        Rounds of L-BFGS, or passes of a network over the data. By default 60, or 20 with an encoder.
    device : str, default="cpu"
        Where the network of an encoder runs: "cpu" or "cuda".
    induced : HMM or None, default=None
        Model of induced states, such as ``Inducer.model_``. The most probable state of each word is a feature (Graça
        et al. 2009, sec. 5.2).

    Attributes
    ----------
    crf_ : CRF
        The trained model.
    tokeniser_ : object
        Splits raw text into words as the training sentences are split.

    Examples
    --------
    >>> from trellis.data.document import Document
    >>> text = [Document(("dogs", "bark"), ("N", "V")), Document(("cats", "sleep"), ("N", "V"))]
    >>> Tagger(min_count=1).fit(text).predict([Document(("birds", "sleep"))])[0].labels
    ('N', 'V')
    """

    encoder: str | None = None
    min_count: int = 2
    l2: float = 0.5
    max_iter: int | None = None
    device: str = "cpu"
    induced: Any = None
    n_jobs: int | None = None
    engine: Any = None
    verbose: bool = False

    saved: ClassVar = {
        "induced": Member("induced_", HMM, prefix="induced_", optional=True),
        "crf": Member("crf_", (CRF, "NeuralCRF")),
        "tokeniser": Entry("tokeniser_", _Tokens, TreebankTokeniser.to_json, TreebankTokeniser.from_json),
    }

    not_saved = (*SavedEstimator.not_saved, "encoder", "device", "induced")

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "crf_")

    def fit(self, X: Iterable[TextLike], y: Iterable[Labels | None] | None = None) -> Self:
        """Learn from sentences whose labels are tags; words without a tag are unlabelled.

        X : sentences, or lists of words.
        y : the tags of each sentence, in place of those that the sentences have.
        """
        self.check_settings()
        text = [s for s in as_documents(X, y) if s.labels is not None and any(s.labels)]
        if not text:
            raise DataError("no word has a tag (UPOS), so there is nothing to learn from")
        self.tokeniser_, self.induced_ = TreebankTokeniser.fit(text), self.induced
        if self.encoder is not None:
            self.crf_ = self._network().fit([list(s.tokens) for s in text], [list(s.labels or ()) for s in text])
            return self
        crf = self._log_linear()
        described = OnDemand(
            len(text), lambda number: self._described(text[number].tokens, case=number % WITHOUT_CASE != 0)
        )
        self.crf_ = crf.fit(described, [list(s.labels or ()) for s in text])
        return self

    def predict(self, X: Iterable[TextLike], constraints: Constraints = ()) -> list[Document]:
        """Return the sentences with tags for labels.

        X : sentences, lists of words, or strings, which are tokenised as the training sentences are.
        constraints : on the tags of a sentence, such as ``(word == "that").implies(label("SCONJ", "PRON"))``
        """
        self._check_fitted()
        given = self._sentences(X)
        found = self.infer(given, constraints).labels
        return [replace(s, labels=tuple(tags), predicted=True) for s, tags in zip(given, found, strict=True)]

    def infer(self, X: Iterable[TextLike], constraints: Constraints = (), *, search: str = "auto") -> Inference:
        """Inference on sentences, as ``predict`` takes them: labels (tags), marginals, log-partitions, ...

        constraints, search : as in :meth:`CRF.infer`
        """
        self._check_fitted()
        self.crf_.n_jobs = self.n_jobs
        given, describes = self._sentences(X), isinstance(self.crf_, CRF)
        batch = self.crf_.encode([self.described(s.tokens) if describes else list(s.tokens) for s in given])
        if constraints:  # which refer to words, and not to features of them
            seen = corpus_of(replace(s, labels=None) for s in given).batch.columns
            batch = replace(batch, columns={**batch.columns, **seen})
        found: Inference = self.crf_.infer(batch, constraints, search=search)
        return found

    def _sentences(self, X: Iterable[TextLike]) -> list[Document]:
        return as_documents(self.tokeniser_.split(x) if isinstance(x, str) else x for x in check_list(X, "sentences"))

    def score(self, X: Iterable[TextLike], y: Iterable[Labels | None] | None = None) -> float:
        """Return the share of the tagged words that ``predict`` tags the same; ``y`` as in :meth:`fit`."""
        given = as_documents(X, y)
        pairs = [
            pair
            for s, found in zip(given, self.predict(given), strict=True)
            for pair in zip(s.labels or (), found.labels or (), strict=False)
            if pair[0] is not None
        ]
        if not pairs:
            raise DataError("no word has a tag (UPOS), so there is no accuracy")
        return sum(one == other for one, other in pairs) / len(pairs)

    def described(self, words: Sequence[str]) -> list[list[str]]:
        """Return the features of each word of a sentence, as ``predict`` gives them to the CRF."""
        return self._described(words, case=_has_capitals(words))

    def _described(self, words: Sequence[str], *, case: bool) -> list[list[str]]:
        found = _described(words, case=case)
        if self.induced_ is not None:
            [states] = self.induced_.infer([list(words)]).marginal_labels
            found = [[*own, f"state={state}"] for own, state in zip(found, states, strict=True)]
        return found

    def tokenise(self, sentence: Document) -> Document:
        """Tokenise raw text like the training sentences."""
        self._check_fitted()
        tokens = tuple(self.tokeniser_.split(" ".join(sentence.tokens)))
        return replace(sentence, tokens=tokens, text="", offsets=(), labels=None)

    def _log_linear(self) -> CRF:
        return self._like(CRF, max_iter=ROUNDS if self.max_iter is None else self.max_iter)

    def _network(self) -> Any:
        from trellis.neural import NeuralCRF

        passes = {} if self.max_iter is None else {"max_iter": self.max_iter}
        return NeuralCRF(self.encoder, device=self.device, verbose=self.verbose, n_jobs=self.n_jobs, **passes)

    def _check_settings(self) -> None:
        self._log_linear().check_settings()
        if self.induced is not None and not isinstance(self.induced, HMM):
            raise DataError(f"induced must be a trained HMM, such as Inducer.model_, got {self.induced!r:.80}")
        if self.induced is not None and self.encoder is not None:
            raise DataError("induced states are features of a log-linear model: leave out encoder, or induced")
        if self.encoder is not None:
            self._network().check_settings()


def _has_capitals(words: Sequence[str]) -> bool:
    return any(word != word.lower() for word in words)


def _described(words: Sequence[str], *, case: bool) -> list[list[str]]:
    """The features of each word."""
    words = [plain_apostrophes(word) for word in words]
    return [_features(words, i, case) for i in range(len(words))]


def _features(words: Sequence[str], i: int, case: bool) -> list[str]:
    word, before = words[i].lower(), words[i - 1].lower() if i else "<s>"
    after = words[i + 1].lower() if i + 1 < len(words) else "</s>"
    named = {
        "w": word, "s2": word[-2:], "s3": word[-3:], "s4": word[-4:], "p3": word[:3], "-1": before, "+1": after,
        "s-1": before[-3:], "s+1": after[-3:], "-1w": f"{before}|{word}", "digit": any(map(str.isdigit, word)),
        "sign": not any(map(str.isalnum, word)),
    }  # fmt: skip
    if case:
        kind = "upper" if words[i].isupper() else "title" if words[i][:1].isupper() else "lower"
        named |= {"case": kind, "first": i == 0 and kind}
    return [f"{name}={value}" for name, value in named.items()]
