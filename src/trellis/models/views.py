"""Views: several models of the same instances as one model (Ganchev et al. 2010, sec. 6).

*With the same labels*, views that agree fully are the product of their scores at γ = n, the number of views:

    min_q Σ_i [ q log q − q·score_i ]  =  min_q  n q log q − q·Σ_i score_i          so  q ∝ Π_i p_i^{1/n}   (prop. 6.1)

so that every learner that projects, with whatever constraints, learns them at that γ. *With labels of their own* that
maps bring to common classes, they stand side by side in a joint structure, and agreement is rows between them.
Discriminative and generative models may be views of the same instances: log p is log p(y | x) of the ones, log p(x, y)
of the others.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import split_arrays
from trellis.data.batch import ViewBatch
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Engine, Piece, Placed
from trellis.engine.engine import Work
from trellis.errors import DataError, check_name
from trellis.models.model import bare
from trellis.models.saving import from_archive, to_archive
from trellis.models.sequence import labelled
from trellis.projection.agreement import geometric_mean
from trellis.structures import Joint, LabelPosterior, Parts, Structure
from trellis.structures.chain import Chain, folded
from trellis.structures.chain_parts import pair_up

ClassMaps = Sequence[Mapping[str, str] | None]
"""For each view, the class of its labels by name; a label that is not named is a class of its own."""


@dataclass(frozen=True)
class ViewStatistics:
    """Statistics of each view."""

    members: tuple[Any, ...]

    def __add__(self, other: ViewStatistics) -> ViewStatistics:
        return ViewStatistics(tuple(a + b for a, b in zip(self.members, other.members, strict=True)))

    def __mul__(self, factor: float) -> ViewStatistics:
        return ViewStatistics(tuple(one * factor for one in self.members))


class Views:
    """Models over the same instances; ``maps`` where they have labels of their own."""

    def __init__(self, members: Sequence[Any], maps: ClassMaps | None = None) -> None:
        self.members, self.maps = list(members), maps
        if maps is not None and len(maps) != len(self.members):
            raise DataError(
                f"there are {len(self.members)} views but {len(maps)} maps of labels: give one for each view"
            )

    @property
    def discriminative(self) -> bool:
        return all(member.discriminative for member in self.members)

    @property
    def rises(self) -> bool:
        return all(getattr(member, "rises", True) for member in self.members)

    @property
    def copies(self) -> int:
        """How many distributions are projected at once: γ of full agreement."""
        return len(self.members) if self.maps is None else 1

    @property
    def label_names_(self) -> Vocabulary:
        names: Vocabulary = self.members[0].label_names_
        return names

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> ViewBatch:
        """X : one description of all instances a view;  y : their labels, with maps one list of labels a view."""
        views, labels = self.one_a_view(X, "X"), [y] * len(self.members)
        if self.maps is not None and y is not None:
            labels = self.one_a_view(y, "y")
        pairs = zip(self.members, views, labels, strict=True)
        batches = [member.encode(own, known, weights, fit=fit) for member, own, known in pairs]
        if fit:
            self._check_labels()
        return ViewBatch.of(batches, apart=self.maps is not None)

    def labelled(self, X: Any, y: Any) -> tuple[Any, Any]:
        """Views and labels; without y, labels are those that the instances of a view have."""
        if y is not None:
            return X, y
        pairs = [labelled(m, own, None) for m, own in zip(self.members, self.one_a_view(X, "X"), strict=True)]
        known = [own for _, own in pairs]
        if self.maps is None:
            return [own for own, _ in pairs], next((own for own in known if own is not None), None)
        return [own for own, _ in pairs], None if known == [None] * len(known) else known

    def one_a_view(self, given: Any, name: str) -> list[Any]:
        """What is given for each view, in a list."""
        n = len(self.members)
        if not isinstance(given, list | tuple) or len(given) != n:
            found = f"{len(given)} of them" if isinstance(given, list | tuple) else type(given).__name__
            raise DataError(f"{name} must be a list of {n}, one for each view, but got {found}")
        return list(given)

    def _check_labels(self) -> None:
        if self.maps is None:
            first = list(self.label_names_)
            for number, member in enumerate(self.members):
                if list(member.label_names_) != first:
                    raise DataError(
                        f"view 0 has the labels {first} and view {number} has {list(member.label_names_)}: give both "
                        "the same list, labels=[...], or maps onto common classes"
                    )
            return
        _ = self.classes

    @property
    def classes(self) -> list[IntArray]:
        """The class of each label of each view."""
        numbers: dict[str, int] = {}
        found, names = [], []
        for member, given in zip(self.members, self.maps or [None] * len(self.members), strict=True):
            labels = list(member.label_names_)
            for name in given or {}:
                check_name("label", name, labels)
            own = [(given or {}).get(name, name) for name in labels]
            names.append(set(own))
            found.append(np.array([numbers.setdefault(name, len(numbers)) for name in own], dtype=np.int64))
        lonely = sorted(set.union(*names) - set.intersection(*names))
        if lonely:
            raise DataError(
                f"the class {lonely[0]!r} is not one of every view: the maps of labels must lead to the same classes, "
                f"and these are {[sorted(own) for own in names]}"
            )
        return found

    # the four verbs

    def parts(self, batch: ViewBatch) -> Parts:
        if self.maps is None:
            found: Parts = self.members[0].parts(batch.members[0])
            return found
        return self.scores(batch).parts

    def scores(self, batch: ViewBatch) -> Structure:
        """The product of all scores; with maps all of them side by side."""
        return self._together([m.scores(b) for m, b in self._each(batch)])

    def uniform(self, batch: ViewBatch) -> Structure:
        return self._together([m.uniform(b) for m, b in self._each(batch)])

    def _together(self, scores: Sequence[Structure]) -> Structure:
        if self.maps is not None:
            return Joint(*scores)
        return geometric_mean(scores).temper(1.0 / len(scores))

    def log_partitions(self, batch: ViewBatch) -> tuple[FloatArray, FloatArray]:
        """(n_instances,): Σ_i log Z_i over outputs that agree with what is known; and over all, of discriminative ones.

        The likelihood of what is known is their difference.
        """
        given, free = np.zeros(len(batch)), np.zeros(len(batch))
        for member, own in self._each(batch):
            scores = member.scores(own)
            whole = scores.infer().log_partition if member.discriminative or not own.known else None
            given += scores.clamp(own.labels).infer().log_partition if own.known or whole is None else whole
            if member.discriminative and whole is not None:
                free += whole
        return given, free

    def collect(self, batch: ViewBatch, q: Any) -> ViewStatistics:
        each = self._each_posterior(batch, q) if self.maps is None else q.members
        return ViewStatistics(tuple(m.collect(b, one) for (m, b), one in zip(self._each(batch), each, strict=True)))

    def _each_posterior(self, batch: ViewBatch, q: Any) -> list[Any]:
        """The agreed posterior for each view: its transitions are counted by the view's own matrices."""
        if not isinstance(q, LabelPosterior) or q.edge_counts is None:
            return [q] * len(self.members)
        counts, owners = (
            q.edge_counts,
            batch.remembered("matrices", lambda: _own_matrices([m.scores(b) for m, b in self._each(batch)])),
        )
        return [replace(q, edge_counts=folded(counts, *owner)) for owner in owners]

    def update(
        self, statistics: ViewStatistics, *, shards: Sequence[Placed[Any]] | None = None, engine: Engine | None = None
    ) -> None:
        for number, (member, own) in enumerate(zip(self.members, statistics.members, strict=True)):
            mine = None if shards is None else [PlacedView(placed, number) for placed in shards]
            member.update(own, shards=mine, engine=engine)

    def _each(self, batch: ViewBatch) -> Iterator[tuple[Any, Any]]:
        return zip(self.members, batch.members, strict=True)

    # outputs by name

    def decode(self, batch: ViewBatch, outputs: Any) -> Any:
        """Of the first view's labels, which all share; with maps those of each view."""
        if self.maps is None:
            return self.members[0].decode(batch.members[0], outputs)
        return [m.decode(b, y) for (m, b), y in zip(self._each(batch), outputs, strict=True)]

    def probabilities(self, batch: ViewBatch, posteriors: Sequence[Any]) -> Any:
        if self.maps is None:
            return self.members[0].probabilities(batch.members[0], posteriors)
        each = zip(*(q.members for q in posteriors), strict=True) if posteriors else [()] * len(self.members)
        return [m.probabilities(b, list(own)) for (m, b), own in zip(self._each(batch), each, strict=True)]

    # parameters

    def log_prior(self) -> float:
        return float(sum(member.log_prior() for member in self.members))

    def reset(self) -> None:
        for member in self.members:
            member.reset()

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        for member in self.members:
            member.randomize(rng, scale)

    def parameters(self) -> dict[str, FloatArray]:
        return {f"{n}/{name}": table for n, m in enumerate(self.members) for name, table in m.parameters().items()}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        for number, member in enumerate(self.members):
            member.set_parameters(_of_view(parameters, number))

    def bare(self) -> Self:
        made = copy.copy(self)
        made.members = [bare(member) for member in self.members]
        return made

    # parts of a file

    def learned(self) -> tuple[list[dict[str, Any]], dict[str, NDArray[Any]]]:
        archives = [to_archive(member) for member in self.members]
        arrays = {f"{n}/{name}": array for n, (_, own) in enumerate(archives) for name, array in own.items()}
        return [header for header, _ in archives], arrays

    @classmethod
    def restored(cls, headers: Any, arrays: Mapping[str, NDArray[Any]], maps: ClassMaps | None) -> Views:
        """The inverse of :meth:`learned`."""
        if not isinstance(headers, list) or not headers:
            raise DataError("expected a list of views")
        own = split_arrays(arrays, [f"{n}/" for n in range(len(headers))])
        made = cls([from_archive(header, own[f"{n}/"]) for n, header in enumerate(headers)], maps)
        for member in made.members:
            if not callable(getattr(member, "scores", None)):
                raise DataError(f"a view must be a model, but one is a {type(member).__name__}")
        made._check_labels()
        return made


