"""The E-step: dual solvers, KKT residuals, infeasibility diagnosis."""

from trellis.projection.agreement import Agreement, agree
from trellis.projection.duals import CorpusProjection, Duals, KeyDuals
from trellis.projection.projector import Projection, Projector, project
from trellis.projection.shard import ProjectionItem, ShardAnswer, ShardRows

__all__ = [
    "Agreement",
    "CorpusProjection",
    "Duals",
    "KeyDuals",
    "Projection",
    "ProjectionItem",
    "Projector",
    "ShardAnswer",
    "ShardRows",
    "agree",
    "project",
]
