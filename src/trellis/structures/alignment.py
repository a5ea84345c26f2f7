"""Directional word alignments: every observed word is linked to one place of the other sentence, or to null.

    score(y) = Σ_t [ link_t(y_t) or null_t ] + Σ log p(y_t | anchor_t) + log p(end | anchor),     y_t ∈ {0..I−1, null}
    p(i | a) = (1 − p₀) c(i − a) / Σ_{k=0..I} c(k − a),    p(i | none yet) = (1 − p₀) f(i) / Σ_{k=0..I} f(k)
    p(null) = p₀

The anchor is the last place linked to (Vogel et al. 1996; null as in Och & Ney 2003); see
:mod:`trellis.structures.kernels.align_hmm`. Parts are links (t, i) and null links t. The same distribution as a
chain over 2 I + 1 labels gives the queries that are seldom asked: ``chain(n)``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, LabelArray, offsets_of
from trellis.errors import DataError
from trellis.structures.chain import Chain
from trellis.structures.kernels import align_hmm, align_max, align_project
from trellis.structures.kernels.align_work import HMM, Direction, new_work
from trellis.structures.results import Argmax
from trellis.structures.structure import check_gamma, check_scores, refuse_impossible

NULL = -1


@dataclass(frozen=True)
class AlignmentParts:
    """Flat numbers of the parts of a batch: all links first, pair by pair and word by word, then the null links.

    n_observed, n_places : (n,) words of each pair on the two sides

    >>> parts = AlignmentParts(np.array([2, 1]), np.array([3, 2]))
    >>> parts.n_parts, parts.link(1, 0, 1), parts.null(1, 0)
    (11, 7, 10)
    """

    n_observed: IntArray
    n_places: IntArray

    @property
    def link_offsets(self) -> IntArray:
        return offsets_of(self.n_observed * self.n_places)

    @property
    def word_offsets(self) -> IntArray:
        return offsets_of(self.n_observed)

    @property
    def n_parts(self) -> int:
        return int(self.link_offsets[-1] + self.word_offsets[-1])

    def link(self, pair: int, t: int, i: int) -> int:
        return int(self.link_offsets[pair] + t * self.n_places[pair] + i)

    def null(self, pair: int, t: int) -> int:
        return int(self.link_offsets[-1] + self.word_offsets[pair] + t)


@dataclass(frozen=True)
class AlignmentPosterior:
    """link : (n_links,) P(y_t = i), in the order of the parts;  null : (n_words,);  log_partition : (n,)."""

    link: FloatArray
    null: FloatArray
    log_partition: FloatArray


class Alignment:
    """Log-scores of the alignments of a batch of pairs, in one direction.

    n_observed, n_places : (n,);  link : (n_links,) and null : (n_words,) log-scores in the order of the parts
    jump : (2 L + 1,) weights c(d) at [L + d];  first : (≥ L + 1,) weights f(i);  L at least the longest n_places

    >>> uniform = Alignment([1], [2], np.log([0.75, 0.25]), np.log([0.5]), np.ones(5), np.ones(3), p_null=0.2)
    >>> posterior = uniform.infer()
    >>> posterior.link.round(3).tolist(), posterior.null.round(3).tolist()
    ([0.545, 0.182], [0.273])
    """

    def __init__(
        self,
        n_observed: IntArray | list[int],
        n_places: IntArray | list[int],
        link: FloatArray,
        null: FloatArray,
        jump: FloatArray,
        first: FloatArray,
        *,
        p_null: float,
        gamma: float = 1.0,
    ) -> None:
        self.parts = AlignmentParts(np.asarray(n_observed, np.int64), np.asarray(n_places, np.int64))
        self.link = check_scores("link", link, (int(self.parts.link_offsets[-1]),))
        self.null = check_scores("null", null, (int(self.parts.word_offsets[-1]),))
        self.jump = np.ascontiguousarray(jump, np.float64)
        self.first = np.ascontiguousarray(first, np.float64)
        self.p_null = p_null
        self.gamma = check_gamma(gamma)
        longest = int(self.parts.n_places.max(initial=0))
        if len(self.jump) % 2 != 1 or len(self.jump) // 2 < longest or len(self.first) <= longest:
            raise DataError(
                f"for {longest} places, jump needs an odd number of weights, at least {2 * longest + 1}, and first at "
                f"least {longest + 1}, but they have {len(self.jump)} and {len(self.first)}"
            )
        if not (self.jump.min() > 0.0 and self.first.min() > 0.0 and 0.0 < p_null < 1.0):
            raise DataError("the weights of jumps and of first places must be positive, and p_null between 0 and 1")

    def __len__(self) -> int:
        return len(self.parts.n_observed)

    def infer(self) -> AlignmentPosterior:
        """Marginals of links and null links, and log Σ exp(score/γ)."""
        link, null = np.zeros(len(self.link)), np.zeros(len(self.null))
        log_partition = np.zeros(len(self))
        direction = self._direction()
        for n in range(len(self)):
            n_obs, n_places, links, words = self._shape(n)
            work, shift = self._work(n)
            found = align_project.posteriors(n_obs, n_places, work.emission, direction, 1.0 / self.gamma, 0.0, work)
            log_partition[n] = shift + found
            link[links] = work.link[:n_obs, :n_places].ravel()
            null[words] = work.null_link[:n_obs]
        refuse_impossible(log_partition, 0)
        return AlignmentPosterior(link, null, log_partition)

    def argmax(self) -> Argmax:
        """A best alignment of each pair: labels (n_words,) are places, −1 for null."""
        labels = np.zeros(len(self.null), np.int32)
        score = np.zeros(len(self))
        direction = self._direction()
        for n in range(len(self)):
            n_obs, n_places, _, words = self._shape(n)
            work, shift = self._work(n)
            with np.errstate(divide="ignore"):
                work.tilted[:] = np.log(work.emission)
            path = np.zeros(n_obs, np.int32)
            best = align_max.best_alignment(n_obs, n_places, work.tilted, direction, work, path)
            score[n] = (best + shift) * self.gamma
            labels[words] = path
        refuse_impossible(score, 0)
        return Argmax(labels, score)

    def score(self, labels: LabelArray) -> FloatArray:
        """(n,) scores of given alignments, divided by nothing; −∞ for a forbidden one."""
        return np.array([self.chain(n).score(self.chain_labels(n, labels))[0] * self.gamma for n in range(len(self))])

    def entropy(self) -> FloatArray:
        """(n,) entropies of the alignments."""
        return np.array([self.chain(n).entropy()[0] for n in range(len(self))])

    def tilt(self, link: FloatArray | None = None, gamma: float = 1.0) -> Alignment:
        """Scores (score + link)/γ."""
        return Alignment(
            self.parts.n_observed, self.parts.n_places, self.link if link is None else self.link + link, self.null,
            self.jump, self.first, p_null=self.p_null, gamma=self.gamma * check_gamma(gamma),
        )  # fmt: skip

    def chain(self, n: int) -> Chain:
        """Pair n as a chain: label i is a link to place i, I + a null with anchor a, 2 I null before any link."""
        n_obs, n_places, links, words = self._shape(n)
        k = 2 * n_places + 1
        middle = len(self.jump) // 2
        move = np.full((n_places + 1, n_places + 1), -np.inf)  # anchor (last: none yet) -> place (last: end)
        for a in range(n_places):
            weights = self.jump[middle - a : middle + n_places - a + 1]
            move[a] = np.log(weights / weights.sum())
        move[n_places] = np.log(self.first[: n_places + 1] / self.first[: n_places + 1].sum())
        anchor = np.concatenate((np.arange(n_places), np.arange(n_places + 1)))
        edge = np.full((k, k), -np.inf)
        edge[:, :n_places] = np.log1p(-self.p_null) + move[anchor, :n_places]
        for label in range(k):
            edge[label, n_places + anchor[label]] = np.log(self.p_null)
        start = np.full(k, -np.inf)
        start[:n_places] = np.log1p(-self.p_null) + move[n_places, :n_places]
        start[k - 1] = np.log(self.p_null)
        node = np.empty((n_obs, k))
        node[:, :n_places] = self.link[links].reshape(n_obs, n_places)
        node[:, n_places:] = self.null[words][:, None]
        g = self.gamma
        return Chain(np.array([0, n_obs]), node / g, edge / g, start=start / g, stop=move[anchor, n_places] / g)

    def chain_labels(self, n: int, labels: LabelArray) -> LabelArray:
        """Labels of the batch (places, −1 for null) as those of the chain of pair n."""
        _, n_places, _, words = self._shape(n)
        out, anchor = [], n_places
        for label in labels[words].tolist():
            if label != NULL:
                anchor = label
            out.append(n_places + anchor if label == NULL else label)
        return np.array(out, np.int32)

    def _shape(self, n: int) -> tuple[int, int, slice, slice]:
        links, words = self.parts.link_offsets, self.parts.word_offsets
        size = int(self.parts.n_observed[n]), int(self.parts.n_places[n])
        return *size, slice(int(links[n]), int(links[n + 1])), slice(int(words[n]), int(words[n + 1]))

    def _direction(self) -> Direction:
        powered = self.jump ** (1.0 / self.gamma)
        sums = np.concatenate(([0.0], np.cumsum(self.jump)))
        firsts = np.concatenate(([0.0], np.cumsum(self.first)))
        return Direction(HMM, powered, powered[::-1].copy(), sums, self.first, firsts, self.p_null)

    def _work(self, n: int) -> tuple[Any, float]:
        """Scratch space with the pair's potentials, each word's divided by the largest; Σ log of the divisors."""
        n_obs, n_places, links, words = self._shape(n)
        work = new_work(n_obs, n_places)
        scores = np.concatenate(
            (self.link[links].reshape(n_obs, n_places), self.null[words][:, None] + np.log(self.p_null)), axis=1
        )
        scores = scores / self.gamma
        top = scores.max(axis=1, initial=-np.inf)
        top[top == -np.inf] = 0.0
        potentials = np.exp(scores - top[:, None])
        if n_obs:
            work.emission[:, :n_places] = potentials[:, :n_places]
            work.null_emission[:] = potentials[:, n_places]
        align_hmm.set_places(n_places, self._direction(), 1.0 / self.gamma, work)
        return work, float(top.sum())
