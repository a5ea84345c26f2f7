"""Both directions of Model 1 or of the HMM over one table of word pairs, as one model with the four verbs.

p₁(f, a | e) = Π_j p(a_j | a_{j−1}) t₁(f_j | e_{a_j}),        p₂ with the two languages exchanged
                                                              (Ganchev et al. 2010, eq. 41)

Its scores are ``Joint(forward, backward)``: the members of both directions, which constraints tie together.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, TypedDict, cast

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.bitext import Bitext, WordCodes, code_pairs
from trellis.data.checks import check_list, is_list
from trellis.data.ragged import FloatArray
from trellis.data.shards import shard_bounds
from trellis.data.storage import Storage
from trellis.data.text import words_of
from trellis.data.vocabulary import Vocabulary
from trellis.data.weights import check_sample_weight
from trellis.engine import Engine, Placed, SerialEngine
from trellis.engine.memory import give_back_memory
from trellis.errors import DataError, UnknownNameError
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.known_words import alike_cells, extra_counts
from trellis.models.alignment.pair_table import PairTable, rows_kept
from trellis.models.alignment.places import WINDOW, Places, model1_moves
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.models.alignment.statistics import AlignmentStatistics, ShardCounts
from trellis.models.alignment.translation import ExtraCounts, Prior, Tables, masses, prior_tables, updated_tables
from trellis.models.saving import SavedEstimator
from trellis.structures import Alignment, Joint, JointParts, JointPosterior
from trellis.structures.kernels.align_work import Moves, Words

KINDS = ("model1", "hmm")
NEGLIGIBLE = 1e-9
"""Anchors with a smaller share of the mass are not expanded."""


class _Names(TypedDict):
    """What a file keeps of the words of both sides."""

    source: list[str]
    target: list[str]


@dataclass(eq=False, repr=False)
class AlignmentModel(SavedEstimator):
    """Translation tables, words that come from null, jump widths and first places, of both directions.

    kind : "model1" or "hmm"; may be changed between runs of a learner, what was learned stays
    p_null : probability that a word comes from no word, fixed
    concentration, variational : the prior of the tables (:mod:`trellis.models.alignment.translation`)
    reach : of Model 1, words from the diagonal by which a place becomes e times less likely; inf: IBM's Model 1
    jump_pseudo_count : Σ κ of :mod:`trellis.models.alignment.places`
    prefix : letters by which words are told apart, None: all
    alike : pseudo-count of a pair of words spelled alike, by the letters that tell words apart; in new text, of equal
        words
    priors : (source word, target word) -> pseudo-count of a pair that meets in training, negative: never linked
    with_prior : whether M-steps compute the log-prior, so that objectives include it

    Learned: ``table_``, ``tables_``, ``places_``, ``source_codes_``, ``target_codes_``.

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
    reach: float = 40.0
    jump_pseudo_count: float = 10.0
    prefix: int | None = 5
    alike: float = 1.0
    priors: Mapping[tuple[str, str], float] | None = None
    with_prior: bool = True

    discriminative = False
    outputs_are: ClassVar[str] = "word alignments"
    label_names_ = Vocabulary([], kind="label")
    not_saved = (*SavedEstimator.not_saved, "priors")  # what they taught is in the tables
    learned_names = _Names
    ARRAYS: ClassVar = {
        "row_offsets": ArrayOf(np.int64, ("sources + 1",), offsets_of="pairs"),
        "row_targets": ArrayOf(np.int32, ("pairs",), below="targets"),
        "pair": ArrayOf(np.float32, ("pairs", 2), low=0.0),
        **{f"{kind}1": ArrayOf(np.float32, ("sources + 1",), low=0.0) for kind in ("unseen", "alike")},
        **{f"{kind}2": ArrayOf(np.float32, ("targets + 1",), low=0.0) for kind in ("unseen", "alike")},
        "null1": ArrayOf(np.float32, ("targets + 1",), low=0.0),
        "null2": ArrayOf(np.float32, ("sources + 1",), low=0.0),
        "log_prior": ArrayOf(np.float64, (1,)),
        **{f"jump{k}": ArrayOf(np.float64, (2 * WINDOW + 1,), low=1e-12, high=1.0) for k in range(2)},
        **{f"first{k}": ArrayOf(np.float64, (WINDOW + 1,), low=1e-12, high=1.0) for k in range(2)},
    }
    _is_shared = False
    _log_prior = 0.0

    def check(self) -> None:
        """Refuse settings that have no meaning."""
        if self.kind not in KINDS:
            raise UnknownNameError("alignment model", self.kind, KINDS)
        if not 0.0 < self.p_null < 1.0:
            raise DataError(f"the probability of null must lie between 0 and 1 but is {self.p_null}")
        if not 1e-6 <= self.concentration <= 1e3:
            raise DataError(f"the concentration must lie between 1e-6 and 1000 but is {self.concentration}")
        if not self.reach >= 1.0:
            raise DataError(f"the reach must be at least one word but is {self.reach}")
        if not 0.0 <= self.alike < float("inf"):
            raise DataError(f"alike must be a number from 0 on but is {self.alike}")
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
            raise DataError("links that are known are a constraint, trusted(links=...), and no labels")
        if fit:
            return self.encode_fit(X, weights)[1]
        return self.look_up(list(each_pair(X)), weights)[1]

    def encode_fit(
        self, pairs: Iterable[Any], weights: Any = None, storage: Storage | None = None
    ) -> tuple[Bitext, SentencePairs]:
        """Code a training text and build the table; pairs may come one by one, and go to a storage."""
        self.check()
        self.source_codes_, self.target_codes_ = WordCodes(self.prefix), WordCodes(self.prefix)
        bitext = code_pairs(each_pair(pairs), self.source_codes_, self.target_codes_, storage)
        if bitext.n_empty == len(bitext):
            raise DataError(f"of {len(bitext)} pairs none has words on both sides, so there is nothing to learn from")
        sizes = len(self.source_codes_.names), len(self.target_codes_.names)
        self.table_ = PairTable.build(bitext, *sizes)
        self.source_codes_.freeze()
        self.target_codes_.freeze()
        self.extra_ = extra_counts(
            self.table_, self.source_codes_, self.target_codes_, self.priors or {}, self.alike
        )  # fmt: skip
        self.reset()
        give_back_memory()
        return bitext, SentencePairs.of(bitext, weights)

    def look_up(
        self, words: Sequence[tuple[Sequence[str], Sequence[str]]], weights: Any = None
    ) -> tuple[Bitext, SentencePairs]:
        """Code a new text."""
        bitext = code_pairs(words, self.source_codes_, self.target_codes_)
        batch = SentencePairs.of(bitext, weights)
        if self.alike > 0.0:
            batch = replace(batch, alike=alike_cells(words, bitext, batch.offsets))
        return bitext, batch

    # the four verbs

    def parts(self, batch: SentencePairs) -> JointParts:
        return batch.parts

    def scores(self, batch: SentencePairs) -> Joint:
        forward, backward = batch.parts.members
        t, none, b = self.tables_, np.zeros(0), batch
        entries, cells = self.table_.number(b)
        # A small table of their own, which fits into the cache, and an entry that kernels read where there is none.
        pair = np.zeros((len(entries) + 1, 2), np.float32)
        np.take(t.pair, entries, axis=0, out=pair[:-1])
        words = (
            Words(none, none, pair, 0, cells, b.target, b.source, t.null1, t.unseen1, t.alike1),
            Words(none, none, pair, 1, cells, b.source, b.target, t.null2, t.unseen2, t.alike2),
        )
        return Joint(
            *(
                Alignment.over(part, word, moves, batch.first)  # type: ignore[arg-type]
                for part, word, moves in zip((forward, backward), words, self._moves(), strict=True)
            )
        )

    def _moves(self) -> list[Moves]:
        if self.kind == "model1":
            return [model1_moves(self.p_null, self.reach)] * 2
        return [places.moves(self.p_null, NEGLIGIBLE) for places in self.places_]

    def uniform(self, batch: SentencePairs) -> Joint:
        return batch.parts.zeros()

    def collect(self, batch: SentencePairs, q: JointPosterior) -> ShardCounts:
        forward, backward = q.members
        # Words of a pair with an empty side have nobody to come from: they say nothing about null.
        weight = np.where(batch.is_empty, 0.0, batch.weights)
        counts = []
        plain = np.all(weight == 1.0)
        for values, offsets in (
            (forward.link, batch.offsets),
            (backward.link, batch.offsets),
            (forward.null, batch.target_offsets),
            (backward.null, batch.source_offsets),
        ):
            counted = values if plain else values * np.repeat(weight, np.diff(offsets))
            counts.append(counted.astype(np.float32, copy=False))
        places = None if forward.places is None else (forward.places, backward.places)
        entries, cells = self.table_.number(batch)
        pairs = np.zeros((len(entries), 2))
        kernel.add_cells(cells, counts[0], counts[1], pairs)
        sizes = len(self.tables_.pair), len(self.tables_.null1) - 1, len(self.tables_.null2) - 1
        # Single precision, as the posteriors are: it is what travels from workers.
        return ShardCounts(
            sizes, entries, pairs.astype(np.float32), batch.target, batch.source, counts[2], counts[3], places
        )  # fmt: skip

    def bare(self) -> AlignmentModel:
        """The model without its words and what only the M-step reads."""
        made = copy.copy(self)
        for name in ("source_codes_", "target_codes_", "extra_", "masses_", "priors"):
            made.__dict__.pop(name, None)
        return made

    def update(
        self,
        statistics: AlignmentStatistics | ShardCounts,
        *,
        shards: Sequence[Placed[Any]] | None = None,
        engine: Engine | None = None,
    ) -> None:
        counts = statistics.total() if isinstance(statistics, ShardCounts) else statistics
        out = np.empty_like(self.tables_.pair) if self._is_shared else self.tables_.pair
        tables, log_prior = updated_tables(
            self.table_, counts.pairs, counts.null1, counts.null2, self._prior, self.masses_,
            SerialEngine() if engine is None else engine.near, out, self.with_prior,
        )  # fmt: skip
        self.tables_: Tables = tables
        self._is_shared = False
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

    @property
    def _prior(self) -> Prior:
        return Prior(self.concentration, self.variational, self.extra_)

    def reset(self) -> None:
        """The mean of the prior."""
        self.masses_ = masses(self.table_, self._prior)
        self.tables_ = prior_tables(self.table_, self._prior, self.masses_)
        self.places_ = (Places.initial(), Places.initial())
        self._log_prior, self._is_shared = 0.0, False

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """An M-step on random counts of word pairs, 1 + scale · U(0, 1)."""
        pairs = 1.0 + scale * rng.random(self.tables_.pair.shape, dtype=np.float32)
        null1, null2 = np.zeros(len(self.tables_.null1) - 1), np.zeros(len(self.tables_.null2) - 1)
        self.update(AlignmentStatistics(pairs.astype(np.float32), null1, null2))

    def parameters(self) -> dict[str, NDArray[Any]]:
        self._is_shared = True
        arrays: dict[str, NDArray[Any]] = {**self.tables_._asdict(), "log_prior": np.array([self._log_prior])}
        for k, places in enumerate(self.places_):
            arrays[f"jump{k}"], arrays[f"first{k}"] = places.jump, places.first
        return arrays

    def set_parameters(self, parameters: Mapping[str, FloatArray]) -> None:
        self.tables_ = Tables(*(np.asarray(parameters[name], np.float32) for name in Tables._fields))
        first, second = (Places(parameters[f"jump{k}"], parameters[f"first{k}"]) for k in range(2))
        self.places_ = first, second
        self._log_prior, self._is_shared = float(parameters["log_prior"][0]), True

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "source_codes_")

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names = {"source": self.source_codes_.names, "target": self.target_codes_.names}
        rows: dict[str, NDArray[Any]] = {"row_offsets": self.table_.row_offsets}
        rows["row_targets"] = self.table_.row_targets
        return names, {**rows, **self.parameters()}

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self.check()
        sizes = {"sources": len(names["source"]), "targets": len(names["target"])}
        arrays = check_arrays(self.ARRAYS, arrays, **sizes)
        self.source_codes_, self.target_codes_ = (WordCodes(self.prefix, names[side]) for side in ("source", "target"))
        self.source_codes_.frozen = self.target_codes_.frozen = True
        self.table_ = PairTable(arrays["row_offsets"], arrays["row_targets"], sizes["targets"])
        order = np.lexsort((self.table_.row_targets, self.table_.sources()))
        if np.any(np.diff(order) < 0):  # a file of before rows had an order
            self.table_ = replace(self.table_, row_targets=self.table_.row_targets[order])
            arrays = {**arrays, "pair": arrays["pair"][order]}
        self.extra_ = ExtraCounts()
        self.masses_ = masses(self.table_, self._prior)
        self.set_parameters(arrays)

    def prune(self, factor: float = 1.25, *, least: float = 1.0) -> None:
        """Drop pairs that are hardly likelier, in both directions, than pairs never seen.

        Most pairs of a table only ever stood in the same sentence. From now on these are pairs never seen, whose
        probability they had all but for the factor; the prior of their words still counts them. Pairs with extra counts
        stay, whatever was learned of them. Nothing happens where more than a share ``least`` of all would stay.
        """
        keep, t, at = np.empty(len(self.table_), np.bool_), self.tables_, self.extra_.at
        ends = self.table_.row_offsets
        for start, stop in pairwise(shard_bounds(ends).tolist()):
            some = slice(int(ends[start]), int(ends[stop]))
            pair, columns = t.pair[some], self.table_.row_targets[some]
            unseen = np.repeat(t.unseen1[start:stop], np.diff(ends[start : stop + 1]))
            keep[some] = (pair[:, 0] > factor * unseen) | (pair[:, 1] > factor * t.unseen2[columns])
        keep[at] = True
        if np.count_nonzero(keep) > least * len(keep):
            return
        before = [np.count_nonzero(keep[low:high]) for low, high in pairwise([0, *at.tolist()])]
        self.extra_ = replace(self.extra_, at=np.cumsum(np.array(before, np.int64)))
        self.table_ = self.table_.kept(keep)
        self.tables_, self._is_shared = t._replace(pair=rows_kept(t.pair, keep)), False
        del t, keep
        give_back_memory()

    def trimmed(self) -> AlignmentModel:
        """A pruned model to align with: it knows nothing of extra counts."""
        small = AlignmentModel(**{**self.get_params(deep=False), "priors": None})
        for name in ("source_codes_", "target_codes_", "table_", "tables_", "places_", "masses_", "_log_prior"):
            setattr(small, name, getattr(self, name))
        small.extra_ = self.extra_
        small.prune()
        small.extra_ = ExtraCounts()
        return small


def each_pair(pairs: Any) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    """The words of both sentences of each pair, given as strings or as lists of words."""
    for number, pair in enumerate(check_list(pairs, "sentence pairs")):
        sides = tuple(pair) if is_list(pair) else ()
        if len(sides) != 2:
            raise DataError(f"pair {number} is {pair!r:.80}: expected two sentences, (source, target)")
        yield _words(sides[0], number), _words(sides[1], number)


def _words(text: Any, number: int) -> Sequence[str]:
    if isinstance(text, str):
        return words_of(text)
    if not is_list(text) or not (set(map(type, text)) <= {str} or all(isinstance(word, str) for word in text)):
        raise DataError(f"pair {number} has {text!r:.80}: expected a sentence as a string or a list of words")
    return text  # type: ignore[no-any-return]
