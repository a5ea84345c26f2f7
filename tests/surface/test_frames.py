"""From ``fit`` to the first inference there are few frames of ours: a reader can follow the whole path."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

MOST = 10


def test_a_kernel_is_at_most_ten_frames_below_fit() -> None:
    root = Path(__file__).parents[2]
    ended = subprocess.run(
        [sys.executable, "-m", "tests.surface.frames"], cwd=root, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr[-3000:]
    frames = json.loads(ended.stdout.splitlines()[-1])
    assert len(frames) >= 20
    assert all(frames.values()), "a learner without inference shows nothing"
    deep = {name: own for name, own in frames.items() if len(own) > MOST}
    assert deep == {}, json.dumps(deep, indent=1)
