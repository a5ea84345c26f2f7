"""How an application adds a command to the program.

A command is built when it is called. Until then the program knows its name and its help, so that ``trellis --help``
looks at no option and imports no estimator.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.main import get_command_from_info
from typer.models import CommandInfo

from trellis.cli.habits import Answers, Translation, answering
from trellis.cli.settings import FieldOptions

F = TypeVar("F", bound=Callable[..., None])


class Deferred(TyperCommand):
    """A command that is built on its first call; ``function`` has its options as arguments."""

    function: Callable[..., None]
    settings: FieldOptions | None
    habits: type[TyperCommand]
    inner: Mapping[str, Deferred]

    def whole(self) -> Any:
        """The command with its options."""
        function = self.function if self.settings is None else self.settings.given_to(self.function)
        info = CommandInfo(name=self.name, cls=self.habits, callback=function, help=self.help, hidden=self.hidden)
        return get_command_from_info(info, pretty_exceptions_short=False, rich_markup_mode=self.rich_markup_mode)

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        if args and args[0] in self.inner:
            return self.inner[args[0]].make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return self.whole().make_context(info_name, args, parent, **extra)


def all_commands(program: Any) -> Iterator[tuple[str, Deferred]]:
    """Every command of the program, or of a group of it, with its full name."""
    for name, command in program.commands.items():
        if not isinstance(command, Deferred):
            yield from ((f"{name} {inner}", own) for inner, own in all_commands(command))
            continue
        yield name, command
        yield from ((f"{name} {inner}", own) for inner, own in command.inner.items())


def add_command(
    group: typer.Typer,
    function: F,
    answers: Answers | None = None,
    *,
    settings: FieldOptions | None = None,
    translate: Translation | None = None,
    bare: str = "",
    former: str | None = None,
    inner: Sequence[Callable[..., None]] = (),
) -> F:
    """Add a function to a group as a command of its name.

    settings : fields of an estimator that are options too; the function takes them as ``**settings``
    answers, translate, bare : see :func:`trellis.cli.habits.answering`
    former : the command is known by this name too, outside its group; such an alias is not listed
    inner : functions that are commands of their own, behind the name of this one
    """
    kind = _kind(function, settings, answering(answers, translate, bare), inner)
    text = inspect.getdoc(function) or ""
    if former is not None:
        text += f"\n\nThis is the former name of `trellis {former}`, which the next version will not have."

    def nothing() -> None:
        """In the place of the function, whose arguments are not looked at yet."""

    group.command(_name(function), cls=kind, help=text, hidden=former is not None)(nothing)
    return function


def _kind(
    function: Callable[..., None],
    settings: FieldOptions | None,
    habits: type[TyperCommand],
    inner: Sequence[Callable[..., None]] = (),
) -> type[Deferred]:
    made = {_name(one): _kind(one, None, answering())(_name(one), help=inspect.getdoc(one)) for one in inner}
    own = {"function": staticmethod(function), "settings": settings, "habits": habits, "inner": made}
    return type(function.__name__, (Deferred,), own)


def _name(function: Callable[..., None]) -> str:
    return function.__name__.strip("_").replace("_", "-")
