"""The loops: unified EM and what is around it."""

from trellis.learn.history import History, Round
from trellis.learn.schedule import Anneal
from trellis.learn.tune import Tuned, tune
from trellis.learn.uem import UEM

__all__ = ["UEM", "Anneal", "History", "Round", "Tuned", "tune"]
