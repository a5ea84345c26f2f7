"""Saved files of every kind, made once for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.hostile.saved import SAVED


@pytest.fixture(scope="session")
def saved_file(tmp_path_factory):
    """kind -> path of a file of that kind, which tests must not change."""
    folder, made = tmp_path_factory.mktemp("saved"), {}

    def path(kind):
        if kind not in made:
            made[kind] = folder / f"{len(made)}.trellis"
            SAVED[kind].make(str(made[kind]))
        return made[kind]

    return path
