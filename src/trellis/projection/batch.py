"""project: the nearest distribution to the scores of one batch that obeys compiled rows."""

from __future__ import annotations

from dataclasses import dataclass

from trellis.constraints.rows import Rows
from trellis.data.ragged import BoolArray, FloatArray
from trellis.projection.duals import Duals
from trellis.projection.projector import Projector
from trellis.structures.results import Posterior
from trellis.structures.structure import Structure


@dataclass(frozen=True)
class Projection:
    """q of one batch and how it came about; see :class:`CorpusProjection`.

    kkt_residual : for γ = 0 the duality gap;  integral : for γ = 0, which instances are a single output
    """

    posterior: Posterior
    rows: Rows
    duals: Duals
    value: float
    kkt_residual: float
    evaluations: int
    converged: bool
    integral: BoolArray | None = None

    def pulls(self) -> dict[str, FloatArray]:
        """Dual variables by the name of their constraint: how hard each one pulls."""
        return self.duals.by_name(self.rows)


def project(
    scores: Structure,
    rows: Rows,
    gamma: float = 1.0,
    *,
    weights: FloatArray | None = None,
    duals: Duals | None = None,
    tolerance: float = 1e-3,
    most_evaluations: int = 200,
    most_rounds: int = 200,
    edge_marginals: bool = False,
) -> Projection:
    """Project the scores of one batch onto compiled rows.

    Rows inside instances are solved in compiled code, all of them a call; rows that couple instances around that.
    """
    projector = Projector(
        rows, tolerance=tolerance, most_evaluations=most_evaluations, most_rounds=most_rounds
    )  # fmt: skip
    outcome = projector.run(
        lambda _: scores, gamma, then=lambda _, answer: answer, weights=weights, duals=duals,
        edge_marginals=edge_marginals,
    )  # fmt: skip
    answer = outcome.results[0]
    return Projection(
        posterior=answer.posterior,
        rows=projector.rows,
        duals=outcome.duals,
        value=outcome.value,
        kkt_residual=outcome.kkt_residual,
        evaluations=outcome.evaluations,
        converged=outcome.converged,
        integral=answer.integral,
    )
