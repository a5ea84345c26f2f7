"""Learners: unified EM, constraint-driven learning, and related methods."""

from trellis.constraints.penalties import Violations, count_violations
from trellis.learn.ccm import CCM
from trellis.learn.codl import CoDL
from trellis.learn.ge import GE
from trellis.learn.multi_view import MultiView
from trellis.learn.tune import Tuned, tune
from trellis.learn.uem import UEM
from trellis.loop.history import History, Round
from trellis.loop.schedule import Anneal

__all__ = [
    "CCM",
    "GE",
    "UEM",
    "Anneal",
    "CoDL",
    "History",
    "MultiView",
    "Round",
    "Tuned",
    "Violations",
    "count_violations",
    "tune",
]
