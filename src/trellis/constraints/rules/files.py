"""The files that rules name: read from beside the rules, or given with a saved model, which then opens nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping

from trellis.data.files import numbered_lines
from trellis.errors import DataError


class NamedFiles:
    """Lines of files by the names that rules give them; ``contents`` holds whatever was asked for.

    folder : where names are looked for;  given : name -> content, and then no file is opened
    """

    def __init__(self, folder: str, given: Mapping[str, str] | None = None) -> None:
        self.folder, self.given = folder, given
        self.contents: dict[str, str] = {}

    def path(self, name: str) -> str:
        """What messages call the file."""
        return os.path.join(self.folder, name)

    def lines(self, name: str) -> Iterator[tuple[int, str]]:
        """Numbered lines of a file."""
        if self.given is None:
            self.contents[name] = "\n".join(line for _, line in numbered_lines(self.path(name)))
        elif name in self.given:
            self.contents[name] = self.given[name]
        else:
            raise DataError(f"the rules name the file {name!r}, but what was given with them holds {list(self.given)}")
        return enumerate(self.contents[name].split("\n"), 1)
