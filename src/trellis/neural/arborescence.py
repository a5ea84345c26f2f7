"""Sums over dependency trees on the GPU: determinants of padded Laplacians, all sentences of a mini-batch at once.

    Z = det L,   L[h, c] = −exp arc(h, c) off the diagonal, and columns of L sum to exp arc(root, c)

(Matrix-tree theorem: Koo et al. 2007.) With a single root the first row of L gives way to the root's weights. Marginals
come from L⁻¹. Sentences whose matrix is so near to singular that they would lose digits go to the compiled kernels,
which do without subtraction.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from trellis.data.ragged import FloatArray, IntArray
from trellis.structures import SpanningTrees

WORST = 1e-6
"""By how much the marginals of a word's heads may miss 1 in sum before a sentence goes to the kernels."""


def tree_log_partition(offsets: IntArray, arc: Any, weights: FloatArray, *, single_root: bool = True) -> Any:
    """Σ_i weight_i log Z_i over dependency trees that may cross, where the scores of arcs (n_parts,) are."""
    return _Trees.apply(offsets, weights, single_root, arc)


def padded_arcs(offsets: IntArray) -> IntArray:
    """(n_instances, longest, longest): the arc [child, head] of each sentence's square, the number of arcs outside."""
    lengths = np.diff(offsets)
    first, longest = np.concatenate([[0], np.cumsum(lengths**2)]), max(int(lengths.max(initial=0)), 1)
    place = np.arange(longest)
    found = first[:-1, None, None] + place[:, None] * lengths[:, None, None] + place
    inside = (place[:, None] < lengths[:, None, None]) & (place < lengths[:, None, None])
    return np.where(inside, found, first[-1])


class _Trees(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, offsets: IntArray, weights: FloatArray, single_root: bool, arc: Any) -> Any:
        filled = np.diff(offsets) > 0
        kept = np.concatenate([[0], np.cumsum(np.diff(offsets)[filled])]).astype(np.int64)
        device, places = arc.device, torch.from_numpy(padded_arcs(kept)).to(arc.device, non_blocking=True)
        w = torch.from_numpy(weights[filled]).to(device, non_blocking=True)
        logs, marginal, sound = _marginals(arc.double(), places, single_root)
        bad = np.flatnonzero(~sound.cpu().numpy())
        if len(bad):
            scores = SpanningTrees(kept, arc.detach().double().cpu().numpy(), single_root=single_root).take(bad)
            q = scores.infer()
            logs[torch.from_numpy(bad).to(device)] = torch.from_numpy(q.log_partition).to(device)
            at = places[torch.from_numpy(bad).to(device)]
            marginal[torch.from_numpy(bad).to(device)] = torch.cat(
                [torch.from_numpy(_spread(q.marginal, scores.parts.offsets, at.shape[1])).to(device)]
            )
        flat = torch.zeros(len(arc) + 1, device=device, dtype=torch.float64)
        flat[places.reshape(-1)] = (marginal * w[:, None, None]).reshape(-1)
        ctx.found, ctx.dtype = flat[:-1], arc.dtype
        return (w * logs).sum().to(arc.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return None, None, None, ctx.found.to(ctx.dtype) * grad


def _spread(marginal: FloatArray, offsets: IntArray, longest: int) -> FloatArray:
    """Marginals of arcs in squares of one size."""
    found = np.zeros((len(offsets) - 1, longest, longest))
    at = 0
    for number, n in enumerate(np.diff(offsets).tolist()):
        found[number, :n, :n] = marginal[at : at + n * n].reshape(n, n)
        at += n * n
    return found


def _marginals(arc: Any, places: Any, single_root: bool) -> tuple[Any, Any, Any]:
    """log Z (s,), marginals (s, n, n) by child and head, the diagonal is the root; and which are sound (s,)."""
    n = places.shape[1]
    inside = places < len(arc)
    diagonal = torch.arange(n, device=arc.device)
    real = inside[:, diagonal, diagonal]
    scores = torch.cat([arc, arc.new_full((1,), -torch.inf)])[places]
    top = torch.where(real, scores.amax(dim=2), 0.0)
    weight = torch.exp(scores - top[:, :, None])
    total = torch.where(real, weight.sum(dim=2), 1.0)
    weight = weight / total[:, :, None]
    root = weight[:, diagonal, diagonal]
    between = weight.transpose(1, 2).clone()  # by head and child
    between[:, diagonal, diagonal] = 0.0
    matrix = -between
    matrix[:, diagonal, diagonal] = between.sum(dim=1) + (0.0 if single_root else root) + (~real).double()
    if single_root:
        matrix[:, 0] = root
    sign, log_det = torch.linalg.slogdet(matrix)
    ok = (sign > 0) & (log_det > -200.0)
    inverse = torch.linalg.inv_ex(torch.where(ok[:, None, None], matrix, torch.eye(n, device=arc.device).double()))[0]
    of_child = inverse[:, diagonal, diagonal].clone()
    of_head = inverse.transpose(1, 2).clone()
    root_marginal = root * (inverse[:, :, 0] if single_root else of_child)
    if single_root:
        of_child[:, 0] = 0.0
        of_head[:, 0, :] = 0.0
    found = (between * (of_child[:, None, :] - of_head)).transpose(1, 2).clone()
    found[:, diagonal, diagonal] = root_marginal
    found = torch.where(inside, found, 0.0)
    gap = torch.where(real, (found.sum(dim=2) - 1.0).abs(), 0.0).amax(dim=1)
    low = torch.where(inside, found, 0.0).amin(dim=(1, 2))
    sound = ok & (gap < WORST) & (low > -WORST)
    logs = log_det + (torch.where(real, top + torch.log(total), 0.0)).sum(dim=1)
    return logs, found.clamp(0.0, 1.0), sound