OF_TOKENS = ("a label for each token", "segments")
"""Outputs that agree on the labels of tokens, through maps."""


def check_outputs(members: Sequence[Any], maps: ClassMaps | None = None) -> None:
    """Refuse models of different outputs, which cannot be trained to agree."""
    for member in members:
        if not callable(getattr(member, "decode", None)):
            raise DataError(
                f"views must be models with labels, such as CRF or MaxEnt, but one is {type(member).__name__}"
            )
    found = [getattr(member, "outputs_are", None) for member in members]
    for number, (member, own) in enumerate(zip(members, found, strict=True)):
        through = maps is not None and own in OF_TOKENS and found[0] in OF_TOKENS
        if own != found[0] and None not in (own, found[0]) and not through:
            raise DataError(
                "views must have the same kind of output, but view 0 "
                f"({type(members[0]).__name__}) predicts {found[0]} and view {number} ({type(member).__name__}) {own}"
                + (
                    ". Segments and labels of tokens agree through maps=[None, None], or maps of their labels"
                    if own in OF_TOKENS and found[0] in OF_TOKENS
                    else ""
                )
            )


def _of_view(arrays: Mapping[str, Any], number: int) -> dict[str, Any]:
    return {name.partition("/")[2]: array for name, array in arrays.items() if name.startswith(f"{number}/")}


