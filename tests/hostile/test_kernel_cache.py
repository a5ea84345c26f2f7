"""A cache of kernels that is cut, full or nowhere costs time and no run."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys

import pytest

USE = """
import numpy as np
from trellis.models.kernels.counting import rows_used
rows, places = rows_used(np.array([3, 1, 3], np.int32), 5)
stats = rows_used.stats
print(rows.tolist(), sum(stats.cache_hits.values()), sum(stats.cache_misses.values()))
"""


def use(folder, code=USE, **environment):
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "TRELLIS_COMPILE_AHEAD": "0", **environment},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout.strip(), ended.stderr


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kernels")
    assert use(folder) == ("[3, 1] 0 1", "")
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("ending, share", [(".nbi", 0.9), (".nbc", 0.02)])
def test_a_cut_file_is_dropped_and_compiled_again(ending, share, compiled, tmp_path):
    shutil.copytree(compiled, tmp_path, dirs_exist_ok=True)
    cut = [path for path in tmp_path.rglob("*") if path.suffix == ending]
    assert cut
    for path in cut:
        raw = path.read_bytes()
        path.write_bytes(raw[: int(share * len(raw))])
    assert use(tmp_path) == ("[3, 1] 0 1", "")
    assert use(tmp_path) == ("[3, 1] 1 0", ""), "what was compiled again is there the next time"


@pytest.mark.slow
def test_a_full_disk_is_told_once_and_the_run_goes_on(tmp_path):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    said, told = use(tmp_path, full + USE)
    assert said.startswith("[3, 1]")
    assert told.count("compiled kernels cannot be cached") == 1
    assert "File too large" in told
    assert "NUMBA_CACHE_DIR" in told


@pytest.mark.slow
def test_without_any_folder_to_write_to_kernels_are_compiled_in_every_run():
    said, told = use("/proc/nowhere", NUMBA_CACHE_LOCATOR_CLASSES="UserProvidedCacheLocator")
    assert said.startswith("[3, 1]")
    assert told.count("compiled kernels cannot be cached") == 1


@pytest.mark.slow
def test_every_kernel_of_ours_is_guarded_and_those_of_others_keep_numbas_own_cache(tmp_path):
    (tmp_path / "theirs.py").write_text("from numba import njit\n@njit(cache=True)\ndef one():\n    return 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\n"
    code += "from trellis.cli.info import _kernels\nprint({type(k._cache).__name__ for k in _kernels()})\n"
    code += "import theirs\nprint(type(theirs.one._cache).__name__)"
    assert use(tmp_path / "cache", code)[0].split("\n") == ["{'GuardedCache'}", "FunctionCache"]
