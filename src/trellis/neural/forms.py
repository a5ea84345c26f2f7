"""Forms: how the tensors of a network become the scores of a structure, and marginals become gradients.

    ∂/∂score(part)  log Z  =  P(part is used)

so that a structure with exact inference needs nothing else to be trained through. The tensors of a form are, for
chains (node, edge, start, stop), of shapes (n_slots, K), (K, K), (K,), (K,); for rows with one label each (node,),
(n_rows, K); for trees and for every other structure with one score for each part (part,), (n_parts,).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Unpack

import numpy as np

from trellis.data.ragged import FloatArray, IntArray, take_rows
from trellis.errors import DataError, check_name
from trellis.structures import Categorical, Chain, Segments, SpanningTrees, Structure, Trees
from trellis.structures.joint import members_of
from trellis.structures.structure import PosteriorOptions, expect_scores

Arrays = tuple[FloatArray, ...]


class Form(ABC):
    """One kind of structure; ``n_tensors`` scores it has."""

    n_tensors = 1

    @abstractmethod
    def structure(self, offsets: IntArray, arrays: Sequence[FloatArray]) -> Structure:
        """The structure with these scores."""

    @abstractmethod
    def marginals(self, structure: Structure, q: Any, weights: FloatArray) -> Arrays:
        """Σ_i weight_i d log Z_i / d scores, from a posterior that was inferred with these weights."""

    @abstractmethod
    def rows_of(self, structure: Structure, numbers: IntArray) -> IntArray:
        """The entries of the first tensor that belong to these instances, as a batch of them alone has them."""


@dataclass(frozen=True)
class ChainForm(Form):
    """Label sequences: scores of labels, of transitions, of first and of last labels."""

    n_tensors = 4

    def structure(self, offsets: IntArray, arrays: Sequence[FloatArray]) -> Chain:
        node, edge, start, stop = arrays
        return Chain(offsets, node, edge, start=start, stop=stop)

    def marginals(self, structure: Structure, q: Any, weights: FloatArray) -> Arrays:
        offsets = structure.parts.offsets  # type: ignore[attr-defined]
        node = q.node * np.repeat(weights, np.diff(offsets))[:, None]
        filled = np.diff(offsets) > 0
        start, stop = node[offsets[:-1][filled]].sum(axis=0), node[offsets[1:][filled] - 1].sum(axis=0)
        return node, q.edge_counts.sum(axis=0), start, stop

    def rows_of(self, structure: Structure, numbers: IntArray) -> IntArray:
        return take_rows(structure.parts.offsets, numbers)[1]  # type: ignore[attr-defined]


@dataclass(frozen=True)
class CategoricalForm(Form):
    """One label a row."""

    def structure(self, offsets: IntArray, arrays: Sequence[FloatArray]) -> Categorical:
        return Categorical(arrays[0])

    def marginals(self, structure: Structure, q: Any, weights: FloatArray) -> Arrays:
        return (q.node * weights[:, None],)

    def rows_of(self, structure: Structure, numbers: IntArray) -> IntArray:
        return numbers


class _AllMarginals(Structure):
    """Mixed into a structure whose posteriors have some marginals only where they are asked for: all are."""

    kind = ""  # fast paths ask for what constraints are about

    @property
    def every(self) -> IntArray:
        """All parts."""
        return np.arange(self.parts.n_parts, dtype=np.int64)

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> Any:
        return super().infer(weights=weights, at=self.every)

    def posterior(self, part: IntArray, value: FloatArray, **options: Unpack[PosteriorOptions]) -> Any:
        options["at"] = self.every
        return super().posterior(part, value, **options)


class _Chain(_AllMarginals, Chain):
    """A chain with marginals of transitions."""


class _Segments(_AllMarginals, Segments):
    """Segments with marginals of transitions and of whole segments."""

    def expected_score(self, q: Any, weights: FloatArray) -> float:
        expected = expect_scores(q.at(self.every), self.part_scores(self.every))
        return float(weights[self.parts.instance_of(self.every)] @ expected)


ALL_MARGINALS: dict[str, type[Structure]] = {"chain": _Chain, "segments": _Segments}
"""By kind of structure: the class whose posteriors have the marginals of all parts."""


def with_all_marginals(scores: Structure) -> Structure:
    """The same scores, whose posteriors have the marginals of all parts."""
    if scores.kind in ALL_MARGINALS:
        scores.__class__ = ALL_MARGINALS[scores.kind]
    for member in members_of(scores):
        with_all_marginals(member)
    return scores


@dataclass(frozen=True)
class PartsForm(Form):
    """Any structure with a score for each part.

    make : (offsets, scores (n_parts,)) -> the structure
    """

    make: Callable[[IntArray, FloatArray], Structure]

    def structure(self, offsets: IntArray, arrays: Sequence[FloatArray]) -> Structure:
        return with_all_marginals(self.make(offsets, arrays[0]))

    def marginals(self, structure: Structure, q: Any, weights: FloatArray) -> Arrays:
        every = np.arange(structure.parts.n_parts, dtype=np.int64)
        return (q.at(every) * weights[structure.parts.instance_of(every)],)

    def rows_of(self, structure: Structure, numbers: IntArray) -> IntArray:
        parts, some = structure.parts, structure.take(numbers).parts
        every = np.arange(some.n_parts, dtype=np.int64)
        instance, local = some.split(every)
        return parts.join(numbers[instance], local)


FORMS: dict[str, Form] = {
    "chain": ChainForm(),
    "categorical": CategoricalForm(),
    "trees": PartsForm(Trees),
    "spanning-trees": PartsForm(SpanningTrees),
}
"""Forms by the name of their structure."""


def form_of(structure: str | Form | Callable[[IntArray, FloatArray], Structure]) -> Form:
    """The form of a structure that is named, or given as a function (offsets, scores (n_parts,)) -> Structure."""
    if isinstance(structure, Form):
        return structure
    if isinstance(structure, str):
        check_name("structure", structure, FORMS)
        return FORMS[structure]
    if callable(structure):
        return PartsForm(structure)
    raise DataError(f"structure must be one of {', '.join(FORMS)} or a function that makes one, got {structure!r:.80}")
