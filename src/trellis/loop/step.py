"""A round's work, which a learner gives to the loop, and the state that it keeps from one round to the next."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Protocol, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.ragged import FloatArray


class State(Protocol):
    """What a step keeps between rounds; a checkpoint holds its arrays."""

    def arrays(self) -> dict[str, NDArray[Any]]: ...


@dataclass(frozen=True)
class ArrayState:
    """A state of a fixed set of arrays, which are the fields of a subclass; this one keeps nothing.

    ARRAYS : what each of them must be
    """

    ARRAYS: ClassVar[Mapping[str, ArrayOf]] = {}

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The fields as arrays."""
        return {name: np.asarray(getattr(self, name), of.dtype) for name, of in self.ARRAYS.items()}

    @classmethod
    def read(cls, arrays: Mapping[str, NDArray[Any]], **sizes: int) -> Self:
        """The state with these arrays, which are checked."""
        return cls(**check_arrays(cls.ARRAYS, arrays, **sizes))


S = TypeVar("S", bound=State)


@dataclass(frozen=True)
class StepResult:
    """What a step hands to the M-step and to the history.

    statistics : of all instances, None: the step has changed the parameters itself;  objective : without the prior
    state : what the next round starts from
    log_likelihood, kl : None where they were not asked for, or are not known
    violation : constraint name -> mean excess of its rows under q
    gap : by at most how much a better q could raise the objective; 0 where the residual alone says so
    unsolved : the worst constraint, where the projection ended above its tolerance
    settled : whether the next round would find the same again
    """

    statistics: Any
    objective: float
    state: Any
    log_likelihood: float | None = None
    kl: float | None = None
    violation: dict[str, float] = field(default_factory=dict)
    kkt_residual: float = 0.0
    evaluations: int = 0
    gap: float = 0.0
    unsolved: str | None = None
    settled: bool = False


class Step(ABC, Generic[S]):
    """What a learner does in a round. Subclasses bring ``run``, and the rest where it differs from nothing.

    model : whose ``parameters`` are trained: the loop copies them, and restores the best ones
    """

    model: Any

    def begin(self, start: str, rng: np.random.Generator, scale: float) -> None:
        """Give the model parameters to start from."""

    def initial_state(self, gamma: float, rng: np.random.Generator) -> S:
        """Return what the first round starts from."""
        return ArrayState()  # type: ignore[return-value]

    def read_state(self, arrays: Mapping[str, NDArray[Any]]) -> S:
        """Return the state of a checkpoint; arrays that do not fit this step are refused."""
        return ArrayState.read(arrays)  # type: ignore[return-value]

    @abstractmethod
    def run(self, gamma: float, state: S, rng: np.random.Generator) -> StepResult:
        """Do the work of a round at the model's current parameters."""

    def update(self, statistics: Any) -> None:
        """Do the M-step."""

    def log_prior(self) -> float:
        """Return what belongs to the objective beside what ``run`` says."""
        return 0.0

    def sum_of_duals(self, state: S) -> float:
        """Return Σ |λ| of a projection: what a residual may cost the objective is in proportion to it."""
        return 0.0

    def supervised_parameters(self) -> dict[str, FloatArray]:
        """Return the parameters that the labelled instances alone give, for β."""
        raise NotImplementedError
