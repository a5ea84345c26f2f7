"""Word alignment, whole: texts in, links out.

>>> from trellis.tasks.align import Aligner
>>> pairs = [
...     ("the house", "la maison"),
...     ("the blue house", "la maison bleue"),
...     ("the flower", "la fleur"),
...     ("blue", "bleue"),
...     ("a flower", "une fleur"),
...     ("a house", "une maison"),
...     ("blue flower", "fleur bleue"),
... ]
>>> aligner = Aligner(threads=1).fit(pairs)
>>> aligner.align([("the blue flower", "la fleur bleue")])[0].pharaoh()
'0-0 1-2 2-1'
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.archive import read_archive, write_archive
from trellis.data.bitext import LONGEST, Bitext, WordCodes, code_pairs, words_of
from trellis.data.files import FilePath
from trellis.engine import engine_for
from trellis.errors import DataError, ModelFileError, NotFittedError, UnknownNameError
from trellis.learn.align_em import train_alignment
from trellis.learn.history import History
from trellis.metrics.alignment import GoldLinks, best_threshold, precision_recall_curve
from trellis.models.alignment import AlignmentConstraints, AlignmentModel, PairTable
from trellis.models.alignment.files import learned_arrays, restored_model
from trellis.models.estimator import Estimator
from trellis.structures.kernels import align_links
from trellis.structures.kernels.align_shard import Pairs
from trellis.tasks.align_hints import Hint, extra_counts, hint_cells, mark_alike

SYMMETRIZE = {
    "posterior": align_links.POSTERIOR,
    "forward": align_links.FORWARD,
    "backward": align_links.BACKWARD,
    "intersection": align_links.INTERSECTION,
    "union": align_links.UNION,
    "grow-diag": align_links.GROW_DIAG,
    "grow-diag-final": align_links.GROW_DIAG_FINAL,
    "grow-diag-final-and": align_links.GROW_DIAG_FINAL_AND,
}

Text = str | Sequence[str]
THRESHOLDS = [round(0.05 * k, 2) for k in range(2, 19)]
CHUNK = 5_000
CHUNK_CELLS = 4_000_000
"""Pairs of new text, and cells of them, that are held at a time."""


@dataclass(frozen=True)
class Links:
    """Links of one pair, by source and then target place.

    pairs : (n, 2) places (i, j);  scores : (n,) mean of both directions' posteriors
    """

    pairs: NDArray[np.int32]
    scores: NDArray[np.float64]

    def __iter__(self) -> Iterator[tuple[int, int]]:
        return ((int(i), int(j)) for i, j in self.pairs)

    def __len__(self) -> int:
        return len(self.pairs)

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


class Aligner(Estimator):
    """Aligns words of sentence pairs: HMMs in both directions, trained and decoded under constraints.

    constraint : "both", "agreement", "bijective" or "none", in training
    decode_constraint : the same at decoding time; None: as in training
    gamma : temperature of the projection; 1 is posterior regularization, 0 LP-EM
    model1_iterations, iterations : rounds of Model 1 and of the HMM
    symmetrize : "posterior" (links whose posterior is at least ``threshold``; the soft union of both directions), or
        of best alignments "forward", "backward", "intersection", "union", "grow-diag", "grow-diag-final" or
        "grow-diag-final-and"
    prefix : letters by which words are told apart, None: all
    p_null, concentration, reach, variational : see :class:`~trellis.models.alignment.AlignmentModel`
    alike : pseudo-count of a pair of words spelled alike, by the letters that tell words apart; in new text, of equal
        words
    priors : (source word, target word) -> pseudo-count of a pair that meets in training, negative: never linked
    reliability : least expected share of given links that hold
    tolerance, max_evaluations : where the projection of a pair stops in training; decoding has one evaluation more,
        and gamma = 0 eight times as many
    warm_start : keep dual variables of agreement between the HMM's rounds, gamma > 0
    random_state : accepted as everywhere; nothing here is random
    threads : None: every core

    Learned: ``model_``, ``source_codes_``, ``target_codes_``, ``history_``, ``threshold_``.
    """

    def __init__(
        self,
        constraint: str = "both",
        *,
        decode_constraint: str | None = None,
        gamma: float = 1.0,
        model1_iterations: int = 4,
        iterations: int = 2,
        symmetrize: str = "posterior",
        threshold: float = 0.4,
        prefix: int | None = 5,
        p_null: float = 0.3,
        concentration: float = 0.15,
        reach: float = 40.0,
        variational: bool = True,
        alike: float = 1.0,
        priors: Mapping[tuple[str, str], float] | None = None,
        reliability: float = 0.9,
        tolerance: float = 0.05,
        max_evaluations: int = 3,
        warm_start: bool = False,
        random_state: int | None = None,
        threads: int | None = None,
        verbose: bool = False,
    ) -> None:
        self.constraint = constraint
        self.decode_constraint = decode_constraint
        self.gamma = gamma
        self.model1_iterations = model1_iterations
        self.iterations = iterations
        self.symmetrize = symmetrize
        self.threshold = threshold
        self.prefix = prefix
        self.p_null = p_null
        self.concentration = concentration
        self.reach = reach
        self.variational = variational
        self.alike = alike
        self.priors = priors
        self.reliability = reliability
        self.tolerance = tolerance
        self.max_evaluations = max_evaluations
        self.warm_start = warm_start
        self.random_state = random_state
        self.threads = threads
        self.verbose = verbose

    def fit(
        self, pairs: Iterable[tuple[Text, Text]], y: object = None, *, hints: Sequence[Sequence[Hint]] | None = None
    ) -> Self:
        """Train on pairs of sentences (strings of words, or lists of them).

        hints : for each pair, links (i, j) that a person or another aligner gave
        """
        self._train(pairs, hints)
        return self

    def fit_align(
        self,
        pairs: Iterable[tuple[Text, Text]],
        *,
        hints: Sequence[Sequence[Hint]] | None = None,
        tune: Sequence[GoldLinks] = (),
    ) -> Iterator[Links]:
        """Train at once, then give the links of each training pair, in order: what ``align`` gives, in less time.

        tune : gold links of the first pairs, on which the threshold is chosen
        """
        first: list[tuple[Text, Text]] = []
        bitext, coded, marks = self._train(_keeping(pairs, len(tune), first), hints)
        if tune:
            if len(first) < len(tune):
                raise DataError(f"there is gold for {len(tune)} pairs but there are only {len(first)} pairs")
            self.tune_threshold(first, tune)
        return self._links(bitext, coded, marks)

    def _train(
        self, pairs: Iterable[tuple[Text, Text]], hints: Sequence[Sequence[Hint]] | None
    ) -> tuple[Bitext, Pairs, NDArray[np.uint8]]:
        self._check()
        source, target = WordCodes(self.prefix), WordCodes(self.prefix)
        bitext = code_pairs(_tokenized(pairs), source, target)
        if bitext.n_empty == len(bitext):
            raise DataError(f"of {len(bitext)} pairs none has words on both sides, so there is nothing to learn from")
        table, coded = PairTable.build(bitext, len(source.names), len(target.names))
        marks = hint_cells(bitext, coded, hints)
        model = AlignmentModel(
            table,
            p_null=self.p_null,
            concentration=self.concentration,
            reach=self.reach,
            variational=self.variational,
            extra=extra_counts(table, source, target, self.priors or {}, self.alike),
        )
        self.history_: History = train_alignment(
            model,
            coded,
            replace(self._constraints(decode=False), hints=marks),
            engine_for(self.threads),
            model1_rounds=self.model1_iterations,
            hmm_rounds=self.iterations,
            warm_start=self.warm_start,
            progress=self.verbose,
        )
        self.model_, moved = model.pruned()
        # In place, the cells being the largest array there is; mode "raise" would make a copy of them.
        np.take(moved, coded.cells, out=coded.cells, mode="clip")
        source.frozen = target.frozen = True
        self.source_codes_, self.target_codes_ = source, target
        self.threshold_ = self.threshold
        return bitext, coded, marks

    def align(
        self, pairs: Iterable[tuple[Text, Text]], *, hints: Sequence[Sequence[Hint]] | None = None
    ) -> list[Links]:
        """Links of each pair; an empty side gives none."""
        return list(self.align_stream(pairs, hints=hints))

    def align_stream(
        self, pairs: Iterable[tuple[Text, Text]], *, hints: Sequence[Sequence[Hint]] | None = None
    ) -> Iterator[Links]:
        """The same one after the other, holding a few thousand pairs at a time."""
        self._check()
        model = self._model()
        done = 0
        for chunk in _chunks(pairs):
            bitext = code_pairs(chunk, self.source_codes_, self.target_codes_)
            coded = model.look_up(bitext)
            if self.alike > 0.0:
                mark_alike(chunk, bitext, coded)
            given = None if hints is None else hints[done : done + len(chunk)]
            yield from self._links(bitext, coded, hint_cells(bitext, coded, given))
            done += len(chunk)

    def posteriors(self, pairs: Iterable[tuple[Text, Text]]) -> list[tuple[NDArray[np.float32], NDArray[np.float32]]]:
        """Of each pair the link posteriors (I, J) of both directions under the decoding constraints.

        A pair with more than 256 words on a side is aligned in pieces; links between different ones have posterior 0.
        """
        model = self._model()
        words = list(_tokenized(pairs))
        bitext = code_pairs(words, self.source_codes_, self.target_codes_)
        coded = model.look_up(bitext)
        if self.alike > 0.0:
            mark_alike(words, bitext, coded)
        constraints, engine = self._constraints(decode=True), engine_for(self.threads)
        grids = [(np.zeros(shape, np.float32), np.zeros(shape, np.float32)) for shape in _shapes(bitext)]
        pair_of = np.repeat(np.arange(len(bitext)), np.diff(bitext.pieces))
        for shard, shares in model.project(coded, constraints, engine):
            base = coded.cell_offsets[shard.instances.start]
            for piece in shard.instances:
                pair = int(pair_of[piece])
                i, i_end = bitext.source_offsets[[piece, piece + 1]] - bitext.source_offsets[bitext.pieces[pair]]
                j, j_end = bitext.target_offsets[[piece, piece + 1]] - bitext.target_offsets[bitext.pieces[pair]]
                cells = slice(coded.cell_offsets[piece] - base, coded.cell_offsets[piece + 1] - base)
                grids[pair][0][i:i_end, j:j_end] = shares.forward[cells].reshape(i_end - i, j_end - j)
                grids[pair][1][i:i_end, j:j_end] = shares.backward[cells].reshape(i_end - i, j_end - j)
        return grids

    def tune_threshold(self, pairs: Iterable[tuple[Text, Text]], gold: Sequence[GoldLinks]) -> float:
        """Set ``threshold_`` to the one with the least AER on a small gold set, and return it."""
        rows = []
        for forward, backward in self.posteriors(pairs):
            mean = 0.5 * (forward.astype(np.float64) + backward)
            rows.append({(int(i), int(j)): float(mean[i, j]) for i, j in np.argwhere(mean >= THRESHOLDS[0])})
        self.threshold_ = best_threshold(precision_recall_curve(rows, gold, THRESHOLDS))
        return self.threshold_

    def translations(self, *, least: float = 1e-4) -> Iterator[tuple[str, str, float, float]]:
        """(source, target, t(target | source), t(source | target)) of the pairs with either at least ``least``."""
        model = self._model()
        rows, columns, pair = model.table.sources(), model.table.row_targets, model.tables.pair
        for k in np.flatnonzero((pair[:, 0] >= least) | (pair[:, 1] >= least)):
            yield (
                self.source_codes_.names[rows[k]],
                self.target_codes_.names[columns[k]],
                float(pair[k, 0]),
                float(pair[k, 1]),
            )

    def save(self, path: FilePath) -> None:
        """Write the whole aligner into one file."""
        names, arrays = learned_arrays(self._model())
        parameters = {k: v for k, v in self.get_params(deep=False).items() if k not in ("priors", "threads", "verbose")}
        header = {
            "class": "Aligner",
            "parameters": parameters,
            "threshold": self.threshold_,
            "source": self.source_codes_.names,
            "target": self.target_codes_.names,
            **names,
        }
        write_archive(path, header, arrays)

    @classmethod
    def load(cls, path: FilePath, **overrides: Any) -> Self:
        """The aligner of a file; parameters that concern decoding or threads may be given anew."""
        archive = read_archive(path)
        if archive.header.get("class") != "Aligner":
            raise ModelFileError(f"{path}: this file holds {archive.header.get('class')!r}, not an aligner")
        try:
            aligner = cls(**{**archive.header["parameters"], **overrides})
            aligner.model_ = restored_model(archive.header, archive.arrays)
            prefix = archive.header["parameters"]["prefix"]
            aligner.source_codes_ = WordCodes(prefix, archive.header["source"])
            aligner.target_codes_ = WordCodes(prefix, archive.header["target"])
            aligner.threshold_ = overrides.get("threshold", archive.header["threshold"])
        except (KeyError, TypeError) as error:
            raise ModelFileError(f"{path}: the aligner in this file is incomplete ({error})") from error
        aligner.source_codes_.frozen = aligner.target_codes_.frozen = True
        return aligner

    def _model(self) -> AlignmentModel:
        if not hasattr(self, "model_"):
            raise NotFittedError("this aligner has not been trained; call fit first")
        return self.model_

    def _check(self) -> None:
        if self.symmetrize not in SYMMETRIZE:
            raise UnknownNameError("symmetrization", self.symmetrize, SYMMETRIZE)
        if not 0.0 < self.threshold <= 1.0:
            raise DataError(f"the threshold must lie between 0 and 1 but is {self.threshold}")
        for name in ("model1_iterations", "iterations"):
            if getattr(self, name) < 0:
                raise DataError(f"{name} must not be negative but is {getattr(self, name)}")
        if self.model1_iterations + self.iterations == 0:
            raise DataError("there must be at least one round of training")
        if not 0.0 <= self.alike < float("inf"):
            raise DataError(f"alike must be a number from 0 on but is {self.alike}")
        if not self.reach >= 1.0:
            raise DataError(f"the reach must be at least one word but is {self.reach}")
        if self.prefix is not None and self.prefix < 1:
            raise DataError(f"prefix must be at least 1 but is {self.prefix}")
        self._constraints(decode=False)
        self._constraints(decode=True)

    def _constraints(self, *, decode: bool) -> AlignmentConstraints:
        kind = self.decode_constraint if decode and self.decode_constraint is not None else self.constraint
        evaluations = self.max_evaluations + (1 if decode else 0)
        return AlignmentConstraints(kind, self.gamma, self.tolerance, evaluations, self.reliability)

    def _links(self, bitext: Bitext, coded: Pairs, marks: NDArray[np.uint8]) -> Iterator[Links]:
        method = SYMMETRIZE[self.symmetrize]
        constraints = replace(self._constraints(decode=True), hints=marks)
        decode = method != align_links.POSTERIOR
        pair_of = np.repeat(np.arange(len(bitext)), np.diff(bitext.pieces))
        pending: list[tuple[NDArray[np.int32], NDArray[np.float64]]] = []
        for shard, shares in self.model_.project(coded, constraints, engine_for(self.threads), decode=decode):
            start, stop = shard.instances.start, shard.instances.stop
            n_cells = len(shares.forward)
            count = np.zeros(stop - start + 1, np.int64)
            rows, columns = np.empty(n_cells, np.int32), np.empty(n_cells, np.int32)
            scores = np.empty(n_cells)
            align_links.write_links(start, stop, coded, shares, method, self.threshold_, count, rows, columns, scores)
            for piece in range(start, stop):
                part = slice(count[piece - start], count[piece - start + 1])
                places = np.stack((rows[part], columns[part]), axis=1)
                pair = pair_of[piece]
                first = bitext.pieces[pair]
                if piece > first:
                    places[:, 0] += bitext.source_offsets[piece] - bitext.source_offsets[first]
                    places[:, 1] += bitext.target_offsets[piece] - bitext.target_offsets[first]
                pending.append((places, scores[part].copy()))
                if piece + 1 == bitext.pieces[pair + 1]:
                    yield _joined(pending)
                    pending = []


def _chunks(pairs: Iterable[tuple[Text, Text]]) -> Iterator[list[tuple[Sequence[str], Sequence[str]]]]:
    """Pairs in runs that are small enough to be held; where a run ends changes nothing in the result."""
    chunk: list[tuple[Sequence[str], Sequence[str]]] = []
    cells = 0
    for source, target in _tokenized(pairs):
        chunk.append((source, target))
        cells += min(len(source) * len(target), LONGEST * max(len(source), len(target)))
        if len(chunk) >= CHUNK or cells >= CHUNK_CELLS:
            yield chunk
            chunk, cells = [], 0
    if chunk:
        yield chunk


def _keeping(pairs: Iterable[tuple[Text, Text]], n: int, kept: list[tuple[Text, Text]]) -> Iterator[tuple[Text, Text]]:
    """The same pairs, the first n of which are put aside on their way."""
    for pair in pairs:
        if len(kept) < n:
            kept.append(pair)
        yield pair


def _joined(parts: list[tuple[NDArray[np.int32], NDArray[np.float64]]]) -> Links:
    if len(parts) == 1:
        return Links(*parts[0])
    return Links(np.concatenate([p[0] for p in parts]), np.concatenate([p[1] for p in parts]))


def _shapes(bitext: Bitext) -> list[tuple[int, int]]:
    lengths = [np.diff(offsets[bitext.pieces]).tolist() for offsets in (bitext.source_offsets, bitext.target_offsets)]
    return list(zip(*lengths, strict=True))


def _tokenized(pairs: Iterable[tuple[Text, Text]]) -> Iterator[tuple[Sequence[str], Sequence[str]]]:
    for source, target in pairs:
        yield (
            words_of(source) if isinstance(source, str) else source,
            words_of(target) if isinstance(target, str) else target,
        )
