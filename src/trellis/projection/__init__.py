"""The E-step: dual solvers, KKT residuals, infeasibility diagnosis."""

from trellis.projection.agreement import Agreement, agree
from trellis.projection.duals import CorpusProjection, Duals, KeyDuals
from trellis.projection.projector import Projection, Projector, project
from trellis.projection.shard import Item, ShardAnswer, ShardRows

__all__ = [
    "Agreement",
    "CorpusProjection",
    "Duals",
    "Item",
    "KeyDuals",
    "Projection",
    "Projector",
    "ShardAnswer",
    "ShardRows",
    "agree",
    "project",
]
