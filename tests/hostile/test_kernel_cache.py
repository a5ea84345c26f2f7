"""A cache of kernels that is cut, full or nowhere costs time and no run."""

from __future__ import annotations

import os
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
CHAIN = """
from trellis.models import HMM
hmm = HMM(min_count=1, unknown=None).fit([["a", "b"]], [["X", "Y"]])
print(hmm.predict([["a", "b"]]))
"""


def use(folder, code=USE, **environment):
    ended = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(folder), "TRELLIS_COMPILE_AHEAD": "0", **environment},
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "Traceback" not in ended.stderr
    return ended.stdout.strip(), ended.stderr


@pytest.mark.parametrize("ending", [".nbi", ".nbc"])
@pytest.mark.parametrize("share", [0.0, 0.02, 0.5, 0.98])
def test_a_cut_file_is_dropped_and_compiled_again(ending, share, tmp_path):
    compiled = use(tmp_path)[0]
    assert compiled.endswith("0 1")
    cut = [path for path in tmp_path.rglob("*") if path.suffix == ending]
    assert cut
    for path in cut:
        raw = path.read_bytes()
        path.write_bytes(raw[: int(share * len(raw))])
    assert use(tmp_path) == (compiled, "")
    assert use(tmp_path)[0].endswith("1 0"), "what was compiled again is there the next time"


def test_a_full_disk_is_told_once_and_the_run_goes_on(tmp_path):
    full = "import resource, signal\nsignal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
    full += "resource.setrlimit(resource.RLIMIT_FSIZE, (0, 0))\n"
    said, told = use(tmp_path, full + CHAIN)
    assert said == "[['X', 'Y']]"
    assert told.count("compiled kernels cannot be kept") == 1
    assert "File too large" in told
    assert "NUMBA_CACHE_DIR" in told
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]


def test_without_any_folder_to_write_to_kernels_are_compiled_in_every_run():
    said, told = use("/proc/nowhere", NUMBA_CACHE_LOCATOR_CLASSES="_UserProvidedCacheLocator")
    assert said.startswith("[1, 3]")
    assert told.count("compiled kernels cannot be kept") == 1


def test_kernels_of_others_keep_numbas_own_cache(tmp_path):
    (tmp_path / "theirs.py").write_text("from numba import njit\n@njit(cache=True)\ndef one():\n    return 1\n")
    code = f"import sys; sys.path.insert(0, {str(tmp_path)!r})\nimport trellis.structures, theirs\n"
    code += "print(type(theirs.one._cache).__name__, type(trellis.structures.kernels.chain_max).__name__)"
    assert use(tmp_path / "cache", code)[0] == "FunctionCache module"
