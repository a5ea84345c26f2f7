"""Base class of structures: scores over the parts of outputs, and exact queries.

    p(y) ∝ exp score(y),      score(y) = Σ_{parts of y} score(part)

A structure that only offers ``argmax`` and ``score`` still serves large-margin learners and γ = 0; one with ``infer``
serves every projection. Fast paths that know more of a structure than its parts are found by its ``kind``.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NoReturn, Self, TypedDict, Unpack

import numpy as np

from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import DataError, InfeasibleError
from trellis.structures.parts import Parts
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, PartPosterior


class PosteriorOptions(TypedDict, total=False):
    """What comes with given marginals: their log-partition (0 if there is none), and as in :meth:`Structure.infer` the
    weights of instances, and the parts whose marginals will be asked for."""

    log_partition: FloatArray | None
    weights: FloatArray | None
    at: IntArray | None


class Structure(ABC):
    """Scores of a batch of instances over the outputs of one kind.

    first : number of the first instance in the corpus, for messages
    numbers : (n_instances,) their numbers in the corpus where they do not count on from the first, for messages
    """

    first: int = 0
    numbers: IntArray | None = None

    @property
    @abstractmethod
    def parts(self) -> Parts: ...

    @property
    def kind(self) -> str:
        """Under which fast paths are registered."""
        return self.parts.kind

    def __len__(self) -> int:
        return self.parts.n_instances

    @abstractmethod
    def argmax(self, rng: np.random.Generator | None = None) -> Argmax:
        """A best output of each instance; with ``rng`` a random one of equals."""

    @abstractmethod
    def score(self, outputs: Any) -> FloatArray:
        """(n_instances,): score(y) of given outputs, −inf for a forbidden one."""

    @abstractmethod
    def apply(self, change: Any, gamma: float = 1.0) -> Self:
        """(scores + change) / γ, for a change that ``parts.change`` made."""

    @abstractmethod
    def take(self, numbers: IntArray) -> Self:
        """The scores of these instances, counted inside this batch, in this order.

        They keep their names in messages: the ``numbers`` of what is taken are their :func:`numbers_of`.
        """

    @abstractmethod
    def flat(self) -> Self:
        """Scores of 0 for what is possible and −inf for what is not."""

    def infer(self, *, weights: FloatArray | None = None, at: IntArray | None = None) -> Any:
        """The posterior. Expected counts that it brings count an instance ``weights`` times (n_instances,).

        at : parts whose marginals will be asked for, where some are dear
        """
        raise DataError(f"sums over {self.parts.outputs_are} are intractable: use γ = 0, or an argmax")

    def add(self, part: IntArray, value: FloatArray, gamma: float = 1.0) -> Self:
        """(scores + value at part) / γ; values of a part that is named again add up."""
        return self.apply(self.parts.change(part, value), gamma)

    def forbid(self, parts: IntArray) -> Self:
        """Scores in which no output may use these parts."""
        return self.add(parts, np.full(len(parts), -np.inf))

    def temper(self, gamma: float) -> Self:
        """scores / γ."""
        return self if gamma == 1.0 else self.add(np.zeros(0, np.int64), np.zeros(0), gamma)

    def clamp(self, known: Any) -> Self:
        """Scores in which only outputs that agree with what is known are possible."""
        raise DataError(f"these {self.parts.outputs_are} cannot be partially labelled")

    def instances(self, start: int, stop: int) -> Self:
        """Scores of instances start..stop−1."""
        some = self.take(np.arange(start, stop, dtype=np.int64))
        object.__setattr__(some, "first", self.first + start)
        return some

    def posterior(self, part: IntArray, value: FloatArray, **options: Unpack[PosteriorOptions]) -> Any:
        """The posterior whose marginals are ``value`` at ``part`` (repeated ones add up) and 0 elsewhere.

        For averages of outputs.
        """
        marginal = np.bincount(part, value, minlength=self.parts.n_parts).astype(np.float64, copy=False)
        return self._of_marginals(marginal, self._top(options))

    def _top(self, options: PosteriorOptions) -> FloatArray:
        """(n_instances,): the log-partition that a posterior is given, or 0."""
        given = options.get("log_partition")
        return np.zeros(len(self)) if given is None else given

    def _of_marginals(self, marginal: FloatArray, log_partition: FloatArray) -> Any:
        """The posterior with these marginals (n_parts,), where they tell everything."""
        return PartPosterior(marginal, log_partition)

    def average(self, used: Sequence[IntArray], share: FloatArray, **options: Unpack[PosteriorOptions]) -> Any:
        """The posterior that averages outputs of single instances, given by their parts; share : (n_outputs,).

        Where parts tell everything, their marginals do; the rest is as in :meth:`posterior`.
        """
        part = np.concatenate([np.zeros(0, np.int64), *used])
        value = np.repeat(share, [len(parts) for parts in used])
        return self.posterior(part, value, **options)

    def certain(self, outputs: Any, *, weights: FloatArray | None = None) -> Any:
        """The posterior that is certain of given outputs."""
        used = self.parts.of(outputs)
        return self.posterior(used, np.ones(len(used)), log_partition=self.score(outputs), weights=weights)

    def log_prob(self, outputs: Any) -> FloatArray:
        """(n_instances,): log p(y) of given outputs; rounding never makes it positive."""
        return np.asarray(np.minimum(self.score(outputs) - self.infer().log_partition, 0.0))

    def expected_score(self, q: Any, weights: FloatArray) -> float:
        """Σ_i weight_i E_{q_i}[score], for a posterior q of this structure or of a change of it."""
        raise DataError(f"expected scores of {self.parts.outputs_are} are intractable")

    def marginal_argmax(self, q: Any) -> Any:
        """Outputs composed of the most probable part at each place under q."""
        raise DataError(f"{self.parts.outputs_are} cannot be decoded part by part")

    def max_marginals(self) -> FloatArray | None:
        """(n_parts,): the best score of an output that uses the part, −inf if none can; None where that is dear."""
        return None

    def mean(self, other: Any, share: float = 0.5) -> Self:
        """share · scores + (1 − share) · other, over the same outputs: a geometric mean of two distributions."""
        raise DataError(f"there is no mean of two scores of {self.parts.outputs_are}")

    def agreeing(self, others: Sequence[Any], classes: Sequence[IntArray]) -> list[Any] | None:
        """The nearest scores of these structures under which classes of labels are equally likely in all of them.

        classes : the class of each label of each structure;  None: there is no closed form
        """
        return None

    def polytope(self, closed: IntArray) -> Polytope:
        """The outputs that use none of the ``closed`` parts as a 0/1 program."""
        raise DataError(f"{self.parts.outputs_are} have no 0/1 program")

    def max_shift(self) -> float:
        """A move of scores, in nats, that no feasible projection needs: beyond it a dual is unbounded."""
        return 4e6


def check_scores(name: str, scores: Any, shape: tuple[int | None, ...]) -> FloatArray:
    """Scores as a contiguous float64 array of the given shape (None: any size), with no NaN and no +∞."""
    checked = np.ascontiguousarray(scores, dtype=np.float64)
    if checked.ndim != len(shape) or any(
        want is not None and want != got for want, got in zip(shape, checked.shape, strict=True)
    ):
        wanted = "(" + ", ".join("any" if n is None else str(n) for n in shape) + ")"
        raise DataError(f"{name} scores must have shape {wanted} but have {checked.shape}")
    # One pass that is cheap when all is well: a sum of finite numbers and −∞ is neither NaN nor +∞.
    with np.errstate(invalid="ignore", over="ignore"):
        total = checked.sum() if checked.size else 0.0
    if not total < np.inf:
        bad = np.argwhere(np.isnan(checked) | (checked == np.inf))
        if len(bad):
            place = tuple(int(i) for i in bad[0])
            raise DataError(f"{name} scores must be finite or −inf, but entry {place} is {checked[place]}")
    return checked


def check_gamma(gamma: float) -> float:
    """A temperature to divide scores by."""
    if not (gamma > 0 and np.isfinite(gamma)):
        raise DataError(f"gamma must be a positive number here, got {gamma}; γ = 0 is argmax")
    return float(gamma)


def check_weights(weights: Any, n: int) -> FloatArray:
    """A finite weight for each of n instances; all 1 where none are given."""
    if weights is None:
        return np.ones(n)
    checked = np.ascontiguousarray(weights, dtype=np.float64)
    if checked.shape != (n,) or not np.all(np.isfinite(checked)):
        raise DataError(f"expected a finite weight for each of {n} instances, got shape {checked.shape}")
    return checked


def check_alike(one: tuple[int, ...], other: tuple[int, ...], counted: tuple[str, ...]) -> None:
    """Refuse two models over different slots or labels: equally many of all that is counted."""
    for mine, theirs, what in zip(one, other, counted, strict=True):
        if mine != theirs:
            raise DataError(
                f"models agree over the same {what}, but there are {mine} and {theirs}: give maps of labels"
            )


def check_k(k: int) -> int:
    """How many best outputs are asked for."""
    if k < 1:
        raise DataError(f"k must be at least 1, got {k}")
    return k


def check_number_of_samples(n: int) -> None:
    """Refuse to draw fewer than no samples."""
    if n < 0:
        raise DataError(f"the number of samples must not be negative, got {n}")


def expect_scores(probability: FloatArray, score: FloatArray) -> FloatArray:
    """probability · score entry by entry; what is forbidden counts nothing, for no q has any mass there."""
    return np.where(probability > 0, probability * np.where(score > -np.inf, score, 0.0), 0.0)


def numbers_of(chosen: IntArray, first: int, numbers: IntArray | None) -> IntArray:
    """The numbers in the corpus of chosen instances of a batch."""
    return chosen + first if numbers is None else numbers[chosen]


def refuse_impossible(log_partition: FloatArray, first: int, numbers: IntArray | None = None) -> None:
    """Raise, naming the instances, if any log-partition (or best score) is −∞."""
    nothing = np.flatnonzero(log_partition == -np.inf)
    if len(nothing):
        _impossible(tuple(numbers_of(nothing, first, numbers).tolist()))


def _impossible(numbers: tuple[int, ...]) -> NoReturn:
    more = f" (and {len(numbers) - 1} more)" if len(numbers) > 1 else ""
    raise InfeasibleError(
        f"instance {numbers[0]}{more} has no possible output: every one uses a forbidden part (score −inf). "
        "Allow more labels or transitions there, or drop the rule that forbids them.",
        instances=numbers,
    )
