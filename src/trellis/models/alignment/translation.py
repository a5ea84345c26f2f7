"""Translation tables of both directions: t₁(f | e), t₂(e | f), null words, and unseen pairs.

Every distribution has a Dirichlet prior with the same concentration α for each of its entries, that of null too: words
and null must be smoothed alike, else one of them collects what the other loses. Some pairs have more than α: those of
a dictionary, and words spelled alike. A pair outside the table has the probability of an entry without counts, or, if
its words are spelled alike, of an entry with nothing but that.

The log-prior that belongs to the objective of the M-step is

    variational   −KL(Dir(α + c) ‖ Dir(α)), summed over distributions
    mean          Σ α log t

Prior knowledge are pseudo-counts of the table: a dictionary, and words that are spelled alike on both sides (names,
numbers, marks), which are often translations of each other and help most where a word is rare.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import Bitext, WordCodes
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.data.shards import shard_bounds
from trellis.engine import Engine
from trellis.models.alignment.kernels import update as kernel
from trellis.models.alignment.pair_table import Opposite, PairTable

Probabilities = NDArray[np.float32]

UNKNOWN = np.float32(1e-9)
"""Null and translation probability of a word that the training text does not have."""


class Tables(NamedTuple):
    """Translation probabilities.

    pair : (n_entries, 2) t₁(f | e), t₂(e | f);  null1 : (V_f + 1,) t₁(f | null), null2 : (V_e + 1,) t₂(e | null)
    unseen1 : (V_e + 1,) t₁ of a pair that is not in the table, given e;  unseen2 : (V_f + 1,) t₂ given f
    alike1, alike2 : the same for a pair that is not in the table and whose words are spelled alike
    The last entry of each is that of unknown words.
    """

    pair: Probabilities
    null1: Probabilities
    null2: Probabilities
    unseen1: Probabilities
    unseen2: Probabilities
    alike1: Probabilities
    alike2: Probabilities


@dataclass(frozen=True)
class ExtraCounts:
    """Pseudo-counts that some pairs have beside α.

    at : (n,) rising places in the table;  amount : (n,), negative: the pair is forbidden
    alike : amount of a pair outside the table whose words are spelled alike
    """

    at: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    amount: FloatArray = field(default_factory=lambda: np.zeros(0))
    alike: float = 0.0


@dataclass(frozen=True)
class Prior:
    """concentration : α;  variational : which M-step;  extra : what some pairs have beside α."""

    concentration: float
    variational: bool
    extra: ExtraCounts

    def without_counts(self, extra: float = 0.0) -> float:
        """exp ψ(α + extra), or α + extra: what an entry without counts has before its row's norm divides it."""
        return self.weight(self.concentration + extra)

    def weight(self, counts: float) -> float:
        """exp ψ(counts), or the counts themselves."""
        return float(kernel.exp_digamma(counts)) if self.variational else counts


def prior_tables(
    table: PairTable, prior: Prior, mass: tuple[FloatArray, FloatArray], *, with_pairs: bool = True
) -> Tables:
    """The mean of the prior: of the words that stand opposite a word somewhere, all alike but for extra counts.

    with_pairs : False leaves out the probabilities of the table's pairs
    """
    alpha = prior.concentration
    mass1, mass2 = (np.maximum(total, alpha) for total in mass)
    return Tables(
        _prior_pairs(table, prior, mass1, mass2) if with_pairs else np.zeros((0, 2), np.float32),
        _with_unknown(np.full(table.n_targets, 1.0 / max(table.n_targets, 1))),
        _with_unknown(np.full(table.n_sources, 1.0 / max(table.n_sources, 1))),
        _with_unknown(alpha / mass1),
        _with_unknown(alpha / mass2),
        _of_alike(alpha + prior.extra.alike, mass1, prior),
        _of_alike(alpha + prior.extra.alike, mass2, prior),
    )


def _prior_pairs(table: PairTable, prior: Prior, mass1: FloatArray, mass2: FloatArray) -> Probabilities:
    alpha, at = prior.concentration, prior.extra.at
    pair: Probabilities = np.empty((len(table), 2), np.float32)
    pair[:, 0] = np.repeat((alpha / mass1).astype(np.float32), np.diff(table.row_offsets))
    pair[:, 1] = (alpha / mass2).astype(np.float32)[table.row_targets]
    pair[at] *= (1.0 + prior.extra.amount / alpha)[:, None]
    pair[at[prior.extra.amount < 0]] = 0.0
    return pair


