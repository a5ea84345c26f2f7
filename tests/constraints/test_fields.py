"""Order and length of fields: rows against counts over every output of chains and segmentations, and their users."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from trellis import Extractor, load_model
from trellis.apps.extract.check import check_rules
from trellis.constraints import Constraint, compile_constraints, each_label, length, ordered, parse_rules
from trellis.constraints.context import Context
from trellis.constraints.reduction import Outputs
from trellis.data.batch import Batch
from trellis.data.tokens import as_documents
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, InfeasibleError
from trellis.projection import project
from trellis.search import decode
from trellis.structures import Categorical, CategoricalParts, Chain, ChainParts, Parts, SegmentParts, Trees

LABELS = Vocabulary(["A", "B", "C"], kind="label")
Field = tuple[str, int]
"""Label and number of tokens."""


def batch_of(*lengths: int) -> Batch:
    return Batch.from_sentences([["x"] * n for n in lengths])


def fields(codes: tuple[int, ...]) -> list[Field]:
    """Fields of one sequence; code K + k begins a field of k beside another one."""
    found: list[Field] = []
    for code in codes:
        name = LABELS[code % len(LABELS)]
        if found and found[-1][0] == name and code < len(LABELS):
            found[-1] = (name, found[-1][1] + 1)
        else:
            found.append((name, 1))
    return found


def possible(n: int, *, adjacent: bool) -> Iterator[tuple[int, ...]]:
    """All outputs of a sequence of n tokens."""
    k = len(LABELS)
    for codes in itertools.product(range(2 * k if adjacent else k), repeat=n):
        if all(c < k or (t > 0 and codes[t - 1] % k == c - k) for t, c in enumerate(codes)):
            yield codes


def short(name: str, n: int) -> Callable[[list[Field]], int]:
    return lambda found: sum(max(n - size, 0) for label, size in found if label == name)


def long(name: str, n: int) -> Callable[[list[Field]], int]:
    return lambda found: sum(max(size - n, 0) for label, size in found if label == name)


def inverted(*order: str) -> Callable[[list[Field]], int]:
    rank = {name: i for i, name in enumerate(order)}
    return lambda found: sum(
        a in rank and b in rank and rank[a] > rank[b] for (a, _), (b, _) in itertools.combinations(found, 2)
    )


RULES: list[tuple[Constraint, Callable[[list[Field]], int]]] = [
    (length("A", at_least=1), lambda found: 0),
    (length("A", at_least=2), short("A", 2)),
    (length("A", at_least=3), short("A", 3)),
    (length("B", at_least=9), short("B", 9)),
    (length("A", at_most=1), long("A", 1)),
    (length("C", at_most=2), long("C", 2)),
    (length("A", at_most=9), lambda found: 0),
    (length("A", at_least=2, at_most=3), lambda found: short("A", 2)(found) + long("A", 3)(found)),
    (length("A", "B", at_least=2), lambda found: short("A", 2)(found) + short("B", 2)(found)),
    (each_label(lambda L: length(L, at_most=2)), lambda found: sum(long(name, 2)(found) for name in LABELS.names)),
    (ordered("A", "B"), inverted("A", "B")),
    (ordered("C", "A"), inverted("C", "A")),
    (ordered("B", "C", "A"), inverted("B", "C", "A")),
]
EACH_RULE = pytest.mark.parametrize("rule, measure", RULES, ids=[rule.code() for rule, _ in RULES])


@EACH_RULE
@pytest.mark.parametrize("adjacent", [False, True], ids=["chain", "segments"])
def test_rows_measure_every_output_and_hard_ones_admit_those_that_obey(
    rule: Constraint, measure: Callable[[list[Field]], int], adjacent: bool
) -> None:
    for n in (0, 1, 4):
        batch = batch_of(n)
        parts: Parts = SegmentParts(batch.offsets, 3, 2) if adjacent else ChainParts(batch.offsets, 3)
        soft, hard = (compile_constraints(one, batch, LABELS, parts) for one in (rule.penalty(1), rule))
        context = Context(batch, LABELS, parts)
        assert len(soft) <= 2 * (n + 1) * len(LABELS)
        for codes in possible(n, adjacent=adjacent):
            output, wanted = np.array(codes, dtype=np.int32), measure(fields(codes))
            assert soft.excess(soft.evaluate(output)).sum() == wanted, codes
            used = parts.of(output)
            admitted = (
                not hard.forbidden.contains(used).any() and hard.excess(hard.evaluate(output)).max(initial=0) == 0
            )
            assert admitted == (wanted == 0), codes
            tested = rule.tested(Outputs(context, np.sort(used)))
            assert bool(tested.broken.any()) == (wanted > 0), codes
            assert np.all(tested.broken <= tested.places)


def test_places_are_fields_and_for_an_order_those_of_sentences_with_a_later_one() -> None:
    batch = batch_of(6, 2)
    context = Context(batch, LABELS, ChainParts(batch.offsets, 3))
    output = LABELS.encode(list("ABBACBAC"))
    outputs = Outputs(context, np.sort(context.parts.of(output)))
    size = length("A", "B", at_least=2).tested(outputs)
    assert sorted(size.slot[size.places > 0].tolist()) == [0, 1, 3, 5, 6]
    assert sorted(size.slot[size.broken > 0].tolist()) == [0, 3, 5, 6]
    order = ordered("A", "B").tested(outputs)
    assert order.slot[order.places > 0].tolist() == [0, 3]
    assert order.slot[order.broken > 0].tolist() == [3]


def random_chain(batch: Batch, seed: int) -> Chain:
    rng, n = np.random.default_rng(seed), batch.n_slots
    return Chain(batch.offsets, 2 * rng.normal(size=(n, 3)), rng.normal(size=(3, 3)), start=rng.normal(size=3))


@EACH_RULE
@pytest.mark.parametrize("method", ["beam", "astar", "ilp"])
def test_search_finds_the_best_output_at_its_price(
    rule: Constraint, measure: Callable[[list[Field]], int], method: str
) -> None:
    batch = batch_of(5)
    scores = random_chain(batch, 3)
    every = list(possible(5, adjacent=False))
    value = np.array([scores.score(np.array(codes, dtype=np.int32))[0] for codes in every])
    broken = np.array([measure(fields(codes)) for codes in every])
    for one, price in ((rule.penalty(0.7), 0.7 * broken), (rule, np.where(broken > 0, np.inf, 0.0))):
        found = decode(scores, compile_constraints(one, batch, LABELS, scores.parts), method, beam=300)
        assert found.value[0] == pytest.approx((value - price).max(), abs=1e-6)


@EACH_RULE
def test_search_finds_the_best_segmentation_at_its_price(
    rule: Constraint, measure: Callable[[list[Field]], int]
) -> None:
    batch = batch_of(4)
    parts = SegmentParts(batch.offsets, 3, 2)
    scores = parts.zeros().add(np.arange(parts.n_parts), np.random.default_rng(2).normal(size=parts.n_parts))
    every = list(possible(4, adjacent=True))
    value = np.array([scores.score(np.array(codes, dtype=np.int32))[0] for codes in every])
    broken = np.array([measure(fields(codes)) for codes in every])
    for one, price in ((rule.penalty(0.7), 0.7 * broken), (rule, np.where(broken > 0, np.inf, 0.0))):
        found = decode(scores, compile_constraints(one, batch, LABELS, parts))
        assert found.value[0] == pytest.approx((value - price).max(), abs=1e-6)


def test_lengths_that_segments_tell_apart_are_parts_that_are_forbidden() -> None:
    batch = batch_of(6, 2)
    parts = SegmentParts(batch.offsets, 3, 4)
    scores = parts.zeros().add(np.arange(parts.n_parts), np.random.default_rng(2).normal(size=parts.n_parts))
    rows = compile_constraints(length("A", at_least=2, at_most=3), batch, LABELS, parts)
    found = project(scores, rows, 1.0, at=np.arange(parts.n_parts)).posterior
    assert found.at(np.array([parts.segment(t, n, 0) for t in range(6) for n in (1, 4)])).max() == 0
    assert found.at(np.array([parts.segment(t, 2, 0) for t in range(1, 6)])).min() > 0


def test_a_projection_shortens_and_orders_fields_in_expectation() -> None:
    batch = batch_of(5, 4)
    scores = random_chain(batch, 5)
    every = np.arange(scores.parts.n_parts)
    for rule in (length("A", at_least=3), length("B", at_most=1), ordered("A", "B", "C")):
        rows = compile_constraints(rule, batch, LABELS, scores.parts)
        found = project(scores, rows, 1.0, tolerance=1e-8, at=every)
        assert found.converged
        assert rows.excess(rows.expect(found.posterior)).max(initial=0) < 1e-6
        loose = compile_constraints(rule.penalty(1), batch, LABELS, scores.parts)
        before, after = (loose.excess(loose.expect(q)).sum() for q in (scores.infer(at=every), found.posterior))
        assert after < before


def test_a_classification_has_fields_of_one_token() -> None:
    batch, scores = batch_of(1, 1), Categorical(np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 2.0]]))
    rows = compile_constraints([length("A", at_least=2), ordered("A", "B")], batch, LABELS, CategoricalParts(2, 3))
    assert decode(scores, rows).outputs.tolist() == [1, 2]


def test_a_length_that_no_sentence_allows_is_refused_with_the_slack_it_needs() -> None:
    only, batch = Vocabulary(["A"], kind="label"), batch_of(3)
    with pytest.raises(InfeasibleError, match="the number of tokens missing from A segments be at most 0") as caught:
        compile_constraints(length("A", at_least=5), batch, only, ChainParts(batch.offsets, 1))
    assert caught.value.slack == 2


def test_outputs_without_labels_are_refused() -> None:
    trees = Trees([0, 2], np.zeros(4))
    with pytest.raises(ConstraintError):
        compile_constraints(length("A", at_most=2), batch_of(2), LABELS, trees.parts)


FILE = """
labels = ["NAME", "YEAR"]
[[rule]]
name = "long names"
field = "NAME"
length_at_least = 2
[[rule]]
name = "short fields"
length_at_most = 2
[[rule]]
name = "names before years"
field_order = ["NAME", "YEAR"]
"""


def test_check_counts_the_fields_that_break_a_rule() -> None:
    labels = [["NAME", "NAME", "NAME", "YEAR"], ["YEAR", "NAME"], None]
    texts = as_documents(["Ann Bo Cy 1999", "1987 Bob", "Bob 1999"], labels)
    found = {one.name: one for one in check_rules(parse_rules(FILE), texts, Vocabulary(["NAME", "YEAR"]))}
    counted = {name: (one.tested, one.broken, [str(at) for at in one.broken_at]) for name, one in found.items()}
    assert {name: counts[:2] for name, counts in counted.items()} == {
        "long names": (2, 1), "short fields": (4, 1), "names before years": (2, 1),
    }  # fmt: skip
    assert "Bob" in counted["long names"][2][0]
    assert "Ann" in counted["short fields"][2][0]
    assert "Bob" in counted["names before years"][2][0]


@pytest.mark.parametrize("given", ["text", "python"])
def test_an_extractor_obeys_them_and_keeps_them_in_its_model(given: str, tmp_path: Any) -> None:
    python = [length("NAME", at_least=2), each_label(lambda L: length(L, at_most=2)), ordered("NAME", "YEAR")]
    few = [["NAME", "NAME", "YEAR"], ["NAME", "NAME", "YEAR"]]
    made = Extractor(FILE if given == "text" else python, max_iter=1, model_kind="hmm", **(
        {} if given == "text" else {"labels": ["NAME", "YEAR"]}
    )).fit(["Ann Lee 2001", "Cy Fox 1987"], few)  # fmt: skip
    made.save(tmp_path / "model")
    for model in (made, load_model(tmp_path / "model")):
        (labels,) = model.predict(["2001 Ann 1987 Cy"])
        assert list(labels) == ["NAME", "NAME", "YEAR", "YEAR"]
