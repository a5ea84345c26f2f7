"""The parallel text of a command line, which can be read repeatedly; empty and long pairs are counted."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from glob import glob, has_magic
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from trellis.errors import DataError

if TYPE_CHECKING:
    from trellis.data.bitext import Pair


Names = str | Sequence[str] | None
"""One file or several; each may be a pattern such as ``part-*.en``."""


class ParallelText:
    """Sentence pairs of files for both sides or of joined ones, whose odd ones are counted while they are read.

    Several files are one text, in their order; those of both sides belong together one by one.
    """

    def __init__(self, source: Names, target: Names, joined: Names) -> None:
        self.source, self.target, self.joined = (_named(names) for names in (source, target, joined))
        if self.joined and (self.source or self.target):
            raise DataError("give either --input, or --source and --target, not both")
        if not self.joined and not (self.source and self.target):
            raise DataError("give --source and --target, or --input")
        if len(self.source) != len(self.target):
            raise DataError(
                f"{len(self.source)} source files but {len(self.target)} target files: give one target file for each "
                "source file, in the same order"
            )
        self.kept: list[Pair] | None = None
        self.seen: list[tuple[int, int]] | None = None
        """Length and time of the last change of each file when it was first read."""
        self.forget()

    @property
    def names(self) -> list[str]:
        """All files."""
        return [*self.joined, *self.source, *self.target]

    def forget(self) -> None:
        self.n_empty = self.n_long = 0

    def pairs(self) -> Iterator[Pair]:
        from trellis.data.bitext import LONGEST, read_joined_file, read_two_files

        if self.kept is not None:
            yield from self.kept
            return
        files = [read_joined_file(name) for name in self.joined]
        files += [read_two_files(*names) for names in zip(self.source, self.target, strict=True)]
        self._check_unchanged()
        for left, right in chain.from_iterable(files):
            self.n_empty += not left or not right
            self.n_long += max(len(left), len(right)) > LONGEST
            yield left, right
        self._check_unchanged()

    def _check_unchanged(self) -> None:
        """Links of one text beside another help nobody: a file that changed since it was first read is an error."""
        if not self._is_files():
            return
        found = [(status.st_size, status.st_mtime_ns) for status in map(os.stat, self.names)]
        if self.seen is None:
            self.seen = found
        for name, before, now in zip(self.names, self.seen, found, strict=True):
            if before != now:
                raise DataError(
                    f"{name} changed while it was being read (from {before[0]} to {now[0]} bytes, or in its content): "
                    "run again when no other program writes to it"
                )

    def hold(self) -> None:
        """Keep what can be read only once (standard input, a pipe), so that it can be read again."""
        if not self._is_files():
            self.kept = list(self.pairs())

    def again(self) -> Iterable[Pair]:
        """The same pairs once more."""
        if self.kept is None:
            self.forget()
        return self.pairs()

    def beside(self) -> Iterator[Pair]:
        """The same pairs, to stand beside what is found in them; nothing is counted twice."""
        other = ParallelText(self.source, self.target, self.joined)
        other.kept = self.kept
        return other.pairs()

    def _is_files(self) -> bool:
        return all(Path(name).is_file() for name in self.names)

    def check_lengths(self) -> None:
        """Read files once through before a stream begins, so that faults are found before any work."""
        if self._is_files():
            for _ in self.pairs():
                pass
            self.forget()

    def warn(self) -> None:
        from trellis.data.bitext import LONGEST

        if self.n_empty:
            have = "pair has" if self.n_empty == 1 else "pairs have"
            typer.echo(f"Warning: {self.n_empty} {have} an empty side and no links (an empty line).", err=True)
        if self.n_long:
            pairs = "pair" if self.n_long == 1 else "pairs"
            typer.echo(
                f"Warning: {self.n_long} {pairs} with more than {LONGEST} words on a side: split proportionally on "
                "both sides and aligned piece by piece.",
                err=True,
            )


def _named(names: Names) -> list[str]:
    """The files that are named; those of a pattern by the order of their names."""
    found: list[str] = []
    for name in [names] if isinstance(names, str) else names or ():
        is_pattern = has_magic(name) and not Path(name).exists()
        matched = sorted(glob(name)) if is_pattern else [name]
        if not matched:
            raise DataError(f"{name}: no file matches this pattern")
        found += matched
    return found
