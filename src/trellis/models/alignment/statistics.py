"""Expected counts of both directions.

A shard hands over the counts of the word pairs it has, which are added to a table of counts one shard after the other:
a table per shard would be as large as the model.

Jump widths and first positions have an M-step in closed form that never decreases the likelihood.

    p(i | a) = c(i − a) / Σ_{k=0..I} c(k − a),      place I is the end of the sentence     (Vogel et al. 1996)
    p(i | none yet) = f(i) / Σ_{k=0..I} f(k)

The normaliser depends on the sentence, so expected counts alone do not give the maximum. But log Σ c ≤ its tangent
at the old c, and with that bound the M-step is  c(d) = n(d) / (Σ_contexts N(context) / Σ_old c),  the sum over
contexts where d is possible: a minorise-maximise step, under which the objective does not fall. Jumps wider than
``WINDOW`` share one weight per side. A prior adds Σ_d κ(d) log(c(d)/Σ c) to the objective, with pseudo-counts κ that
fall with the distance from a jump of one word: in a text of short sentences nothing else speaks against wide jumps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.data.bitext import LONGEST
from trellis.data.ragged import FloatArray, IntArray, LabelArray
from trellis.models.alignment.kernels import table as kernel
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.structures import JointPosterior
from trellis.structures.alignment import WORDS_ALONE, PlaceCounts, hmm_moves
from trellis.structures.kernels.align_work import MODEL1, Moves


@dataclass
class AlignmentStatistics:
    """Sums over pairs.

    pairs : of each lexicon (n_entries, 2), expected links of each word pair, by direction; they are the largest arrays
        of a run, so in single precision, like the posteriors that shards sum up before
    null1 : (V_f,) expected null links of target words;  null2 : (V_e,) of source words
    places : expected moves of both directions; None under Model 1
    """

    pairs: tuple[NDArray[np.float32], ...]
    null1: FloatArray
    null2: FloatArray
    places: tuple[PlaceCounts, PlaceCounts] | None = None

    def __iadd__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        """Add in place; only ever done to a sum of one's own."""
        if isinstance(other, ShardCounts):
            for entries, pairs, total in zip(other.entries, other.pairs, self.pairs, strict=True):
                kernel.add_entries(entries, pairs, total)
            self.null1 += np.bincount(other.target, other.null_forward, minlength=len(self.null1))
            self.null2 += np.bincount(other.source, other.null_backward, minlength=len(self.null2))
        else:
            for pairs, total in zip(other.pairs, self.pairs, strict=True):
                total += pairs
            self.null1 += other.null1
            self.null2 += other.null2
        if other.places is not None:
            mine = tuple(p * 0.0 for p in other.places) if self.places is None else self.places
            self.places = mine[0] + other.places[0], mine[1] + other.places[1]
        return self

    def __add__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        total = self * 1.0
        total += other
        return total

    def __mul__(self, factor: float) -> AlignmentStatistics:
        places = None if self.places is None else (self.places[0] * factor, self.places[1] * factor)
        return AlignmentStatistics(
            tuple(p * np.float32(factor) for p in self.pairs), self.null1 * factor, self.null2 * factor, places
        )


@dataclass(frozen=True)
class ShardCounts:
    """Counts of the word pairs and words of a shard, weighted.

    sizes : V_f, V_e;  lengths : entries of each lexicon's table
    entries : of each lexicon (n,), the table's entries that the shard has, each once
    pairs : of each lexicon (n, 2), links by direction
    target, source : words;  null_forward, null_backward : null links of each
    """

    sizes: tuple[int, int]
    lengths: tuple[int, ...]
    entries: tuple[NDArray[np.int32], ...]
    pairs: tuple[NDArray[np.float32], ...]
    target: LabelArray
    source: LabelArray
    null_forward: NDArray[np.float32]
    null_backward: NDArray[np.float32]
    places: tuple[PlaceCounts, PlaceCounts] | None

    @classmethod
    def of(
        cls,
        batch: SentencePairs,
        q: JointPosterior,
        found: Sequence[tuple[NDArray[np.int32], NDArray[np.int32]]],
        sizes: tuple[int, int],
        lengths: tuple[int, ...],
    ) -> ShardCounts:
        """Counts under a posterior of both directions; found : of each lexicon, the entries and cells of the batch."""
        forward, backward = q.members
        # Words of a pair with an empty side have nobody to come from: they say nothing about null.
        weight = np.where(batch.is_empty, 0.0, batch.weights)
        plain = np.all(weight == 1.0)

        def weighted(values: NDArray[Any], offsets: IntArray) -> NDArray[np.float32]:
            counted = values if plain else values * np.repeat(weight, np.diff(offsets))
            return counted.astype(np.float32, copy=False)

        links = weighted(forward.link, batch.offsets), weighted(backward.link, batch.offsets)
        pairs = []
        for entries, cells in found:
            added = np.zeros((len(entries), 2))
            kernel.add_cells(cells, *links, added)
            # Single precision, as the posteriors are: it is what travels from workers.
            pairs.append(added.astype(np.float32))
        nulls = weighted(forward.null, batch.target_offsets), weighted(backward.null, batch.source_offsets)
        places = None if forward.places is None else (forward.places, backward.places)
        entries_of = tuple(entries for entries, _ in found)
        return cls(sizes, lengths, entries_of, tuple(pairs), batch.target, batch.source, *nulls, places)

    def total(self) -> AlignmentStatistics:
        """A table of counts of this shard alone, for others to be added to."""
        pairs = tuple(np.zeros((n, 2), np.float32) for n in self.lengths)
        total = AlignmentStatistics(pairs, np.zeros(self.sizes[0]), np.zeros(self.sizes[1]))
        total += self
        return total

    def __add__(self, other: AlignmentStatistics | ShardCounts) -> AlignmentStatistics:
        total = self.total()
        total += other
        return total

    __iadd__ = __add__

    def __mul__(self, factor: float) -> AlignmentStatistics:
        return self.total() * factor


