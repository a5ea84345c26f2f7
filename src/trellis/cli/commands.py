"""Registration of the commands of applications, and hints for common mistakes in options.

A command is built when it is called. Until then the program knows its name and its help, so that ``trellis --help``
looks at no option and imports no estimator.

Habits come from other programs or from before. A command lists them in its ``ANSWERS``, flag -> what to say; a flag
that it has is never looked up. What can be understood without loss is translated instead, before anything is parsed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.main import get_command_from_info
from typer.models import CommandInfo

from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

Answers = Mapping[str, str]
Translation = Callable[[list[str]], list[str]]

COMMON: Answers = {
    "--verbose": "progress is shown unless --quiet is given: leave it out",
    "--iterations": "use --rounds",
    "--max-iter": "use --rounds",
    "--random-state": "use --seed",
    "--jobs": "use --threads",
    "--n-jobs": "use --threads",
    "-j": "use --threads",
    "--model-out": "use --save",
    "--out": "use --output",
}


def answering(
    answers: Answers | None = None, translate: Translation | None = None, bare: str = ""
) -> type[TyperCommand]:
    """A class of commands that know these habits, for ``app.command(cls=...)``.

    bare : what to say to words without a flag, of a command that takes none
    """

    class Answering(TyperCommand):
        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            if translate is not None:
                args = translate(args)
            options = {option: not is_flag(p) for p in self.params for option in (*p.opts, *p.secondary_opts)}
            known = {**COMMON, **(answers or {})}
            self._check_once(args, options)
            after_unknown = False
            for typed in pieces(args, options):
                if typed in known:
                    raise DataError(f"{typed}: {known[typed]}")
                if bare and not typed.startswith("-") and not after_unknown:
                    raise DataError(f"{typed}: {bare}")
                after_unknown = typed.startswith("-") and " " not in typed  # what follows may be its value
            return super().parse_args(ctx, args)

        def _check_once(self, args: list[str], options: Mapping[str, bool]) -> None:
            """Refuse a file that is named twice where one is read or written: the last would win in silence."""
            files = {o: p for p in self.params for o in p.opts if p.metavar == "FILE" and not getattr(p, "multiple", 0)}
            seen = set()
            for typed in pieces(args, options):
                option = files.get(typed.partition(" ")[0]) if " " in typed else None
                if option is not None and option.name in seen:
                    raise DataError(f"{max(option.opts, key=len)} is given twice: give it once")
                seen.add(None if option is None else option.name)

    return Answering


def is_flag(parameter: Any) -> bool:
    """Whether an option stands alone."""
    return bool(getattr(parameter, "is_flag", False))


def pieces(arguments: list[str], options: Mapping[str, bool]) -> Iterator[str]:
    """Flags that no option has, known ones with their values (``--format json``), some of which are habits too, and
    words that belong to no flag.

    options : flag -> whether a value follows it

    >>> list(pieces(["-x", "-oa", "--out", "-q", "b", "--to=c"], {"-o": True, "--to": True, "-q": False}))
    ['-x', '-o a', '--out', 'b', '--to c']
    """
    rest = list(arguments)
    while rest:
        typed = rest.pop(0)
        if typed == "--":
            return
        if typed.startswith("--"):
            name, has_value, value = typed.partition("=")
            if name not in options:
                yield name
            elif options[name] and (has_value or rest):
                yield f"{name} {value if has_value else rest.pop(0)}"
        elif typed.startswith("-"):
            letters = typed[1:]
            while letters:
                name, letters = f"-{letters[0]}", letters[1:]
                if name not in options:
                    yield name
                    break
                if options[name]:
                    if letters or rest:
                        yield f"{name} {letters or rest.pop(0)}"
                    break
        else:
            yield typed


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
    name: str | None = None,
    former: str | None = None,
    inner: Sequence[Callable[..., None]] = (),
) -> F:
    """Add a function to a group as a command of its name, or of another one.

    settings : fields of an estimator that are options too; the function takes them as ``**settings``
    answers, translate, bare : see :func:`trellis.cli.commands.answering`
    former : the command is known by this name too, outside its group; such an alias is not listed
    inner : functions that are commands of their own, behind the name of this one
    """
    kind = _kind(function, settings, answering(answers, translate, bare), inner)
    text = inspect.getdoc(function) or ""
    if former is not None:
        text += f"\n\nDeprecated: use `trellis {former}`. The next version will not have this name."

    def empty() -> None:
        """In the place of the function, whose arguments are not looked at yet."""

    group.command(name or _name(function), cls=kind, help=text, hidden=former is not None)(empty)
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
