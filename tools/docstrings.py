"""How our docstrings become reStructuredText for the reference of the site (docs/conf.py).

``name : meaning`` lines become a list, indented formulas and tables literal blocks; doctests stay; in running text the
signs that reStructuredText would take for markup are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

ARGUMENT = re.compile(r"^([A-Za-z_*][\w*]*(?:, [\w*]+)*) : (.*)$")
NEXT_ARGUMENT = re.compile(r"(?<=\S);  ([A-Za-z_*][\w*]*(?:, [\w*]+)*) : ")
KEPT = re.compile(r"(``.*?``|:\w+:`[^`]*`)")


def as_restructured(lines: Iterable[str]) -> list[str]:
    """The lines of a docstring; those in numpydoc style stay as they are.

    >>> print("\\n".join(as_restructured(["Adds *a*.", "", "a : one;  b : two", "", "    a + b"])))
    Adds \\*a\\*.
    <BLANKLINE>
    * ``a``: one
    * ``b``: two
    <BLANKLINE>
    ::
    <BLANKLINE>
            a + b
    """
    lines = list(lines)
    if any(re.fullmatch(r"-{3,}", line.strip()) for line in lines):
        return lines  # numpydoc, which Sphinx reads by itself
    made: list[str] = []
    for block in _blocks(NEXT_ARGUMENT.sub(r"\n\1 : ", "\n".join(lines)).splitlines()):
        if made:
            made.append("")
        if block[0].startswith(">>>"):
            made += block
        elif block[0].startswith("|") or all(line.startswith("    ") for line in block):
            made += ["::", "", *("    " + line for line in block)]
        else:
            made += _running(block)
    return made


def _blocks(lines: Sequence[str]) -> list[list[str]]:
    """Runs of lines that are not blank."""
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line.rstrip())
        elif found[-1]:
            found.append([])
    return [block for block in found if block]


def _running(block: Sequence[str]) -> list[str]:
    """Text, and the arguments among it."""
    made: list[str] = []
    in_list = False
    for line in block:
        argument = ARGUMENT.match(line)
        if argument:
            if made and not in_list:
                made.append("")
            in_list = True
            made.append(f"* ``{argument[1]}``: {_escaped(argument[2])}")
        elif in_list and not line.startswith(" "):
            made += ["", _escaped(line)]
            in_list = False
        else:
            made.append(("  " if in_list else "") + _escaped(line.strip() if in_list else line.lstrip()))
    return made


def _escaped(text: str) -> str:
    parts = KEPT.split(text)
    parts[::2] = [re.sub(r"([*|_\\])", r"\\\1", part.replace("`", "'")) for part in parts[::2]]
    return "".join(parts)
