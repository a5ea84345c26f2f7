"""What every test shares: the Hypothesis profiles and the way to the real data."""

from __future__ import annotations

import os
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


def find_data() -> tuple[Path | None, str]:
    """The folder of the real corpora, or None and the reason why there is none."""
    named = os.environ.get("TRELLIS_DATA")
    folder = Path(named) if named else PROJECT_ROOT.parent / "shared" / "data"
    if folder.is_dir():
        return folder, ""
    if named:
        return None, f"no real data: TRELLIS_DATA={named} is not a folder"
    return None, "no real data: set TRELLIS_DATA, or put it in ../shared/data"


SLOW = {
    "align/test_aligner.py", "align/test_cli.py", "align/test_learning.py", "align/test_projection.py",
    "cli/test_runs.py", "constraints/test_expressions.py", "constraints/test_rows.py", "data/test_formats.py",
    "engine/test_compiling.py",
    "extract/test_cli.py", "extract/test_extractor.py", "extract/test_real_citations.py",
    "hostile/test_files_of_strangers.py", "hostile/test_whole_models.py", "learn/test_objective_rises.py",
    "learn/test_persistence.py", "models/test_crf.py", "projection/test_diagnosis.py", "projection/test_few_steps.py",
    "projection/test_projection_cvxpy.py", "search/test_folding_and_ilp.py", "search/test_methods.py",
    "search/test_program.py", "structures/test_categorical.py", "structures/test_chain.py",
    "structures/test_chain_extremes.py", "structures/test_contract.py",
}  # fmt: skip
"""Files of tests that take three quarters of the time (``pytest --durations=0`` shows it)."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "/".join(item.path.parts[-2:]) in SLOW or item.get_closest_marker("long"):
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
