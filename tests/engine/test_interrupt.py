"""Ctrl-C stops a map promptly: a real process gets a real signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time

import pytest

PROGRAM = """
import os, signal, sys, time
from trellis.engine import Shard, engine_for

# a test run started in the background hands down an ignored SIGINT
signal.signal(signal.SIGINT, signal.default_int_handler)

def work(shard):
    os.write(1, b"start\\n")  # whole lines, which print does not promise to threads
    time.sleep(0.25)

shards = [Shard(i, range(i, i + 1)) for i in range(200)]
try:
    for _ in engine_for(int(sys.argv[1])).map(work, shards):
        pass
except KeyboardInterrupt:
    os.write(1, b"interrupted\\n")
    raise
"""


@pytest.mark.skipif(os.name != "posix", reason="needs POSIX signals")
@pytest.mark.parametrize("threads", [1, 2, 4])
def test_ctrl_c_starts_no_further_shard_and_ends_the_process(threads: int) -> None:
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(threads)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    try:
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(threads)]
        process.send_signal(signal.SIGINT)
        sent = time.perf_counter()
        rest, errors = process.communicate(timeout=20)
        took = time.perf_counter() - sent
    finally:
        process.kill()
    assert lines == ["start\n"] * threads
    before, interrupted, after = rest.partition("interrupted\n")
    assert interrupted
    # Of 200: those that start while the signal is on its way, and one a thread that had been taken from the queue.
    assert before.count("start") <= 2 * threads
    assert after.count("start") <= threads
    assert errors.rstrip().endswith("KeyboardInterrupt")
    assert process.returncode == -signal.SIGINT
    assert took < 5  # 200 shards would take 50, 25 and 12 seconds
