"""The public names: for type checkers, and for ``__init__.py``, which loads them on first use."""
# fmt: off

from trellis import apps as apps, constraints as constraints, data as data, engine as engine, errors as errors
from trellis import learn as learn, metrics as metrics, models as models, projection as projection, report as report
from trellis import search as search, structures as structures
from trellis.apps.aggregate.aggregator import Aggregator as Aggregator
from trellis.apps.aggregate.answers import answers_function as answers_function
from trellis.apps.aggregate.functions import LabellingFunction as LabellingFunction
from trellis.apps.aggregate.functions import apply_functions as apply_functions
from trellis.apps.aggregate.functions import labelling_function as labelling_function, list_function as list_function
from trellis.apps.aggregate.functions import model_function as model_function, pattern_function as pattern_function
from trellis.apps.aggregate.majority import majority_vote as majority_vote, span_vote as span_vote
from trellis.apps.aggregate.summary import matrix_to_documents as matrix_to_documents, vote_summary as vote_summary
from trellis.apps.aggregate.summary import votes_to_matrix as votes_to_matrix
from trellis.apps.align.aligner import Aligner as Aligner
from trellis.apps.extract.extractor import Extractor as Extractor
from trellis.apps.extract.propose import propose_features as propose_features, propose_targets as propose_targets
from trellis.apps.induce.inducer import Inducer as Inducer
from trellis.apps.match.matcher import Matcher as Matcher
from trellis.apps.parse.parser import Parser as Parser
from trellis.apps.parse.tagger import Tagger as Tagger
from trellis.apps.parse.transfer import Transfer as Transfer
from trellis.apps.parse.tree_inducer import TreeInducer as TreeInducer
from trellis.apps.relate.relater import Relater as Relater
from trellis.constraints.comparison import at_least as at_least, at_most as at_most, exactly as exactly
from trellis.constraints.comparison import exists as exists
from trellis.constraints.compilation import compile_constraints as compile_constraints
from trellis.constraints.condition import column as column, feature as feature, following as following
from trellis.constraints.condition import position as position, preceding as preceding, word as word
from trellis.constraints.count import count as count, share as share, starts as starts, transitions as transitions
from trellis.constraints.custom import custom as custom
from trellis.constraints.each_label import each_label as each_label, few_labels_per as few_labels_per
from trellis.constraints.earlier import earlier as earlier
from trellis.constraints.fields import length as length, ordered as ordered
from trellis.constraints.given import given as given, trusted as trusted
from trellis.constraints.labels import changed as changed, dictionary as dictionary, label as label
from trellis.constraints.labels import previous as previous
from trellis.constraints.links import backward as backward, each as each, forward as forward, links as links
from trellis.constraints.relations import counts_like as counts_like, entity as entity, first as first
from trellis.constraints.relations import relation as relation, second as second
from trellis.constraints.rules.reading import read_rules as read_rules
from trellis.constraints.shares import read_targets as read_targets, shares as shares, write_targets as write_targets
from trellis.constraints.together import together as together
from trellis.data.batch import Batch as Batch
from trellis.data.document import Document as Document, Relation as Relation, Span as Span
from trellis.data.records import read_documents as read_documents, write_documents as write_documents
from trellis.data.tokens import tokenise as tokenise
from trellis.data.vocabulary import Vocabulary as Vocabulary
from trellis.errors import ConstraintError as ConstraintError, ConvergenceWarning as ConvergenceWarning
from trellis.errors import DataError as DataError, InfeasibleError as InfeasibleError, ModelFileError as ModelFileError
from trellis.errors import NotFittedError as NotFittedError, ShardError as ShardError, TrellisError as TrellisError
from trellis.errors import UnknownNameError as UnknownNameError
from trellis.learn.ccm import CCM as CCM
from trellis.learn.codl import CoDL as CoDL
from trellis.learn.ge import GE as GE
from trellis.learn.margin.jlis import JLIS as JLIS
from trellis.learn.margin.latent import LatentSSVM as LatentSSVM
from trellis.learn.margin.lclr import LCLR as LCLR
from trellis.learn.margin.perceptron import MIRA as MIRA
from trellis.learn.margin.perceptron import Perceptron as Perceptron
from trellis.learn.margin.ssvm import SSVM as SSVM
from trellis.learn.multi_view import MultiView as MultiView
from trellis.learn.tuning import tune as tune
from trellis.learn.uem import UEM as UEM
from trellis.loop.history import History as History
from trellis.loop.schedule import Anneal as Anneal
from trellis.models.arc_parser import ArcParser as ArcParser
from trellis.models.crf import CRF as CRF
from trellis.models.dmv import DMV as DMV
from trellis.models.hmm import HMM as HMM
from trellis.models.inference import Inference as Inference
from trellis.models.maxent import MaxEnt as MaxEnt
from trellis.models.naive_bayes import NaiveBayes as NaiveBayes
from trellis.models.relation_model import RelationModel as RelationModel
from trellis.models.saving import load_model as load_model
from trellis.models.semi_crf import SemiCRF as SemiCRF
from trellis.projection.agreement import agree as agree
from trellis.projection.projector import project as project
from trellis.search.decode import decode as decode
from trellis.structures.categorical import Categorical as Categorical
from trellis.structures.chain import Chain as Chain
from trellis.structures.segments import Segments as Segments
from trellis.structures.spanning_trees import SpanningTrees as SpanningTrees
from trellis.structures.trees import Trees as Trees

__version__: str
