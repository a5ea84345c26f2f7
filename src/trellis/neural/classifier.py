"""NeuralClassifier: a classifier of rows whose scores come from a network.

p(y = k | x) ∝ exp net(x)_k
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any, Self

from numpy.typing import NDArray
from torch import nn

from trellis.data.batch import Batch
from trellis.data.ragged import FloatArray
from trellis.errors import DataError
from trellis.models.documentation import documented
from trellis.models.log_linear import Dev
from trellis.models.tabular import TabularModel
from trellis.neural.encoders import check_scores_of
from trellis.neural.forms import FORMS, Form
from trellis.neural.model import NeuralModel
from trellis.structures import Categorical, LabelPosterior


class RowNetwork(nn.Module):
    """Scores of labels (n_rows, K) from a module."""

    def __init__(self, body: Any, n_labels: int) -> None:
        super().__init__()
        self.body, self.n_labels = body, n_labels

    def forward(self, batch: Batch) -> tuple[Any]:
        return (check_scores_of(self.body(batch), (len(batch), self.n_labels), "a score for each row and label"),)


@documented
@dataclass(eq=False, repr=False)
class NeuralClassifier(NeuralModel, TabularModel):
    """Classifier of rows over the scores of a network.

    Parameters
    ----------
    module : torch.nn.Module
        What scores the labels of rows: a tensor (n_rows, n_features) in, (n_rows, n_labels) out.
    labels : list, int or None, default=None
        Names of the labels, or their number. By default, the labels that occur in ``y``.
    inputs : callable or None, default=None
        Function that maps a batch to the argument (or a tuple of arguments) of the module. By default the rows, as one
        dense tensor.

    Attributes
    ----------
    net_ : torch.nn.Module
        The trained network.
    classes_ : ndarray
        Labels.
    history_ : History
        Objective and development score of each pass.
    n_iter_ : int
        Number of passes.
    converged_ : bool
        Whether training stopped before ``max_iter``.

    Examples
    --------
    >>> import torch
    >>> rows = [[0.0, 1.0], [1.0, 1.0], [2.0, 0.0], [3.0, 0.5]]
    >>> _ = torch.manual_seed(0)
    >>> net = torch.nn.Sequential(torch.nn.Linear(2, 8), torch.nn.Tanh(), torch.nn.Linear(8, 2))
    >>> model = NeuralClassifier(net, learning_rate=0.1).fit(rows, ["low", "low", "high", "high"])
    >>> model.predict([[0.5, 1.0], [2.5, 0.0]]).tolist()
    ['low', 'high']
    """

    module: Any
    labels: Sequence[Any] | int | None = None
    _: KW_ONLY
    inputs: Callable[[Batch], Any] | None = None
    max_iter: int = 50
    round_iter: int = 5
    learning_rate: float = 0.01
    tol: float = 1e-9

    def encode(self, X: Any, y: Any = None, weights: Any = None, fit: bool = False) -> Batch:
        """A batch with one instance a row and the rows as features; with ``fit`` the parameters are reset."""
        batch = super(NeuralModel, self).encode(X, y, weights, fit=fit)
        if fit:
            self._learn(batch)
        return batch

    def reset(self) -> None:
        """The parameters of the module as it was given."""
        if hasattr(self, "encoder_"):
            super().reset()

    def _inputs(self) -> Callable[[Batch], Any] | None:
        return self.inputs

    def _network(self, body: Any, width: int | None) -> Any:
        if width is not None:
            raise DataError("an encoder returns vectors of tokens; use a torch.nn.Module to classify rows")
        return RowNetwork(body, len(self.classes_))

    def _structure(self, batch: Batch, arrays: Sequence[FloatArray]) -> Categorical:
        return Categorical(arrays[0], batch.first)

    def form_of(self, batch: Batch) -> Form:
        return FORMS["categorical"]

    def _rows(self, batch: Batch, q: LabelPosterior) -> FloatArray:
        return q.node

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None, *, dev: Dev = None) -> Self:
        """Supervised training on the rows whose label is known; the score on ``dev`` = (X, y) decides which pass is
        kept."""
        self._check_types()
        return self._fitted(self._labelled(X, y, sample_weight), dev)

    def learned(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        names, _ = TabularModel.learned(self)
        return names, self._learned()[1]

    def restore(self, names: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        self._restore_names(names)
        self._restore({"encoder": None}, arrays)

    def _check_settings(self) -> None:
        self._check_network()
