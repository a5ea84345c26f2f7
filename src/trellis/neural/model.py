"""NeuralModel: p(y | x) ∝ exp score_θ(y, x), where the scores of parts come from a network.

The four verbs are those of every model. ``scores`` runs the network, ``collect`` keeps the expected parts of a
posterior q as targets, and the M-step takes mini-batch steps (AdamW) on

    − Σ_i w_i E_{q_i}[log p_θ(y | x_i)] + (l2 / 2) ‖θ‖²,      gradient at the scores:  w (p_θ − q)

with labels given it is ordinary supervised training.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from trellis.data.arrays import LARGEST, ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.engine import Engine, Placed
from trellis.errors import DataError, check_name
from trellis.models.estimator import generator
from trellis.models.lbfgs import Descent, GaussianPrior, Objective, minimise
from trellis.models.log_linear import Dev
from trellis.models.saving import from_archive, missing_function, to_archive
from trellis.neural.encoders import Encoder, GivenModule, encoder_of
from trellis.neural.forms import Form, PartsForm
from trellis.neural.functions import as_array, log_partition
from trellis.neural.settings import NetworkSettings
from trellis.neural.targets import NeuralStatistics, Targets, groups_of, mini_batches
from trellis.neural.training import Steps, supervised
from trellis.neural.weights import (
    as_vector,
    changing_parameters,
    gradient_of,
    reset_modules,
    set_vector,
    trained_parameters,
)
from trellis.structures import Structure

PIECE = 64
"""Instances that the network scores at once."""


class NeuralModel(NetworkSettings):
    """What models whose scores come from a network have in common; subclasses bring a structure and its ``encode``.

    A subclass has the methods ``_network`` (what turns the encoder's vectors into scores) and ``_structure``.
    """

    discriminative: ClassVar[bool] = True
    rises: ClassVar[bool] = False
    at_once: ClassVar[int] = PIECE
    title: ClassVar[str] = "training the network"
    label_names_: Vocabulary
    encode: Any
    parts: Any
    encoder_: Encoder | None
    net_: Any

    def _network(self, body: Any, width: int | None) -> Any:
        """The whole network, from a module that gives vectors of ``width``, or scores where that is None."""
        raise NotImplementedError

    def _structure(self, batch: Batch, arrays: Sequence[FloatArray]) -> Structure:
        """The structure of a batch with the scores of the network."""
        raise NotImplementedError

    def _rows(self, batch: Batch, q: Any) -> FloatArray:
        """The marginals of q in the shape of the first tensor."""
        raise NotImplementedError

    # the network

    def _learn(self, batch: Batch) -> None:
        """Learn from a batch what the encoder has to know (words, ...), and reset the parameters."""
        self._check_settings()
        encoder = encoder_of(self._encoder())
        self.encoder_ = None if encoder is None else encoder.learned_from(self._words(batch))
        self.reset()

    def _words(self, batch: Batch) -> Batch:
        """A batch of the words that an encoder learns from."""
        return batch

    def _inputs(self) -> Callable[[Batch], Any] | None:
        """What makes the arguments of a module of one's own."""
        return None

    def _build(self) -> Any:
        """A new network, on the CPU, with the parameters that it starts from."""
        if self.encoder_ is not None:
            return self._network(self.encoder_.build(), self.encoder_.width)
        if not isinstance(self.module, nn.Module):
            raise DataError(
                f"module must be a torch.nn.Module, an encoder such as BiLSTM(), or 'bilstm', got {self.module!r:.80}"
            )
        return self._network(GivenModule(copy.deepcopy(self.module), self._inputs()), None)

    def _take(self, net: Any, *, fresh: bool = False) -> None:
        """Make this the model's network. Networks that other models share are never changed."""
        self.net_, self.version_, self.fresh_ = net.to(self._device()), object(), fresh
        net.eval()

    def _seeded(self, seed: int | None) -> Any:
        """A context in which PyTorch draws from this seed, and after which it draws on as before."""
        forked = torch.random.fork_rng(devices=[] if self._device().type == "cpu" else None)
        forked.__enter__()
        torch.manual_seed(int(np.random.default_rng(seed).integers(2**31)))
        return forked

    def reset(self) -> None:
        """The parameters that a new network starts from; those of a module of one's own are as it was given."""
        forked = self._seeded(self.random_state)
        try:
            self._take(self._build(), fresh=True)
        finally:
            forked.__exit__(None, None, None)

    def randomize(self, rng: np.random.Generator, scale: float = 1.0) -> None:
        """New random parameters, but for those that were trained before (``pretrained`` modules)."""
        forked = self._seeded(int(rng.integers(2**31)))
        try:
            net = copy.deepcopy(self.net_)
            reset_modules(net)
            with torch.no_grad():
                for one in net.parameters(recurse=False):
                    one.normal_(0.0, 0.1 * scale)
            self._take(net, fresh=True)
        finally:
            forked.__exit__(None, None, None)

    # the four verbs

    def scores(self, batch: Batch) -> Any:
        """Scores of the network over the parts of the batch."""
        return self._structure(batch, self._arrays(batch))

    def uniform(self, batch: Batch) -> Any:
        """Scores under which all outputs are equally likely."""
        return self.scores(batch).flat()

    def _arrays(self, batch: Batch) -> list[FloatArray]:
        """The tensors of the network, as arrays; remembered with the batch until the parameters change."""
        memo: dict[str, Any] = self._memo(batch)
        if memo.get("version") is not self.version_:
            with torch.inference_mode():
                pieces = [
                    self.net_(batch.instances(low, min(low + self.at_once, len(batch))))
                    for low in range(0, max(len(batch), 1), self.at_once)
                ]
            first = as_array(torch.cat([piece[0] for piece in pieces]))
            memo["arrays"] = [first, *(as_array(one) for one in pieces[0][1:])]
            memo["version"] = self.version_
        found: list[FloatArray] = memo["arrays"]
        bad = [one for one in found if not np.all(np.isfinite(one))]
        if bad:
            raise DataError(
                "the network returns scores that are not finite: lower the learning rate, or check its input"
            )
        return found

    def _memo(self, batch: Any) -> dict[str, Any]:
        """What is remembered with a batch."""
        found: dict[str, Any] = batch.remembered("network", dict)
        return found

    def collect(self, batch: Batch, q: Any) -> NeuralStatistics:
        """Expected parts of a posterior, as targets."""
        rows, sizes = self._rows(batch, q), self._sizes(batch)
        rows = rows * np.repeat(batch.weights, sizes).reshape(-1, *[1] * (rows.ndim - 1))
        return NeuralStatistics((Targets(batch, batch.weights, rows, sizes, np.arange(len(batch))),))

    def _sizes(self, batch: Batch) -> IntArray:
        """(n_instances,): entries of the first tensor."""
        return batch.lengths

    def update(
        self, statistics: NeuralStatistics, *, shards: Sequence[Placed[Any]] | None = None, engine: Engine | None = None
    ) -> None:
        """M-step: ``max_iter`` passes over the targets from new parameters, ``round_iter`` from those of a round
        before."""
        if self.solver == "lbfgs":
            self.lower(self.loss(statistics, ()), max_iter=self.max_iter)
            return
        passes = self.max_iter if self.fresh_ else self.round_iter
        steps = Steps(self, statistics.joined(), passes, generator(self.random_state))
        for _ in range(passes):
            steps.run()

    def likelihood_loss(self, net: Any, part: Targets) -> Any:
        """−Σ w E_q[log p] of targets, a scalar tensor."""
        tensors = net(part.batch)
        total = self._log_partition(part.batch, tensors, part.weights)
        return total - sum(
            (one * target).sum() for one, target in zip(tensors, self._linear(part, tensors), strict=True)
        )

    def form_of(self, batch: Batch) -> Form:
        """The form of the scores of a batch, with the model's own settings of the structure."""
        return PartsForm(lambda _, scores: self._structure(batch, [scores]))

    def _log_partition(self, batch: Batch, tensors: Sequence[Any], weights: FloatArray) -> Any:
        return log_partition(self.form_of(batch), batch.offsets, tensors, weights)

    def margin_step(self, weights: Any, batch: Batch, rules: Sequence[Any], **settings: Any) -> Any:
        """A pass of a structural SVM, for the loop of :class:`trellis.SSVM`."""
        from trellis.neural.margin import NetworkMargin

        return NetworkMargin(weights, batch, rules, **settings)

    def _linear(self, part: Targets, tensors: Sequence[Any]) -> list[Any]:
        """The targets in the shapes of the tensors."""
        return [torch.from_numpy(part.rows).to(tensors[0].device, tensors[0].dtype, non_blocking=True)]

    def log_prior(self) -> float:
        """−(l2 / 2) ‖θ‖² over the parameters that are trained."""
        return -0.5 * self.l2 * sum(float((one.detach().double() ** 2).sum()) for one in trained_parameters(self.net_))

    # parameters

    def parameters(self) -> dict[str, Any]:
        """Arrays of the parameters that training changes."""
        self._check_fitted()
        return {name: one.detach().cpu().numpy().copy() for name, one in changing_parameters(self.net_).items()}

    def set_parameters(self, parameters: Mapping[str, Any]) -> None:
        """Take parameters of the form that :meth:`parameters` gives."""
        net = copy.deepcopy(self.net_)
        with torch.no_grad():
            for name, one in changing_parameters(net).items():
                check_name("parameter", name, parameters)
                given = torch.from_numpy(np.array(parameters[name]))
                if given.shape != one.shape:
                    raise DataError(f"{name} must have shape {tuple(one.shape)} but has {tuple(given.shape)}")
                one.copy_(given)
        self._take(net)

    # one vector of weights, for L-BFGS and for objectives that are not likelihoods alone (GE)

    @property
    def weights_(self) -> FloatArray:
        """All parameters that are trained (n_weights,)."""
        return as_vector(trained_parameters(self.net_))

    def at(self, weights: FloatArray) -> Self:
        """The model at other weights."""
        made, net = copy.copy(self), copy.deepcopy(self.net_)
        set_vector(net, weights)
        made._take(net)
        return made

    def vector(self, statistics: NeuralStatistics) -> FloatArray:
        """d/dw of the scores of the expected parts (n_weights,): of a linear network, expected feature counts."""
        targets, net = statistics.joined(), self.net_
        found = np.zeros(len(self.weights_))
        for part in mini_batches(targets, PIECE, None):
            tensors = net(part.batch)
            linear = zip(tensors, self._linear(part, tensors), strict=True)
            found += gradient_of(sum((one * target).sum() for one, target in linear), net)
        return found

    def loss(self, statistics: NeuralStatistics, shards: Sequence[Placed[Any]]) -> Objective:
        """w -> −log-likelihood of what the statistics were collected from, and its gradient."""
        targets, net = statistics.joined(), copy.deepcopy(self.net_)
        net.eval()

        def value_and_gradient(weights: FloatArray) -> tuple[float, FloatArray]:
            set_vector(net, weights)
            value, gradient = 0.0, np.zeros(len(weights))
            for part in mini_batches(targets, PIECE, None):
                own = self.likelihood_loss(net, part)
                gradient += gradient_of(own, net)
                value += float(own.detach())
            return value, gradient

        return value_and_gradient

    def lower(self, objective: Objective, *, max_iter: int) -> Descent:
        """Lower an objective of the weights, with the prior, by L-BFGS from the present ones."""
        prior = GaussianPrior(self.l2)
        found = minimise(objective, self.weights_, max_iter=max_iter, tol=self.tol, prior=prior)
        self._take(self.at(found.weights).net_)
        return found

    # alone, as an estimator

    def _complete(self, batch: Batch) -> Batch:
        """The instances that are fully labelled."""
        complete = np.flatnonzero(batch.complete & (batch.weights > 0))
        if not len(complete):
            raise DataError(
                "no instance is fully labelled, and fit uses only such instances; to learn from the others, train "
                "this model with a learner of trellis.learn"
            )
        return batch.take(complete)

    def _fitted(self, batch: Batch, dev: Dev) -> Self:
        """Trained on a batch whose outputs are all known; the score on ``dev`` decides which pass is kept."""
        statistics = self.collect(batch, self.scores(batch).certain(batch.outputs, weights=batch.weights))
        if self.solver == "lbfgs":
            found = self.lower(self.loss(statistics, ()), max_iter=self.max_iter)
            self.n_iter_, self.converged_ = max(found.rounds, 1), found.converged
            return self
        run = supervised(self, statistics.joined(), batch, dev)
        self.history_, self.n_iter_, self.converged_ = run.history, len(run.history), run.converged
        return self

    # one file

    def _learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The encoder's header, and arrays of the network and the encoder."""
        self._check_fitted()
        arrays = {f"net/{name}": one.detach().cpu().numpy() for name, one in self.net_.state_dict().items()}
        if self.encoder_ is None:
            return {"encoder": None}, arrays
        header, own = to_archive(self.encoder_)
        return {"encoder": header}, {**arrays, **{f"encoder/{name}": array for name, array in own.items()}}

    def _restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """The inverse of :meth:`_learned`; the network is made as large as its arrays, and no larger."""
        self._check_settings()
        if names["encoder"] is None:
            if not isinstance(self.module, nn.Module):
                raise DataError(
                    "this model was trained with a custom module, which its file cannot hold: use load_model(path, "
                    "module=...) with such a module"
                )
            if missing_function(self._inputs()) is not None:
                raise DataError(
                    "give the function of the module's inputs too: load_model(path, module=..., inputs=...)"
                )
            self.encoder_ = None
        else:
            own = {name[8:]: array for name, array in arrays.items() if name.startswith("encoder/")}
            self.encoder_ = cast("Encoder", from_archive(names["encoder"], own, Encoder))
            self.module = self.encoder_.plain()
        own = {name.removeprefix("net/"): one for name, one in arrays.items() if not name.startswith("encoder/")}
        with torch.device("meta"):
            empty = self._build()
        table = {
            name: ArrayOf(str(one.dtype).removeprefix("torch."), tuple(one.shape), low=-LARGEST, high=LARGEST)
            for name, one in empty.state_dict().items()
        }
        checked = check_arrays(table, own)
        with torch.random.fork_rng(devices=[]):
            net = self._build()  # as large as its arrays, which have been compared
        net.load_state_dict({name: torch.from_numpy(one) for name, one in checked.items()})
        self._take(net)


def chain_groups(model: NeuralModel, batch: Batch, n_labels: int) -> IntArray:
    """The groups of a batch whose instances share a matrix of transitions in its statistics."""
    largest = max(model.batch_size, 1)
    found: IntArray = batch.remembered(("groups", largest), lambda: groups_of(batch.offsets, n_labels, largest))
    return found
