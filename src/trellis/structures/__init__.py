"""The spaces of outputs, their parts, and exact inference in them."""

from trellis.structures.alignment import Alignment, AlignmentPosterior
from trellis.structures.alignment_parts import AlignmentParts
from trellis.structures.categorical import Categorical, CategoricalParts
from trellis.structures.chain import Chain
from trellis.structures.chain_parts import ChainParts
from trellis.structures.chain_tables import ChainTables
from trellis.structures.joint import Joint, JointParts
from trellis.structures.parts import Parts
from trellis.structures.polytope import Polytope
from trellis.structures.results import Argmax, JointPosterior, KBest, LabelPosterior, PartPosterior, Posterior
from trellis.structures.structure import Structure

__all__ = [
    "Alignment", "AlignmentParts", "AlignmentPosterior", "Argmax", "Categorical", "CategoricalParts", "Chain",
    "ChainParts", "ChainTables", "Joint", "JointParts", "JointPosterior", "KBest", "LabelPosterior", "PartPosterior",
    "Parts", "Polytope", "Posterior", "Structure",
]  # fmt: skip
