"""What is known about the links of a sentence pair, in the form that the compiled projection takes."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from trellis.errors import DataError, UnknownNameError
from trellis.structures.kernels import align_project

NAMES = {
    "none": 0,
    "agreement": align_project.AGREEMENT,
    "bijective": align_project.BIJECTIVE,
    "both": align_project.AGREEMENT | align_project.BIJECTIVE,
}


@dataclass(frozen=True)
class AlignmentConstraints:
    """Constraints on the expected links of every pair; the formulas: :mod:`trellis.structures.kernels.align_project`.

    kind : "agreement", "bijective", "both" or "none"
    gamma : temperature of the projection; 1 posterior regularization, 0 LP-EM
    tolerance, max_evaluations : the projection of a pair stops at this KKT residual or after so many inferences; at
        gamma 0 (``budget``) after eight times as many, and the residual is the larger of the violation and the duality
        gap in nats a word
    hints : (n_cells,) 1 where a link was given, empty for none;  reliability : least expected share of them that hold

    >>> AlignmentConstraints("agreement", gamma=0.8).code
    1
    """

    kind: str = "both"
    gamma: float = 1.0
    tolerance: float = 0.05
    max_evaluations: int = 3
    reliability: float = 0.9
    hints: NDArray[np.uint8] = field(default_factory=lambda: np.zeros(0, np.uint8), repr=False)

    def __post_init__(self) -> None:
        if self.kind not in NAMES:
            raise UnknownNameError("constraint", self.kind, NAMES)
        if not (self.gamma == 0.0 or SMALLEST_GAMMA <= self.gamma <= 10.0):
            raise DataError(f"gamma must be 0 or between {SMALLEST_GAMMA} and 10 but is {self.gamma}")
        if not 0.0 < self.reliability < 1.0:
            raise DataError(f"the reliability of hints must lie between 0 and 1 but is {self.reliability}")
        if self.max_evaluations < 1:
            raise DataError(f"max_evaluations must be at least 1 but is {self.max_evaluations}")
        if not self.tolerance > 0.0:
            raise DataError(f"tolerance must be positive but is {self.tolerance}")

    @property
    def budget(self) -> int:
        """The most evaluations of a pair."""
        # A best alignment tells less than a posterior. Pairs of the Hansards need five evaluations in the mean; 24
        # leave two in a hundred outside the tolerance, 12 leave ten.
        return self.max_evaluations * (8 if self.gamma == 0.0 else 1)

    @property
    def code(self) -> int:
        """The constraints as bits of the kernel."""
        return NAMES[self.kind] | (align_project.HINTS if len(self.hints) else 0)


SMALLEST_GAMMA = 0.05
"""Below this, powers p^(1/γ) leave the range of double precision for ordinary sentences."""
