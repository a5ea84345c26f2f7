"""Bounds taken from labelled texts, against plain loops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from trellis import HMM, UEM, Document
from trellis.constraints import column, compile_constraints, count, label, relations, share, starts, transitions, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, UnknownNameError
from trellis.structures import ChainParts

X = [["a", "b", "a", "c"], ["b", "b"], ["a", "c", "c", "c"], ["c"]]
Y: list[Any] = [["N", "V", "V", "N"], ["V", "N"], ["N", "N", "N", "V"], None]
KNOWN = [(words, tags) for words, tags in zip(X, Y, strict=True) if tags]
N = sum(len(words) for words, _ in KNOWN)
Measure = Callable[[list[str], list[str], int], bool]
COUNTS: list[tuple[Any, Measure, Measure | None]] = [
    (count("N"), lambda w, y, t: y[t] == "N", None),
    (count("N", where=word == "c"), lambda w, y, t: y[t] == "N" and w[t] == "c", None),
    (starts("N"), lambda w, y, t: y[t] == "N" and (t == 0 or y[t - 1] != "N"), None),
    (transitions(from_="N", to="V"), lambda w, y, t: t > 0 and (y[t - 1], y[t]) == ("N", "V"), None),
    (share("V"), lambda w, y, t: y[t] == "V", lambda w, y, t: True),
    (share("V", where=word == "c"), lambda w, y, t: y[t] == "V" and w[t] == "c", lambda w, y, t: w[t] == "c"),
]


def total(measure: Measure) -> int:
    return sum(measure(words, tags, t) for words, tags in KNOWN for t in range(len(words)))


@pytest.mark.parametrize("counted, measure, over", COUNTS, ids=[one[0].code() for one in COUNTS])
@pytest.mark.parametrize("within", [0.1, None])
def test_bounds_are_those_of_the_labelled_texts(
    counted: Any, measure: Measure, over: Any, within: float | None
) -> None:
    n = total(measure)
    width = max(0.2, n**-0.5) if within is None else within
    rate = n / (N if over is None else total(over))
    found = counted.like(X, Y, within=within)
    ends = [side.constant if over is not None else side.terms[0].coefficient for side in (found.low, found.high)]
    assert ends == pytest.approx(
        [(1 - width) * rate, (1 + width) * rate if over is None else min((1 + width) * rate, 1)]
    )
    batch = Batch.from_sentences([["a", "c", "c"], ["c", "b"]])
    assert 1 <= len(compile_constraints(found, batch, Vocabulary(["N", "V"]), ChainParts(batch.offsets, 2))) <= 2


def test_documents_and_columns_are_taken_too() -> None:
    texts = [Document(("a", "b"), ("N", "V"), {"pos": ("x", "y")}), Document(("a",), (None,), {"pos": ("x",)})]
    found = share("N", where=column("pos") == "x").like(texts, within=0.5)
    assert found.code() == "share('N', where=(column('pos') == 'x')).per('corpus').between(0.5, 1)"


def test_training_keeps_to_them() -> None:
    rng = np.random.default_rng(0)
    free = [[str(w) for w in rng.choice(list("abc"), 6)] for _ in range(12)]
    rule = share("V").like(X, Y, within=0.05)
    learner = UEM(HMM(["N", "V"], min_count=1), [rule], random_state=2, max_iter=5, tol=0.0).fit(free)
    found = learner.infer(free, transductive=True).marginals
    mean = np.concatenate(found)[:, 1].mean()
    assert 0.95 * 0.4 - 2e-3 <= mean <= 1.05 * 0.4 + 2e-3


def test_what_has_no_bounds_is_told() -> None:
    with pytest.raises(UnknownNameError, match="X"):
        count("X").like(X, Y)
    for wrong, message in (
        (lambda: count("N").like(X[3:], Y[3:]), "there are none"),
        (lambda: count("N", where=word == "z").like(X, Y), "no count to match"),
        (lambda: count("N").per("token").like(X, Y), "over the corpus"),
        (lambda: count("N").like(X, Y, within=2), "between 0 and 1"),
        (lambda: relations("Kill").like(X, Y), "relation"),
        (lambda: count(where=label("N")).like(X), "there are none"),
    ):
        with pytest.raises(ConstraintError, match=message):
            wrong()
