"""Networks as models: scores from any ``torch.nn.Module``, under the constraints and learners of Trellis.

The subpackage needs PyTorch (``pip install 'trellis-learn[torch]'``); importing it does not load PyTorch, using one of
its names does.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

# public name -> module that defines it
_EXPORTS = {
    "BiLSTM": "trellis.neural.bilstm",
    "ChainCRF": "trellis.neural.losses",
    "NeuralCRF": "trellis.neural.crf",
    "NeuralClassifier": "trellis.neural.classifier",
    "NeuralModel": "trellis.neural.model",
    "NeuralParts": "trellis.neural.parts",
    "NeuralParser": "trellis.neural.parser",
    "NeuralRelations": "trellis.neural.relations",
    "Pretrained": "trellis.neural.pretrained",
    "StructuredLoss": "trellis.neural.losses",
    "WordVectors": "trellis.neural.vectors",
    "constrained_decode": "trellis.neural.losses",
    "distil": "trellis.neural.distillation",
}

__all__ = list(_EXPORTS)


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from trellis.errors import DataError

    try:
        return getattr(import_module(_EXPORTS[name]), name)
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise DataError(f"{name} needs PyTorch: pip install 'trellis-learn[torch]'") from None


def __dir__() -> list[str]:
    return sorted([*globals(), *_EXPORTS])