@dataclass(frozen=True)
class OfView:
    """Work on one view of a shard."""

    work: Work[Any]
    number: int

    def __call__(self, parameters: Any, item: Any, state: Any) -> tuple[Any, Any]:
        result, _ = self.work(parameters, Piece(item.data.members[self.number]), None)
        return result, state


class PlacedView(Placed[Any]):
    """One view of shards where they are placed; what these remember stays theirs."""

    def __init__(self, placed: Placed[Any], number: int) -> None:
        super().__init__(placed.shards)
        self.placed, self.number = placed, number

    def run(self, work: Work[Any], parameters: Any = None, own: Sequence[Any] | None = None) -> Iterator[Any]:
        return self.placed.run(OfView(work, self.number), parameters, own)


def _own_matrices(members: Sequence[Chain]) -> list[tuple[IntArray, int]]:
    """Of each chain, which of its matrices each one of their mean (n_matrices,) has a part of, and how many it has."""
    found = [np.arange(members[0].tables.n_matrices)]
    index: IntArray = members[0].edge_index.astype(np.int64)
    for member in members[1:]:
        mine, theirs, index = pair_up(index, member.edge_index, member.tables.n_matrices)
        found = [*(own[mine] for own in found), theirs]
    return [(own, member.tables.n_matrices) for own, member in zip(found, members, strict=True)]
