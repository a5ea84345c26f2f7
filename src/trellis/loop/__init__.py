"""The training loop that every learner and every model's own ``fit`` uses; it does not depend on models."""

from trellis.loop.history import History, Round
from trellis.loop.loop import Loop, Settings
from trellis.loop.schedule import Anneal
from trellis.loop.step import ArrayState, State, Step, StepResult

__all__ = ["Anneal", "ArrayState", "History", "Loop", "Round", "Settings", "State", "Step", "StepResult"]
