"""Networks of tests are tiny: one thread each, and modules that draw their own parameters draw the same ones."""

from __future__ import annotations

from importlib.util import find_spec

import pytest

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)

    @pytest.fixture(autouse=True)
    def same_parameters() -> None:
        torch.manual_seed(0)
