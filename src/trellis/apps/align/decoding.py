"""From an alignment model and sentence pairs to posteriors or links, as pure work on shards (:mod:`trellis.engine`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from trellis.apps.align.kernels import symmetrize as kernel
from trellis.constraints import Constraint, compile_constraints
from trellis.constraints.rows import Rows
from trellis.data.bitext import Bitext
from trellis.data.ragged import FloatArray, IntArray
from trellis.engine import Piece, Shard
from trellis.models.alignment import AlignmentModel, SentencePairs
from trellis.projection import ProjectionItem, Projector, ShardAnswer

SYMMETRIZE = {
    "posterior": kernel.POSTERIOR,
    "forward": kernel.FORWARD,
    "backward": kernel.BACKWARD,
    "intersection": kernel.INTERSECTION,
    "union": kernel.UNION,
    "grow-diag": kernel.GROW_DIAG,
    "grow-diag-final": kernel.GROW_DIAG_FINAL,
    "grow-diag-final-and": kernel.GROW_DIAG_FINAL_AND,
}


@dataclass(frozen=True)
class Links:
    """Links of one pair, by source and then target place.

    pairs : (n, 2) places (i, j);  scores : (n,) posteriors, the mean of both directions or that of the chosen one
    """

    pairs: NDArray[np.int32]
    scores: NDArray[np.float64]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((int(i), int(j)) for i, j in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

    def __repr__(self) -> str:
        return f"Links({self.pharaoh()!r})"

    def _repr_html_(self) -> str:
        if not len(self):
            return "no links"
        n, m = (int(k) + 1 for k in self.pairs.max(axis=0))
        share = {(int(i), int(j)): float(p) for (i, j), p in zip(self.pairs, self.scores, strict=True)}
        cell = (
            "width:18px;height:18px;border:1px solid rgba(128,128,128,.35);padding:0;text-align:center;font-size:10px"
        )
        head = "".join(f'<th style="{cell};border:none">{j}</th>' for j in range(m))
        rows = "".join(
            f'<tr style="background:none"><th style="{cell};border:none">{i}</th>'
            + "".join(
                f'<td title="{share[i, j]:.2f}" style="{cell};'
                f'background:hsla(210,75%,50%,{0.2 + 0.7 * share[i, j]:.2f})"></td>'
                if (i, j) in share
                else f'<td style="{cell}"></td>'
                for j in range(m)
            )
            + "</tr>"
            for i in range(n)
        )
        style = "border-collapse:collapse;color:inherit;font-family:system-ui,sans-serif"
        return f'<table style="{style}"><tr style="background:none"><th></th>{head}</tr>{rows}</table>'

    def shifted(self, by: int) -> Links:
        """The same links with all places counted from ``by``."""
        return Links(self.pairs + np.int32(by), self.scores)

    def pharaoh(self, *, scores: bool = False) -> str:
        """``0-0 1-2``, or with scores ``0-0:0.98 1-2:0.71``."""
        if scores:
            return " ".join(
                f"{i}-{j}:{p:.4g}" for (i, j), p in zip(self.pairs.tolist(), self.scores.tolist(), strict=True)
            )
        return " ".join([f"{i}-{j}" for i, j in self.pairs.tolist()])

    def record(self, *, scores: bool = False) -> dict[str, Any]:
        """The JSON object of the links, with the same digits of the scores."""
        own: dict[str, Any] = {"links": self.pairs.tolist()}
        if scores:
            own["scores"] = [float(f"{p:.4g}") for p in self.scores]
        return own


@dataclass(frozen=True)
class Decoding:
    """What is asked of every shard of pairs that is aligned.

    then : what is made of a shard's posterior
    """

    model: AlignmentModel
    gamma: float
    projection_tol: float
    evaluations: int
    then: Callable[[ProjectionItem, ShardAnswer], Any]


def decode(asked: Decoding, item: Piece, state: Any, constraints: Sequence[Constraint]) -> tuple[Any, Any]:
    """Project a shard under the model onto constraints and hand the posterior to ``asked.then``."""
    model, part = asked.model, item.data
    rows = Rows.none(part.parts)
    if constraints:
        rows = compile_constraints(constraints, part, model.label_names_, part.parts)
    projector = Projector(rows, data=[part], tolerance=asked.projection_tol, max_evaluations=asked.evaluations)
    return projector.run(model.scores, asked.gamma, then=asked.then, warn=False).results[0], state


def link_posteriors(item: ProjectionItem, answer: ShardAnswer) -> list[NDArray[np.float32]]:
    """Of both directions, (n_cells,)."""
    return [member.link.astype(np.float32) for member in answer.posterior.members]


@dataclass(frozen=True)
class ShardLinks:
    """Links of the pairs of a shard, one after the other.

    offsets : (n_pairs + 1,);  pairs : (n, 2) places within each pair;  scores : (n,)
    """

    offsets: IntArray
    pairs: NDArray[np.int32]
    scores: NDArray[np.float64]


@dataclass(frozen=True)
class WriteLinks:
    """Makes links of posteriors; method : one of SYMMETRIZE;  threshold : least posterior of a link."""

    method: int
    threshold: float

    def __call__(self, item: ProjectionItem, answer: ShardAnswer) -> ShardLinks:
        part: SentencePairs = item.data
        posteriors, best = link_posteriors(item, answer), [np.zeros(0, np.int32)] * 2
        if self.method != kernel.POSTERIOR:
            best = list(item.rows.q_scores(answer).argmax().outputs)
        n_cells, offsets = part.n_slots, np.zeros(len(part) + 1, np.int64)
        rows, columns, scores = np.empty(n_cells, np.int32), np.empty(n_cells, np.int32), np.empty(n_cells)
        kernel.write_links(
            part.source_offsets, part.target_offsets, part.offsets, *posteriors, *best, self.method, self.threshold,
            offsets, rows, columns, scores,
        )  # fmt: skip
        n = int(offsets[-1])
        return ShardLinks(offsets, np.stack((rows[:n], columns[:n]), axis=1), scores[:n].copy())


def links_of_pairs(bitext: Bitext, found: Iterator[ShardLinks]) -> Iterator[Links]:
    """The links of each pair from those of its pieces, shard by shard."""
    starts = bitext.source_offsets, bitext.target_offsets
    pending: list[Links] = []
    pair, piece = 0, 0
    last = bitext.pieces[1:].tolist()
    for shard in found:
        cuts = shard.offsets.tolist()
        for start, stop in pairwise(cuts):
            places, first = shard.pairs[start:stop], int(bitext.pieces[pair])
            if piece > first:
                places = places + np.array([at[piece] - at[first] for at in starts], np.int32)
            pending.append(Links(places, shard.scores[start:stop]))
            piece += 1
            if piece == last[pair]:
                yield pending[0] if len(pending) == 1 else _joined(pending)
                pending, pair = [], pair + 1


def _joined(parts: list[Links]) -> Links:
    return Links(np.concatenate([p.pairs for p in parts]), np.concatenate([p.scores for p in parts]))


def posterior_grids(
    bitext: Bitext, batch: SentencePairs, shards: Sequence[Shard], found: Iterator[list[NDArray[np.float32]]]
) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
    """Link posteriors (I, J) of each pair in both directions, from those of the shards; 0 between different pieces."""
    lengths = [np.diff(offsets[bitext.pieces]).tolist() for offsets in (bitext.source_offsets, bitext.target_offsets)]
    shapes = zip(*lengths, strict=True)
    grids = [(np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for shape in shapes]
    pair_of = np.repeat(np.arange(len(bitext)), np.diff(bitext.pieces))
    for shard, posteriors in zip(shards, found, strict=True):
        base = batch.offsets[shard.instances.start]
        for piece in shard.instances:
            pair = int(pair_of[piece])
            i, i_end = bitext.source_offsets[[piece, piece + 1]] - bitext.source_offsets[bitext.pieces[pair]]
            j, j_end = bitext.target_offsets[[piece, piece + 1]] - bitext.target_offsets[bitext.pieces[pair]]
            cells = slice(batch.offsets[piece] - base, batch.offsets[piece + 1] - base)
            for grid, link in zip(grids[pair], posteriors, strict=True):
                grid[i:i_end, j:j_end] = link[cells].reshape(i_end - i, j_end - j)
    return grids


def log_likelihoods(model: AlignmentModel, item: Piece, state: Any) -> tuple[FloatArray, Any]:
    """(n_pieces, 2) log p(target | source) and log p(source | target) of a shard, without constraints."""
    members = model.scores(item.data).infer().members
    return np.stack([member.log_partition for member in members], axis=1), state


def per_word(bitext: Bitext, of_pieces: FloatArray) -> FloatArray:
    """(n_pairs, 2) log-likelihoods of pairs by the number of words they are of; −inf where a side is empty."""
    totals = np.add.reduceat(of_pieces, bitext.pieces[:-1], axis=0)
    lengths = [np.diff(offsets[bitext.pieces]) for offsets in (bitext.target_offsets, bitext.source_offsets)]
    words = np.stack(lengths, axis=1)
    empty = np.any(words == 0, axis=1)
    return np.where(empty[:, None], -np.inf, totals / np.maximum(words, 1))
