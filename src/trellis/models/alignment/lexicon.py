"""Words represented as a whole or by their first letters, and the translation tables of both directions.

Two descriptions, d = 1, 2, are two models of the same alignments y. If both must have the same posterior q, that is

    min_q Σ_d KL(q ‖ p_d(y | x))  =  −2 log Σ_y √(p₁(y | x) p₂(y | x)),      q(y) ∝ √(p₁(y | x) p₂(y | x))

(agreement as in Ganchev et al. 2010, sec. 5; in closed form, since the two have the same outputs). So a link has the
geometric mean of both probabilities, inference is that of one model, and each table is updated from the expected counts
of its own words.

Inference kernels read the probabilities of the links of a batch from one lexicon or from two.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf
from trellis.data.bitext import Bitext, WordCodes
from trellis.data.ragged import FloatArray, LabelArray
from trellis.data.shards import shard_bounds
from trellis.engine import Engine
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.pair_table import Opposite, PairTable, rows_kept
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.models.alignment.translation import (
    ExtraCounts,
    Prior,
    Tables,
    extra_counts,
    masses,
    prior_tables,
    updated_tables,
)
from trellis.structures.kernels.align_work import Words

_NOTHING = (np.zeros(0), np.zeros(0)), Tables(*[np.zeros(0, np.float32)] * len(Tables._fields))


@dataclass
class Lexicon:
    """Words, the table of their pairs, and what is known and learned of these.

    source, target : words and their numbers
    opposite : (V_e,), (V_f,) how many words of the other language each word meets, whether in the table or not
    extra : pseudo-counts of some pairs;  masses : Σ α by source and by target word;  tables : what is learned
    """

    source: WordCodes
    target: WordCodes
    table: PairTable
    opposite: Opposite
    extra: ExtraCounts
    masses: tuple[FloatArray, FloatArray]
    tables: Tables
    is_shared: bool = False

    ARRAYS: ClassVar = {
        "row_offsets": ArrayOf(np.int64, ("sources + 1",), offsets_of="pairs"),
        "row_targets": ArrayOf(np.int32, ("pairs",), below="targets"),
        "pair": ArrayOf(np.float32, ("pairs", 2), low=0.0),
        **{f"{kind}1": ArrayOf(np.float32, ("sources + 1",), low=0.0) for kind in ("unseen", "alike")},
        **{f"{kind}2": ArrayOf(np.float32, ("targets + 1",), low=0.0) for kind in ("unseen", "alike")},
        "null1": ArrayOf(np.float32, ("targets + 1",), low=0.0),
        "null2": ArrayOf(np.float32, ("sources + 1",), low=0.0),
    }
    """What a file holds of a lexicon."""

    @classmethod
    def build(
        cls,
        text: Bitext | SentencePairs,
        source: WordCodes,
        target: WordCodes,
        priors: Mapping[tuple[str, str], float],
        alike: float,
        of: tuple[LabelArray, LabelArray] | None = None,
        within: tuple[PairTable, LabelArray, LabelArray] | None = None,
    ) -> Lexicon:
        """The lexicon of a text; of, within : see :meth:`PairTable.build`."""
        table, opposite = PairTable.build(text, len(source.names), len(target.names), of, within)
        source.freeze()
        target.freeze()
        extra = extra_counts(table, source, target, priors, alike)
        return cls(source, target, table, opposite, extra, *_NOTHING)

    @classmethod
    def empty(cls, text: Bitext | SentencePairs, source: WordCodes, target: WordCodes, *known: Any) -> Lexicon:
        """Words of a text whose table is not built yet."""
        n_sources, n_targets = len(source.names), len(target.names)
        source.freeze()
        target.freeze()
        table = PairTable(np.zeros(n_sources + 1, np.int64), np.zeros(0, np.int32), n_targets)
        return cls(source, target, table, table.opposite(), ExtraCounts(), *_NOTHING)

    def bare(self) -> Lexicon:
        """Without words and what only the M-step reads."""
        none = WordCodes(None)
        return replace(self, source=none, target=none, extra=ExtraCounts(), masses=_NOTHING[0])

    def reset(self, concentration: float, variational: bool, *, is_read: bool = True) -> None:
        """The mean of the prior.

        is_read : False: nobody reads the probabilities of pairs before the first M-step, which writes them where its
            counts are
        """
        prior = Prior(concentration, variational, self.extra)
        self.masses = masses(self.table, prior, self.opposite)
        self.tables = prior_tables(self.table, prior, self.masses, with_pairs=is_read)
        self.is_shared = False

    def update(
        self,
        pairs: NDArray[np.floating],
        nulls: tuple[FloatArray, FloatArray],
        concentration: float,
        variational: bool,
        engine: Engine,
        score: bool,
    ) -> float:
        """The M-step; returns the log-prior, if ``score``."""
        out: Any = np.empty_like(self.tables.pair) if self.is_shared else self.tables.pair
        if len(out) != len(self.table):
            out = pairs
        prior = Prior(concentration, variational, self.extra)
        self.tables, log_prior = updated_tables(self.table, pairs, *nulls, prior, self.masses, engine, out, score)
        self.is_shared = False
        return log_prior

    def pruned(self, factor: float, least: float) -> Lexicon:
        """Without pairs that are hardly likelier, in both directions, than pairs never seen.

        Most pairs of a table only ever stood in the same sentence. From now on these are pairs never seen, whose
        probability they had all but for the factor; the prior of their words still counts them. Pairs with extra counts
        stay, whatever was learned of them. Nothing happens where more than a share ``least`` of all would stay.
        """
        keep, t, at = np.empty(len(self.table), np.bool_), self.tables, self.extra.at
        ends = self.table.row_offsets
        for start, stop in pairwise(shard_bounds(ends).tolist()):
            some = slice(int(ends[start]), int(ends[stop]))
            pair, columns = t.pair[some], self.table.row_targets[some]
            unseen = np.repeat(t.unseen1[start:stop], np.diff(ends[start : stop + 1]))
            keep[some] = (pair[:, 0] > factor * unseen) | (pair[:, 1] > factor * t.unseen2[columns])
        keep[at] = True
        if np.count_nonzero(keep) > least * len(keep):
            return self
        before = [np.count_nonzero(keep[low:high]) for low, high in pairwise([0, *at.tolist()])]
        return replace(
            self, extra=replace(self.extra, at=np.cumsum(np.array(before, np.int64))), table=self.table.kept(keep),
            tables=t._replace(pair=rows_kept(t.pair, keep)), is_shared=False,
        )  # fmt: skip

    def translations(self, least: float) -> Iterator[tuple[str, str, float, float]]:
        """(source, target, t(target | source), t(source | target)) of pairs where either is at least ``least``."""
        rows, columns, pair = self.table.sources(), self.table.row_targets, self.tables.pair
        for k in np.flatnonzero((pair[:, 0] >= least) | (pair[:, 1] >= least)).tolist():
            yield self.source.names[rows[k]], self.target.names[columns[k]], float(pair[k, 0]), float(pair[k, 1])

    @classmethod
    def restored(
        cls, source: WordCodes, target: WordCodes, arrays: Mapping[str, NDArray[Any]], concentration: float
    ) -> Lexicon:
        """Of arrays that have been checked; what it knew beforehand is in its tables."""
        source.freeze()
        target.freeze()
        table = PairTable(arrays["row_offsets"], arrays["row_targets"], len(target.names))
        pair, order = arrays["pair"], np.lexsort((table.row_targets, table.sources()))
        if np.any(np.diff(order) < 0):  # rows of a file may have any order
            table, pair = replace(table, row_targets=table.row_targets[order]), pair[order]
        tables = Tables(*(np.asarray({**arrays, "pair": pair}[name], np.float32) for name in Tables._fields))
        extra, opposite = ExtraCounts(), table.opposite()
        mass = masses(table, Prior(concentration, True, extra), opposite)
        return cls(source, target, table, opposite, extra, mass, tables, is_shared=True)


def stem_numbers(words: list[str], stems: WordCodes) -> LabelArray:
    """(V + 1,) the stem of each word, −1 at the end for a word without a number; gives out numbers of new stems."""
    return np.array([*(stems[word] for word in words), -1], np.int32)


Rows = tuple[LabelArray, LabelArray]
"""Of the words of both sides, rows of the factors of jumps."""


def words_of_one(lexicon: Lexicon, b: SentencePairs, rows: Rows) -> tuple[Words, Words]:
    """Probabilities of the links of both directions, from one table."""
    t, none = lexicon.tables, np.zeros(0)
    entries, cells = lexicon.table.number(b)
    # A small table of their own, which fits into the cache, and an entry that kernels read where there is none.
    pair = np.zeros((len(entries) + 1, 2), np.float32)
    np.take(t.pair, entries, axis=0, out=pair[:-1], mode="clip")  # without a buffer
    return (
        Words(none, none, pair, 0, cells, b.target, b.source, t.null1, t.unseen1, t.alike1, rows[0]),
        Words(none, none, pair, 1, cells, b.source, b.target, t.null2, t.unseen2, t.alike2, rows[1]),
    )


def words_of_two(
    words: tuple[Lexicon, SentencePairs], stems: tuple[Lexicon, SentencePairs], rows: Rows
) -> tuple[Words, Words]:
    """The same as geometric means of two tables: an entry for every link, and for every word.

    words, stems : each a lexicon and the batch in its codes
    """
    b = words[1]
    given: list[Any] = []
    null1, null2 = np.ones(len(b.target) + 1, np.float32), np.ones(len(b.source) + 1, np.float32)
    for lexicon, own in (words, stems):
        t, source, target = lexicon.tables, np.maximum(own.source, -1), np.maximum(own.target, -1)
        entries, cells = lexicon.table.number(own)
        own.hold_cells(cells)
        pair = np.ones((len(entries) + 1, 2), np.float32)
        np.take(t.pair, entries, axis=0, out=pair[:-1], mode="clip")  # without a buffer
        unseen1, unseen2 = (t.unseen1[source], t.alike1[source]), (t.unseen2[target], t.alike2[target])
        given += [cells, np.sqrt(pair), np.sqrt(np.stack(unseen1)), np.sqrt(np.stack(unseen2))]
        null1[:-1] *= np.sqrt(t.null1[target])
        null2[:-1] *= np.sqrt(t.null2[source])
    table = np.empty((b.n_slots + 1, 2), np.float32)
    kernel.products(*given, b.source_offsets, b.target_offsets, table)
    cells, none = np.arange(b.n_slots, dtype=np.int32), np.zeros(0)
    sides = [np.arange(len(side), dtype=np.int32) for side in (b.source, b.target)]
    return (
        Words(none, none, table, 0, cells, sides[1], sides[0], null1, null2, null2, rows[0]),
        Words(none, none, table, 1, cells, sides[0], sides[1], null2, null1, null1, rows[1]),
    )
