"""Output spaces, their parts, and exact inference."""

from trellis.structures.alignment import Alignment, AlignmentPosterior
from trellis.structures.alignment_parts import AlignmentParts
from trellis.structures.arcs import Arcs, TreeParts, TreePosterior
from trellis.structures.categorical import Categorical, CategoricalParts
from trellis.structures.chain import Chain
from trellis.structures.chain_parts import ChainParts
from trellis.structures.chain_tables import ChainTables
from trellis.structures.graph import Graph
from trellis.structures.graph_match import GraphMatch, GraphMatchParts, GraphPair
from trellis.structures.graph_parts import Factors, GraphParts, Variables, factors_over
from trellis.structures.joint import Joint, JointParts
from trellis.structures.monotone import Monotone, MonotoneParts
from trellis.structures.parts import Parts
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, JointPosterior, KBest, LabelPosterior, PartPosterior, Posterior
from trellis.structures.segment_parts import SegmentParts, SegmentPosterior
from trellis.structures.segments import Segments
from trellis.structures.spanning_trees import SpanningTrees
from trellis.structures.structure import Structure
from trellis.structures.trees import Trees

__all__ = [
    "Alignment", "AlignmentParts", "AlignmentPosterior", "Arcs", "Argmax", "Categorical", "CategoricalParts", "Chain",
    "ChainParts", "ChainTables", "Factors", "Graph", "GraphMatch", "GraphMatchParts", "GraphPair", "GraphParts",
    "Joint", "JointParts", "JointPosterior", "KBest", "LabelPosterior", "Monotone", "MonotoneParts", "PartPosterior",
    "Parts", "Polytope", "Posterior", "SegmentParts", "SegmentPosterior", "Segments", "SpanningTrees", "Structure",
    "TreeParts", "TreePosterior", "Trees", "Variables", "factors_over",
]  # fmt: skip
