"""Log-partitions and projections as functions of autograd: forward by exact inference, backward by marginals.

    log Z(scores)                       gradient  p                (expected parts)
    min_q KL(q ‖ p)  =  V + log Z       gradient  p − q*           q obeys constraints and known labels

The second is the envelope theorem: q* is optimal, so that its own movement changes nothing in first order. Without
constraints q* is p given the known labels, and the distance is −log p(known labels).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from trellis.constraints.rows import Rows
from trellis.data.ragged import FloatArray, IntArray
from trellis.errors import DataError
from trellis.neural.forms import Arrays, Form
from trellis.projection import project


def as_array(tensor: Any) -> FloatArray:
    """A tensor's numbers for compiled kernels."""
    return np.ascontiguousarray(tensor.detach().to("cpu", torch.float64).numpy())


def log_partition(form: Form, offsets: IntArray, tensors: Sequence[Any], weights: FloatArray | None = None) -> Any:
    """Σ_i weight_i log Z_i, a scalar tensor.

    tensors : those of the form;  weights : (n_instances,), 1 by default
    """
    return _LogPartition.apply(form, offsets, _checked(weights, offsets), *tensors)


def distance(
    form: Form,
    offsets: IntArray,
    tensors: Sequence[Any],
    known: Any = None,
    rows: Rows | None = None,
    weights: FloatArray | None = None,
    tolerance: float = 1e-3,
) -> Any:
    """Σ_i weight_i min_q KL(q_i ‖ p_i) over q that obey the rows and agree with known outputs, a scalar tensor.

    known : outputs as structures take them, −1 where unknown;  tolerance : of the projection's KKT residual
    """
    return _Distance.apply(form, offsets, known, rows, _checked(weights, offsets), tolerance, *tensors)


def _checked(weights: FloatArray | None, offsets: IntArray) -> FloatArray:
    n = len(offsets) - 1
    found = np.ones(n) if weights is None else np.ascontiguousarray(weights, dtype=np.float64)
    if found.shape != (n,):
        raise DataError(f"expected a weight for each of {n} instances but got shape {found.shape}")
    return found


def scaled_gradient(ctx: Any, grad: Any) -> tuple[Any, ...]:
    """The gradients of the tensors, like them in type and place."""
    found = zip(ctx.marginals, ctx.like, strict=True)
    return tuple(torch.from_numpy(one).to(device, dtype) * grad for one, (device, dtype) in found)


def keep_gradient(ctx: Any, marginals: Arrays, tensors: Sequence[Any]) -> None:
    """Remember the gradients of tensors until :func:`scaled_gradient` is asked for them."""
    ctx.marginals, ctx.like = marginals, [(one.device, one.dtype) for one in tensors]


class _LogPartition(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, form: Form, offsets: IntArray, weights: FloatArray, *tensors: Any) -> Any:
        scores = form.structure(offsets, [as_array(one) for one in tensors])
        q = scores.infer(weights=weights)
        keep_gradient(ctx, form.marginals(scores, q, weights), tensors)
        return tensors[0].new_tensor(float(weights @ q.log_partition))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return (None, None, None, *scaled_gradient(ctx, grad))


class _Distance(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, form: Form, offsets: IntArray, known: Any, rows: Rows | None, weights: FloatArray, tolerance: float,
        *tensors: Any,
    ) -> Any:  # fmt: skip
        scores = form.structure(offsets, [as_array(one) for one in tensors])
        p = scores.infer(weights=weights)
        given = scores if known is None or not np.any(np.asarray(known) >= 0) else scores.clamp(known)
        if rows is None:
            q = given.infer(weights=weights)
            value = -float(weights @ q.log_partition)
        else:
            found = project(given, rows, weights=weights, tolerance=tolerance)
            q, value = found.posterior, found.value
        free, bound = form.marginals(scores, p, weights), form.marginals(scores, q, weights)
        keep_gradient(ctx, tuple(a - b for a, b in zip(free, bound, strict=True)), tensors)
        return tensors[0].new_tensor(value + float(weights @ p.log_partition))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return (None, None, None, None, None, None, *scaled_gradient(ctx, grad))
