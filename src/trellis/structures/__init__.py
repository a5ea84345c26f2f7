"""The spaces of outputs, their parts, and exact inference in them."""

from trellis.structures.categorical import Categorical
from trellis.structures.chain import Chain
from trellis.structures.chain_tables import ChainTables
from trellis.structures.parts import CategoricalParts, ChainParts, Parts
from trellis.structures.results import Argmax, KBest, Posterior
from trellis.structures.structure import Structure

__all__ = [
    "Argmax", "Categorical", "CategoricalParts", "Chain", "ChainParts", "ChainTables",
    "KBest", "Parts", "Posterior", "Structure",
]  # fmt: skip
