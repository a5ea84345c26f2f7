"""Training a network on targets: mini-batch steps of AdamW with warm-up, decay and clipping.

The objective of a mini-batch is its share of the whole,  (n / n_b) Σ_{i in b} loss_i + (l2 / 2) ‖θ‖²,  divided by the
weight of all instances, so that learning rates mean the same for corpora of every size.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from trellis.data.batch import Batch
from trellis.data.checks import check_dev
from trellis.errors import DataError
from trellis.loop import ArrayState, Loop, Settings, Step, StepResult
from trellis.loop.checkpoint import Checkpoint
from trellis.models.log_linear import Dev
from trellis.neural.targets import Targets, mini_batches

if TYPE_CHECKING:
    from trellis.neural.model import NeuralModel


class Steps:
    """Passes over targets, of which there will be ``passes``; the optimiser's state lasts as long.

    loss : of a network on targets, by default −Σ w E_q[log p];  l2 : in place of the model's
    """

    def __init__(
        self,
        model: NeuralModel,
        targets: Targets,
        passes: int,
        rng: np.random.Generator,
        *,
        loss: Callable[[Any, Targets], Any] | None = None,
        l2: float | None = None,
    ) -> None:
        self.model, self.targets, self.rng = model, targets, rng
        self.loss, self.l2 = loss or model.likelihood_loss, model.l2 if l2 is None else l2
        weighted = targets.weights[targets.weights != 0]
        if not len(weighted):
            raise DataError("no instance has a weight above zero to train the network on")
        self.total = float(targets.weights.sum())
        self.mean = self.total / len(targets.weights)
        self.planned = max(passes * -(-len(targets.weights) // model.batch_size), 1)
        self.done = 0
        trained = [one for one in model.net_.parameters() if one.requires_grad]
        if not trained:
            raise DataError("the network has no trainable parameters")
        groups = rated(model.net_, model.learning_rate)
        self.optimiser = torch.optim.AdamW(
            groups, lr=model.learning_rate, weight_decay=model.weight_decay, betas=(0.9, 0.98)
        )
        self.rates = [group["lr"] for group in self.optimiser.param_groups]
        self.trained = trained

    def run(self) -> float:
        """One pass; the loss of all mini-batches as they were met."""
        model, net, lost = self.model, self.model.net_, []
        forked = model._seeded(int(self.rng.integers(2**31)))
        net.train()
        try:
            for part in mini_batches(self.targets, model.batch_size, self.rng):
                own = self.loss(net, part)
                loss = own / (len(part.weights) * self.mean)
                if self.l2:
                    loss = loss + 0.5 * self.l2 / self.total * sum((one**2).sum() for one in self.trained)
                self._step(loss)
                lost.append(own.detach())
        finally:
            net.eval()
            forked.__exit__(None, None, None)
            model._take(net)
        return float(torch.stack(lost).double().sum()) if lost else 0.0

    def _step(self, loss: Any) -> None:
        self.optimiser.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.trained, self.model.clip)
        for group, rate in zip(self.optimiser.param_groups, self.rates, strict=True):
            group["lr"] = rate * self._share()
        self.optimiser.step()
        self.done += 1

    def _share(self) -> float:
        """Of the learning rate: it rises to 1 during warm-up, and falls to 0 at the end."""
        warm = self.model.warmup * self.planned
        if self.done < warm:
            return (self.done + 1) / (warm + 1)
        return max(0.02, 1.0 * (self.planned - self.done) / max(self.planned - warm, 1.0))


class NetworkPass(Step[ArrayState]):
    """A pass over targets, in the loop."""

    def __init__(self, model: NeuralModel, targets: Targets) -> None:
        self.model, self.targets = model, targets
        self.steps: Steps | None = None

    def run(self, gamma: float, state: ArrayState, rng: np.random.Generator) -> StepResult:
        if self.steps is None:
            self.steps = Steps(self.model, self.targets, self.model.max_iter, rng)
        return StepResult(None, -self.steps.run(), state, evaluations=1)

    def log_prior(self) -> float:
        return self.model.log_prior()


def supervised(model: NeuralModel, targets: Targets, batch: Batch, dev: Dev) -> Checkpoint:
    """Train a model on targets in the loop; the score on ``dev`` decides which pass is kept."""
    check_dev(dev)
    if model.patience is not None and dev is None:
        raise DataError("patience watches a development metric: give dev=(X, y) to fit")
    settings = Settings(
        max_iter=model.max_iter, tol=0.0, patience=model.patience, random_state=model.random_state,
        verbose=model.verbose, title=model.title,
    )  # fmt: skip
    score = None if dev is None else lambda _: float(model.score(*dev))  # type: ignore[attr-defined]
    return Loop(NetworkPass(model, targets), settings, score=score).run()


def rated(net: Any, rate: float) -> list[dict[str, Any]]:
    """The parameters that are trained, by step size: that of the nearest module which has a ``rate`` of its own."""
    own = {id(p): module.rate for module in net.modules() if hasattr(module, "rate") for p in module.parameters()}
    trained = [one for one in net.parameters() if one.requires_grad]
    rates = sorted({own.get(id(one), rate) for one in trained})
    return [{"params": [p for p in trained if own.get(id(p), rate) == r], "lr": r} for r in rates]
