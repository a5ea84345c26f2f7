"""An enumerating twin of word alignments, and Hypothesis strategies for batches small enough to list."""

import itertools
from dataclasses import dataclass

import numpy as np
from hypothesis import strategies as st
from scipy.special import logsumexp

from trellis.structures import Alignment

SPAN = 4


@dataclass
class Twin:
    """The arguments of an Alignment, and every query answered by listing all alignments of every pair."""

    n_source: list
    n_target: list
    link: np.ndarray
    null: np.ndarray
    jump: np.ndarray | None = None
    first_place: np.ndarray | None = None
    p_null: float = 0.3
    forward: bool = True
    factors: np.ndarray | None = None
    rows: np.ndarray | None = None

    def structure(self):
        return Alignment(
            self.n_source, self.n_target, self.link, self.null,
            jump=self.jump, first_place=self.first_place, p_null=self.p_null, factors=self.factors,
            rows=self.rows, forward=self.forward,
        )  # fmt: skip

    def __len__(self):
        return len(self.n_source)

    def outputs(self, n):
        """All alignments of pair n: a place or −1 for each observed word."""
        n_obs, n_places = (self.n_target, self.n_source) if self.forward else (self.n_source, self.n_target)
        return list(itertools.product(range(-1, n_places[n]), repeat=n_obs[n]))

    def parts_of(self, n, y):
        base = sum(i * j for i, j in zip(self.n_source[:n], self.n_target[:n], strict=True))
        words = sum((self.n_target if self.forward else self.n_source)[:n])
        links = sorted(
            base + (i * self.n_target[n] + t if self.forward else t * self.n_target[n] + i)
            for t, i in enumerate(y)
            if i >= 0
        )
        return links + [len(self.link) + words + t for t, i in enumerate(y) if i < 0]

    def moves(self, n, y):
        """log p of the places of an alignment, its jumps and its first place."""
        n_places = (self.n_source if self.forward else self.n_target)[n]
        if self.jump is None or n_places == 0 or not y:
            return 0.0, [], None
        total, anchor, jumps, first = 0.0, None, [], None
        for i in (*y, n_places):
            if i < 0:
                total += np.log(self.p_null)
                continue
            total += np.log1p(-self.p_null) if i < n_places else 0.0
            if anchor is None:
                total += np.log(self.first_place[i] / self.first_place[: n_places + 1].sum())
                first = i
            else:
                row = self.row(n, anchor)
                possible = [self.weight(k - anchor, row) for k in range(n_places + 1)]
                total += np.log(self.weight(i - anchor, row) / sum(possible))
                jumps.append((i - anchor, row))
            anchor = i
        return total, jumps, first

    def row(self, n, place):
        """The row of factors of the word at a place of pair n."""
        places = self.n_source if self.forward else self.n_target
        return 0 if self.rows is None else int(self.rows[sum(places[:n]) + place])

    def weight(self, d, row):
        """c(d) r(d), of a word with this row of factors."""
        near = 0 if self.factors is None else self.factors.shape[1] // 2
        factor = self.factors[row, near + d] if self.factors is not None and abs(d) <= near else 1.0
        return self.jump[SPAN + d] * factor

    def score(self, n, y):
        return np.append(self.link, self.null)[self.parts_of(n, y)].sum() + self.moves(n, y)[0]

    def scores(self, n):
        return np.array([self.score(n, y) for y in self.outputs(n)])

    def log_partition(self):
        return np.array([logsumexp(self.scores(n)) for n in range(len(self))])

    def is_possible(self):
        return bool(np.all(self.log_partition() > -np.inf))

    def probabilities(self, n):
        return np.exp(self.scores(n) - logsumexp(self.scores(n)))

    def marginals(self):
        found = np.zeros(len(self.link) + len(self.null))
        for n in range(len(self)):
            for y, p in zip(self.outputs(n), self.probabilities(n), strict=True):
                found[self.parts_of(n, y)] += p
        return found

    def jumps(self, weights):
        """Expected jumps by width, first places, and short jumps by row of factors, weighted."""
        jumps, firsts = np.zeros(2 * SPAN + 1), np.zeros(SPAN + 1)
        by_row = np.zeros((1, 1) if self.factors is None else self.factors.shape)
        near = by_row.shape[1] // 2
        for n in range(len(self)):
            for y, p in zip(self.outputs(n), self.probabilities(n), strict=True):
                _, widths, first = self.moves(n, y)
                for d, row in widths:
                    jumps[SPAN + d] += weights[n] * p
                    if abs(d) <= near:
                        by_row[row, near + d] += weights[n] * p
                if first is not None:
                    firsts[first] += weights[n] * p
        return jumps, firsts, by_row


@st.composite
def twins(draw, hmm=None, forward=None, shapes=None, forbidden=True, scale=3.0):
    """Ragged batches with empty sides, ties and −inf."""
    if shapes is None:
        shapes = draw(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=3))
    n_source, n_target = [a for a, _ in shapes], [b for _, b in shapes]
    forward = draw(st.booleans()) if forward is None else forward
    palette = st.one_of(st.sampled_from([-scale, 0.0, 0.0, 1.0]), st.floats(-scale, scale))
    if forbidden:
        palette = st.one_of(palette, palette, palette, st.just(-np.inf))
    n_links = sum(a * b for a, b in shapes)
    n_observed = sum(n_target if forward else n_source)
    link = np.array(draw(st.lists(palette, min_size=n_links, max_size=n_links)))
    null = np.array(draw(st.lists(palette, min_size=n_observed, max_size=n_observed)))
    twin = Twin(n_source, n_target, link, null, forward=forward)
    if draw(st.booleans()) if hmm is None else hmm:
        weight = st.sampled_from([0.05, 0.3, 1.0, 2.0])
        twin.jump = np.array(draw(st.lists(weight, min_size=2 * SPAN + 1, max_size=2 * SPAN + 1)))
        twin.first_place = np.array(draw(st.lists(weight, min_size=SPAN + 1, max_size=SPAN + 1)))
        if draw(st.booleans()):
            width, n_places = draw(st.sampled_from([1, 3, 5])), sum(n_source if forward else n_target)
            rows = st.lists(weight, min_size=width, max_size=width)
            twin.factors = np.array([[1.0] * width, *draw(st.lists(rows, min_size=1, max_size=2))])
            some = st.integers(0, len(twin.factors) - 1)
            twin.rows = np.array(draw(st.lists(some, min_size=n_places, max_size=n_places)), np.int32)
    return twin
