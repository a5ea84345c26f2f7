"""Python functions of partial outputs: beam search against trying all outputs, and the learners that use it."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from trellis import CCM, CRF, GE, HMM, SSVM, UEM, CoDL
from trellis.constraints import compile_constraints, count, custom, label, previous
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, InfeasibleError
from trellis.search import decode, decode_kbest
from trellis.structures import Chain, ChainParts, SegmentParts

LABELS = Vocabulary(["A", "B", "C"], kind="label")


def returns(words: Sequence[str], labels: Sequence[str]) -> bool:
    """A label comes back after others."""
    return labels[-1] in labels[:-1] and labels[-1] != labels[-2]


def balance(words: Sequence[str], labels: Sequence[str]) -> float:
    """At the last token: by how much A and B differ."""
    return abs(labels.count("A") - labels.count("B")) if len(labels) == len(words) else 0


def never(words: Sequence[str], labels: Sequence[str]) -> bool:
    return True


def chains(rng: np.random.Generator, lengths: list[int]) -> Chain:
    n = sum(lengths)
    return Chain(np.cumsum([0, *lengths]), 2 * rng.normal(size=(n, 3)), rng.normal(size=(3, 3)))


def best_of_all(scores: Chain, i: int, rules: list[tuple[Any, float]], extra: Any) -> float:
    """The largest value of instance i; ``extra`` is the price of another rule."""
    own, n = scores.instances(i, i + 1), int(np.diff(scores.offsets)[i])
    values = []
    for y in itertools.product(LABELS.names, repeat=n):
        price = extra(y)
        for function, rho in rules:
            broken = sum(float(function(["x"] * n, y[: t + 1])) for t in range(n))
            price += rho * broken if broken else 0.0
        values.append(float(own.score(LABELS.encode(list(y)))[0]) - price)
    return max(values)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("strengths", [(1.5, 0.7), (np.inf, 2.0), (3.0, np.inf)])
def test_a_wide_beam_finds_the_best_output(seed: int, strengths: tuple[float, float]) -> None:
    lengths = [5, 0, 1, 4]
    scores = chains(np.random.default_rng(seed), lengths)
    batch = Batch.from_sentences([["x"] * n for n in lengths])
    pair = zip((returns, balance), strengths, strict=True)
    rules: list[Any] = [custom(f) if rho == np.inf else custom(f).penalty(rho) for f, rho in pair]
    rules += [(count("C") <= 1).penalty(0.8), (count("C") <= 0).penalty(0.3, "squared")]
    rows = compile_constraints(rules, batch, LABELS, scores.parts)

    def extra(y: tuple[str, ...]) -> float:
        return 0.8 * max(y.count("C") - 1, 0) + 0.15 * y.count("C") ** 2

    wanted = []
    for i in range(4):
        wanted.append(best_of_all(scores, i, list(zip((returns, balance), strengths, strict=True)), extra))
    if min(wanted) == -np.inf:
        with pytest.raises(InfeasibleError, match="returns|balance"):
            decode(scores, rows, beam=10_000)
        return
    found = decode(scores, rows, beam=10_000)
    assert found.value == pytest.approx(wanted, abs=1e-9)
    assert found.proved.all()
    narrow = decode(scores, rows, "beam", beam=2)
    assert np.all(narrow.value <= found.value + 1e-9)
    assert np.all(narrow.bound >= found.value - 1e-9)
    assert np.all(narrow.value[narrow.proved] >= found.value[narrow.proved] - 1e-9)


def test_what_no_output_can_meet_is_told() -> None:
    scores, batch = chains(np.random.default_rng(0), [3]), Batch.from_sentences([["x"] * 3])
    with pytest.raises(InfeasibleError, match=r"instance 0: no labels satisfy 'custom\(never\)'"):
        decode(scores, compile_constraints([custom(never)], batch, LABELS, scores.parts))
    soft = decode(scores, compile_constraints([custom(never).penalty(2)], batch, LABELS, scores.parts))
    assert soft.value[0] == pytest.approx(scores.argmax().score[0] - 6)


TEXT = [["p", "q", "r", "p"], ["q", "p", "q"], ["r", "p", "q"]] * 4
TAGS: list[Any] = [["A", "B", "B", "A"], ["B", "A", "A"], ["B", "B", "B"]] * 4


@pytest.mark.parametrize("kind", [CCM, CoDL])
def test_learners_that_search_obey_it_and_learn_its_penalty(kind: Any) -> None:
    mostly: Any = [tags if i < 6 else None for i, tags in enumerate(TAGS)]
    model = kind(HMM(["A", "B"], min_count=1), [custom(returns).learned()], max_iter=2).fit(TEXT, mostly)
    (seen,) = model.learned_penalties_
    assert (seen.places, seen.broken) == (sum(map(len, TEXT[:6])), 2)  # the first sentence, twice
    assert seen.penalty == pytest.approx(np.log(27.95 / 2.05))  # odds of 18 of 20 places, and of 10 places of the prior
    assert model.penalties_[seen.name] > seen.penalty  # the outputs of the unlabelled texts obey it
    hard = kind(HMM(["A", "B"], min_count=1), [custom(returns)], max_iter=2).fit(TEXT, mostly)
    assert all(not returns((), y[: t + 1]) for y in hard.predict(TEXT) for t in range(len(y)))
    assert hard.infer(TEXT).violations == {"custom(returns)": 0.0}
    assert len(hard.predict_proba(TEXT)) == len(TEXT)


def test_margin_learners_search_under_it() -> None:
    model = SSVM(CRF(["A", "B"]), [custom(returns)], max_iter=3).fit(TEXT, TAGS)
    assert all(not returns((), y[: t + 1]) for y in model.predict(TEXT) for t in range(len(y)))


def test_where_it_cannot_be_used_it_is_refused() -> None:
    batch = Batch.from_sentences([["x"] * 3])
    chain = chains(np.random.default_rng(0), [3])
    rows = compile_constraints([custom(returns)], batch, LABELS, chain.parts)
    for method in ("astar", "ilp", "argmax"):
        with pytest.raises(ConstraintError, match="Python function"):
            decode(chain, rows, method)
    with pytest.raises(ConstraintError, match="k_best=1"):
        decode_kbest(chain, rows, 2)
    with pytest.raises(ConstraintError, match="no expectation"):
        UEM(HMM(["A", "B"], min_count=1), [custom(returns)]).fit(TEXT)
    with pytest.raises(ConstraintError, match="GE"):
        GE(CRF(["A", "B"]), [custom(returns).penalty(1)]).fit(TEXT)
    with pytest.raises(ConstraintError, match="label sequences"):
        compile_constraints([custom(returns)], batch, LABELS, SegmentParts(batch.offsets, 3, 2))
    with pytest.raises(ConstraintError, match="hard, have a penalty"):
        compile_constraints([custom(returns).slack(1)], batch, LABELS, ChainParts(batch.offsets, 3))
    negative = compile_constraints([custom(lambda words, labels: -1.0).penalty(1)], batch, LABELS, chain.parts)
    with pytest.raises(ConstraintError, match="expected a number from 0 on"):
        decode(chain, negative)
    with pytest.raises(ConstraintError, match="takes a function"):
        custom("f")  # type: ignore[arg-type]


def test_rules_and_functions_act_together_and_files_refuse_functions(tmp_path: Any) -> None:
    rules = [custom(returns), label("B").implies(previous("A", "B"))]
    model = CCM(HMM(["A", "B"], min_count=1), rules, max_iter=2).fit(TEXT, TAGS)
    for y in model.predict(TEXT):
        assert y in (["A"] * len(y), *(["A"] * k + ["B"] * (len(y) - k) for k in range(1, len(y))))
    with pytest.raises(ConstraintError, match="cannot be written"):
        model.save(tmp_path / "model")
