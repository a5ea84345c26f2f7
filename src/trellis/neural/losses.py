"""For custom training loops: a loss over structures with rules, a CRF layer, and decoding under rules.

    loss = Σ_i min_q KL(q_i ‖ p_i)          q agrees with the labels that are known, and obeys the constraints

Of a sentence whose labels are known and without constraints it is −log p(y | x).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from numbers import Real
from typing import Any

import numpy as np
import torch
from torch import nn

from trellis.constraints import Constraint, Rule, compile_constraints
from trellis.constraints.compilation import named
from trellis.data.batch import Batch
from trellis.data.checks import check_label_lists, check_list, is_list, is_whole
from trellis.data.ragged import FloatArray, IntArray
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, check_name
from trellis.models.sequence import check_sentences, label_vocabulary
from trellis.neural.forms import ChainForm, Form, form_of
from trellis.neural.functions import as_array, distance
from trellis.search import decode
from trellis.structures import Structure

Kind = str | Form | Callable[[IntArray, FloatArray], Structure]
Rules = Sequence[Constraint | Rule]


class StructuredLoss(nn.Module):
    """Loss of a network whose outputs are scores of a structure: the distance to what labels and rules allow.

    Parameters
    ----------
    structure : str or callable, default="chain"
        One of "chain", "categorical", "trees" and "spanning-trees", or a function that makes a structure from offsets
        and one score for each part.
    labels : list of str or int or None, default=None
        Names of the labels, or their number. Not needed for trees.
    constraints : list of Constraint, default=()
        Constraints on the sentences whose labels are not all known.
    reduction : {"mean", "sum"}, default="mean"
        Divide the loss by the number of sentences, or not.
    projection_tol : float, default=0.001
        KKT residual at which the projection onto the constraints stops.

    Examples
    --------
    >>> from trellis.constraints import count
    >>> node = torch.zeros(3, 2, requires_grad=True)
    >>> loss = StructuredLoss("chain", ["N", "V"], [count("V") >= 1], reduction="sum")
    >>> scores = node, torch.zeros(2, 2), torch.zeros(2), torch.zeros(2)
    >>> loss(scores, [["dogs", "bark"], ["stop"]], [["N", "V"], None]).backward()
    >>> node.grad.tolist()
    [[-0.5, 0.5], [0.5, -0.5], [0.5, -0.5]]
    """

    def __init__(
        self,
        structure: Kind = "chain",
        labels: Sequence[str] | int | None = None,
        constraints: Rules = (),
        *,
        reduction: str = "mean",
        projection_tol: float = 1e-3,
    ) -> None:
        super().__init__()
        self.form, self.constraints = form_of(structure), named(constraints)
        tolerance: Any = projection_tol
        if not isinstance(tolerance, Real) or not float(tolerance) > 0.0:
            raise DataError(f"projection_tol must be a number above 0, got {tolerance!r:.60}")
        self.projection_tol = float(tolerance)
        self.label_names = Vocabulary([], kind="label") if labels is None else label_vocabulary(labels)
        check_name("reduction", reduction, ("mean", "sum"))
        self.reduction = reduction

    def forward(self, scores: Any, X: Any, y: Any = None) -> Any:
        """The loss, a scalar tensor.

        scores : the tensors of the structure, or the only one
        X : sentences, each a list of tokens;  y : labels (of trees heads) of each, None where unknown
        """
        tensors = _tensors(self.form, scores)
        batch = _batch(X, y, self.label_names)
        everything = np.arange(len(batch))
        free = everything[~batch.complete] if self.constraints else everything[:0]
        total, scores = tensors[0].new_zeros(()), self._structure(batch, tensors)
        for numbers in (np.setdiff1d(everything, free), free):
            if len(numbers):
                chosen = torch.from_numpy(self.form.rows_of(scores, numbers)).to(tensors[0].device)
                own = [tensors[0][chosen], *tensors[1:]]
                total = total + self._distance(own, batch.take(numbers), constrained=numbers is free)
        return total / max(len(batch), 1) if self.reduction == "mean" else total

    def _structure(self, batch: Batch, tensors: Sequence[Any]) -> Structure:
        return self.form.structure(batch.offsets, [as_array(one) for one in tensors])

    def _distance(self, tensors: Sequence[Any], batch: Batch, *, constrained: bool) -> Any:
        rows = None
        if constrained:
            rows = compile_constraints(self.constraints, batch, self.label_names, self._structure(batch, tensors).parts)
        known = batch.labels if batch.known else None
        return distance(self.form, batch.offsets, tensors, known, rows, tolerance=self.projection_tol)


class ChainCRF(nn.Module):
    """A CRF layer over scores of labels: learned transitions, exact likelihood, marginals and best labels.

    Parameters
    ----------
    labels : list of str or int
        Names of the labels, or their number.
    ends : bool, default=True
        Learn scores of the first and the last label of a sentence.

    Examples
    --------
    >>> layer = ChainCRF(["N", "V"])
    >>> node = torch.tensor([[1.0, 0.0], [0.0, 3.0]])
    >>> layer.decode(node, [2]), round(layer(node, [["dogs", "bark"]], [["N", "V"]]).item(), 3)
    ([['N', 'V']], 0.362)
    """

    def __init__(self, labels: Sequence[str] | int, *, ends: bool = True) -> None:
        super().__init__()
        self.label_names = label_vocabulary(labels)
        k = len(self.label_names)
        self.edge = nn.Parameter(torch.zeros(k, k))
        self.start, self.stop = (nn.Parameter(torch.zeros(k), requires_grad=ends) for _ in range(2))
        self.loss = StructuredLoss("chain", list(self.label_names))

    def scores(self, node: Any) -> tuple[Any, Any, Any, Any]:
        """The tensors of a chain, for :class:`StructuredLoss` and :func:`constrained_decode`."""
        if not isinstance(node, torch.Tensor) or node.ndim != 2:
            raise DataError(f"node must be a tensor (n_tokens, n_labels), got {node!r:.60}")
        edge, start, stop = (one.to(node.dtype) for one in (self.edge, self.start, self.stop))
        return node, edge, start, stop

    def forward(self, node: Any, X: Any, y: Any) -> Any:
        """−log p(y | x), the mean over sentences; node : (n_tokens, K) of all sentences, one after the other."""
        return self.loss(self.scores(node), X, y)

    def marginals(self, node: Any, lengths: Sequence[int]) -> Any:
        """P(label of token t is k) as a tensor (n_tokens, K), without gradients."""
        q = self._chain(node, lengths).infer()
        return torch.from_numpy(q.node).to(node.device, node.dtype)

    def decode(self, node: Any, lengths: Sequence[int]) -> list[list[str]]:
        """The best labels of each sentence."""
        names, chain = self.label_names.names, self._chain(node, lengths)
        best = [names[k] for k in chain.argmax().outputs.tolist()]
        return [best[low:high] for low, high in pairwise(chain.parts.offsets.tolist())]

    def _chain(self, node: Any, lengths: Sequence[int]) -> Any:
        scores = [as_array(one) for one in self.scores(node)]
        given: Any = lengths.tolist() if isinstance(lengths, np.ndarray | torch.Tensor) else lengths
        if not is_list(given) or not all(is_whole(n) and n >= 0 for n in given) or sum(given) != len(node):
            raise DataError(
                f"lengths must be the numbers of tokens of sentences, {len(node)} in all, got {given!r:.60}"
            )
        offsets = np.cumsum([0, *given], dtype=np.int64)
        return ChainForm().structure(offsets, scores)


def constrained_decode(
    scores: Any,
    constraints: Rules,
    X: Any,
    labels: Sequence[str] | int | None = None,
    *,
    structure: Kind = "chain",
    method: str = "auto",
    beam: int = 50,
) -> list[Any]:
    """The best output of each sentence under constraints, from the scores of a network.

    Parameters
    ----------
    scores : tensor or tuple of tensors
        Scores of the structure, as for :class:`StructuredLoss`.
    constraints : list of Constraint
        Constraints; those with a penalty are weighed against the scores.
    X : list of list of str
        Sentences, each a list of tokens.
    labels : list of str or int or None, default=None
        Names of the labels, or their number. Not needed for trees.
    structure : str or callable, default="chain"
        Structure of the outputs, as for :class:`StructuredLoss`.
    method : str, default="auto"
        Search method, as for :func:`trellis.decode`.
    beam : int, default=50
        Beam width of the search.

    Returns
    -------
    list
        Labels of each sentence by name, or heads of each.

    Examples
    --------
    >>> from trellis.constraints import count
    >>> scores = torch.tensor([[1.0, 0.0], [1.0, 0.5]]), torch.zeros(2, 2), torch.zeros(2), torch.zeros(2)
    >>> constrained_decode(scores, [count("V") >= 1], [["dogs", "bark"]], ["N", "V"])
    [['N', 'V']]
    """
    form = form_of(structure)
    names = Vocabulary([], kind="label") if labels is None else label_vocabulary(labels)
    batch = _batch(X, None, names)
    made = form.structure(batch.offsets, [as_array(one) for one in _tensors(form, scores)])
    found = decode(made, compile_constraints(constraints, batch, names, made.parts), method, beam=beam)
    codes, ends = np.asarray(found.outputs).tolist(), batch.offsets.tolist()
    named = [names[k] for k in codes] if len(names) else codes
    return [named[low:high] for low, high in pairwise(ends)]


def _tensors(form: Form, scores: Any) -> list[Any]:
    """The tensors of a form, however they were given."""
    given = list(scores) if isinstance(scores, tuple | list) else [scores]
    if len(given) != form.n_tensors or not all(isinstance(one, torch.Tensor) for one in given):
        wanted = "node, edge, start and stop" if form.n_tensors == 4 else "one tensor of scores"
        raise DataError(f"expected {wanted}, but got {len(given)} of {[type(one).__name__ for one in given]}")
    return given


def _batch(X: Any, y: Any, names: Vocabulary) -> Batch:
    """Sentences with their labels, or with heads where labels have no names."""
    sentences = [[str(token) for token in sentence] for sentence in check_sentences(X)]
    if len(names) or y is None:
        return Batch.from_sentences(sentences, check_label_lists(y), label_names=names)
    batch = Batch.from_sentences(sentences)
    heads = [[None] * len(s) if own is None else own for s, own in zip(sentences, check_list(y, "heads"), strict=False)]
    sizes = [len(own) for own in heads if is_list(own)]
    if len(y) != len(heads) or sizes != [*map(len, sentences)]:
        raise DataError("expected a list with the head of each word, or None, for each sentence")
    flat = [head for own in heads for head in own]
    if not all(head is None or is_whole(head) for head in flat):
        raise DataError("heads must be whole numbers, 0 for the root, or None where unknown")
    return batch.with_labels(np.array([-1 if head is None else head for head in flat], dtype=np.int32))
