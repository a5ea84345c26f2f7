"""Perceptron, MIRA, SSVM and CRF on CoNLL-2000 chunking, over the same features: F1, and how long each takes.

    make bench-margin                           settings as chosen, two threads
    make bench-margin ARGS="--choose"           the choice of settings: on the last 1,000 training sentences
    make bench-margin ARGS="--sentences 1000"   on the first so many of the training sentences

First each learner is trained on all training sentences but the last 1,000, with the F1 of these after every pass: the
time to within 0.1 % of its best. Then it is trained on all of them, for the round that was best, and test is read. The
SSVM is trained until its duality gap is 1 % of the objective, both times.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from _small import arguments
from crf import data_folder, features, read

from trellis.engine import engine_for, place_batch
from trellis.learn.margin import MIRA, SSVM, Perceptron
from trellis.models import CRF
from trellis.models.lbfgs import GaussianPrior, minimise

Tagged = tuple[list[Any], list[list[str]]]
SETTINGS = {"Perceptron": {}, "MIRA": {"C": 0.01}, "SSVM": {"C": 0.1}, "CRF": {"l2": 0.5}}
GRID = {
    "Perceptron": [{}],
    "MIRA": [{"C": None}, {"C": 0.1}, {"C": 0.03}, {"C": 0.01}, {"C": 0.003}, {"C": 0.01, "k_best": 5}],
    "SSVM": [{"C": 0.01}, {"C": 0.03}, {"C": 0.1}, {"C": 0.3}],
    "CRF": [{"l2": 0.5}, {"l2": 1.0}, {"l2": 2.0}],
}
LEARNERS = {"Perceptron": Perceptron, "MIRA": MIRA, "SSVM": SSVM}
PASSES = 12


def chunks(labels: list[str]) -> set[tuple[str, int, int]]:
    """(kind, first, one after the last) of chunks in B-, I- and O labels, as conlleval reads them."""
    found, begin, kind = set(), 0, ""
    for t, label in enumerate([*labels, "O"]):
        inside = label[2:] if label != "O" else ""
        if kind and (inside != kind or label[0] == "B"):
            found.add((kind, begin, t))
            kind = ""
        if inside and not kind:
            begin, kind = t, inside
    return found


def f1(gold: list[list[str]], output: list[list[str]]) -> float:
    pairs = [(chunks(a), chunks(b)) for a, b in zip(gold, output, strict=True)]
    right = sum(len(a & b) for a, b in pairs)
    return 200.0 * right / max(sum(len(a) + len(b) for a, b in pairs), 1)


@dataclass
class Curve:
    """F1 after every pass and the seconds until then, without those of measuring it; cores : seconds they worked."""

    f1: list[float]
    seconds: list[float]
    model: Any
    gap: float | None = None
    cores: float = 0.0

    @property
    def best(self) -> int:
        return int(np.argmax(self.f1))

    @property
    def near(self) -> float:
        """Seconds to within 0.1 % of the best."""
        return self.seconds[int(np.argmax(np.array(self.f1) >= 0.999 * max(self.f1)))]


class Watch:
    """Seconds, with a clock that stops while something is measured."""

    def __init__(self, measure: Callable[[Any], float] | None) -> None:
        self.measure, self.begin, self.worked = measure, time.perf_counter(), time.process_time()
        self.curve = Curve([], [], None)

    def look(self, model: Any) -> float:
        now, worked = time.perf_counter(), time.process_time()
        self.curve.cores = worked - self.worked
        self.curve.seconds.append(now - self.begin)
        self.curve.f1.append(0.0 if self.measure is None else self.measure(model))
        self.begin += time.perf_counter() - now
        self.worked += time.process_time() - worked
        return self.curve.f1[-1]


def train(name: str, settings: dict[str, Any], data: Tagged, rounds: int, dev: Tagged | None) -> Curve:
    """One learner, at most so many rounds."""
    measure = None if dev is None else lambda model: f1(dev[1], model.predict(dev[0]))
    if name == "CRF":
        return train_crf(settings, data, rounds, measure)
    watch = Watch(measure)

    class Watched(LEARNERS[name]):  # type: ignore[name-defined, misc]
        def score(self, X: Any, y: Any = None, *, constrained: bool = True) -> float:
            return watch.look(self.model_)

    own = inspected(LEARNERS[name])
    Watched.__init__.__signature__ = own  # type: ignore[attr-defined]
    learner = Watched(CRF(ends=False), max_iter=rounds, n_jobs=2, **settings)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        learner.fit(*data, dev=None if measure is None else ([], []))
    if measure is None:
        watch.look(learner.model_)
    watch.curve.model = learner.model_
    last = learner.history_[-1]
    if name == "SSVM":
        watch.curve.gap = last.gap / (last.objective + last.gap)
    return watch.curve


def inspected(kind: Any) -> Any:
    import inspect

    return inspect.signature(kind.__init__)


def train_crf(settings: dict[str, Any], data: Tagged, rounds: int, measure: Any) -> Curve:
    watch = Watch(measure)
    crf = CRF(ends=False, **settings)
    batch = crf.encode(*data, fit=True)
    placed = place_batch(engine_for(2), batch)
    objective = crf._objective(crf.given_counts(batch), [placed])

    def after(weights: Any) -> None:
        crf.set_parameters({"weights": weights})
        watch.look(crf)

    minimise(objective, crf.weights_, prior=GaussianPrior(crf.l2), max_iter=rounds, tol=1e-5, callback=after)
    watch.curve.model = crf
    return watch.curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sentences", type=int, help="train on the first so many")
    parser.add_argument(
        "--choose", action="store_true", help="try all settings on the held-out sentences; test is not read"
    )
    parser.add_argument("--only", help="names of learners, separated by commas")
    parser.add_argument("--passes", type=int, default=PASSES, help="of Perceptron and MIRA, at most")
    given = arguments(parser, sentences=80, passes=2)
    folder = data_folder()
    text, labels = read(folder / "train.txt", given.sentences)
    X = [[features(s, t) for t in range(len(s))] for s in text]
    held = min(1000, len(X) // 8)
    data, dev = (X[:-held], labels[:-held]), (X[-held:], labels[-held:])
    print(f"CoNLL-2000, {len(X):,} training sentences, the last {held:,} held out to choose", flush=True)
    names = given.only.split(",") if given.only else list(LEARNERS) + ["CRF"]
    rounds = {"Perceptron": given.passes, "MIRA": given.passes, "SSVM": 60, "CRF": 150}
    if given.choose:
        for name in names:
            for settings in GRID[name]:
                curve = train(name, settings, data, rounds[name], dev)
                print(
                    f"{name:12s}{settings!s:28s} best F1 {max(curve.f1):6.2f} after round {curve.best + 1:3d}, last "
                    f"{curve.f1[-1]:6.2f}; {curve.seconds[-1]:6.1f} s, {curve.cores:.1f} of cores", flush=True,
                )  # fmt: skip
        return
    test, gold = read(folder / "test.txt")
    Z = [[features(s, t) for t in range(len(s))] for s in test]
    heads = (
        ("", 12),
        ("dev F1", 8),
        ("round", 7),
        ("s to 0.1 %", 12),
        ("test F1", 9),
        ("accuracy", 10),
        ("s, all", 8),
        ("of cores", 10),
    )
    print("".join(f"{head:>{width}s}" for head, width in (*heads, ("gap", 8))))
    for name in names:
        curve = train(name, SETTINGS[name], data, rounds[name], dev)
        full = train(name, SETTINGS[name], (X, labels), rounds[name] if name == "SSVM" else curve.best + 1, None)
        output = full.model.predict(Z)
        right = np.mean([a == b for one, two in zip(output, gold, strict=True) for a, b in zip(one, two, strict=True)])
        gap = "" if full.gap is None else f"{full.gap:8.4f}"
        print(
            f"{name:12s}{max(curve.f1):8.2f}{curve.best + 1:7d}{curve.near:12.1f}{f1(gold, output):9.2f}"
            f"{100 * right:10.2f}{full.seconds[-1]:8.1f}{full.cores:10.1f}{gap}", flush=True,
        )  # fmt: skip


if __name__ == "__main__":
    main()
