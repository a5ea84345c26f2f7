"""Flags that people type out of habit, from other programs or from before: a command answers with the one to use.

A command lists them in its ``ANSWERS``, flag -> what to say; a flag that the command has is never looked up. What can
be understood without loss is translated instead, before anything is parsed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from typer.core import TyperCommand

from trellis.errors import DataError

Answers = Mapping[str, str]
Translation = Callable[[list[str]], list[str]]

COMMON: Answers = {
    "--verbose": "progress is shown unless --quiet is given: leave it out",
    "--iterations": "say --rounds",
    "--max-iter": "say --rounds",
    "--random-state": "say --seed",
    "--jobs": "say --threads",
    "--n-jobs": "say --threads",
    "-j": "say --threads",
    "--model-out": "say --save",
    "--out": "say --output",
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
                    raise DataError(f"{max(option.opts, key=len)} is given twice: name one file")
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
