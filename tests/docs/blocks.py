"""What stands in a Markdown page: code blocks, in order, each with its language and the line it begins at."""

from __future__ import annotations

import re
from dataclasses import dataclass

FENCE = re.compile(r"^(`{3,})\s*(\S*)[^`]*$")


@dataclass(frozen=True)
class Block:
    language: str  # "" of an indented block
    line: int
    lines: tuple[str, ...]


def blocks_of(text):
    """Fenced blocks, and indented ones behind a blank line."""
    found, lines, at = [], text.splitlines(), 0
    in_list = False
    while at < len(lines):
        fence = FENCE.match(lines[at])
        if fence:
            end = next(k for k in range(at + 1, len(lines)) if lines[k].rstrip() == fence[1])
            found.append(Block(fence[2], at + 2, tuple(lines[at + 1 : end])))
            at = end + 1
            continue
        if re.match(r"^(\d+\.|[-*]) ", lines[at]):
            in_list = True
        elif lines[at] and not lines[at].startswith(" "):
            in_list = False
        if lines[at].startswith("    ") and not in_list and at and not lines[at - 1].strip():
            end = at
            while end < len(lines) and (lines[end].startswith("    ") or not lines[end].strip()):
                end += 1
            found.append(Block("", at + 1, tuple(line[4:] for line in lines[at:end])))
            at = end
            continue
        at += 1
    return found


def commands_of(block):
    """(command line, the output shown below it or None), of a block with commands of ours.

    In a ``console`` block commands stand behind ``$`` and what they print below them; elsewhere lines that begin with
    ``trellis`` are commands, and nothing is said about their output.
    """
    if block.language == "console":
        made = []
        for line in block.lines:
            if line.startswith("$ "):
                made.append((line[2:], []))
            elif made and made[-1][0].endswith("\\") and not made[-1][1]:
                made[-1] = (made[-1][0][:-1] + line.strip(), [])
            else:
                made[-1][1].append(line)
        return [(command, output or None) for command, output in made]
    if block.language in ("", "sh", "bash", "text"):
        return [(line, None) for line in block.lines if re.match(r"(trellis|cd|sed|head|cat|curl) ", line)]
    return []