def masses(table: PairTable, prior: Prior, opposite: Opposite) -> tuple[FloatArray, FloatArray]:
    """Σ α by source word and by target word, with what pairs have beside it; opposite : words that each word meets."""
    of_source, of_target = (prior.concentration * n.astype(np.float64) for n in opposite)
    more = np.maximum(prior.extra.amount, 0.0)
    np.add.at(of_source, np.searchsorted(table.row_offsets, prior.extra.at, "right") - 1, more)
    np.add.at(of_target, table.row_targets[prior.extra.at], more)
    return of_source, of_target


def updated_tables(
    table: PairTable,
    counts: NDArray[np.floating],
    null1: FloatArray,
    null2: FloatArray,
    prior: Prior,
    mass: tuple[FloatArray, FloatArray],
    engine: Engine,
    out: Probabilities,
    score: bool,
) -> tuple[Tables, float]:
    """The M-step, on the engine; ``out`` (n_pairs, 2) is overwritten. Returns tables and, if asked, log-prior.

    mass : Σ α by source and by target word, over all pairs that were ever in the table
    """
    alpha, variational = prior.concentration, prior.variational
    totals = np.zeros(table.n_sources), np.zeros(table.n_targets)
    kernel.table_totals(table.row_offsets, table.row_targets, counts, *totals)
    norms = [_norms(total, weight, variational) for total, weight in zip(totals, mass, strict=True)]
    log_norms = [np.log(norm) if score else norm for norm in norms]
    bend = trigamma(alpha) if score else 0.0

    cuts = shard_bounds(table.row_offsets).tolist()
    pieces = [_Rows.of(table, prior, norms[0], log_norms[0], a, b) for a, b in pairwise(cuts)]
    ends = table.row_offsets[cuts].tolist()
    own = [counts[a:b] for a, b in pairwise(ends)]
    log_prior, found = (
        0.0,
        engine.place(pieces).run(_update_rows, (norms[1], log_norms[1], alpha, bend, variational, score), own),
    )
    for (a, b), (values, part_of_prior) in zip(pairwise(ends), found, strict=True):
        out[a:b] = values
        log_prior += part_of_prior
    nulls = []
    for null in (null1, null2):
        total, weight = np.array([null.sum()]), np.array([alpha * len(null)])
        listed = np.empty(len(null))
        log_prior += float(
            kernel.update_list(null, alpha, variational, _norms(total, weight, variational)[0], score, listed)
        )
        nulls.append(_with_unknown(listed))
        if score and variational:
            log_prior += _lgamma_terms(total, weight)
    if score and variational:
        log_prior += _lgamma_terms(totals[0], mass[0]) + _lgamma_terms(totals[1], mass[1])
    unseen, alike = prior.without_counts(), prior.without_counts(prior.extra.alike)
    unseen1, unseen2 = (_with_unknown(np.clip(unseen / norm, kernel.SMALLEST, 1.0)) for norm in norms)
    alike1, alike2 = (_of_alike(alike, norm, prior) for norm in norms)
    return Tables(out, nulls[0], nulls[1], unseen1, unseen2, alike1, alike2), log_prior


@dataclass(frozen=True)
class _Rows:
    """Some rows of the table: their offsets and target words, extra counts, and the norms of their source words."""

    offsets: IntArray
    targets: LabelArray
    at: IntArray
    amount: FloatArray
    norms: FloatArray
    log_norms: FloatArray

    @classmethod
    def of(
        cls, table: PairTable, prior: Prior, norms: FloatArray, log_norms: FloatArray, start: int, stop: int
    ) -> _Rows:
        low, high = int(table.row_offsets[start]), int(table.row_offsets[stop])
        few = slice(*np.searchsorted(prior.extra.at, (low, high)).tolist())
        offsets, extra = table.row_offsets[start : stop + 1] - low, prior.extra
        return cls(
            offsets, table.row_targets[low:high], extra.at[few] - low, extra.amount[few], norms[start:stop],
            log_norms[start:stop],
        )  # fmt: skip


