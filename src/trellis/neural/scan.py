"""Sums over label sequences on the GPU: padded, all sentences of a mini-batch in step, probabilities rescaled.

    α_t = (α_{t−1} exp edge) ∘ exp node_t / c_t,      log Z = Σ_t log c_t + shifts

The backward pass is β in the same way; expected transitions are one product of matrices over all positions. Sums are
in double precision, which GPUs for training have.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from trellis.data.ragged import FloatArray, IntArray


def chain_log_partition(offsets: IntArray, tensors: Any, weights: FloatArray) -> Any:
    """Σ_i weight_i log Z_i of chains, where their tensors are; arguments as in ``functions.log_partition``."""
    return _ChainScan.apply(offsets, weights, *tensors)


def padded_places(offsets: IntArray) -> IntArray:
    """(n_instances, longest): the slot of each place, and the number of slots where there is none."""
    lengths = np.diff(offsets)
    places = offsets[:-1, None] + np.arange(max(int(lengths.max(initial=0)), 1))
    return np.where(np.arange(places.shape[1]) < lengths[:, None], places, offsets[-1])


class _ChainScan(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, offsets: IntArray, weights: FloatArray, node: Any, edge: Any, start: Any, stop: Any) -> Any:
        device, k = node.device, node.shape[1]
        filled = np.diff(offsets) > 0
        lengths = np.diff(offsets)[filled]
        kept = np.concatenate([offsets[:-1][filled], offsets[-1:]])
        places = torch.from_numpy(padded_places(kept)).to(device, non_blocking=True)
        inside = places < len(node)
        w = torch.from_numpy(weights[filled]).to(device, non_blocking=True)
        ends = torch.from_numpy(lengths - 1).to(device, non_blocking=True)
        scores = torch.cat([node.double(), node.new_zeros(1, k, dtype=torch.float64)])[places]
        rows = torch.arange(len(lengths), device=device)
        scores[:, 0] += start.double()
        scores[rows, ends] += stop.double()
        top = scores.amax(dim=2, keepdim=True)
        emit = torch.exp(scores - top)
        shift = edge.double().max()
        move = torch.exp(edge.double() - shift)
        longest = emit.shape[1]
        alpha, beta = torch.empty_like(emit), torch.empty_like(emit)
        scale = torch.ones(emit.shape[:2], device=device, dtype=torch.float64)
        here = emit[:, 0]
        for t in range(longest):
            if t:
                here = torch.where(inside[:, t, None], (here @ move) * emit[:, t], here)
            total = here.sum(dim=1)
            scale[:, t] = torch.where(inside[:, t], total, 1.0)
            here = here / total[:, None]
            alpha[:, t] = here
        beta[:, longest - 1] = 1.0
        back = beta[:, longest - 1]
        move_t = move.T.contiguous()
        for t in range(longest - 1, 0, -1):
            step = (back * emit[:, t] / scale[:, t, None]) @ move_t
            back = torch.where(inside[:, t, None], step, back)
            beta[:, t - 1] = back
        logs = (torch.log(scale) + torch.where(inside, top[:, :, 0], 0.0)).sum(dim=1) + shift * ends
        found = (w * logs).sum()
        marginal = torch.where(inside[:, :, None], alpha * beta, 0.0) * w[:, None, None]
        ctx.start, ctx.stop = marginal[:, 0].sum(dim=0), marginal[rows, ends].sum(dim=0)
        after = torch.where(inside[:, 1:, None], beta[:, 1:] * emit[:, 1:] / scale[:, 1:, None], 0.0) * w[:, None, None]
        ctx.edge = move * (alpha[:, :-1].reshape(-1, k).T @ after.reshape(-1, k))
        flat = torch.zeros(len(node) + 1, k, device=device, dtype=torch.float64)
        flat[places.reshape(-1)] = marginal.reshape(-1, k)
        ctx.node, ctx.dtype = flat[:-1], node.dtype
        return found.to(node.dtype)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, grad: Any) -> Any:
        return (None, None, *(one.to(ctx.dtype) * grad for one in (ctx.node, ctx.edge, ctx.start, ctx.stop)))
