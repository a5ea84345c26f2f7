"""A prediction encodes its instances once for each model, and runs inference once for each."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import trellis.apps.relate.inference
import trellis.constraints.penalties
import trellis.models.inference
import trellis.models.model
from tests.surface.examples import EXAMPLES, fitted
from trellis.models.saving import SavedEstimator
from trellis.models.views import Views
from trellis.projection.projector import Projector
from trellis.search import Plan
from trellis.structures.structure import Structure

CALLS = [(name, call) for name, example in EXAMPLES.items() for call in {**example.each, **example.whole}]
INFERENCES = {
    ("Relater", "predict"): 2, ("Relater", "score"): 2, ("Relater", "explain"): 2, ("Relater", "with_mentions"): 0,
    ("Extractor", "extract"): 2, ("CRF", "log_likelihood"): 2, ("SemiCRF", "log_likelihood"): 2,
    ("NeuralCRF", "log_likelihood"): 2,
}  # fmt: skip
"""Where there is more than one kind: best outputs and probabilities, with rules or labels and without."""


def below(kind: type) -> Iterator[type]:
    for made in kind.__subclasses__():
        yield made
        yield from below(made)


class Counts:
    """Outermost calls of watched functions, by kind: those inside another of its kind are a part of it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.calls: Counter[str] = Counter()
        self.depth: Counter[str] = Counter()
        for kind in {*below(SavedEstimator), Views}:
            for name in ("encode", "look_up"):
                self._watch(monkeypatch, kind, name, "encode")
        for kind in {Structure, *below(Structure)}:
            for name in ("argmax", "infer"):
                self._watch(monkeypatch, kind, name, "inference")
        self._watch(monkeypatch, Projector, "run", "inference")
        for module in (trellis.models.inference, trellis.apps.relate.inference):
            self._watch(monkeypatch, module, "decode", "inference")
        self._watch(monkeypatch, trellis.apps.relate.inference, "project", "inference")
        for module in (trellis.models.model, trellis.constraints.penalties):
            monkeypatch.setattr(module, "compile_constraints", self._apart(module.compile_constraints))
        monkeypatch.setattr(Plan, "of", staticmethod(self._apart(Plan.of)))

    def _watch(self, monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, kind: str) -> None:
        if name in vars(owner):
            monkeypatch.setattr(owner, name, self._counted(vars(owner)[name], kind))

    def _apart(self, function: Callable[..., Any]) -> Callable[..., Any]:
        """Constraints are compiled with the extremes of their rows, which are no inference with the model."""

        def call(*arguments: Any, **named: Any) -> Any:
            self.depth["inference"] += 1
            try:
                return function(*arguments, **named)
            finally:
                self.depth["inference"] -= 1

        return call

    def _counted(self, function: Callable[..., Any], kind: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            self.calls[kind] += self.depth[kind] == 0
            self.depth[kind] += 1
            try:
                return function(*arguments, **named)
            finally:
                self.depth[kind] -= 1

        return call


@pytest.mark.parametrize("name, call", CALLS)
def test_a_prediction_encodes_once_and_infers_once(name, call, monkeypatch):
    example, estimator = EXAMPLES[name], fitted(name)
    items = list(example.instances)
    X = [items, items] if name == "MultiView" else items
    counts = Counts(monkeypatch)
    result = {**example.each, **example.whole}[call](estimator, X)
    if hasattr(result, "__iter__"):
        list(result)
    n_inferences = INFERENCES.get((name, call), 1)
    assert counts.calls == Counter(encode=min(n_inferences, 1), inference=n_inferences)
