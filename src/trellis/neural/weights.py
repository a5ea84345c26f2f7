"""The trained parameters of a network: listed, as one vector, with gradients, and drawn anew."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch

from trellis.data.ragged import FloatArray


def trained_parameters(net: Any) -> list[Any]:
    """Parameters that training changes."""
    return [one for one in net.parameters() if one.requires_grad]


def changing_parameters(net: Any) -> dict[str, Any]:
    """Parameters that are trained, and buffers of floating numbers that training moves, by name."""
    found = {name: one for name, one in net.named_parameters() if one.requires_grad}
    kept = net.state_dict(keep_vars=True)
    frozen = {name for name, one in net.named_parameters() if not one.requires_grad}
    return {
        name: one
        for name, one in kept.items()
        if name in found or (name not in frozen and one.is_floating_point() and not name.endswith("fixed"))
    }


def as_vector(tensors: Sequence[Any]) -> FloatArray:
    """Tensors as one vector (n_weights,)."""
    none = [np.zeros(0)]
    return np.concatenate(none + [one.detach().cpu().double().numpy().ravel() for one in tensors])


def set_vector(net: Any, weights: FloatArray) -> None:
    """Set the trained parameters from one vector (n_weights,)."""
    at = 0
    with torch.no_grad():
        for one in trained_parameters(net):
            own = torch.from_numpy(weights[at : at + one.numel()]).reshape(one.shape)
            one.copy_(own)
            at += one.numel()


def gradient_of(value: Any, net: Any) -> FloatArray:
    """d value / d weights (n_weights,)."""
    trained = trained_parameters(net)
    found = torch.autograd.grad(value, trained, allow_unused=True)
    return as_vector([torch.zeros_like(w) if g is None else g for w, g in zip(trained, found, strict=True)])


def reset_modules(net: Any) -> None:
    """Draw new parameters where modules know how, but for those that are marked ``pretrained``."""
    if getattr(net, "pretrained", False):
        return
    if callable(getattr(net, "reset_parameters", None)):
        net.reset_parameters()
    for child in net.children():
        reset_modules(child)
