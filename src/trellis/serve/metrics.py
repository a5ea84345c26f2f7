"""Counts of what was served, over all worker processes, in the text format of Prometheus.

Every process writes its own small file of numbers; whoever is asked adds up all files, those of processes that have
ended too, so that counts never fall.
"""

from __future__ import annotations

import bisect
import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np

from trellis.data.ragged import FloatArray

BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
"""Seconds."""
CLASSES = ("2xx", "4xx", "5xx")
WIDTH = len(CLASSES) + 2 + len(BUCKETS) + 2
"""Numbers of a model: answers by class, inputs, seconds of work, answers by time and all, seconds of answers."""


class Metrics:
    """Counters of the models of one process, in a file of ``folder``."""

    def __init__(self, folder: Path, models: Sequence[str]) -> None:
        self.folder, self.models = folder, tuple(models)
        path = folder / f"{os.getpid()}.counts"
        self.counts: FloatArray = np.memmap(path, np.float64, "w+", shape=(len(models), WIDTH))

    def answered(self, model: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        own = self.counts[self.models.index(model)]
        own[{2: 0, 4: 1}.get(status // 100, 2)] += 1
        own[5 + bisect.bisect_left(BUCKETS, seconds)] += 1
        own[-1] += seconds

    def worked(self, model: str, inputs: int, seconds: float) -> None:
        """A batch has been predicted."""
        own = self.counts[self.models.index(model)]
        own[3] += inputs
        own[4] += seconds

    def text(self) -> str:
        """What is asked for by ``GET /metrics``."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        total = np.zeros((len(self.models), WIDTH))
        alive = []
        for path in sorted(self.folder.glob("*.counts")):
            with suppress(OSError, ValueError):
                total += np.fromfile(path, np.float64).reshape(total.shape)
                alive.append(int(path.stem))
        yield "# TYPE trellis_requests_total counter"
        for model, own in zip(self.models, total, strict=True):
            for name, n in zip(CLASSES, own, strict=False):
                yield f'trellis_requests_total{{model="{model}",status="{name}"}} {n:.0f}'
        for name, at in (("trellis_inputs_total", 3), ("trellis_work_seconds_total", 4)):
            yield f"# TYPE {name} counter"
            for model, own in zip(self.models, total, strict=True):
                yield f'{name}{{model="{model}"}} {own[at]:.10g}'
        yield "# TYPE trellis_request_seconds histogram"
        for model, own in zip(self.models, total, strict=True):
            below = np.cumsum(own[5:-1]).tolist()
            for edge, n in zip([*map(str, BUCKETS), "+Inf"], below, strict=True):
                yield f'trellis_request_seconds_bucket{{model="{model}",le="{edge}"}} {n:.0f}'
            yield f'trellis_request_seconds_sum{{model="{model}"}} {own[-1]:.10g}'
            yield f'trellis_request_seconds_count{{model="{model}"}} {below[-1]:.0f}'
        yield "# TYPE trellis_resident_bytes gauge"
        for process in alive:
            size = resident(process)
            if size:
                yield f'trellis_resident_bytes{{process="{process}"}} {size}'


def resident(process: int) -> int:
    """Bytes of memory that a process has, 0 where that is not known."""
    with suppress(OSError, ValueError, IndexError):
        pages = int(Path(f"/proc/{process}/statm").read_text(encoding="ascii").split()[1])
        return pages * os.sysconf("SC_PAGE_SIZE")
    return 0