WINDOW = 40
SMALLEST_SHARE = 1e-8
"""No weight falls below this share of the largest: powers 1/γ of it must stay numbers."""
SPAN = LONGEST + 1
"""Jumps from −SPAN to SPAN have a weight: longer than any sentence, and the same for every text."""

_JUMP_CLASS = np.clip(np.arange(-SPAN, SPAN + 1), -WINDOW, WINDOW) + WINDOW
_FIRST_CLASS = np.minimum(np.arange(SPAN + 1), WINDOW)
_JUMP_PRIOR = np.exp(-0.5 * np.minimum(np.abs(np.arange(-WINDOW, WINDOW + 1) - 1), 16))
_FIRST_PRIOR = np.exp(-0.5 * np.minimum(np.arange(WINDOW + 1), 16))


@dataclass(frozen=True)
class Places:
    """jump : (2 WINDOW + 1,) weights c by class of jump;  first : (WINDOW + 1,) weights f by class of first place."""

    jump: FloatArray
    first: FloatArray

    @classmethod
    def initial(cls) -> Places:
        """Weights that fall with the distance from a jump of one word."""
        jump = np.exp(-0.3 * np.minimum(np.abs(np.arange(-WINDOW, WINDOW + 1) - 1), 12))
        first = np.exp(-0.3 * np.minimum(np.arange(WINDOW + 1), 12))
        return cls(jump / jump.sum(), first / first.sum())

    def moves(self, p_null: float, negligible: float) -> Moves:
        """The HMM's moves as kernels read them."""
        return hmm_moves(
            self.jump[_JUMP_CLASS], self.first[_FIRST_CLASS], p_null, longest=LONGEST, negligible=negligible
        )  # fmt: skip

    def updated(self, counts: PlaceCounts, pseudo: float) -> Places:
        """The M-step; pseudo : Σ κ of jumps, and of first places."""
        jump_prior, first_prior = (pseudo * prior / prior.sum() for prior in (_JUMP_PRIOR, _FIRST_PRIOR))
        return Places(
            _ratio(_JUMP_CLASS, counts.jumps, counts.jump_weight, self.jump, jump_prior),
            _ratio(_FIRST_CLASS, counts.firsts, counts.first_weight, self.first, first_prior),
        )

    def log_prior(self, pseudo: float) -> float:
        """Σ κ log(c / Σ c) over classes of jumps and of first places; ``pseudo`` is Σ κ of either."""
        total = 0.0
        for weights, prior in ((self.jump, _JUMP_PRIOR), (self.first, _FIRST_PRIOR)):
            total += pseudo * float(prior @ np.log(weights / weights.sum())) / float(prior.sum())
        return total


def model1_moves(p_null: float, reach: float) -> Moves:
    """Places of Model 1: all alike, or with a finite ``reach``, in words, rather near the diagonal."""
    pull = np.exp((np.arange(SPAN + 1) + 0.5) / reach) if reach < np.inf else WORDS_ALONE.pull
    return WORDS_ALONE._replace(kind=MODEL1, pull=pull, p_null=p_null)


def _ratio(
    classes: IntArray, counts: FloatArray, weight: FloatArray, old: FloatArray, pseudo: FloatArray
) -> FloatArray:
    # Weights are running sums of differences, so that rounding can leave a trace below zero.
    weight = np.maximum(weight, 0.0)
    numerator = np.bincount(classes, counts, minlength=len(old)) + pseudo
    denominator = np.bincount(classes, weight, minlength=len(old)) + pseudo.sum() / old.sum()
    new: FloatArray = numerator / denominator
    new = np.maximum(new, SMALLEST_SHARE * new.max())
    new /= new.sum()
    return new
