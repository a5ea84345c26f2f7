"""Loading and using a model opens nothing but its file, and takes memory in proportion to it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.hostile.saved import SAVED

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="peak memory is read from /proc"),
]


@pytest.fixture(scope="module")
def watched(tmp_path_factory):
    folder = tmp_path_factory.mktemp("audit")
    command = [sys.executable, "-m", "tests.hostile.audit", str(folder), *SAVED]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2], timeout=1200)
    assert ended.returncode == 0, ended.stderr[-3000:]
    return [json.loads(line) for line in ended.stdout.splitlines()]


def test_every_kind_of_file_is_watched(watched):
    assert {one["kind"] for one in watched} == set(SAVED)
    assert len(watched) > 2 * len(SAVED)


def test_no_file_is_opened_but_the_model_and_nothing_is_connected_to_or_started(watched):
    assert {f"{one['kind']}, {one['edit']}": one["seen"] for one in watched if one.get("seen")} == {}


def test_no_setting_however_large_ends_in_a_raw_error(watched):
    assert {f"{one['kind']}, {one['edit']}": one["fault"] for one in watched if one["fault"]} == {}


def test_memory_is_at_most_fifty_times_the_file_and_fifty_megabytes(watched):
    large = {
        f"{one['kind']}, {one['edit']}": one["memory"]
        for one in watched
        if one["memory"] > 50 * one["file"] + 50 * 2**20
    }
    assert large == {}
