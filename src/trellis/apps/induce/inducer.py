"""Inducer: part-of-speech induction, a state for every word of a text.

A first-order HMM is trained by EM, by variational Bayes, or by EM followed by posterior sparsity: rounds of posterior
regularization in which every frequent word is to use few states (Graça et al. 2009; Ganchev et al. 2010, sec. 8).

    sparse:   max_θ max_q  E_q[log p_θ(x, y)] + γ H(q) − σ Σ_{w, k} max_{t: x_t = w} q(y_t = k)
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np

from trellis.constraints import Constraint, few_labels_per, word
from trellis.data.batch import Batch
from trellis.data.checks import check_list
from trellis.data.corpus import Corpus
from trellis.data.document import Document
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray, LabelArray
from trellis.data.storage import bytes_of
from trellis.engine import engine_for
from trellis.engine.compiling import compile_ahead
from trellis.errors import DataError, check_name
from trellis.learn import UEM, History, Round
from trellis.learn.expectation import DirectStep, ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.metrics.induction import FREQUENT, add_maxima, mean_labels, score_induction
from trellis.models import HMM
from trellis.models.documentation import documented
from trellis.models.estimator import Estimator
from trellis.models.hmm_parameters import HMMStatistics
from trellis.models.inference import Inference
from trellis.models.lexicon import closed_dictionary
from trellis.models.sequence import check_sentences, streamed, with_labels
from trellis.projection import Duals, KeyDuals, ProjectionItem, ShardAnswer

METHODS = ("em", "sparse", "vb")
ASCENTS = ("gradient", "em")
STARTS = ("auto", "random", "uniform", "labelled")
DECODINGS = ("posterior", "viterbi")
EM_ROUNDS = 30
SCALES = {"em": 1.0, "sparse": 1.0, "vb": 1e-4}
"""Scale of the random initial counts, 1 + scale · U(0, 1), from Graça et al. 2009, sec. 5."""

NEARLY_EQUAL = 0.01
"""The same for gradient ascent, and the standard deviation of its initial weights (Berg-Kirkpatrick et al. 2010)."""

NEVER = 1e-100
"""Probability of transitions that do not occur in training, far below that of any other."""


@documented
@dataclass(eq=False, repr=False)
class Inducer(Estimator):
    """Induce unnamed parts of speech (states of an HMM) from text.

    Parameters
    ----------
    labels : int or list of str, default=17
        Number of states, or their names.
    method : {"sparse", "em", "vb"}, default="sparse"
        How to learn. One of "em", "sparse" (EM, then posterior sparsity) or "vb" (variational Bayes).
    strength : float, default=32.0
        Strength σ of posterior sparsity. 0: EM.
    frequent : int, default=11
        Words that occur at least this often are regularised.
    em_iter : int or None, default=None
        Rounds before posterior sparsity. Default: three quarters of all rounds, or with a table at most 30.
    dual_steps : int, default=1
        Dual steps per round.
    emissions : {"features", "table"} or None, default=None
        Emission model. One of "features" (words share suffixes, digits and capitals) or "table" (one probability per
        word). Default: "features"; "table" for "vb".
    ascent : {"gradient", "em"} or None, default=None
        How the likelihood is maximised before sparsity. One of "gradient" or "em". Default: "gradient" with features,
        "em" with a table.
    l2 : float or None, default=None
        Strength of the Gaussian prior on the weights, 1 / σ². By default, √n / 80 for n words.
    emission_prior : float or None, default=None
        Dirichlet parameter α of words. With a table only. Default: 1; vb: 0.1.
    transition_prior : float or None, default=None
        Dirichlet parameter α of transitions. Default: 1; vb: 0.1.
    min_count : int, default=2
        Words that occur less often are treated as unknown. 1: none.
    closed_classes : dict or None, default=None
        Tags of closed-class words. Other words cannot have these tags, and these words no others.
    tag_dictionary : dict or None, default=None
        Possible labels of words, including rare and unseen ones.
    gamma : float, default=1.0
        Temperature γ of the posteriors. 1: EM or posterior regularization, 0: hard.
    smoothing : float, default=0.1
        Added to the counts of labelled sentences when they are the start.
    keep_labels : bool, default=True
        Labelled sentences count in every round; otherwise only as the start.
    start : {"auto", "random", "uniform", "labelled"}, default="auto"
        Initial parameters. One of "random", "labelled" (counts of the labelled sentences), "uniform" (all tags that the
        dictionary allows are equally likely) or "auto". "auto" is "labelled" if there are labels and "random"
        otherwise.
    start_scale : float or None, default=None
        Scale of the random start.
    decoding : {"posterior", "viterbi"}, default="posterior"
        Posterior decoding of each word, or the best sequence. One of "posterior" or "viterbi".
    random_state : int or None, default=None
        Seed of the random start.

    Attributes
    ----------
    model_ : HMM
        The trained model.
    history_ : History
        One entry per round.
    labels_per_word_ : float
        Mean number of labels per word, the l1/linf statistic of the training text.

    Examples
    --------
    >>> text = [s.split() for s in ("the dog barks", "a dog sleeps", "the cat sleeps", "a cat barks")]
    >>> inducer = Inducer(3, max_iter=8, min_count=1, random_state=0).fit(text)
    >>> len(inducer.predict([["the", "cat", "barks"]])[0])
    3
    """

    labels: int | Sequence[str] = 17
    _: KW_ONLY
    method: str = "sparse"
    strength: float = 32.0
    frequent: int = FREQUENT
    max_iter: int = 200
    em_iter: int | None = None
    dual_steps: int = 1
    emissions: str | None = None
    ascent: str | None = None
    l2: float | None = None
    emission_prior: float | None = None
    transition_prior: float | None = None
    min_count: int = 2
    closed_classes: Mapping[str, Sequence[str]] | None = None
    tag_dictionary: Mapping[str, Sequence[str]] | None = None
    gamma: float = 1.0
    smoothing: float = 0.1
    keep_labels: bool = True
    start: str = "auto"
    start_scale: float | None = None
    unlabelled_weight: float = 1.0
    decoding: str = "posterior"
    n_jobs: int | None = None
    engine: Any = None
    memory: int | str | None = None
    random_state: int | None = None
    verbose: bool = False

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learn from sentences (strings of words, lists of them, or a Corpus); ``y`` labels some, None for the others.

        Without ``y``, sentences may come one by one. Without labels, the start is random.
        """
        self._check_types()
        self._check_settings()
        X = _as_lists(X) if y is not None else self._coded(X)
        compile_ahead(f"induce-{self.method}")
        model = HMM(**self._hmm_settings(X))
        given = model.encode(X, y, fit=True)
        self._begin(model, given)
        given = given if self.keep_labels else given.with_labels(None)
        engine, weight = engine_for(self.n_jobs, self.engine), self.unlabelled_weight
        training = Training(model, given, engine, unlabelled_weight=weight)
        plain, title = self.max_iter, UEM.title
        if constraints := self._constraints():
            title = "learning without sparsity"
            most = 3 * self.max_iter // 4
            usual = min(EM_ROUNDS, most) if self.emissions_ == "table" else most
            plain = usual if self.em_iter is None else self.em_iter
        rounds, duals = list[Round](), None
        step = ProjectedStep(training, (), likelihood=False)
        if plain:
            climb = DirectStep(step) if self.ascent_ == "gradient" else step
            rounds += self._learner(plain, title).train(training, climb).history_
        if constraints and self.max_iter > plain:
            solving = SolverSettings(few_dual_steps=self.dual_steps, memory=self.memory)
            step = ProjectedStep(training, constraints, solving, likelihood=False)
            later = self._learner(self.max_iter - plain, "learning with sparsity").train(training, step)
            n = len(rounds)
            rounds += [replace(entry, number=entry.number + n) for entry in later.history_]
            duals = later.duals_
        self.model_, self.history_ = model, History(rounds)
        self._read(step, duals)
        _leave_possible(model)
        return self

    def states(self) -> list[list[str]]:
        """The states of the training text, under the posteriors that training ended with."""
        self._check_fitted()
        return self.model_.decode(self._batch, self._states)

    def tagged(self) -> Iterator[Document]:
        """The training text with its states for labels, one sentence after the other."""
        self._check_fitted()
        words, names = self._batch.column("word"), self.model_.label_names_.names
        for low, high in pairwise(self._batch.offsets.tolist()):
            tokens = words.vocabulary.decode(words.codes[low:high].tolist())
            yield Document(tuple(tokens), tuple(names[k] for k in self._states[low:high].tolist()))

    @property
    def posterior_states(self) -> LabelArray:
        """(n_tokens,) numbers of the states of the training text."""
        self._check_fitted()
        return self._states

    def infer(self, X: Any) -> Inference:
        """Inference on new text under the learned HMM alone: labels (states), marginals, log-partitions, ..."""
        self._check_fitted()
        return self.model_.infer(_as_lists(X))

    def predict(self, X: Any) -> list[list[str]]:
        """States of new text under the learned HMM alone."""
        self._check_fitted()
        return tag_text(self.model_, _as_lists(X), self.decoding)

    def score(self, X: Any, y: Sequence[Sequence[str]] | None = None) -> float:
        """Many-to-one accuracy: every state is mapped to its most frequent tag; without y, tags are labels of X."""
        X, tags = with_labels(X, y)
        states, own = (s for one in self.predict(X) for s in one), (t for one in tags or () for t in one or ())
        return score_induction(states, own).many_to_one

    def save(self, path: FilePath) -> None:
        """Write the learned HMM; ``trellis.models.load_model`` reads it."""
        self._check_fitted()
        self.model_.save(path)

    # inside

    def _coded(self, X: Any) -> Any:
        """Sentences as a corpus, in memory or on disk."""
        if isinstance(X, Corpus):
            return X
        given = check_list(X, "sentences, each a string or a list of tokens")
        return streamed((s.split() if isinstance(s, str) else s for s in given), memory=self.memory)

    def _begin(self, model: HMM, given: Batch) -> None:
        """Set the initial parameters."""
        known = bool(np.any(given.labels >= 0))
        if self.start == "labelled" and not known:
            raise DataError("start='labelled' needs labelled sentences, but no label is known")
        if self.start == "labelled" or (self.start == "auto" and known):
            model.update(_smoothed(model, given, self.smoothing))
        elif self.start == "uniform":
            if not (known or self.tag_dictionary or self.closed_classes):
                raise DataError("start='uniform' needs a dictionary or labels: otherwise all states would stay equal")
            model.update(model.collect(given, model.uniform(given).clamp(given.labels).infer(weights=given.weights)))
        else:
            usual = NEARLY_EQUAL if self.ascent_ == "gradient" else SCALES[self.method]
            scale = usual if self.start_scale is None else self.start_scale
            model.randomize(np.random.default_rng(self.random_state), scale)

    def _learner(self, rounds: int, title: str) -> UEM:
        learner = UEM(
            None, gamma=self.gamma, start="model", max_iter=rounds, tol=0.0, n_jobs=self.n_jobs,
            track_likelihood=False, verbose=self.verbose,
        )  # fmt: skip
        learner.title = title
        return learner

    def _read(self, step: ProjectedStep, duals: Duals | KeyDuals | None) -> None:
        """States and the l1/linf statistic of the training text, from one more E-step at the final parameters."""
        batch, k = step.training.batch, len(self.model_.label_names_)
        symbols = batch.column("word").codes
        largest = np.zeros((len(batch.column("word").vocabulary), k))
        outcome = step.project(self.gamma, duals, _Read(self.decoding == "viterbi", k))
        states = np.array(batch.labels)
        free = np.zeros(len(batch), np.bool_)
        free[step.training.free] = True
        states[np.repeat(free, batch.lengths)] = np.concatenate(
            [np.zeros(0, np.int32), *(found for found, _, _ in outcome.results)]
        )
        for _, words, found in outcome.results:
            largest[words] = np.maximum(largest[words], found)
        known = batch.labels >= 0
        np.maximum.at(largest, (symbols[known], batch.labels[known]), 1.0)
        self._batch, self._states = batch, states
        frequent = np.bincount(symbols, minlength=len(largest)).max(initial=0) >= self.frequent
        self.labels_per_word_ = mean_labels(symbols, largest, at_least=self.frequent) if frequent else None

    def _constraints(self) -> tuple[Constraint, ...]:
        if self.method != "sparse" or self.strength == 0:
            return ()
        return (few_labels_per(word, strength=self.strength, min_count=self.frequent),)

    @property
    def emissions_(self) -> str:
        """The emission model."""
        return self.emissions or ("table" if self.method == "vb" else "features")

    @property
    def ascent_(self) -> str:
        """How the likelihood is maximised before sparsity."""
        return self.ascent or ("gradient" if self.emissions_ == "features" and self.gamma > 0 else "em")

    def _hmm_settings(self, X: Any) -> dict[str, Any]:
        variational = self.method == "vb"
        default = 0.1 if variational else 1.0
        settings: dict[str, Any] = {
            "labels": self.labels,
            "min_count": self.min_count,
            "unknown": "<unk>" if self.min_count > 1 else None,
            "tag_dictionary": self.tag_dictionary,
            "emission_prior": default if self.emission_prior is None else self.emission_prior,
            "transition_prior": default if self.transition_prior is None else self.transition_prior,
            "variational": variational,
            "emissions": self.emissions_,
            "l2": _n_words(X) ** 0.5 / 80 if self.l2 is None else self.l2,
            "truecase": self.emissions_ == "features",
            "n_jobs": self.n_jobs,
        }
        if self.closed_classes:
            names, dictionary, others = closed_dictionary(self.closed_classes, self.labels, self.tag_dictionary)
            settings |= {"labels": names, "tag_dictionary": dictionary, "other_labels": others}
            settings |= {"min_count": 1, "unknown": "<unk>"}
        return settings

    def _check_settings(self) -> None:
        self._check_names(method=METHODS, ascent=ASCENTS)
        if self.ascent == "gradient" and self.emissions_ == "table":
            raise DataError("ascent='gradient' requires emissions='features': set it, or use ascent='em'")
        if self.ascent == "gradient" and self.gamma == 0:
            raise DataError("at gamma=0 the objective has no gradient: use ascent='em'")
        self._check_names(start=STARTS, decoding=DECODINGS)
        if self.emission_prior is not None and self.emissions_ != "table":
            raise DataError("emission_prior requires emissions='table': feature weights are regularised by l2")
        if self.method != "sparse" and self.strength not in (0.0, type(self).strength):
            raise DataError(f"strength requires method 'sparse', but method is {self.method!r}: leave it out")
        if self.l2 is not None and self.emissions_ == "table":
            raise DataError("l2 requires emissions='features': tables are smoothed by emission_prior")
        bytes_of(self.memory)
        self._check_whole(frequent=1, max_iter=1, em_iter=0, dual_steps=1, min_count=1, random_state=0)
        self._check_within(strength=(0.0, np.inf), gamma=(0.0, np.inf), smoothing=(0.0, np.inf))
        self._check_within(start_scale=(0.0, np.inf), unlabelled_weight=(0.0, np.inf))
        if self._constraints() and self.em_iter is not None and self.em_iter >= self.max_iter:
            raise DataError(
                f"em_iter={self.em_iter} of max_iter={self.max_iter} rounds leaves none for sparsity: lower em_iter, "
                "or use method='em'"
            )
        if isinstance(self.labels, str) or not isinstance(self.labels, int | Sequence):
            raise DataError(f"labels must be a number of states, or a list of names, got {self.labels!r}")


