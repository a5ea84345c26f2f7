"""Runs command lines of ``trellis`` one after the other in one process, which imports and compiles once.

A line of standard input is a command line, as a JSON list of words. What a command says goes to standard error; when it
has ended, ``ENDED`` and its exit code follow there on a line of their own. Rules may name only files in their folder,
which is the project folder: whoever writes rules in the page reads no other file.
"""

from __future__ import annotations

import json
import os
import sys

ENDED = "\x1e"
STOPPED = (129, 130, 143)
"""Exit codes of commands that a signal has ended: no other one is begun."""


def main() -> None:
    """Run what standard input says, until it ends."""
    from trellis.cli.app import main as trellis
    from trellis.constraints.rules import files_beside_rules_only

    commands = os.fdopen(os.dup(0), encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1):  # the commands read files and write files
        os.dup2(nothing, stream)
    for line in commands:
        try:
            with files_beside_rules_only():
                trellis(json.loads(line))
        except SystemExit as stop:
            code = stop.code if isinstance(stop.code, int) else int(stop.code is not None)
        sys.stderr.write(f"\n{ENDED}{code}\n")
        sys.stderr.flush()
        if code in STOPPED:
            raise SystemExit(code)


if __name__ == "__main__":
    main()
