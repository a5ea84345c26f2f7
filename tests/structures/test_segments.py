"""Segments beside chains: their mean, scaled sums against logarithms, and rules that count fields."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from trellis.constraints import changed, compile_constraints, count, label, previous, starts, transitions
from trellis.constraints.linear_count import Count
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError
from trellis.search import decode
from trellis.structures import Chain, SegmentParts, Segments
from trellis.structures.kernels import segment_sum

from .agreement import assert_logs_agree, assert_probabilities_agree
from .segment_twin import SegmentCase, all_segmentations, segment_cases

LENGTHS = (4, 0, 2, 1)


def drawn(rng: np.random.Generator, k: int = 3, longest: int = 2, spread: float = 1.0) -> SegmentCase:
    n = sum(LENGTHS)
    shapes = {
        "node": (n, k), "edge": (k, k), "length": (longest, k), "again": (k,), "begin": (n, k), "end": (n, k),
        "extra": (n, longest, k), "start": (k,), "stop": (k,),
    }  # fmt: skip
    return SegmentCase(LENGTHS, {name: spread * rng.normal(size=shape) for name, shape in shapes.items()})


@pytest.mark.parametrize("spread", [1.0, 20.0, 300.0])
def test_scaled_sums_are_those_of_logarithms(spread: float, monkeypatch: pytest.MonkeyPatch) -> None:
    case = drawn(np.random.default_rng(0), spread=1.0)
    case.arguments["node"] = case.arguments["node"] * spread
    case.arguments["again"][0] = -np.inf
    structure, weights = case.structure(), np.array([1.0, 2.0, 0.5, 3.0])
    every = np.arange(structure.parts.n_parts)
    fast = structure.infer(weights=weights, at=every)
    monkeypatch.setattr(segment_sum, "MOST", -1.0)
    slow = case.structure().infer(weights=weights, at=every)
    assert_logs_agree(fast.log_partition, slow.log_partition)
    assert_probabilities_agree(fast.at(every), slow.at(every))
    for name in ("edge_counts", "length_counts", "ends"):
        np.testing.assert_allclose(getattr(fast, name), getattr(slow, name), rtol=1e-9, atol=1e-12)


@pytest.mark.slow
@given(st.data())
@settings(max_examples=20, deadline=None)
def test_a_mean_with_a_chain_is_that_of_their_scores(data: st.DataObject) -> None:
    case = data.draw(segment_cases([0.0, 1.0, -2.0, 0.5], (3, 1, 0, 2), feasible=True, n_labels=2))
    rng = np.random.default_rng(data.draw(st.integers(0, 9)))
    chain = Chain(case.offsets, rng.normal(size=(6, 2)), rng.normal(size=(2, 2)), start=rng.normal(size=2))
    segments = case.structure()
    for share in (0.5, 0.3):
        mean = segments.mean(chain, share)
        for turn in range(40):
            pieces = [all_segmentations(n, 2) for n in case.lengths]
            y = np.array(
                [c for i, own in enumerate(pieces) for c in case.told(i, own[turn % len(own)])[2]], dtype=np.int32
            )
            expected = share * segments.score(y) + (1 - share) * chain.score(y % 2)
            np.testing.assert_allclose(mean.score(y), expected, atol=1e-12)


def test_means_of_other_shapes_are_refused() -> None:
    segments = drawn(np.random.default_rng(0)).structure()
    with pytest.raises(DataError, match="same labels"):
        segments.mean(Chain(segments.offsets, np.zeros((7, 2)), np.zeros((2, 2))))
    with pytest.raises(DataError, match="same lengths of segments"):
        segments.mean(Segments(segments.offsets, np.zeros((7, 3)), np.zeros((3, 3)), length=np.zeros((3, 3))))


def n_fields(pieces, name):
    return sum("AB"[k] == name for k, _ in pieces)


@pytest.mark.parametrize(
    "expression, plain",
    [
        (count("A"), lambda p: sum(size for k, size in p if k == 0)),
        (starts("A"), lambda p: n_fields(p, "A")),
        (starts("A", "B"), lambda p: len(p)),
        (transitions(), lambda p: max(len(p) - 1, 0)),
        (transitions(from_="A", to="A"), lambda p: sum(a[0] == b[0] == 0 for a, b in itertools.pairwise(p))),
        (transitions(from_="A", to="B"), lambda p: sum((a[0], b[0]) == (0, 1) for a, b in itertools.pairwise(p))),
        # the label before, whatever field it is of
        (count(where=previous("A") & label("A")), lambda p: _pairs(p, 0, 0)),
        (count(where=previous("A") & label("A") & ~changed), lambda p: sum(size - 1 for k, size in p if k == 0)),
    ],
    ids=lambda one: str(one) if isinstance(one, Count) else "",
)  # fmt: skip
def test_rules_count_fields_and_labels(expression, plain) -> None:
    """Also with two labels, where sums over transitions are written in another way than with many."""
    for names in (["A", "B"], ["A", "B", "C", "D"]):
        batch = Batch.from_sentences([["x"] * 4])
        parts = SegmentParts(batch.offsets, len(names), 2)
        rows = compile_constraints([(expression == 100).penalty(1.0)], batch, Vocabulary(names, kind="label"), parts)
        for pieces in all_segmentations(4, 2):
            case = SegmentCase((4,), {"edge": np.zeros((len(names), len(names))), "length": np.zeros((2, len(names)))})
            y = np.array(case.told(0, pieces)[2], dtype=np.int32)
            value = rows.evaluate(y)
            assert 100 + value[0] - rows.bound[0] == pytest.approx(plain(pieces)), pieces


def _pairs(pieces, a, b):
    labels = [k for k, size in pieces for _ in range(size)]
    return sum(pair == (a, b) for pair in itertools.pairwise(labels))


@pytest.mark.parametrize("seed", range(4))
def test_the_best_output_under_rules_is_found(seed: int) -> None:
    """By 0/1 programs, whose flow has a layer of states for every length."""
    case = drawn(np.random.default_rng(seed), k=2, spread=2.0)
    scores, batch = case.structure(), Batch.from_sentences([["x"] * n for n in LENGTHS])
    rules = [(starts("A") <= 1).penalty(1.5), (count("B") >= 2).penalty(2.0), (transitions() <= 1).penalty(0.7)]
    rows = compile_constraints(rules, batch, Vocabulary(["A", "B"], kind="label"), scores.parts)
    found = decode(scores, rows)
    assert found.proved.all()
    for i, n in enumerate(LENGTHS):
        values = []
        for pieces in all_segmentations(n, 2):
            price = 1.5 * max(n_fields(pieces, "A") - 1, 0) + 0.7 * max(len(pieces) - 2, 0)
            price += 2.0 * max(2 - sum(size for k, size in pieces if k == 1), 0)
            values.append(case.told(i, pieces)[1] - price)
        assert found.value[i] == pytest.approx(max(values))
