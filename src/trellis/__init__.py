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
    "Aggregator": "trellis.tasks.aggregate",
    "Anneal": "trellis.learn.schedule",
    "Batch": "trellis.data.batch",
    "CRF": "trellis.models.crf",
    "Categorical": "trellis.structures.categorical",
    "Chain": "trellis.structures.chain",
    "ConvergenceWarning": "trellis.errors",
    "HMM": "trellis.models.hmm",
    "Inducer": "trellis.tasks.induce",
    "InfeasibleError": "trellis.errors",
    "MaxEnt": "trellis.models.maxent",
    "NaiveBayes": "trellis.models.naive_bayes",
    "TrellisError": "trellis.errors",
    "UEM": "trellis.learn.uem",
    "Vocabulary": "trellis.data.vocabulary",
    "VotedText": "trellis.data.voted",
    "agree": "trellis.projection.agreement",
    "compile_constraints": "trellis.constraints.compilation",
    "decode": "trellis.search.decode",
    "load_model": "trellis.models.saving",
    "project": "trellis.projection.projector",
    "read_rules": "trellis.constraints.rules.reading",
    "tune": "trellis.learn.tune",
}

# subpackages that ``trellis.<name>`` finds without an import statement of its own
_SUBPACKAGES = (
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
    "tasks",
)

__all__ = ["__version__", *_EXPORTS]

if TYPE_CHECKING:
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
    from trellis import tasks as tasks
    from trellis.constraints.compilation import compile_constraints as compile_constraints
    from trellis.constraints.rules.reading import read_rules as read_rules
    from trellis.data.batch import Batch as Batch
    from trellis.data.vocabulary import Vocabulary as Vocabulary
    from trellis.data.voted import VotedText as VotedText
    from trellis.errors import ConvergenceWarning as ConvergenceWarning
    from trellis.errors import InfeasibleError as InfeasibleError
    from trellis.errors import TrellisError as TrellisError
    from trellis.learn.schedule import Anneal as Anneal
    from trellis.learn.tune import tune as tune
    from trellis.learn.uem import UEM as UEM
    from trellis.models.crf import CRF as CRF
    from trellis.models.hmm import HMM as HMM
    from trellis.models.maxent import MaxEnt as MaxEnt
    from trellis.models.naive_bayes import NaiveBayes as NaiveBayes
    from trellis.models.saving import load_model as load_model
    from trellis.projection.agreement import agree as agree
    from trellis.projection.projector import project as project
    from trellis.search.decode import decode as decode
    from trellis.structures.categorical import Categorical as Categorical
    from trellis.structures.chain import Chain as Chain
    from trellis.tasks.aggregate import Aggregator as Aggregator
    from trellis.tasks.induce import Inducer as Inducer
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
