"""Freed memory is kept where it can be, and left alone where that is asked for."""

from __future__ import annotations

import os
import resource
import subprocess
import sys

import pytest

CODE = """
import resource
import numpy as np
from trellis.engine import SerialEngine, Shard
def work(shard):
    return float(np.ones(3_000_000).sum())
shards = [Shard(i, range(i, i + 1)) for i in range(20)]
list(SerialEngine().map(work, shards[:2]))
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
list(SerialEngine().map(work, shards))
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keep: str) -> int:
    environment = {**os.environ, "TRELLIS_KEEP_MEMORY": keep}
    ended = subprocess.run([sys.executable, "-c", CODE], env=environment, capture_output=True, text=True, check=True)
    return int(ended.stdout)


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone has mallopt")
def test_a_shard_finds_the_memory_of_the_one_before() -> None:
    pages = 20 * 3_000_000 * 8 // resource.getpagesize()
    assert faults("1") < pages / 20
