"""One folder with the files and models of every command, made once."""

from __future__ import annotations

import pytest

from tests.cli.every import furnish


@pytest.fixture(scope="session")
def every_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("every")
    with pytest.MonkeyPatch.context() as patch:
        furnish(folder, patch)
    return folder