def _update_rows(
    given: tuple[FloatArray, FloatArray, float, float, bool, bool],
    rows: _Rows,
    state: Any,
    counts: NDArray[np.floating],
) -> tuple[tuple[Probabilities, float], Any]:
    """New probabilities of some rows, from their counts, and their part of the log-prior."""
    norms, log_norms, alpha, bend, variational, score = given
    out: Probabilities = np.empty((len(counts), 2), np.float32)
    part_of_prior = kernel.update_rows(
        0, len(rows.offsets) - 1, rows.offsets, rows.targets, counts, rows.at, rows.amount, alpha, variational,
        rows.norms, norms, score, rows.log_norms, log_norms, bend, out,
    )  # fmt: skip
    return (out, float(part_of_prior)), state


def _of_alike(weight: float, norms: FloatArray, prior: Prior) -> Probabilities:
    """Probability of a pair outside the table that is spelled alike, by its given word; an unknown one, last, is taken
    to have been seen once, with another."""
    unknown = prior.weight(prior.concentration + prior.extra.alike + 1.0)
    shares = np.append(weight / norms, prior.without_counts(prior.extra.alike) / unknown)
    held: Probabilities = np.clip(shares, kernel.SMALLEST, 1.0).astype(np.float32)
    return held


def trigamma(x: float) -> float:
    """ψ′(x), x > 0: Σ_{k<30} 1/(x + k)², and the asymptotic series for the rest. (SciPy's costs a run 10 MB.)

    >>> round(trigamma(1.0), 12), round(np.pi**2 / 6, 12)
    (1.644934066848, 1.644934066848)
    """
    y = x + 30.0
    rest = 1.0 / y + 1.0 / (2.0 * y**2) + 1.0 / (6.0 * y**3) - 1.0 / (30.0 * y**5) + 1.0 / (42.0 * y**7)
    return float(np.sum(1.0 / (x + np.arange(30)) ** 2)) + rest


def _norms(totals: FloatArray, mass: FloatArray, variational: bool) -> FloatArray:
    if not variational:
        return np.maximum(totals + mass, 1e-300)
    norms: FloatArray = kernel.exp_digamma.py_func(np.maximum(totals + mass, 1e-2))
    return norms


def _lgamma_terms(totals: FloatArray, mass: FloatArray) -> float:
    out = np.empty(len(totals))
    kernel.lgamma_differences(totals, mass, out)
    return float(out.sum())


def _with_unknown(values: FloatArray) -> Probabilities:
    # Clipped: a word alone in its table would else seem as likely as not, however little is known of it.
    return np.append(values, UNKNOWN).astype(np.float32)


def extra_counts(
    table: PairTable, source: WordCodes, target: WordCodes, priors: Mapping[tuple[str, str], float], alike: float
) -> ExtraCounts:
    """Pseudo-counts of a dictionary, negative for forbidden pairs, and ``alike`` for words spelled alike.

    Words are told apart as in the text, by their first letters. Pairs that never meet in the text change nothing.
    """
    found: dict[int, float] = {}
    if alike > 0.0:
        for e, name in enumerate(source.names):
            found[table.place(e, target.find(name))] = alike
    for (left, right), weight in priors.items():
        place = table.place(source.find(left), target.find(right))
        before = found.get(place, 0.0)
        found[place] = -1.0 if weight < 0 or before < 0 else before + weight
    found.pop(-1, None)
    at = np.array(sorted(found), np.int64)
    return ExtraCounts(at, np.array([found[k] for k in at.tolist()]), alike)


def alike_cells(words: Sequence[tuple[Sequence[str], Sequence[str]]], bitext: Bitext, offsets: IntArray) -> IntArray:
    """Rising numbers of the cells of equal words (names, numbers of a new text); offsets : cells of each piece."""
    found: list[int] = []
    for pair, (left, right) in enumerate(words):
        shared = set(left).intersection(right)
        if not shared:
            continue
        first = int(bitext.pieces[pair])
        for piece in range(first, int(bitext.pieces[pair + 1])):
            i, i_end = (bitext.source_offsets[[piece, piece + 1]] - bitext.source_offsets[first]).tolist()
            j, j_end = (bitext.target_offsets[[piece, piece + 1]] - bitext.target_offsets[first]).tolist()
            columns = [(place, word) for place, word in enumerate(right[j:j_end]) if word in shared]
            for row, word in enumerate(left[i:i_end]):
                if word in shared:
                    start = int(offsets[piece]) + row * (j_end - j)
                    found += [start + place for place, other in columns if other == word]
    return np.array(found, np.int64)
