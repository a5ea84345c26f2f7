"""Registration of the commands of applications, and hints for common mistakes in options.

A command is built when it is called. Until then the program knows its name and its help, so that ``trellis --help``
looks at no option and imports no estimator.

Habits come from other programs or from before. A command lists them in its ``ANSWERS``, flag -> what to say; a flag
that it has is never looked up. What can be understood without loss is translated instead, before anything is parsed.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, Literal, TypeVar

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command_from_info
from typer.models import CommandInfo

from trellis.cli.settings import FieldOptions
from trellis.errors import DataError

MARKUP: Literal["markdown"] = "markdown"
"""How help texts are written."""

Answers = Mapping[str, str]
Translation = Callable[[list[str]], list[str]]

COMMON: Answers = {
    "--verbose": "progress is shown unless --quiet is given: leave it out",
}
ROUNDS = ("--rounds", "--passes")
SAME: Mapping[str, Sequence[str]] = {
    "--epochs": ROUNDS, "--iterations": ROUNDS, "--iter": ROUNDS, "--max-iter": ROUNDS, "--random-state": ["--seed"],
    "--jobs": ["--threads"], "--n-jobs": ["--threads"], "-j": ["--threads"], "--model-out": ["--save"],
    "--out": ["--output"],
}  # fmt: skip
"""Names that a flag has in other programs -> those that it may have here; the first that a command has is named."""
PLAIN = {
    "Value error, ": "",
    "Input should be a valid integer, unable to parse string as an integer": "it must be a whole number",
    "Input should be a valid number, unable to parse string as a number": "it must be a number",
    "Input should be greater than or equal to": "it must be at least",
    "Input should be less than or equal to": "it must be at most",
    "Input should be": "it must be",
}
"""How messages about values begin -> what is shown."""


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
            known = {**COMMON, **_same_meaning(options), **(answers or {})}
            self._check_once(args, options)
            after_unknown = False
            for typed in pieces(args, options):
                if typed in known:
                    raise DataError(f"{typed}: {known[typed]}")
                if bare and not typed.startswith("-") and not after_unknown:
                    raise DataError(f"{typed}: {bare}")
                after_unknown = typed.startswith("-") and " " not in typed  # what follows may be its value
                if after_unknown and typed.startswith("--") and typed != "--help" and not ctx.resilient_parsing:
                    ctx.fail(f"No such option: {typed}{_similar(typed, [*options, '--help'])}")
            try:
                return super().parse_args(ctx, args)
            except typer.BadParameter as error:
                for begins, plain in PLAIN.items():
                    error.message = error.message.replace(begins, plain)
                raise

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


def _same_meaning(options: Collection[str]) -> dict[str, str]:
    """Answers to flags that this command has by another name."""
    have = {typed: [name for name in names if name in options] for typed, names in SAME.items()}
    return {typed: f"use {names[0]}" for typed, names in have.items() if names}


def _similar(typed: str, options: Iterable[str]) -> str:
    """The tail of a message about a mistyped flag; dashes, which all flags share, make none similar.

    >>> _similar("--thread", ["--threads", "--seed"]), _similar("--epochs", ["--search"])
    ('. Did you mean --threads?', '')
    """
    flags = {option.lstrip("-"): option for option in options if option.startswith("--")}
    near = [flags[name] for name in get_close_matches(typed.lstrip("-"), list(flags), n=2, cutoff=0.7)]
    return f". Did you mean {' or '.join(near)}?" if near else ""


class Commands(TyperGroup):
    """A group that answers an unknown command with the full names of those it may have meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        typed, program = args[0], ctx.find_root()
        if typed.startswith("-") or ctx.resilient_parsing or self.get_command(ctx, typed) is not None:
            return super().resolve_command(ctx, args)
        full: dict[str, set[str]] = {}
        for name, command in all_commands(program.command):
            if not command.hidden:
                group, *_, last = ("", *name.split())[-2:]
                full.setdefault(last, set()).add(f"`{program.info_name} {name}`")
                if group:
                    full.setdefault(group, set()).add(f"`{program.info_name} {group}`")
        near = [typed] if typed in full else get_close_matches(typed, list(full), n=2, cutoff=0.7)
        found = " or ".join(name for one in near for name in sorted(full[one]))
        ctx.fail(f"No such command {typed!r}." + (f" Did you mean {found}?" if found else ""))


def group_of_commands(help: str) -> typer.Typer:
    """An empty group of commands."""
    return typer.Typer(cls=Commands, help=help, no_args_is_help=True)


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
    made = {
        _name(one): _kind(one, None, answering())(_name(one), help=inspect.getdoc(one), rich_markup_mode=MARKUP)
        for one in inner
    }
    own = {"function": staticmethod(function), "settings": settings, "habits": habits, "inner": made}
    return type(function.__name__, (Deferred,), own)


def _name(function: Callable[..., None]) -> str:
    return function.__name__.strip("_").replace("_", "-")
