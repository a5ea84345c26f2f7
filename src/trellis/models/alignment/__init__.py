"""Models of word alignment: IBM Model 1 and the HMM of Vogel et al. 1996, both directions over one pair table."""

from trellis.models.alignment.model import AlignmentModel
from trellis.models.alignment.pair_table import PairTable
from trellis.models.alignment.sentence_pairs import SentencePairs
from trellis.models.alignment.statistics import AlignmentStatistics
from trellis.models.alignment.translation import ExtraCounts

__all__ = ["AlignmentModel", "AlignmentStatistics", "ExtraCounts", "PairTable", "SentencePairs"]
