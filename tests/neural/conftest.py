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
    from trellis.neural import BiLSTM, encoders

    tiny = BiLSTM(word_size=6, char_size=0, hidden=6, layers=1, min_count=1, dropout=0.0)
    settings = {"max_iter": 8, "batch_size": 4, "learning_rate": 0.03}
    monkeypatch.setattr(encoders, "for_few_texts", lambda *_: (tiny, settings))
