"""Options made of an estimator's fields: a setting is declared, documented and checked once, by the estimator.

    type and default   the field
    help               its entry in the docstring of the class
    what is allowed    ``check_settings``, which a command calls before it reads a file

A command says which fields it offers, in which panels of ``--help``, and the flags that are not the field's name. The
estimator is imported when the command is called.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import wraps
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import typer

from trellis.cli.options import (
    ARGUMENTS,
    DECODING,
    KNOWLEDGE,
    LEARNING,
    PANELS,
    RUN,
    SEED,
    Engine,
    Memory,
    Threads,
    jobs,
)

OF_A_RUN: dict[str, Any] = {"n_jobs": Threads, "engine": Engine, "memory": Memory, "random_state": Annotated[int, SEED]}
"""Fields that mean the same in every estimator. A command takes every core, and seed 0, by default."""


@dataclass(frozen=True)
class FieldOptions:
    """The fields of an estimator that a command offers.

    estimator : "module:Class"
    learning, decoding, knowledge, run, first : names of fields, by panel; ``first`` are options of the common path
    flags : field -> its flags, with blanks between them, where they are not those of ``ARGUMENTS`` or the name itself
    """

    estimator: str
    learning: str = ""
    decoding: str = ""
    knowledge: str = ""
    run: str = ""
    first: str = ""
    flags: Mapping[str, str] = field(default_factory=dict)

    @property
    def names(self) -> tuple[str, ...]:
        """All of the fields."""
        return tuple(f"{self.first} {self.decoding} {self.learning} {self.knowledge} {self.run}".split())

    def parameters(self) -> list[inspect.Parameter]:
        """The options, as arguments of a function."""
        module, _, name = self.estimator.partition(":")
        kind = getattr(import_module(module), name)
        hints, help_ = get_type_hints(kind), explained(kind)
        default = {one.name: one.default for one in fields(kind)}
        panels = {None: self.first, DECODING: self.decoding, LEARNING: self.learning, KNOWLEDGE: self.knowledge,
                  RUN: self.run}  # fmt: skip
        made = []
        for panel, listed in panels.items():
            for own in listed.split():
                if own in OF_A_RUN:
                    start: Any = 0 if own == "random_state" else None
                    made.append(_parameter(own, start, OF_A_RUN[own]))
                    continue
                flags = self.flags.get(own, ARGUMENTS.get(own, "--" + own.replace("_", "-"))).split()
                typed: Any = _simple(hints[own])
                annotation = Annotated[typed, _option(flags, hints[own], help_[own], panel)]
                made.append(_parameter(own, default[own], annotation))
        return made

    def given_to(self, function: Callable[..., None]) -> Callable[..., None]:
        """The function with these options as arguments, which it takes as ``**settings``."""
        own = inspect.signature(function, eval_str=True).parameters.values()
        mine = self.parameters()
        every = [p.replace(kind=p.KEYWORD_ONLY) for p in own if p.kind != p.VAR_KEYWORD] + mine
        every.sort(key=lambda p: PANELS.index(_panel(p.annotation)))

        @wraps(function)
        def called(**given: Any) -> None:
            if "n_jobs" in given:
                given["n_jobs"] = jobs(given["n_jobs"])
            function(**given)

        called.__signature__ = inspect.Signature(every)  # type: ignore[attr-defined]
        called.__annotations__ = {p.name: p.annotation for p in every}
        return called


def explained(kind: type) -> dict[str, str]:
    """What the docstring of a class says of each of its arguments, for ``--help``; references to Python are left out.

    >>> class Cutter:
    ...     '''Cuts text.
    ...
    ...     Parameters
    ...     ----------
    ...     width : int, default=80
    ...         Columns of a line. At "0" nothing is cut, nor with ``no_cut``. See :class:`HMM`.
    ...     '''
    >>> explained(Cutter)
    {'width': 'Columns of a line. At `0` nothing is cut, nor with `--no-cut`.'}
    """
    text = re.split(r"^Parameters\n-+\n", inspect.getdoc(kind) or "", flags=re.MULTILINE)[-1]
    text = re.split(r"^(?:Attributes|Examples|Notes)\n-+$", text, flags=re.MULTILINE)[0]
    found = {}
    # the type stands behind the name, and the meaning below it
    for name, meaning in re.findall(r"^(\w+) : .*((?:\n    .*)+)", text, flags=re.MULTILINE):
        shown = re.sub(r" See :\w+:`[^`]*`\.", "", " ".join(meaning.split()))
        shown = re.sub(r"``([a-z]+_[a-z_]+)``", lambda name: f"`{_flag(name[1])}`", shown).replace("``", "`")
        found[name] = re.sub(r'"([\w-]+)"', r"`\1`", shown).replace(". None: ", ". Default: ")
    return found


def _flag(name: str) -> str:
    """The flag of an argument of an estimator."""
    return ARGUMENTS.get(name, "--" + name.replace("_", "-")).partition(" ")[0]


def _parameter(name: str, default: Any, annotation: Any) -> inspect.Parameter:
    return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _simple(hint: Any) -> Any:
    """The type that is typed: the first of several that a field takes, and None where it takes that."""
    if get_origin(hint) not in (Union, UnionType):
        return hint
    first = next(part for part in get_args(hint) if part in (int, float, str, bool))
    return first | None if type(None) in get_args(hint) else first


def _option(flags: list[str], hint: Any, help_: str, panel: str | None) -> Any:
    metavar = "" if hint is bool else "NAME" if str in (hint, *get_args(hint)) else "N"
    return typer.Option(*flags, metavar=metavar, help=help_, rich_help_panel=panel)


def _panel(annotation: Any) -> str | None:
    about = [one for one in getattr(annotation, "__metadata__", ()) if isinstance(one, typer.models.OptionInfo)]
    panel: str | None = about[0].rich_help_panel if about else None
    return panel
