"""How many frames of ours lie between ``fit`` and the first inference: printed as JSON, by learner.

Every kernel is replaced by a function that looks at the stack, so this runs in a process of its own.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from numba.core.dispatcher import Dispatcher

import trellis
from tests.hostile.saved import SAVED
from trellis.constraints import count
from trellis.learn import CCM, GE, UEM, CoDL, MultiView
from trellis.learn.margin import SSVM, LatentSSVM, Perceptron
from trellis.models import CRF, HMM, SemiCRF

ROOT = str(Path(trellis.__file__).parent)
LAYERS = ("trellis.structures.", "trellis.projection.", "trellis.search.", "trellis.models.kernels.arc_features.margin")
PREPARES = ("chain_sum", "tree_check", "score_outputs")
"""Kernels that check or scale scores before any inference."""
COMPILES = "chain_extremes.py"
"""Module of functions that look at constraints before any inference."""
TEXT = [["the", "dog", "barks"], ["a", "cat", "sleeps"], ["the", "cat", "barks"]]
TAGS: list[Any] = [["D", "N", "V"]] * 3
SOME: list[Any] = [*TAGS[:2], None]
RULES = [count("V") >= 1]
found: list[str] = []


def hmm() -> HMM:
    return HMM(["D", "N", "V"], min_count=1, unknown=None)


LEARNERS: dict[str, Callable[[], Any]] = {
    "UEM": lambda: UEM(hmm(), RULES, max_iter=2).fit(TEXT, SOME),
    "EM": lambda: UEM(hmm(), max_iter=2, random_state=0).fit(TEXT),
    "UEM online": lambda: UEM(hmm(), RULES, online=1, max_iter=2, random_state=0).fit(TEXT),
    "UEM of a CRF": lambda: UEM(CRF(), RULES, max_iter=2).fit(TEXT, SOME),
    "CoDL": lambda: CoDL(hmm(), RULES, max_iter=2).fit(TEXT, SOME),
    "CCM": lambda: CCM(hmm(), RULES, method="pr", max_iter=2).fit(TEXT, SOME),
    "GE": lambda: GE(CRF(["D", "N", "V"]), [(count("V").per("corpus") <= 1).penalty(1.0, "squared")]).fit(TEXT),
    "SSVM": lambda: SSVM(CRF(), max_iter=2).fit(TEXT, TAGS),
    "Perceptron": lambda: Perceptron(CRF(), max_iter=2).fit(TEXT, TAGS),
    "LatentSSVM": lambda: LatentSSVM(CRF(["D", "N", "V"]), max_iter=2).fit(TEXT, SOME),
    "MultiView": lambda: MultiView([CRF(), hmm()], max_iter=2).fit([TEXT, TEXT], SOME),
    "CRF": lambda: CRF(max_iter=2).fit(TEXT, TAGS),
    "CRF adagrad": lambda: CRF(max_iter=2, solver="adagrad").fit(TEXT, TAGS),
    "SemiCRF": lambda: SemiCRF(max_iter=2).fit(TEXT, TAGS),
    **{
        name: lambda name=name: SAVED[name].make(str(Path(tempfile.mkdtemp()) / "model"))
        for name in (
            "Aggregator", "Aligner", "Extractor", "Inducer", "Matcher", "Parser", "Relater", "Tagger", "TreeInducer"
        )
        if name in SAVED
    },
}  # fmt: skip


def watched(kernel: Any, name: str) -> Any:
    looks = name.startswith(LAYERS) and not any(part in name for part in PREPARES)

    def call(*arguments: Any) -> Any:
        if looks and not found:
            frame: Any = sys._getframe(1)
            while frame is not None:
                if frame.f_code.co_filename.startswith(ROOT):
                    found.append(f"{frame.f_code.co_filename[len(ROOT) + 1 :]}:{frame.f_code.co_name}")
                frame = frame.f_back
            if any(COMPILES in one for one in found):
                found.clear()
        return kernel(*arguments)

    call.signatures, call.py_func = kernel.signatures, kernel.py_func  # type: ignore[attr-defined]
    return call


def main() -> None:
    warnings.simplefilter("ignore")
    for module in pkgutil.walk_packages(trellis.__path__, "trellis."):
        if ".kernels." in module.name:
            importlib.import_module(module.name)
    stubs: dict[int, Any] = {}
    for module in [one for name, one in sys.modules.items() if name.startswith("trellis.")]:
        for key, value in list(vars(module).items()):
            if isinstance(value, Dispatcher):
                name = f"{value.py_func.__module__}.{value.__name__}"
                setattr(module, key, stubs.setdefault(id(value), watched(value, name)))
    frames = {}
    for name, fit in LEARNERS.items():
        found.clear()
        fit()
        frames[name] = found[::-1]
    print(json.dumps(frames))


if __name__ == "__main__":
    main()
