"""Models p_θ over a structure: scores, collect, update; and estimators in the manner of scikit-learn."""

from trellis.models.arc_labeller import ArcLabeller
from trellis.models.arc_parser import ArcParser, ArcStatistics
from trellis.models.crf import CRF
from trellis.models.crf_objective import CRFStatistics
from trellis.models.dmv import DMV, DMVStatistics
from trellis.models.hmm import HMM
from trellis.models.hmm_parameters import HMMStatistics
from trellis.models.maxent import MaxEnt, MaxEntStatistics
from trellis.models.model import Model
from trellis.models.naive_bayes import NaiveBayes, NaiveBayesStatistics
from trellis.models.relation_model import RelationModel
from trellis.models.saving import load_model
from trellis.models.semi_crf import SemiCRF
from trellis.models.statistics import Statistics

__all__ = [
    "CRF", "DMV", "HMM", "ArcLabeller", "ArcParser", "ArcStatistics", "CRFStatistics", "DMVStatistics",
    "HMMStatistics", "MaxEnt", "MaxEntStatistics", "Model", "NaiveBayes", "NaiveBayesStatistics", "RelationModel",
    "SemiCRF", "Statistics", "load_model",
]  # fmt: skip
