"""Networks of tests are tiny, and tests run in several processes: one thread for each."""

from __future__ import annotations

from importlib.util import find_spec

if find_spec("torch") is not None:
    import torch

    torch.set_num_threads(1)
