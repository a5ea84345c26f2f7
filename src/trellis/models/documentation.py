"""Documentation of parameters and attributes, written once: in the class itself, in a base class, or in ``SHARED``.

:func:`documented` completes the numpydoc tables of a class from these, parameters in the order of the signature and
with its defaults, so that ``help`` and the reference show all of them.
"""

from __future__ import annotations

import inspect
import re
import textwrap
from collections.abc import Mapping
from typing import TypeVar

K = TypeVar("K", bound=type)

HEADING = "    Parameters\n    ----------\n"
ATTRIBUTES = "    Attributes\n    ----------\n"
ENTRY = re.compile(r"^    (?P<name>\w+) : (?P<type>.*)\n(?P<text>(?:        .*\n)+)", re.MULTILINE)
INDENT = " " * 8

SHARED: Mapping[str, tuple[str, str]] = {
    "beam": ("int", "Beam width of the search."),
    "search": (
        '{"auto", "beam", "astar", "ilp", "exact"}',
        'How the best output under the rules is found. "auto" is beam search, or ILP if the structure has none; '
        '"exact" continues with A* and ILP until the output is proved to be the best.',
    ),
    "checkpoint": (
        "path or None",
        "File in which the state of training is saved; ``fit(..., resume=True)`` continues from it.",
    ),
    "checkpoint_every": ("int", "Number of rounds between two checkpoints."),
    "engine": (
        "str, Engine or None",
        'Where to run: "dask" for local worker processes, "tcp://host:port" for a Dask scheduler, or an '
        "engine. By default, threads of this process.",
    ),
    "files": ("dict or None", "Contents of the files that the rules name, by name. By default, ``fit`` reads them."),
    "l2": ("float", "Strength of the Gaussian prior on the weights, 1 / σ²."),
    "learning_rate": ("float", "Step size of stochastic steps."),
    "max_evaluations": ("int", "Maximum number of dual evaluations per instance in one projection."),
    "max_iter": ("int", "Rounds of training."),
    "memory": (
        "int, str or None",
        'Memory limit in bytes, or such as "4G"; larger data is kept on disk, with the same result. By '
        "default, half of the free memory.",
    ),
    "n_jobs": (
        "int or None",
        "Number of threads; results do not depend on it. None means one thread and -1 all cores.",
    ),
    "projection_tol": ("float", "KKT residual at which the projection onto the constraints stops."),
    "rules_path": ("str", "Name of the rules in messages; files that the rules name are looked up in its folder."),
    "tol": ("float", "Training stops when the objective changes by less than this fraction."),
    "unlabelled_weight": (
        "float",
        "Weight of unlabelled and partly labelled instances, relative to 1 for labelled ones (Samdani et al. 2012, "
        "eq. 5: c₂).",
    ),
    "verbose": ("bool", "Show progress on standard error."),
}
"""Parameter -> its type, and its meaning in every class that does not say something else."""


def documented(kind: K) -> K:
    """Complete the tables of parameters and attributes in the docstring of a class, in place."""
    if kind.__doc__ is None or HEADING not in kind.__doc__:  # without docstrings (python -OO) there is nothing to do
        return kind
    before, after = kind.__doc__.split(HEADING)
    rest = ENTRY.sub("", after[: _end(after)]) + after[_end(after) :]
    attributes: dict[str, tuple[str, str]] = {}
    for base in kind.__mro__:
        attributes = attributes | {n: one for n, one in _entries(base, ATTRIBUTES).items() if n not in attributes}
    if attributes:
        first, _, table = rest.rpartition(ATTRIBUTES)
        listed = "".join(f"    {name} : {type_}\n{text}" for name, (type_, text) in attributes.items())
        rest = (first or "\n") + ATTRIBUTES + listed + table[_end(table) if first else 0 :]
    parameters = inspect.signature(kind).parameters
    kind.__doc__ = before + HEADING + "".join(_entry(kind, name, parameters[name]) for name in parameters) + rest
    return kind


def _entry(kind: type, name: str, parameter: inspect.Parameter) -> str:
    """The entry of a parameter: of the class itself, of the nearest base that has one, or the shared one."""
    for base in kind.__mro__:
        found = _entries(base, HEADING).get(name)
        if found is not None:
            type_, text = found
            if base is kind:
                return f"    {name} : {type_}\n{text}"
            break
    else:
        if name not in SHARED:
            raise TypeError(f"{kind.__name__} does not document its parameter {name}")
        type_, words = SHARED[name]
        text = textwrap.fill(words, 120, initial_indent=INDENT, subsequent_indent=INDENT) + "\n"
    type_ = type_.partition(", default=")[0]
    default = "" if parameter.default is inspect.Parameter.empty else f", default={_shown(parameter.default)}"
    return f"    {name} : {type_}{default}\n{text}"


def _entries(kind: type, heading: str) -> dict[str, tuple[str, str]]:
    """Type and text of the parameters, or attributes, that a docstring has."""
    _, _, after = (vars(kind).get("__doc__") or "").partition(heading)
    return {found["name"]: (found["type"], found["text"]) for found in ENTRY.finditer(after[: _end(after)])}


def _end(table: str) -> int:
    """Where the table ends: at an empty line."""
    found = re.search(r"^\s*$", table, re.MULTILINE)
    return len(table) if found is None else found.start()


def _shown(default: object) -> str:
    """A default as the tables write it."""
    return f'"{default}"' if isinstance(default, str) else repr(default)
