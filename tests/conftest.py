"""What every test shares: the Hypothesis profiles and the way to the real data."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from hypothesis import settings

PROJECT_ROOT = Path(__file__).resolve().parent.parent

# No deadline: the first example that reaches a kernel compiles it.
settings.register_profile("dev", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "dev")
# Kernels compile as tests reach them: several workers that each start children would only wait for each other.
os.environ.setdefault("TRELLIS_COMPILE_AHEAD", "0")
# Shells start background jobs with Ctrl-C ignored, and processes that tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)


def find_data() -> tuple[Path | None, str]:
    """The folder of the real corpora, or None and the reason why there is none."""
    named = os.environ.get("TRELLIS_DATA")
    folder = Path(named) if named else PROJECT_ROOT.parent / "shared" / "data"
    if folder.is_dir():
        return folder, ""
    if named:
        return None, f"no real data: TRELLIS_DATA={named} is not a folder"
    return None, "no real data: set TRELLIS_DATA, or put it in ../shared/data"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
    folder, reason = find_data()
    if folder is None:
        for item in items:
            if item.get_closest_marker("realdata"):
                item.add_marker(pytest.mark.skip(reason=reason))


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shards of a few hundred slots, so that the small corpora of tests are cut and threads have something to share."""
    monkeypatch.setattr("trellis.data.shards.SMALLEST", 512)


@pytest.fixture(scope="session")
def data_dir() -> Path:
    """Folder of the real corpora; skips where they are absent. Mark its tests ``realdata``."""
    folder, reason = find_data()
    if folder is None:
        pytest.skip(reason)
    return folder
