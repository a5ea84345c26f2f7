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


@pytest.fixture
def small_encoder(monkeypatch):
    """``encoder="bilstm"`` of an application stands for a tiny one."""
    from trellis.apps.aggregate import aggregator
    from trellis.neural import encoders

    plain = encoders.encoder_of

    def tiny(name, **settings):
        return plain(name, word_size=6, char_size=0, hidden=6, layers=1, min_count=1, dropout=0.0)

    monkeypatch.setattr(encoders, "encoder_of", tiny)
    monkeypatch.setattr(encoders, "FEW_PASSES", (8, 8))
    monkeypatch.setattr(aggregator, "NETWORK_PASSES", (4, 4))
