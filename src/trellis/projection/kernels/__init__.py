"""Fast paths of the projection, by the kind of structure they know.

A module listed here knows more of a structure than its parts and solves the local rows of a shard in one compiled call:

    takes(rows) -> bool                            whether it can handle these rows of instances
    prepare(mine)                                  optional: leaves in ``mine`` what is made of its rows once for all
    project_rows(scores, mine, state, asked) -> LocalSolution

Tests hold it equal to the generic way (:mod:`trellis.projection.lock_step`). The task "few steps" is a module with a
``FewStepsProjector`` for a single l1/linf block.
"""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from trellis.engine.kernel_cache import guard

guard()
_MODULES = {
    ("rows", "chain"): "trellis.projection.kernels.chain",
    ("rows", "categorical"): "trellis.projection.kernels.chain",
    ("rows", "alignment+alignment"): "trellis.projection.kernels.alignments",
    ("rows", "graph"): "trellis.projection.kernels.graph",
    ("few steps", "chain"): "trellis.projection.kernels.few_steps",
}


def register(kind: str, module: str, task: str = "rows") -> None:
    """Let the module with this dotted name do the task for structures of this kind."""
    _MODULES[task, kind] = module


def fast_path(kind: str, task: str = "rows") -> ModuleType | None:
    """The module that knows structures of this kind, if there is one.

    >>> fast_path("an unheard-of kind") is None
    True
    """
    name = _MODULES.get((task, kind))
    return None if name is None else import_module(name)
