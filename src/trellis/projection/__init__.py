"""The E-step: dual solvers, KKT residuals, infeasibility diagnosis."""

from trellis.projection.batch import Projection, project
from trellis.projection.duals import CorpusProjection, Duals
from trellis.projection.projector import Projector
from trellis.projection.shard import ShardAnswer

__all__ = ["CorpusProjection", "Duals", "Projection", "Projector", "ShardAnswer", "project"]
