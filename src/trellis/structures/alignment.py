"""Alignment: every observed word of a sentence pair is linked to one place of the other sentence, or to null.

    score(y) = Σ_t [ link(y_t, t) or null(t) ] + Σ log p(y_t | anchor_t) + log p(end | anchor),     y_t ∈ {0..I−1, null}
    p(i | a) = (1 − p₀) c(i − a) / Σ_{k=0..I} c(k − a),    p(i | none yet) = (1 − p₀) f(i) / Σ_{k=0..I} f(k)
    p(null) = p₀

c(d) may depend on the word at the anchor: then it stands for c(d) r(d), with factors r of short jumps.
The anchor is the last place linked to (Vogel et al. 1996; null as in Och & Ney 2003). Without c and f words do not look
at each other, as in IBM Model 1. A pair with an empty side has one alignment, that of null links alone.

Both directions of a batch are ``Joint(forward, backward)``; their links have the same numbers. Like a chain, an
alignment holds log-scores, or a table of probabilities and the entry of each link: then scores of a batch cost nothing
before inference gathers them pair by pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, offsets_of, owners, take_rows
from trellis.engine import Additive
from trellis.errors import DataError
from trellis.structures.alignment_moves import WORDS_ALONE, check_rows, hmm_moves, raised, scored
from trellis.structures.alignment_parts import NULL, AlignmentParts
from trellis.structures.chain import Chain
from trellis.structures.kernels import align_gather, align_infer, align_max, align_work
from trellis.structures.kernels.align_infer import Found
from trellis.structures.kernels.align_work import HMM, Direction, Moves, Words
from trellis.structures.polytope import Polytope, side_by_side
from trellis.structures.results import Argmax
from trellis.structures.structure import (
    PosteriorOptions,
    Structure,
    check_gamma,
    check_scores,
    check_weights,
    expect_scores,
    numbers_of,
    refuse_impossible,
)

_NO_CODES = np.zeros(0, np.int32)


@dataclass(frozen=True)
class PlaceCounts(Additive):
    """Expected moves between places, of all pairs together, each counted as often as its weight says.

    jumps : (2 L + 1,) expected jumps by width, at [L + d], the one to the end of a sentence too;  firsts : (L + 1,)
    jump_weight, first_weight : (2 L + 1,), (L + 1,) Σ N / Σ c over the contexts in which it is possible, N their number
    near : (K, 2 R + 1) expected short jumps by factors;  near_weight : (K, 2 R + 1) Σ N / Σ c
    log_norm : Σ of the expected logs of normalisers, and of p₀ and 1 − p₀
    """

    jumps: FloatArray
    jump_weight: FloatArray
    firsts: FloatArray
    first_weight: FloatArray
    near: FloatArray
    near_weight: FloatArray
    log_norm: float


@dataclass(frozen=True)
class AlignmentPosterior:
    """link : (n_links,) and null : (n_observed,) marginals;  log_partition : (n_instances,)

    places : what an HMM's model needs of its moves; None where words are alone, or moves are not known
    """

    link: FloatArray
    null: FloatArray
    log_partition: FloatArray
    places: PlaceCounts | None = None

    def at(self, parts: IntArray) -> FloatArray:
        n_links = len(self.link)
        if parts.size == 0 or int(parts.max()) < n_links:
            return self.link[parts]
        found = np.empty(parts.shape)
        is_link = parts < n_links
        found[is_link] = self.link[parts[is_link]]
        found[~is_link] = self.null[parts[~is_link] - n_links]
        return found


class Alignment(Structure):
    """Log-scores of the alignments of a batch of sentence pairs, in one direction.

    n_source, n_target : (n,) words of each pair;  forward : target words are observed
    link : (n_links,) source word by source word in each pair, null : (n_observed,) log-scores
    jump : (2 L + 1,) weights c(d) at [L + d], L at least the longest sentence;  first_place : (L + 1,) weights f(i);
        without them words do not look at each other, and ``p_null`` has no meaning
    factors : (K, 2 R + 1) factors r of jumps −R..R, row 0 all ones;  rows : (n_words,) of the words at the places

    >>> alone = Alignment([2], [1], np.log([0.75, 0.25]), np.log([0.5]))
    >>> q = alone.infer()
    >>> q.link.round(3).tolist(), q.null.round(3).tolist(), alone.argmax().outputs.tolist()
    ([0.5, 0.167], [0.333], [0])
    """

    def __init__(
        self,
        n_source: Any,
        n_target: Any,
        link: Any,
        null: Any,
        *,
        jump: Any = None,
        first_place: Any = None,
        p_null: float = 0.3,
        factors: Any = None,
        rows: Any = None,
        forward: bool = True,
        first: int = 0,
    ) -> None:
        parts = AlignmentParts(offsets_of(np.asarray(n_source)), offsets_of(np.asarray(n_target)), forward)
        moves = WORDS_ALONE
        if jump is not None:
            longest = int(max(np.max(n_source, initial=0), np.max(n_target, initial=0)))
            moves = hmm_moves(jump, first_place, p_null, factors, longest=longest)
        link = check_scores("link", link, (parts.n_links,))
        row = check_rows(rows, parts, len(moves.factors))
        self._set(parts, scored(link, check_scores("null", null, (parts.n_observed,)), row), moves, first)

    @classmethod
    def over(cls, parts: AlignmentParts, words: Words, moves: Moves, first: int = 0) -> Alignment:
        """An alignment of what kernels read: log-scores, or a table and the entry of each link."""
        made = cls.__new__(cls)
        made._set(parts, words, moves, first)
        return made

    def _set(self, parts: AlignmentParts, words: Words, moves: Moves, first: int) -> None:
        self._parts, self.words, self.moves, self.first = parts, words, moves, first

    @property
    def parts(self) -> AlignmentParts:
        return self._parts

    @property
    def direction(self) -> Direction:
        """What kernels read of it."""
        return Direction(self._parts.pairs, self._parts.forward, self.words, self.moves)

    def log_scores(self) -> tuple[FloatArray, FloatArray]:
        """Scores of links (n_links,) and null links (n_observed,), those of the HMM's moves left out."""
        if not self._is_table:
            return self.words.link, self.words.null
        link, null = np.zeros(self._parts.n_links), np.zeros(self._parts.n_observed)
        align_gather.write_scores(self.direction, link, null)
        return link, null

    @property
    def _is_table(self) -> bool:
        return len(self.words.observed) > 0

    def take(self, numbers: IntArray) -> Alignment:
        p, w = self._parts, self.words
        (of_source, source), (of_target, target), (_, links) = (
            take_rows(offsets, numbers) for offsets in (p.source_offsets, p.target_offsets, p.link_offsets)
        )
        parts = AlignmentParts(of_source, of_target, p.forward)
        observed, other = (target, source) if p.forward else (source, target)
        if self._is_table:
            words = w._replace(cells=w.cells[links], observed=w.observed[observed], other=w.other[other])
        else:
            words = w._replace(link=w.link[links], null=w.null[observed])
        if len(w.rows):
            words = words._replace(rows=w.rows[other])
        some = Alignment.over(parts, words, self.moves, self.first)
        some.numbers = numbers_of(numbers, self.first, self.numbers)
        return some

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> AlignmentPosterior:
        weights, out, direction = check_weights(weights, len(self)), self.new_found(), self.direction
        align_infer.infer_pairs(np.arange(len(self)), direction, weights, None, out)
        left = np.flatnonzero(np.isnan(out.log_partition))
        if len(left):
            align_infer.infer_pairs(left, direction, weights, True, out)
        refuse_impossible(out.log_partition, self.first, self.numbers)
        return self.posterior_of(out)

    def new_found(self, dtype: type = np.float64) -> Found:
        """Zeros for kernels to write to; dtype : of the marginals."""
        return align_infer.new_found(self._parts.n_links, self._parts.n_observed, len(self), self.moves, dtype)

    def posterior_of(self, out: Found) -> AlignmentPosterior:
        """The posterior that kernels wrote."""
        places = None
        if self.moves.kind == HMM:
            places = PlaceCounts(
                out.jumps[::-1] * self.moves.jump + out.ends, np.cumsum(out.jump_weight)[:-1], out.firsts,
                np.cumsum(out.first_weight)[:-1], out.near, out.near_weight, float(out.log_norm[0]),
            )  # fmt: skip
        return AlignmentPosterior(out.link, out.null, out.log_partition, places)

    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """Best places (n_observed,), −1 for null. Ties go to small places; with ``rng`` to any, all alike."""
        best, score = np.zeros(self._parts.n_observed, np.int32), np.zeros(len(self))
        align_max.best_pairs(self.direction, best, score)
        refuse_impossible(score, self.first, self.numbers)
        if rng is not None:
            best = np.concatenate([_NO_CODES, *(self._places(n, self.chain(n).argmax(rng).outputs) for n in self._all)])
        return Argmax(best, score)

    def score(self, outputs: LabelArray) -> FloatArray:
        scores = np.zeros(len(self))
        align_max.score_pairs(self.direction, self._parts.check(outputs), scores)
        return scores

    def entropy(self) -> FloatArray:
        """−Σ_y p(y) log p(y) of each pair, in nats."""
        return np.array([self.chain(n).entropy()[0] for n in self._all])

    def apply(self, change: FloatArray | None, gamma: float = 1.0) -> Alignment:
        if change is None and gamma == 1.0:
            return self
        g = check_gamma(gamma)
        moves = raised(self.moves, self.moves.power / g)
        if change is None and self._is_table:
            return self._scored(self.words, moves)
        link, null = self.log_scores()
        if change is not None:
            link, null = link + change[: len(link)], null + change[len(link) :]
        if g != 1.0:
            link, null = link / g, null / g
        if moves.kind != HMM:
            moves = WORDS_ALONE
        return self._scored(scored(link, null, self.words.rows), moves)

    def flat(self) -> Alignment:
        link, null = (np.where(scores > -np.inf, 0.0, -np.inf) for scores in self.log_scores())
        return self._scored(scored(link, null), WORDS_ALONE)

    def _scored(self, words: Words, moves: Moves) -> Alignment:
        """The same pairs with other scores."""
        made = Alignment.over(self._parts, words, moves, self.first)
        made.numbers = self.numbers
        return made

    def _of_marginals(self, marginal: FloatArray, log_partition: FloatArray) -> AlignmentPosterior:
        """Without the moves of an HMM, which links do not tell: see :meth:`average`."""
        n_links = self._parts.n_links
        return AlignmentPosterior(marginal[:n_links], marginal[n_links:], log_partition)

    def average(
        self, used: Sequence[IntArray], share: FloatArray, **options: Unpack[PosteriorOptions]
    ) -> AlignmentPosterior:
        p = self._parts
        part = np.concatenate([np.zeros(0, np.int64), *used])
        start = offsets_of([len(parts) for parts in used])
        instance, local = p.split(part)
        width = np.maximum(np.diff(p.target_offsets)[instance], 1)
        place = np.where(part < p.n_links, local // width if p.forward else local % width, NULL).astype(np.int32)
        # An output names each observed word once: by words, its parts are its path.
        order = np.lexsort((p.place_of(part), owners(start)))
        filled = np.flatnonzero(np.diff(start))
        return self._mixed(instance[start[filled]], start[np.append(filled, -1)], place[order], share[filled], options)

    def certain(self, outputs: LabelArray, *, weights: FloatArray | None = None) -> AlignmentPosterior:
        every, places = np.arange(len(self)), self._parts.check(outputs)
        options = PosteriorOptions(weights=weights, log_partition=self.score(places))
        return self._mixed(every, self._parts.observed_offsets, places, np.ones(len(self)), options)

    def _mixed(
        self, instance: IntArray, start: IntArray, path: LabelArray, share: FloatArray, options: PosteriorOptions
    ) -> AlignmentPosterior:
        """The average of paths start[k] .. start[k + 1] − 1, each of one pair."""
        out, weights = self.new_found(), check_weights(options.get("weights"), len(self))
        align_max.add_paths(self.direction, instance, start, path, share, weights, out)
        top = options.get("log_partition")
        if top is not None:
            out.log_partition[:] = top
        return self.posterior_of(out)

    def expected_score(self, q: AlignmentPosterior, weights: FloatArray) -> float:
        link, null = self.log_scores()
        total = np.repeat(weights, np.diff(self._parts.link_offsets)) @ expect_scores(q.link, link)
        total += np.repeat(weights, np.diff(self._parts.observed_offsets)) @ expect_scores(q.null, null)
        if self.moves.kind == HMM:
            if q.places is None:
                raise DataError("the expected score of an HMM needs its expected moves, which this posterior has not")
            moves = q.places.jumps @ self.moves.log_jump + q.places.firsts @ np.log(self.moves.first)
            moves += np.sum(q.places.near * np.log(self.moves.factors))
            total += self.moves.power * (moves + q.places.log_norm)
        return float(total)

    def marginal_argmax(self, q: AlignmentPosterior) -> LabelArray:
        best = []
        for n in self._all:
            links, words, shape = self._shape(n)
            grid = q.link[links].reshape(shape)
            grid = grid.T if self._parts.forward else grid
            best.append(np.concatenate((q.null[words][:, None], grid), axis=1).argmax(axis=1) - 1)
        return np.concatenate([_NO_CODES, *best]).astype(np.int32)

    # the equivalent chain

    def chain(self, n: int) -> Chain:
        """Pair n as a chain: label i is a link to place i, I + a null with anchor a, 2 I null before any link.

        Where words are alone, null is one label, I.
        """
        one = self.instances(n, n + 1)
        link, null = one.log_scores()
        grid = link.reshape(self._shape(n)[2])
        grid = grid.T if self._parts.forward else grid
        n_obs, n_places = grid.shape
        if self.moves.kind != HMM or n_places == 0:
            node = np.concatenate((grid, null[:, None]), axis=1)
            return Chain([0, n_obs], node, np.zeros((n_places + 1, n_places + 1)), first=self.first + n)
        places, enter, stop = align_gather.log_places(
            align_work.shape_of(0, one.parts.pairs, one.parts.forward), one.words.rows, self.moves
        )
        anchor = np.concatenate((np.arange(n_places), np.arange(n_places + 1)))
        move = np.concatenate((places, enter[None]))
        k, p_null = 2 * n_places + 1, self.moves.power * np.log(self.moves.p_null)
        edge = np.full((k, k), -np.inf)
        edge[:, :n_places] = move[anchor]
        edge[np.arange(k), n_places + anchor] = p_null
        start = np.full(k, -np.inf)
        start[:n_places], start[k - 1] = enter, p_null
        node = np.concatenate((grid, np.repeat(null[:, None], n_places + 1, axis=1)), axis=1)
        return Chain([0, n_obs], node, edge, start=start, stop=stop[anchor], first=self.first + n)

    def _places(self, n: int, labels: LabelArray) -> LabelArray:
        """Labels of the chain of pair n as places."""
        source, target = self._shape(n)[2]
        return np.where(labels < (source if self._parts.forward else target), labels, NULL).astype(np.int32)

    def polytope(self, closed: IntArray) -> Polytope:
        from scipy.sparse import csr_array

        p = self._parts
        shut = np.zeros(p.n_parts, np.bool_)
        shut[closed] = True
        members, rows = [], []
        for n in self._all:
            chain = self.chain(n)
            links, words, shape = self._shape(n)
            numbers = np.arange(links.start, links.stop).reshape(shape)
            null = p.n_links + np.arange(words.start, words.stop)
            nulls = np.repeat(null[:, None], chain.n_labels - shape[not p.forward], axis=1)
            part = np.concatenate((numbers.T if p.forward else numbers, nulls), axis=1).reshape(-1)
            members.append(chain.polytope(np.flatnonzero(shut[part])))
            # Edges of the chain are variables of no part.
            rows.append(np.concatenate((part, np.full(chain.parts.n_parts - len(part), p.n_parts))))
        whole = side_by_side(members)
        row = np.concatenate([np.zeros(0, np.int64), *rows])
        use = csr_array((np.ones(len(row)), (row, np.arange(len(row)))), shape=(p.n_parts + 1, len(row)))[: p.n_parts]
        return Polytope(
            whole.matrix, whole.bound, (use @ whole.use).tocsr(), whole.score, whole.whole,
            lambda x: np.concatenate([_NO_CODES, *map(self._places, self._all, whole.outputs(x))]),
        )  # fmt: skip

    @property
    def _all(self) -> range:
        return range(len(self))

    def _shape(self, n: int) -> tuple[slice, slice, tuple[int, int]]:
        """Links and observed words of pair n, and the numbers of its source and target words."""
        p = self._parts
        links = slice(int(p.link_offsets[n]), int(p.link_offsets[n + 1]))
        words = slice(int(p.observed_offsets[n]), int(p.observed_offsets[n + 1]))
        size = int(np.diff(p.source_offsets[n : n + 2])[0]), int(np.diff(p.target_offsets[n : n + 2])[0])
        return links, words, size
