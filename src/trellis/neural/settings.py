"""How a network is trained and where it runs: settings of every model with a network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from trellis.errors import DataError
from trellis.models.lbfgs import check_l2
from trellis.models.saving import SavedEstimator
from trellis.neural.encoders import encoder_of

SOLVERS = ("adamw", "lbfgs")


@dataclass(eq=False, repr=False, kw_only=True)
class NetworkSettings(SavedEstimator):
    """Settings of training a network.

    Parameters
    ----------
    solver : {"adamw", "lbfgs"}, default="adamw"
        Optimiser: mini-batch steps, or L-BFGS on all data for small networks.
    max_iter : int, default=20
        Passes over the data from new parameters, or rounds of L-BFGS.
    round_iter : int, default=3
        Passes over the data in each later M-step of a learner.
    learning_rate : float, default=0.002
        Largest step size; it rises during warm-up and falls to 0 at the end.
    batch_size : int, default=32
        Number of instances per step.
    weight_decay : float, default=0.01
        Weight decay of AdamW.
    l2 : float, default=0.0
        Strength of a Gaussian prior on all parameters, 1 / σ²; part of the objective, unlike ``weight_decay``.
    warmup : float, default=0.1
        Share of the steps in which the step size rises.
    clip : float, default=5.0
        Largest norm of a gradient.
    tol : float, default=1e-07
        L-BFGS stops when the objective improves by less than this fraction.
    device : str, default="cpu"
        Where the network runs: "cpu", "cuda" or "cuda:0".
    patience : int or None, default=None
        With ``dev`` data, stop after this many passes without a better score.
    random_state : int or None, default=0
        Seed of new parameters, of dropout and of the order of instances.
    n_jobs : int or None, default=None
        Number of threads of inference; results do not depend on it. None means one thread and -1 all cores.
    verbose : bool, default=False
        Show progress.
    """

    module: Any
    solver: str = "adamw"
    max_iter: int = 20
    round_iter: int = 3
    learning_rate: float = 0.002
    batch_size: int = 32
    weight_decay: float = 0.01
    l2: float = 0.0
    warmup: float = 0.1
    clip: float = 5.0
    tol: float = 1e-7
    device: str = "cpu"
    patience: int | None = None
    random_state: int | None = 0
    n_jobs: int | None = None
    verbose: bool = False

    not_saved = (*SavedEstimator.not_saved, "module", "device", "patience")

    def _encoder(self) -> Any:
        """The module, or the encoder that its name stands for here."""
        return self.module

    def _device(self) -> Any:
        try:
            device = torch.device(self.device)
        except RuntimeError:
            raise DataError(f"device must be 'cpu', 'cuda' or 'cuda:0', got {self.device!r}") from None
        if device.type == "cuda" and not torch.cuda.is_available():
            raise DataError(f"device={self.device!r} needs a GPU that PyTorch can use, and there is none: use 'cpu'")
        return device

    def _check_network(self) -> None:
        """Refuse settings of training that have no meaning."""
        self._check_names(solver=SOLVERS)
        check_l2(self.l2)
        self._check_whole(max_iter=1, round_iter=1, batch_size=1, patience=1, random_state=0)
        self._check_within(learning_rate=(1e-300, np.inf), weight_decay=(0.0, np.inf), warmup=(0.0, 1.0))
        self._check_within(clip=(1e-300, np.inf), tol=(0.0, np.inf))
        if not hasattr(self, "encoder_"):
            encoder = encoder_of(self._encoder())  # refuses a name that is none
            if encoder is not None:
                encoder.check_settings()
        self._device()
