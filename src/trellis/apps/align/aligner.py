"""Aligner: word alignment of parallel text, from texts to links.

>>> from trellis.apps.align.aligner import Aligner
>>> pairs = [
...     ("the house", "la maison"),
...     ("the blue house", "la maison bleue"),
...     ("the flower", "la fleur"),
...     ("blue", "bleue"),
...     ("a flower", "une fleur"),
...     ("a house", "une maison"),
...     ("blue flower", "fleur bleue"),
... ]
>>> aligner = Aligner(n_jobs=1).fit(pairs)
>>> aligner.align([("the blue flower", "la fleur bleue")])[0].pharaoh()
'0-0 1-2 2-1'
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from numbers import Real
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.apps.align.constraint_sets import ConstraintSet, constraints_of, with_hints
from trellis.apps.align.decoding import (
    SYMMETRIZE,
    Decoding,
    Links,
    WriteLinks,
    decode,
    link_posteriors,
    links_of_pairs,
    log_likelihoods,
    per_word,
    posterior_grids,
)
from trellis.apps.align.hints import Hint, hints_of_pieces
from trellis.apps.align.pairs import Text, chunks_of, keeping, then_compiling
from trellis.apps.align.training import STEM_ROUNDS, PruningTraining
from trellis.apps.align.word_links import count_word_links
from trellis.data.bitext import Bitext, check_links, each_pair
from trellis.data.files import FilePath
from trellis.data.ragged import FloatArray
from trellis.data.storage import Storage, bytes_of
from trellis.engine import Piece, Placed, engine_for, place_batch
from trellis.engine.compiling import compile_ahead
from trellis.errors import ConvergenceWarning, DataError, NotFittedError, check_name
from trellis.learn.uem import UEM
from trellis.loop.history import History, Round
from trellis.metrics.alignment import GoldLinks, best_threshold, precision_recall_curve, score_links
from trellis.models.alignment import AlignmentModel, SentencePairs
from trellis.models.documentation import documented
from trellis.models.saving import SavedEstimator
from trellis.models.state import Entry, Member
from trellis.projection import ProjectionItem, ShardAnswer

T = TypeVar("T")

SMALLEST_GAMMA = 0.05
"""Below this, powers p^(1/γ) leave the range of double precision for ordinary sentences. At it, the projection is
within γ · log(number of alignments) of the linear program of γ = 0 (docs/decisions)."""
THRESHOLD = 0.4
"""Least posterior of a link of "posterior", where none is given."""
THRESHOLDS = [round(0.05 * k, 2) for k in range(2, 19)]
LEAST_LINK = 1e-3
"""Links less likely than this are left out of the table of whole words."""


@documented
@dataclass(eq=False, repr=False)
class Aligner(SavedEstimator):
    """Align the words of sentence pairs with two HMMs that are constrained to agree.

    Parameters
    ----------
    constraint : {"both", "agreement", "bijective", "none"} or list of Constraint, default="both"
        Training constraint on both directions. One of "both", "agreement", "bijective" or "none". In Python also a list
        of constraints on links, each with its slack or penalty.
    decode_constraint : str, list of Constraint or None, default=None
        Decoding constraint, if different from training.
    gamma : float, default=1.0
        Temperature γ of the posteriors. 1: posterior regularization, 0.05: close to LP-EM.
    model1_iter : int, default=4
        Rounds of Model 1 before those of the HMM.
    max_iter : int, default=2
        Rounds of training. These are rounds of the HMM.
    symmetrize : str, default="posterior"
        How the links of both directions are combined. One of "posterior", "intersection", "union", "grow-diag",
        "grow-diag-final", "grow-diag-final-and", "forward" or "backward". The last two use one direction: forward is
        p(target | source), backward p(source | target).
    threshold : float or None, default=None
        Minimum posterior of a link: the mean of both directions or, with "forward" and "backward", that of the
        direction. Default: 0.4 for "posterior", none otherwise.
    prefix : int or None, default=5
        Length of a stem, the first letters of a word in lower case. Words have translation tables as whole words and
        by their stems. None: no stems.
    whole_words : bool, default=True
        Use translation tables of whole words beside those of stems.
    p_null : float, default=0.3
        Probability of a word without a link.
    concentration : float, default=0.15
        Dirichlet parameter α of the translation tables.
    diagonal_scale : float, default=40.0
        Model 1 prefers links near the diagonal, by exp(−distance / scale), with the distance in words and this scale.
    variational : bool, default=True
        Estimate the translation tables by variational Bayes.
    same_spelling : float, default=1.0
        Pseudo-count of words with the same spelling. 0: none.
    priors : dict or None, default=None
        Pseudo-counts of (source word, target word) pairs. A negative number forbids the pair.
    reliability : float, default=0.9
        Minimum expected share of the hints that are correct. Hints are given links.
    projection_tol : float, default=0.05
        KKT residual at which the projection of a pair stops.
    max_evaluations : int, default=2
        Maximum number of dual evaluations per pair in training; decoding has one more.

    Attributes
    ----------
    model_ : AlignmentModel
        The trained model.
    history_ : History
        One entry per round.
    threshold_ : float
        The threshold used.

    Examples
    --------
    >>> pairs = [("the house", "la maison"), ("the cat", "le chat"), ("a house", "une maison")]
    >>> [links] = Aligner(n_jobs=1).fit(pairs).align(pairs[:1])
    >>> links.pharaoh()
    '0-0 1-1'
    """

    constraint: ConstraintSet = "both"
    _: KW_ONLY
    decode_constraint: ConstraintSet | None = None
    gamma: float = 1.0
    model1_iter: int = 4
    max_iter: int = 2
    symmetrize: str = "posterior"
    threshold: float | None = None
    prefix: int | None = 5
    whole_words: bool = True
    p_null: float = 0.3
    concentration: float = 0.15
    diagonal_scale: float = 40.0
    variational: bool = True
    same_spelling: float = 1.0
    priors: Mapping[tuple[str, str], float] | None = None
    reliability: float = 0.9
    projection_tol: float = 0.05
    max_evaluations: int = 2
    n_jobs: int | None = -1
    engine: Any = None
    memory: int | str | None = None
    verbose: bool = False

    not_saved = (*SavedEstimator.not_saved, "priors")  # what a dictionary taught is in the tables
    saved: ClassVar = {"threshold": Entry("threshold_", float), "model": Member("model_", AlignmentModel)}

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "model_")

    def fit(
        self, X: Iterable[tuple[Text, Text]], y: object = None, *, hints: Sequence[Sequence[Hint]] | None = None
    ) -> Self:
        """Train on pairs of sentences (strings of words, or lists of them).

        hints : known links (i, j) of each pair, from a person or another aligner
        """
        self._check_types()
        self._train(X, hints)
        return self

    def fit_align(
        self,
        pairs: Iterable[tuple[Text, Text]],
        *,
        hints: Sequence[Sequence[Hint]] | None = None,
        tune: Sequence[GoldLinks] = (),
    ) -> Iterator[Links]:
        """Train, then yield the links of each training pair in order: those of ``align``, in less time.

        tune : gold links of the first pairs, on which the threshold is chosen
        """
        if tune and self.symmetrize != "posterior":
            raise DataError(
                "gold links are used to choose the threshold of symmetrize='posterior', but symmetrize is "
                f"{self.symmetrize!r}: leave them out, or set the threshold"
            )
        first: list[tuple[Text, Text]] = []
        bitext, placed, given = self._train(keeping(pairs, len(tune), first), hints)
        if tune:
            self.tune_threshold(first, tune)
        return self._links(bitext, placed, given)

    def _train(
        self, pairs: Iterable[tuple[Text, Text]], hints: Sequence[Sequence[Hint]] | None
    ) -> tuple[Bitext, Placed[Any], list[list[Hint]] | None]:
        """The text, its shards where they were worked on, and hints by piece."""
        self._check_settings()
        hints = None if hints is None else check_links(hints)
        model = self._new_model()
        text = then_compiling(pairs, hints)
        stem_rounds = max(0, min(STEM_ROUNDS, self.model1_iter + self.max_iter - 2))
        bitext, batch = model.encode_fit(text, storage=Storage(self.memory), stem_rounds=stem_rounds)
        given = None if hints is None or not any(hints) else hints_of_pieces(bitext, hints)
        training = PruningTraining(model, batch, engine_for(self.n_jobs, self.engine))  # type: ignore[arg-type]
        past: list[Round] = []
        step: Any = None
        for kind, rounds in (("model1", self.model1_iter), ("hmm", self.max_iter)):
            if rounds == 0:
                continue
            model.kind = kind
            # Best alignments under tables without counts mean nothing, so Model 1 stays at γ = 1.
            learner = UEM(
                model, with_hints(self.constraint, given, self.reliability), gamma=self.gamma if kind == "hmm" else 1.0,
                start="model", max_iter=rounds, tol=0.0, projection_tol=self.projection_tol,
                max_evaluations=self.max_evaluations, n_jobs=self.n_jobs, track_likelihood=False, verbose=self.verbose,
            )  # fmt: skip
            learner.title = "learning, Model 1" if kind == "model1" else "learning, HMM"
            with warnings.catch_warnings():
                # Few evaluations per pair are meant: see docs/alignment.md.
                warnings.simplefilter("ignore", ConvergenceWarning)
                step = learner.step_of(training) if step is None else step
                history = learner.loop_over(training, step).run().history
            past += [replace(entry, number=entry.number + len(past)) for entry in history]
        self.history_ = History(past)
        self.model_ = model.trimmed()
        self.threshold_ = THRESHOLD if self.threshold is None else self.threshold
        assert step is not None  # there is at least one round
        return bitext, step.placed[0], given

    def _new_model(self) -> AlignmentModel:
        return AlignmentModel(
            p_null=self.p_null, concentration=self.concentration, variational=self.variational,
            diagonal_scale=self.diagonal_scale, prefix=self.prefix, whole_words=self.whole_words,
            same_spelling=self.same_spelling, priors=self.priors,
        )  # fmt: skip

    def align(
        self, pairs: Iterable[tuple[Text, Text]], *, hints: Sequence[Sequence[Hint]] | None = None
    ) -> list[Links]:
        """Links of each pair; an empty side gives none."""
        return list(self.align_stream(pairs, hints=hints))

    def predict(self, X: Iterable[tuple[Text, Text]]) -> list[Links]:
        """The same as :meth:`align`, under scikit-learn's name."""
        return self.align(X)

    def score(self, X: Iterable[tuple[Text, Text]], y: Sequence[GoldLinks]) -> float:
        """1 − AER of the links found against gold links."""
        return 1.0 - score_links(self.align(X), y).aer

    def align_stream(
        self, pairs: Iterable[tuple[Text, Text]], *, hints: Sequence[Sequence[Hint]] | None = None
    ) -> Iterator[Links]:
        """The same as :meth:`align`, one pair after the other, with a few thousand pairs in memory at a time."""
        self._check_settings()
        hints = None if hints is None else check_links(hints)
        compile_ahead("align-model")
        done = 0
        for chunk in chunks_of(pairs):
            bitext, batch = self._model().look_up(chunk)
            given = None if hints is None else hints[done : done + len(chunk)]
            known = hints_of_pieces(bitext, given) if given and any(given) else None
            yield from self._links(bitext, self._placed(batch), known)
            done += len(chunk)

    def posteriors(self, pairs: Iterable[tuple[Text, Text]]) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Link posteriors (I, J) of the forward and the backward model for each pair, under the decoding constraints.

        A pair with more than 256 words on a side is aligned in pieces; links between pieces have posterior 0.
        """
        bitext, batch = self._model().look_up(list(each_pair(pairs)))
        placed = self._placed(batch)
        return posterior_grids(bitext, batch, placed.shards, self._decoded(placed, None, link_posteriors))

    def score_pairs(self, pairs: Iterable[tuple[Text, Text]]) -> FloatArray:
        """(n, 2) log-likelihood per word of each pair, log p(target | source) and log p(source | target).

        These are scores of the model without constraints; pairs that are not translations have low ones. A pair with
        an empty side has −inf.
        """
        found = [np.zeros((0, 2))]
        for chunk in chunks_of(pairs):
            bitext, batch = self._model().look_up(chunk)
            of_shards = list(self._placed(batch).run(log_likelihoods, self._model().bare()))
            found.append(per_word(bitext, np.concatenate(of_shards)))
        return np.concatenate(found)

    def tune_threshold(self, pairs: Iterable[tuple[Text, Text]], gold: Sequence[GoldLinks]) -> float:
        """Set ``threshold_`` to the one with the lowest AER on a small gold set, and return it."""
        rows = []
        for ahead, back in self.posteriors(pairs):
            mean = 0.5 * (ahead.astype(np.float64) + back)
            rows.append({(int(i), int(j)): float(mean[i, j]) for i, j in np.argwhere(mean >= THRESHOLDS[0])})
        self.threshold_ = best_threshold(precision_recall_curve(rows, gold, THRESHOLDS))
        return self.threshold_

    def translations(
        self, pairs: Iterable[tuple[Text, Text]] | None = None, *, min_probability: float = 1e-4
    ) -> Iterator[tuple[str, str, float, float]]:
        """(source, target, t(target | source), t(source | target)) of word pairs.

        min_probability : lower bound of the larger of both probabilities
        pairs : sentence pairs, such as the training text. Then words are whole words, and t is the share of a word's
            expected links in these pairs. None: the model's own tables of words, which without ``whole_words`` have
            only their first ``prefix`` letters
        """
        if pairs is not None:
            counted = count_word_links(chunks_of(pairs), self.posteriors, LEAST_LINK)
            yield from counted.translations(min_probability)
            return
        yield from self._model().words_.translations(min_probability)

    def _take_arrays(self, arrays: Mapping[str, NDArray[Any]]) -> None:
        if not 0 < self.threshold_ <= 1:
            raise DataError(f"the learned threshold must lie between 0 and 1 but is {self.threshold_}")

    @classmethod
    def load(cls, path: FilePath, **overrides: Any) -> Self:
        """Load an aligner; parameters of decoding and threads may be passed again."""
        aligner = super().load(path, **overrides)
        if "threshold" in overrides:
            aligner.threshold_ = THRESHOLD if aligner.threshold is None else aligner.threshold
        elif aligner.threshold == THRESHOLD:
            aligner.threshold = None  # once the default, and of "posterior" alone
        return aligner

    def _model(self) -> AlignmentModel:
        if not hasattr(self, "model_"):
            raise NotFittedError("this aligner has not been trained; call fit first")
        return self.model_

    def _check_settings(self) -> None:
        check_name("symmetrization", self.symmetrize, SYMMETRIZE)
        if self.threshold is not None and not 0.0 < self.threshold <= 1.0:
            raise DataError(f"the threshold must lie between 0 and 1 but is {self.threshold}")
        for name, low in (("model1_iter", 0), ("max_iter", 0), ("max_evaluations", 1)):
            if not low <= getattr(self, name) <= 10**9:
                raise DataError(f"{name} must be between {low} and a billion but is {getattr(self, name)}")
        if self.model1_iter + self.max_iter == 0:
            raise DataError("there must be at least one round of training")
        if not isinstance(self.gamma, Real):
            raise DataError(f"gamma must be a number (1: posterior regularization) but is {self.gamma!r}")
        if not SMALLEST_GAMMA <= self.gamma <= 10.0:
            nearest = f"; nearest to LP-EM, which is γ = 0, is {SMALLEST_GAMMA}" if self.gamma == 0 else ""
            raise DataError(f"gamma must be between {SMALLEST_GAMMA} and 10 but is {self.gamma}{nearest}")
        if not 0.0 < self.reliability < 1.0:
            raise DataError(f"the reliability of hints must lie between 0 and 1 but is {self.reliability}")
        if not self.projection_tol > 0.0:
            raise DataError(f"projection_tol must be positive but is {self.projection_tol}")
        bytes_of(self.memory)
        for given in (self.constraint, "none" if self.decode_constraint is None else self.decode_constraint):
            constraints_of(given)
        self._new_model().check()

    def _decoded(
        self, placed: Placed[Any], given: list[list[Hint]] | None, then: Callable[[ProjectionItem, ShardAnswer], T]
    ) -> Iterator[T]:
        """What ``then`` makes of each shard's posterior under the decoding constraints."""
        wanted = self.constraint if self.decode_constraint is None else self.decode_constraint
        constraints = [constraints_of(wanted)] * len(placed)
        if given is not None:
            runs = [shard.instances for shard in placed.shards]
            constraints = [with_hints(wanted, given[run.start : run.stop], self.reliability) for run in runs]
        asked = Decoding(self._model().bare(), self.gamma, self.projection_tol, self.max_evaluations + 1, then)
        return placed.run(decode, asked, constraints)

    def _links(self, bitext: Bitext, placed: Placed[Any], given: list[list[Hint]] | None) -> Iterator[Links]:
        least = self.threshold_ if self.symmetrize == "posterior" else self.threshold or 0.0
        write = WriteLinks(SYMMETRIZE[self.symmetrize], least)
        return links_of_pairs(bitext, self._decoded(placed, given, write))

    def _placed(self, batch: SentencePairs) -> Placed[Piece]:
        return place_batch(engine_for(self.n_jobs, self.engine), batch)  # type: ignore[arg-type]
