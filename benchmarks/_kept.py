"""Results that a benchmark has already, so that a run which was cut off goes on where it was."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path


class Kept:
    """Results by their names, in a file that they are written to as they come; without one, in memory."""

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self.known: dict[str, dict[str, object]] = json.loads(path.read_text()) if path and path.exists() else {}

    def get(self, name: str, make: Callable[[], dict[str, object]]) -> dict[str, object]:
        """The result of this name, made (and timed) where it is not known yet."""
        if name not in self.known:
            begin = time.perf_counter()
            self.known[name] = {**make(), "seconds": round(time.perf_counter() - begin, 1)}
            if self.path is not None:
                part = self.path.with_suffix(".part")
                part.write_text(json.dumps(self.known, indent=1))
                part.replace(self.path)
        return self.known[name]