@dataclass(frozen=True)
class _Read:
    """States of a shard, and the largest posteriors of its words: those of all tokens are never in memory together."""

    viterbi: bool
    n_labels: int

    def __call__(self, item: ProjectionItem, answer: ShardAnswer) -> tuple[LabelArray, LabelArray, FloatArray]:
        # Without local rows, q is the posterior of the tilted scores, except for the duals of few dual steps.
        scores, q = answer.tilted, answer.posterior
        states = scores.argmax().outputs if self.viterbi else scores.marginal_argmax(q)
        words, places = np.unique(item.data.column("word").codes, return_inverse=True)
        found = np.zeros((len(words), self.n_labels))
        add_maxima(places, q.at(scores.parts.grid()), found)
        return states, words, found


def tag_text(model: HMM, X: Any, decoding: str = "posterior") -> list[list[str]]:
    """States of text under an HMM: the most probable state of each word, or the best sequence."""
    check_name("decoding", decoding, DECODINGS)
    found = model.infer(X)
    states: list[list[str]] = found.labels if decoding == "viterbi" else found.marginal_labels
    return states


def _smoothed(model: HMM, batch: Batch, amount: float) -> HMMStatistics:
    """Counts of the known labels plus ``amount`` for all that is allowed, so that unseen events stay possible."""
    return model.count(batch) + model.pseudo_counts(lambda shape: np.full(shape, amount))


def _leave_possible(model: HMM) -> None:
    """Give label pairs that training never met a tiny probability: the dictionary may require them in new text."""
    if not model.variational:
        learned = model.parameters()
        model.set_parameters(learned | {name: np.maximum(learned[name], NEVER) for name in ("start", "transition")})


def _as_lists(X: Any) -> Any:
    """Sentences as lists of words; strings are split at whitespace."""
    if isinstance(X, Corpus):
        return X
    given = check_list(X, "sentences, each a string or a list of tokens")
    return [sentence.split() if isinstance(sentence, str) else sentence for sentence in given]


def _n_words(X: Any) -> int:
    return X.batch.n_slots if isinstance(X, Corpus) else sum(map(len, check_sentences(X)))
