"""Both directions of Model 1 or of the HMM over one table of word pairs, as one model.

p₁(f, a | e) = Π_j p(a_j | a_{j−1}) t₁(f_j | e_{a_j}),        p₂ with the two languages exchanged
                                                              (Ganchev et al. 2010, eq. 41)

Its scores are ``Joint(forward, backward)``: the members of both directions, which constraints tie together.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.bitext import Bitext, WordCodes, code_pairs, each_pair
from trellis.data.checks import check_sample_weight, is_list
from trellis.data.ragged import FloatArray, LabelArray
from trellis.data.storage import Storage
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Engine, Placed, SerialEngine
from trellis.engine.local import give_back_memory
from trellis.errors import DataError, check_name
from trellis.models.alignment.lexicon import Lexicon, stem_numbers, words_of_one, words_of_two
from trellis.models.alignment.places import NEAR, WINDOW, Places, model1_moves, rows_of_words
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.models.alignment.statistics import AlignmentStatistics, ShardCounts
from trellis.models.alignment.translation import ExtraCounts, Tables, alike_cells
from trellis.models.saving import SavedEstimator
from trellis.structures import Alignment, Joint, JointParts, JointPosterior
from trellis.structures.kernels.align_work import Moves

KINDS = ("model1", "hmm")
STEMS, COUNTING, BOTH = range(3)
"""Whether words have no table yet, one that is counted but not read, or one that is read."""
NONE = np.zeros(0, np.int32)
PREFIXES = ("", "stem_")
"""Before the names of arrays of the lexicon of words, and of that of stems."""
NEGLIGIBLE = 1e-9
"""Anchors with a smaller share of the mass are not expanded."""


def _of_stems(array: ArrayOf) -> ArrayOf:
    """The same array of the lexicon of stems, which has sizes of its own."""

    def own(size: Any) -> Any:
        return f"stem_{size}" if isinstance(size, str) else size

    return replace(
        array, shape=tuple(map(own, array.shape)), below=own(array.below), offsets_of=own(array.offsets_of)
    )  # fmt: skip


class _AlignmentHeader(TypedDict):
    """What a file keeps of the words of both sides."""

    source: list[str]
    target: list[str]


@dataclass(eq=False, repr=False)
class AlignmentModel(SavedEstimator):
    """Translation tables, words that come from null, jump widths and first places, of both directions.

    kind : "model1" or "hmm"; may be changed between runs of a learner, what was learned stays
    p_null : probability that a word comes from no word, fixed
    concentration, variational : the prior of the tables (:mod:`trellis.models.alignment.translation`)
    diagonal_scale : of Model 1, links at this distance from the diagonal (in words) are e times less likely; inf: IBM's
    jump_pseudo_count : Σ κ of :mod:`trellis.models.alignment.statistics`
    prefix : letters of a stem, None: there are no stems
    whole_words : whether words have a table of their own beside that of stems; without stems they always do
    same_spelling : pseudo-count of words with the same spelling (up to the prefix; in new text, of equal words)
    priors : (source word, target word) -> pseudo-count of a pair that meets in training, negative: never linked
    with_prior : whether M-steps compute the log-prior, so that objectives include it

    Learned: ``words_`` and ``stems_``, the lexicon of words and, where there are both, that of stems; ``places_``.

    >>> model = AlignmentModel("model1", prefix=None)
    >>> batch = model.encode([("a b", "x y"), ("a", "x")], fit=True)
    >>> model.scores(batch).infer().members[0].link.round(2).tolist()
    [0.35, 0.35, 0.35, 0.35, 0.7]
    """

    kind: str = "hmm"
    _: KW_ONLY
    p_null: float = 0.3
    concentration: float = 0.15
    variational: bool = True
    diagonal_scale: float = 40.0
    jump_pseudo_count: float = 10.0
    prefix: int | None = 5
    whole_words: bool = True
    same_spelling: float = 1.0
    priors: Mapping[tuple[str, str], float] | None = None
    with_prior: bool = True

    discriminative = False
    outputs_are: ClassVar[str] = "word alignments"
    label_names_ = Vocabulary([], kind="label")
    not_saved = (*SavedEstimator.not_saved, "priors")  # what they taught is in the tables
    learned_names = _AlignmentHeader
    ARRAYS: ClassVar = {
        **Lexicon.ARRAYS,
        "log_prior": ArrayOf(np.float64, (1,)),
        **{f"jump{k}": ArrayOf(np.float64, (2 * WINDOW + 1,), low=1e-12, high=1.0) for k in range(2)},
        **{f"first{k}": ArrayOf(np.float64, (WINDOW + 1,), low=1e-12, high=1.0) for k in range(2)},
        **{f"factor{k}": ArrayOf(np.float64, (f"factors{k}", 2 * NEAR + 1), low=1e-4, high=1e4) for k in range(2)},
        **{f"row{k}": ArrayOf(np.int32, (f"coarse{k} + 1",), below=f"factors{k}") for k in range(2)},
    }
    STEM_ARRAYS: ClassVar = {f"stem_{name}": _of_stems(of) for name, of in Lexicon.ARRAYS.items()}
    stems_ = None
    _stage = BOTH
    _stem_rounds = 0
    _log_prior = 0.0

    def check(self) -> None:
        """Refuse settings that have no meaning."""
        check_name("alignment model", self.kind, KINDS)
        if not 0.0 < self.p_null < 1.0:
            raise DataError(f"the probability of null must lie between 0 and 1 but is {self.p_null}")
        if not 1e-6 <= self.concentration <= 1e3:
            raise DataError(f"the concentration must lie between 1e-6 and 1000 but is {self.concentration}")
        if not self.diagonal_scale >= 1.0:
            raise DataError(f"diagonal_scale must be at least one word but is {self.diagonal_scale}")
        if not 0.0 <= self.same_spelling < float("inf"):
            raise DataError(f"same_spelling must be 0 or more but is {self.same_spelling}")
        if self.prefix is not None and self.prefix < 1:
            raise DataError(f"prefix must be at least 1 but is {self.prefix}")
        for pair in cast("Iterable[Any]", self.priors or ()):
            if not (is_list(pair) and len(pair) == 2 and all(isinstance(word, str) for word in pair)):
                raise DataError(f"priors must have pairs (source word, target word) as keys, but has {pair!r:.80}")

    # text

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> SentencePairs:
        """Pairs of sentences (strings of words, or lists of them) as a batch; one that is coded already is itself.

        fit : build the table of these pairs, and reset the parameters
        """
        if isinstance(X, SentencePairs):
            return X if weights is None else replace(X, weights=check_sample_weight(weights, len(X)))
        if y is not None:
            raise DataError("known links are given as a constraint, trusted(links=...), not as labels")
        if fit:
            return self.encode_fit(X, weights)[1]
        return self.look_up(list(each_pair(X)), weights)[1]

    def encode_fit(
        self, pairs: Iterable[Any], weights: Any = None, storage: Storage | None = None, *, stem_rounds: int = 0
    ) -> tuple[Bitext, SentencePairs]:
        """Code a training text and build the tables; pairs may come one by one, and go to a storage.

        stem_rounds : where there are both, rounds of stems alone before words come in by :meth:`go_on`
        """
        self.check()
        stems = [WordCodes(self.prefix) if self._has_both else None for _ in range(2)]
        source, target = (WordCodes(None if self._has_both else self.prefix, stems=own) for own in stems)
        bitext = code_pairs(each_pair(pairs), source, target, storage)
        if bitext.n_empty == len(bitext):
            found = f"none of the {len(bitext)} pairs has words on both sides" if len(bitext) else "there are no pairs"
            raise DataError(f"{found}, so there is nothing to learn from")
        known = self.priors or {}, self.same_spelling
        self.stems_, self._stage = None, BOTH
        if stems[0] is not None and stems[1] is not None:
            self._of = stem_numbers(source.names, stems[0]), stem_numbers(target.names, stems[1])
            self.stems_ = Lexicon.build(bitext, stems[0], stems[1], *known, self._of)
            self._stage, self._stem_rounds = STEMS if stem_rounds else BOTH, stem_rounds
        build = Lexicon.empty if self._stage == STEMS else Lexicon.build
        self.words_ = build(bitext, source, target, *known)
        source_rows, target_rows = map(rows_of_words, self.lexicons[-1].opposite)
        self._rows = source_rows, target_rows
        self.reset()
        give_back_memory()
        return bitext, SentencePairs.of(bitext, weights)

    def go_on(self, text: SentencePairs) -> None:
        """After a round: words come in after the last round of stems alone. In the next round they are counted, and in
        those after it they have a say.

        Only pairs of words whose stems are still in the table come into that of words; the others are pairs never seen.
        """
        self._stem_rounds -= 1
        if self._stage == STEMS and self._stem_rounds == 0 and self.stems_ is not None:
            within = self.stems_.table, self._of[0][:-1], self._of[1][:-1]
            known = self.words_.source, self.words_.target, self.priors or {}, self.same_spelling
            self.words_ = Lexicon.build(text, *known, within=within)
            self.words_.reset(self.concentration, self.variational, is_read=False)
            self._stage = COUNTING
        elif self._stage == COUNTING:
            self._stage = BOTH

    @property
    def _has_both(self) -> bool:
        return self.whole_words and self.prefix is not None

    @property
    def lexicons(self) -> list[Lexicon]:
        """That of words and, where there are both, that of stems."""
        return [self.words_] if self.stems_ is None else [self.words_, self.stems_]

    def look_up(
        self, words: Sequence[tuple[Sequence[str], Sequence[str]]], weights: Any = None
    ) -> tuple[Bitext, SentencePairs]:
        """Code a new text."""
        bitext = code_pairs(words, self.words_.source, self.words_.target)
        batch = SentencePairs.of(bitext, weights)
        if self.same_spelling > 0.0:
            batch = replace(batch, alike=alike_cells(words, bitext, batch.offsets))
        return bitext, batch

    # the four verbs

    def parts(self, batch: SentencePairs) -> JointParts:
        return batch.parts

    def scores(self, batch: SentencePairs) -> Joint:
        forward, backward = batch.parts.members
        coded = batch if self.stems_ is None else batch.stems(self._of)
        rows = self._rows[0][np.maximum(coded.source, -1)], self._rows[1][np.maximum(coded.target, -1)]
        if self.stems_ is None:
            words = words_of_one(self.words_, batch, rows)
        elif self._stage != BOTH:
            words = words_of_one(self.stems_, coded, rows)
        else:
            words = words_of_two((self.words_, batch), (self.stems_, coded), rows)
        return Joint(
            *(
                Alignment.over(part, word, moves, batch.first)  # type: ignore[arg-type]
                for part, word, moves in zip((forward, backward), words, self._moves(), strict=True)
            )
        )

    def _moves(self) -> list[Moves]:
        if self.kind == "model1":
            return [model1_moves(self.p_null, self.diagonal_scale)] * 2
        return [places.moves(self.p_null, NEGLIGIBLE) for places in self.places_]

    def uniform(self, batch: SentencePairs) -> Joint:
        return batch.parts.zeros()

    def collect(self, batch: SentencePairs, q: JointPosterior) -> ShardCounts:
        described = [batch] if self.stems_ is None else [batch, batch.stems(self._of)]
        # One after the other: cells are as many as links.
        found = (lexicon.table.number(own) if len(lexicon.table) else (NONE, NONE)
                 for lexicon, own in zip(self.lexicons, described, strict=True))  # fmt: skip
        lengths = tuple(len(lexicon.table) for lexicon in self.lexicons)
        sizes = len(self.words_.tables.null1) - 1, len(self.words_.tables.null2) - 1
        return ShardCounts.of(batch, q, found, sizes, lengths)

    def bare(self) -> AlignmentModel:
        """The model without its words and what only the M-step reads."""
        made = copy.copy(self)
        made.priors, made.words_ = None, self.words_.bare()
        made.stems_ = None if self.stems_ is None else self.stems_.bare()
        return made

    def update(
        self,
        statistics: AlignmentStatistics | ShardCounts,
        *,
        shards: Sequence[Placed[Any]] | None = None,
        engine: Engine | None = None,
    ) -> None:
        counts = statistics.total() if isinstance(statistics, ShardCounts) else statistics
        near = SerialEngine() if engine is None else engine.near
        settings = self.concentration, self.variational, near, self.with_prior
        log_priors = []
        if len(self.words_.table):
            log_priors.append(self.words_.update(counts.pairs[0], (counts.null1, counts.null2), *settings))
        if self.stems_ is not None:
            nulls = _summed(counts.null1, self._of[1]), _summed(counts.null2, self._of[0])
            log_priors.append(self.stems_.update(counts.pairs[1], nulls, *settings))
        # Two lexicons have the same posterior: the objective is the mean of theirs.
        log_prior = sum(log_priors) / max(len(log_priors), 1)
        if self.kind == "hmm" and counts.places is not None:  # where all alignments are alike there are no jumps
            first, second = (
                old.updated(new, self.jump_pseudo_count) for old, new in zip(self.places_, counts.places, strict=True)
            )
            self.places_: tuple[Places, Places] = first, second
        self._log_prior = log_prior

    def log_prior(self) -> float:
        """What the last M-step maximised beside E_q[log p], where ``with_prior`` is set; else 0."""
        if not self.with_prior:
            return 0.0
        of_places = sum(p.log_prior(self.jump_pseudo_count) for p in self.places_) if self.kind == "hmm" else 0.0
        return self._log_prior + of_places

    # parameters

    def reset(self) -> None:
        """The mean of the prior."""
        for lexicon in self.lexicons:
            lexicon.reset(self.concentration, self.variational)
        self.places_ = Places.initial(int(self._rows[0].max()) + 1), Places.initial(int(self._rows[1].max()) + 1)
        self._log_prior = 0.0

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """An M-step on random counts of word pairs, 1 + scale · U(0, 1)."""
        pairs = tuple(
            (1.0 + scale * rng.random((len(own.table), 2), dtype=np.float32)).astype(np.float32)
            for own in self.lexicons
        )
        tables = self.words_.tables
        self.update(AlignmentStatistics(pairs, np.zeros(len(tables.null1) - 1), np.zeros(len(tables.null2) - 1)))

    def parameters(self) -> dict[str, NDArray[Any]]:
        arrays: dict[str, NDArray[Any]] = {"log_prior": np.array([self._log_prior])}
        for lexicon, prefix in zip(self.lexicons, PREFIXES, strict=False):
            lexicon.is_shared = True
            arrays |= {prefix + name: table for name, table in lexicon.tables._asdict().items()}
        for k, places in enumerate(self.places_):
            arrays[f"jump{k}"], arrays[f"first{k}"], arrays[f"factor{k}"] = places.jump, places.first, places.factors
        return arrays

    def set_parameters(self, parameters: Mapping[str, FloatArray]) -> None:
        for lexicon, prefix in zip(self.lexicons, PREFIXES, strict=False):
            lexicon.tables = Tables(*(np.asarray(parameters[prefix + name], np.float32) for name in Tables._fields))
            lexicon.is_shared = True
        self.places_ = _places_of(parameters)
        self._log_prior = float(parameters["log_prior"][0])

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "words_")

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names = {"source": self.words_.source.names, "target": self.words_.target.names}
        rows: dict[str, NDArray[Any]] = {}
        for lexicon, prefix in zip(self.lexicons, PREFIXES, strict=False):
            rows[f"{prefix}row_offsets"], rows[f"{prefix}row_targets"] = (
                lexicon.table.row_offsets,
                lexicon.table.row_targets,
            )
        return names, {**rows, "row0": self._rows[0], "row1": self._rows[1], **self.parameters()}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.check()
        sizes = {"sources": len(names["source"]), "targets": len(names["target"])}
        sizes |= {"coarse0": sizes["sources"], "coarse1": sizes["targets"]}
        expected, stems = dict(self.ARRAYS), [WordCodes(self.prefix) if self._has_both else None for _ in range(2)]
        if stems[0] is not None and stems[1] is not None:
            self._of = stem_numbers(names["source"], stems[0]), stem_numbers(names["target"], stems[1])
            sizes |= {"stem_sources": len(stems[0].names), "stem_targets": len(stems[1].names)}
            sizes |= {"coarse0": sizes["stem_sources"], "coarse1": sizes["stem_targets"]}
            expected |= self.STEM_ARRAYS
        arrays = check_arrays(expected, arrays, **sizes)
        words = [
            WordCodes(None if self._has_both else self.prefix, names[side], own)
            for side, own in zip(("source", "target"), stems, strict=True)
        ]
        self.words_ = Lexicon.restored(words[0], words[1], _of_lexicon(arrays, PREFIXES[0]), self.concentration)
        self.stems_ = None
        if stems[0] is not None and stems[1] is not None:
            self.stems_ = Lexicon.restored(stems[0], stems[1], _of_lexicon(arrays, PREFIXES[1]), self.concentration)
        self.places_, self._log_prior = _places_of(arrays), float(arrays["log_prior"][0])
        self._rows = arrays["row0"], arrays["row1"]

    def prune(self, factor: float = 1.25, *, least: float = 1.0) -> None:
        """Drop pairs that are hardly likelier than pairs never seen (:meth:`Lexicon.pruned`)."""
        before = self.lexicons
        self.words_ = self.words_.pruned(factor, least)
        self.stems_ = None if self.stems_ is None else self.stems_.pruned(factor, least)
        if any(new is not old for new, old in zip(self.lexicons, before, strict=True)):
            del before
            give_back_memory()

    def trimmed(self) -> AlignmentModel:
        """A pruned model to align with: it knows nothing of extra counts."""
        small = AlignmentModel(**{**self.get_params(deep=False), "priors": None})
        for name in ("words_", "stems_", "places_", "_log_prior", "_stage", "_of", "_rows"):
            if hasattr(self, name):
                setattr(small, name, getattr(self, name))
        small.prune()
        small.words_ = replace(small.words_, extra=ExtraCounts())
        small.stems_ = None if small.stems_ is None else replace(small.stems_, extra=ExtraCounts())
        return small


def _summed(counts: FloatArray, stems: LabelArray) -> FloatArray:
    """Counts of stems, from those of words; stems : (V + 1,) as of :func:`stem_numbers`."""
    return np.bincount(stems[:-1], counts, minlength=int(stems.max(initial=-1)) + 1).astype(np.float64, copy=False)


def _places_of(arrays: Mapping[str, NDArray[Any]]) -> tuple[Places, Places]:
    first, second = (Places(arrays[f"jump{k}"], arrays[f"first{k}"], arrays[f"factor{k}"]) for k in range(2))
    return first, second


def _of_lexicon(arrays: Mapping[str, NDArray[Any]], prefix: str) -> dict[str, NDArray[Any]]:
    return {name: arrays[prefix + name] for name in Lexicon.ARRAYS}
