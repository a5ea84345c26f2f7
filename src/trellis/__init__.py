"""Trellis learns structured predictors from rules, expected counts, agreements and a handful of labels.

Every name below is loaded on first use, so that ``import trellis`` costs milliseconds and pulls in neither
numba, scipy nor matplotlib:

>>> import trellis
>>> issubclass(trellis.TrellisError, Exception)
True

To export a name, add it to ``_EXPORTS`` and to the ``TYPE_CHECKING`` block (a test holds the two together).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from trellis._version import __version__ as __version__

# public name -> module that defines it
_EXPORTS = {
    "Aligner": "trellis.apps.align.aligner",
    "Aggregator": "trellis.apps.aggregate.aggregator",
    "labelling_function": "trellis.apps.aggregate.functions",
    "pattern_function": "trellis.apps.aggregate.functions",
    "list_function": "trellis.apps.aggregate.functions",
    "model_function": "trellis.apps.aggregate.functions",
    "answers_function": "trellis.apps.aggregate.functions",
    "apply_functions": "trellis.apps.aggregate.functions",
    "LabellingFunction": "trellis.apps.aggregate.functions",
    "vote_summary": "trellis.apps.aggregate.summary",
    "votes_to_matrix": "trellis.apps.aggregate.summary",
    "matrix_to_documents": "trellis.apps.aggregate.summary",
    "majority_vote": "trellis.apps.aggregate.majority",
    "span_vote": "trellis.apps.aggregate.majority",
    "Anneal": "trellis.loop.schedule",
    "ArcParser": "trellis.models.arc_parser",
    "Batch": "trellis.data.batch",
    "CCM": "trellis.learn.ccm",
    "CRF": "trellis.models.crf",
    "Categorical": "trellis.structures.categorical",
    "Chain": "trellis.structures.chain",
    "CoDL": "trellis.learn.codl",
    "ConstraintError": "trellis.errors",
    "ConvergenceWarning": "trellis.errors",
    "tokenise": "trellis.data.tokens",
    "read_documents": "trellis.data.records",
    "write_documents": "trellis.data.records",
    "DataError": "trellis.errors",
    "Document": "trellis.data.document",
    "Extractor": "trellis.apps.extract.extractor",
    "DMV": "trellis.models.dmv",
    "GE": "trellis.learn.ge",
    "HMM": "trellis.models.hmm",
    "History": "trellis.loop.history",
    "Inducer": "trellis.apps.induce.inducer",
    "JLIS": "trellis.learn.margin.jlis",
    "LCLR": "trellis.learn.margin.lclr",
    "LatentSSVM": "trellis.learn.margin.latent",
    "MIRA": "trellis.learn.margin.mira",
    "InfeasibleError": "trellis.errors",
    "Inference": "trellis.models.inference",
    "Matcher": "trellis.apps.match.matcher",
    "MaxEnt": "trellis.models.maxent",
    "ModelFileError": "trellis.errors",
    "MultiView": "trellis.learn.multi_view",
    "NaiveBayes": "trellis.models.naive_bayes",
    "NotFittedError": "trellis.errors",
    "ShardError": "trellis.errors",
    "Parser": "trellis.apps.parse.parser",
    "Perceptron": "trellis.learn.margin.perceptron",
    "SSVM": "trellis.learn.margin.ssvm",
    "Relation": "trellis.data.document",
    "Span": "trellis.data.document",
    "Relater": "trellis.apps.relate.relater",
    "RelationModel": "trellis.models.relation_model",
    "Segments": "trellis.structures.segments",
    "SemiCRF": "trellis.models.semi_crf",
    "SpanningTrees": "trellis.structures.spanning_trees",
    "Tagger": "trellis.apps.parse.tagger",
    "Transfer": "trellis.apps.parse.transfer",
    "TreeInducer": "trellis.apps.parse.tree_inducer",
    "Trees": "trellis.structures.trees",
    "TrellisError": "trellis.errors",
    "UEM": "trellis.learn.uem",
    "UnknownNameError": "trellis.errors",
    "Vocabulary": "trellis.data.vocabulary",
    "agree": "trellis.projection.agreement",
    "at_least": "trellis.constraints.comparison",
    "at_most": "trellis.constraints.comparison",
    "backward": "trellis.constraints.links",
    "changed": "trellis.constraints.labels",
    "column": "trellis.constraints.condition",
    "compile_constraints": "trellis.constraints.compilation",
    "count": "trellis.constraints.count",
    "counts_like": "trellis.constraints.relations",
    "custom": "trellis.constraints.custom",
    "decode": "trellis.search.decode",
    "dictionary": "trellis.constraints.labels",
    "each": "trellis.constraints.links",
    "earlier": "trellis.constraints.earlier",
    "each_label": "trellis.constraints.each_label",
    "entity": "trellis.constraints.relations",
    "exactly": "trellis.constraints.comparison",
    "exists": "trellis.constraints.comparison",
    "feature": "trellis.constraints.condition",
    "few_labels_per": "trellis.constraints.each_label",
    "first": "trellis.constraints.relations",
    "following": "trellis.constraints.condition",
    "forward": "trellis.constraints.links",
    "given": "trellis.constraints.given",
    "label": "trellis.constraints.labels",
    "length": "trellis.constraints.fields",
    "links": "trellis.constraints.links",
    "load_model": "trellis.models.saving",
    "ordered": "trellis.constraints.fields",
    "position": "trellis.constraints.condition",
    "preceding": "trellis.constraints.condition",
    "previous": "trellis.constraints.labels",
    "propose_features": "trellis.apps.extract.propose",
    "propose_targets": "trellis.apps.extract.propose",
    "project": "trellis.projection.projector",
    "read_targets": "trellis.constraints.shares",
    "read_rules": "trellis.constraints.rules.reading",
    "relation": "trellis.constraints.relations",
    "second": "trellis.constraints.relations",
    "share": "trellis.constraints.count",
    "shares": "trellis.constraints.shares",
    "starts": "trellis.constraints.count",
    "together": "trellis.constraints.together",
    "transitions": "trellis.constraints.count",
    "trusted": "trellis.constraints.given",
    "tune": "trellis.learn.tune",
    "word": "trellis.constraints.condition",
    "write_targets": "trellis.constraints.shares",
}

# subpackages that ``trellis.<name>`` finds without an import statement of its own
_SUBPACKAGES = (
    "apps",
    "constraints",
    "data",
    "engine",
    "errors",
    "learn",
    "metrics",
    "models",
    "projection",
    "report",
    "search",
    "structures",
)

__all__ = ["__version__", *_EXPORTS]

if TYPE_CHECKING:
    from trellis import apps as apps
    from trellis import constraints as constraints
    from trellis import data as data
    from trellis import engine as engine
    from trellis import errors as errors
    from trellis import learn as learn
    from trellis import metrics as metrics
    from trellis import models as models
    from trellis import projection as projection
    from trellis import report as report
    from trellis import search as search
    from trellis import structures as structures
    from trellis.apps.aggregate.aggregator import Aggregator as Aggregator
    from trellis.apps.aggregate.functions import LabellingFunction as LabellingFunction
    from trellis.apps.aggregate.functions import answers_function as answers_function
    from trellis.apps.aggregate.functions import apply_functions as apply_functions
    from trellis.apps.aggregate.functions import labelling_function as labelling_function
    from trellis.apps.aggregate.functions import list_function as list_function
    from trellis.apps.aggregate.functions import model_function as model_function
    from trellis.apps.aggregate.functions import pattern_function as pattern_function
    from trellis.apps.aggregate.majority import majority_vote as majority_vote
    from trellis.apps.aggregate.majority import span_vote as span_vote
    from trellis.apps.aggregate.summary import matrix_to_documents as matrix_to_documents
    from trellis.apps.aggregate.summary import vote_summary as vote_summary
    from trellis.apps.aggregate.summary import votes_to_matrix as votes_to_matrix
    from trellis.apps.align.aligner import Aligner as Aligner
    from trellis.apps.extract.extractor import Extractor as Extractor
    from trellis.apps.extract.propose import propose_features as propose_features
    from trellis.apps.extract.propose import propose_targets as propose_targets
    from trellis.apps.induce.inducer import Inducer as Inducer
    from trellis.apps.match.matcher import Matcher as Matcher
    from trellis.apps.parse.parser import Parser as Parser
    from trellis.apps.parse.tagger import Tagger as Tagger
    from trellis.apps.parse.transfer import Transfer as Transfer
    from trellis.apps.parse.tree_inducer import TreeInducer as TreeInducer
    from trellis.apps.relate.relater import Relater as Relater
    from trellis.constraints.comparison import at_least as at_least
    from trellis.constraints.comparison import at_most as at_most
    from trellis.constraints.comparison import exactly as exactly
    from trellis.constraints.comparison import exists as exists
    from trellis.constraints.compilation import compile_constraints as compile_constraints
    from trellis.constraints.condition import column as column
    from trellis.constraints.condition import feature as feature
    from trellis.constraints.condition import following as following
    from trellis.constraints.condition import position as position
    from trellis.constraints.condition import preceding as preceding
    from trellis.constraints.condition import word as word
    from trellis.constraints.count import count as count
    from trellis.constraints.count import share as share
    from trellis.constraints.count import starts as starts
    from trellis.constraints.count import transitions as transitions
    from trellis.constraints.custom import custom as custom
    from trellis.constraints.each_label import each_label as each_label
    from trellis.constraints.each_label import few_labels_per as few_labels_per
    from trellis.constraints.earlier import earlier as earlier
    from trellis.constraints.fields import length as length
    from trellis.constraints.fields import ordered as ordered
    from trellis.constraints.given import given as given
    from trellis.constraints.given import trusted as trusted
    from trellis.constraints.labels import changed as changed
    from trellis.constraints.labels import dictionary as dictionary
    from trellis.constraints.labels import label as label
    from trellis.constraints.labels import previous as previous
    from trellis.constraints.links import backward as backward
    from trellis.constraints.links import each as each
    from trellis.constraints.links import forward as forward
    from trellis.constraints.links import links as links
    from trellis.constraints.relations import counts_like as counts_like
    from trellis.constraints.relations import entity as entity
    from trellis.constraints.relations import first as first
    from trellis.constraints.relations import relation as relation
    from trellis.constraints.relations import second as second
    from trellis.constraints.rules.reading import read_rules as read_rules
    from trellis.constraints.shares import read_targets as read_targets
    from trellis.constraints.shares import shares as shares
    from trellis.constraints.shares import write_targets as write_targets
    from trellis.constraints.together import together as together
    from trellis.data.batch import Batch as Batch
    from trellis.data.document import Document as Document
    from trellis.data.document import Relation as Relation
    from trellis.data.document import Span as Span
    from trellis.data.records import read_documents as read_documents
    from trellis.data.records import write_documents as write_documents
    from trellis.data.tokens import tokenise as tokenise
    from trellis.data.vocabulary import Vocabulary as Vocabulary
    from trellis.errors import ConstraintError as ConstraintError
    from trellis.errors import ConvergenceWarning as ConvergenceWarning
    from trellis.errors import DataError as DataError
    from trellis.errors import InfeasibleError as InfeasibleError
    from trellis.errors import ModelFileError as ModelFileError
    from trellis.errors import NotFittedError as NotFittedError
    from trellis.errors import ShardError as ShardError
    from trellis.errors import TrellisError as TrellisError
    from trellis.errors import UnknownNameError as UnknownNameError
    from trellis.learn.ccm import CCM as CCM
    from trellis.learn.codl import CoDL as CoDL
    from trellis.learn.ge import GE as GE
    from trellis.learn.margin.jlis import JLIS as JLIS
    from trellis.learn.margin.latent import LatentSSVM as LatentSSVM
    from trellis.learn.margin.lclr import LCLR as LCLR
    from trellis.learn.margin.mira import MIRA as MIRA
    from trellis.learn.margin.perceptron import Perceptron as Perceptron
    from trellis.learn.margin.ssvm import SSVM as SSVM
    from trellis.learn.multi_view import MultiView as MultiView
    from trellis.learn.tune import tune as tune
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
else:
    # Hidden from type checkers, which would otherwise believe that any misspelt name exists.

    def __getattr__(name: str) -> object:
        import sys
        from importlib import import_module

        if name in _EXPORTS:
            value = getattr(import_module(_EXPORTS[name]), name)
            globals()[name] = value
            return value
        if name in _SUBPACKAGES:
            return import_module(f"trellis.{name}")
        # name and obj let Python add its own "Did you mean"
        message = f"module 'trellis' has no attribute {name!r}"
        raise AttributeError(message, name=name, obj=sys.modules[__name__])

    def __dir__() -> list[str]:
        return sorted({*globals(), *_EXPORTS, *_SUBPACKAGES})
