"""Printing text of users verbatim: without markup, emoji codes or terminal control characters."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sized
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

import typer

from trellis.data.files import STANDARD, shown, writing
from trellis.errors import DataError

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
SHOWN = 5
"""So many odd lines are named one by one."""

_OBEYED = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")


def plain_console(**settings: Any) -> Console:
    """A console to which square brackets and colons are characters like others, in tables too."""
    from rich.console import Console

    return Console(markup=False, emoji=False, highlight=False, **settings)


@contextmanager
def console_for(output: str) -> Iterator[Console]:
    """A console that prints to a file, wide and without colours, or for ``-`` to standard output."""
    if output == STANDARD:
        yield plain_console()
        return
    with writing(output) as out:
        yield plain_console(file=out, color_system=None, width=160)


def print_lines(output: str, lines: Iterable[str]) -> None:
    """Lines to a file, or for ``-`` to standard output."""
    if output == STANDARD:
        for line in lines:
            typer.echo(line)
        return
    with writing(output) as out:
        for line in lines:
            out.write(line + "\n")


def need_text(path: str, texts: Collection[Sized]) -> None:
    """Refuse a file in which there is no text, by its name."""
    if not any(map(len, texts)):
        raise DataError("there is no text in it", path=shown(path))


def warning_if_empty(path: str, items: Iterable[T]) -> Iterator[T]:
    """The same items; if there are none, a warning on standard error says so at the end."""
    item = None
    for item in items:
        yield item
    if item is None:
        typer.echo(f"Warning: there is no text in {shown(path)}", err=True)


@dataclass
class Few:
    """How many lines or texts were out of the ordinary, and messages about the first ones."""

    n: int = 0
    first: list[str] = field(default_factory=list)

    def add(self, what: str) -> None:
        """One more."""
        self.n += 1
        if self.n <= SHOWN:
            self.first.append(what)

    def tell(self, what: str, more: str = "") -> None:
        """Say so on standard error, if there were any; more : after how many there are beside the first ones."""
        if self.n:
            rest = [f"... and {self.n - SHOWN} more{more}"] if self.n > SHOWN else []
            typer.echo(visible("\n  ".join([f"{what}:", *self.first, *rest])), err=True)


def visible(text: str) -> str:
    """The text with control characters written out: a name in an untrusted model must not control the terminal.

    >>> visible("a [bold] \\x1b[2J word")
    'a [bold] \\\\x1b[2J word'
    """
    return _OBEYED.sub(lambda found: repr(found.group())[1:-1], text)
