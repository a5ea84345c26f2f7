"""What decoding says when it cannot answer, ties, and constraints as people write them."""

from __future__ import annotations

import itertools
import sys
from collections import Counter
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from trellis.constraints import (
    backward,
    compile_constraints,
    count,
    each_label,
    few_labels_per,
    forward,
    preceding,
    share,
    starts,
    transitions,
    word,
)
from trellis.constraints.rows import Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, ConvergenceWarning, DataError, InfeasibleError, UnknownNameError
from trellis.search import decode, decode_kbest, kernels, penalised_value
from trellis.structures import Alignment, Categorical, Chain, ChainParts, Joint, Structure

from .permutations import PermutationParts, Permutations
from .problems import Problem, rows_over

LABELS = Vocabulary(["A", "B", "C"])
BATCH = Batch.from_sentences([["a", ",", "b", "c"], [], ["x", "y", ",", "z", "a"]])


def random_chain(seed: int, batch: Batch = BATCH) -> Chain:
    rng = np.random.default_rng(seed)
    return Chain(batch.offsets, rng.normal(size=(int(batch.offsets[-1]), 3)), rng.normal(size=(3, 3)), first=7)


@pytest.mark.parametrize("method", ["auto", "beam", "astar", "ilp"])
@pytest.mark.parametrize("seed", range(4))
def test_rules_as_people_write_them(method: str, seed: int) -> None:
    rules = [
        each_label(lambda name: starts(name) <= 1).penalty(1.0),
        transitions(where=~preceding(word == ",")) == 0,
        (count("B") >= 2).penalty(0.8),
        (count("A", "B") >= 1).slack(1.0),
    ]
    rows = compile_constraints(rules, BATCH, LABELS, ChainParts(BATCH.offsets, 3))
    scores = random_chain(seed)
    found = decode(scores, rows, method)
    np.testing.assert_allclose(found.value, Problem(scores, rows).best(), rtol=1e-9)
    assert found.proved.all()
    assert found.outputs[0] == found.outputs[1]
    assert found.value[1] == pytest.approx(-1.6)  # the empty sentence lacks two B


@pytest.mark.parametrize("method", ["auto", "beam", "astar", "ilp"])
def test_constraints_in_conflict_are_named_with_the_instance_and_the_slack(method: str) -> None:
    batch = Batch.from_sentences([["a", "b"], ["a", "b", "c", "d"]])
    rules = [
        (count("A") >= 3).slack(1.0).named("three A"),
        (count("B") >= 2).named("two B"),
        (starts("C") <= 2).named("few C"),
        (count("A") <= 3).penalty(2.0).named("soft"),
    ]
    rows = compile_constraints([rules[0], rules[2], rules[3]], batch, LABELS, ChainParts(batch.offsets, 3))
    assert decode(random_chain(0, batch), rows, method).proved.all()
    rows = compile_constraints(
        [rules[1], rules[2], (count("A") >= 1).named("one A")], batch, LABELS, ChainParts(batch.offsets, 3)
    )
    with pytest.raises(
        InfeasibleError, match="instance 7: constraints 'two B' and 'one A' cannot hold together"
    ) as raised:
        decode(random_chain(0, batch), rows, method)
    assert raised.value.instances == (7,)
    assert raised.value.constraints == ("two B", "one A")


def test_the_slack_that_is_told_resolves_the_conflict() -> None:
    batch = Batch.from_sentences([["a", "b", "c"]])
    rules = [(count("A") >= 2).named("A"), (count("B") >= 2).named("B"), (count("C") >= 2).named("C")]
    with pytest.raises(InfeasibleError) as raised:
        decode(random_chain(0, batch), compile_constraints(rules[:2], batch, LABELS, ChainParts(batch.offsets, 3)))
    assert raised.value.constraints == ("A", "B")
    assert raised.value.slack == pytest.approx(1.0)
    loose = [rule.slack(1.0) for rule in rules[:2]]
    assert decode(
        random_chain(0, batch), compile_constraints(loose, batch, LABELS, ChainParts(batch.offsets, 3))
    ).proved.all()


def test_the_slack_that_is_told_is_beyond_what_is_allowed_and_beside_all_other_constraints() -> None:
    batch = Batch.from_sentences([["a", "b", "c", "d"]])
    rules = [
        (count("A") >= 3).slack(0.5).named("A"),
        (count("B") >= 3).slack(0.5).named("B"),
        (count("C") >= 1).named("C"),
    ]
    scores = random_chain(0, batch)
    rows = compile_constraints(rules, batch, LABELS, scores.parts)
    # of the four tokens one is a C: of the other three two are A and one is B
    with pytest.raises(InfeasibleError, match=r"'A' and 'B' cannot hold together; a further slack of 1.5 \(L∞\)"):
        decode(scores, rows)
    loose = [rules[0].slack(2.0), rules[1].slack(2.0), rules[2]]
    assert decode(scores, compile_constraints(loose, batch, LABELS, scores.parts)).proved.all()
    tight = [rules[0].slack(1.9), rules[1].slack(1.9), rules[2]]
    with pytest.raises(InfeasibleError):
        decode(scores, compile_constraints(tight, batch, LABELS, scores.parts))


def test_forbidden_parts_against_scores_name_their_constraint() -> None:
    batch = Batch.from_sentences([["a", "b"]])
    rows = compile_constraints([(count("A") == 0).named("no A")], batch, LABELS, ChainParts(batch.offsets, 3))
    node = np.array([[0.0, -np.inf, -np.inf], [0.0, 0.0, 0.0]])
    with pytest.raises(InfeasibleError, match=r"instance 3: constraint 'no A' cannot hold; a slack of 1 \(L∞\) would"):
        decode(Chain([0, 2], node, np.zeros((3, 3)), first=3), rows)


def test_scores_that_allow_nothing_are_not_blamed_on_constraints() -> None:
    batch = Batch.from_sentences([["a"]])
    rows = compile_constraints([count("A") == 0], batch, LABELS, ChainParts(batch.offsets, 3))
    with pytest.raises(InfeasibleError, match="every one uses a forbidden part") as raised:
        decode(Chain([0, 1], np.full((1, 3), -np.inf), np.zeros((3, 3))), rows)
    assert raised.value.constraints == ()


def test_where_no_method_finds_an_output_it_says_so() -> None:
    rng = np.random.default_rng(0)
    n = 12
    parts = ChainParts(np.array([0, n]), 2)
    # subset sums that a beam of one does not hit, in a norm that no integer program takes
    rows = [({p: float(c) for p, c in enumerate(rng.integers(1, 50, 2 * n))}, float(b), True) for b in (300, 307)]
    group = {"instance": 0, "kind": Kind.SLACK, "norm": Norm.L2, "amount": 0.5, "rows": rows}
    scores = Chain([0, n], rng.normal(size=(n, 2)), np.zeros((2, 2)))
    with pytest.warns(ConvergenceWarning, match="no output that meets the hard constraints was found for instance 0"):
        found = decode(scores, rows_over(parts, [group], []), "beam", beam=1, max_nodes=2)
    assert found.value[0] == -np.inf
    assert found.gap[0] == np.inf
    assert not found.proved[0]


@pytest.mark.slow
def test_equal_outputs_are_drawn_by_chance_only_when_asked_for() -> None:
    batch = Batch.from_sentences([["a", "b", "c", "d"]])
    scores = Chain(batch.offsets, np.zeros((4, 3)), np.zeros((3, 3)))
    rows = compile_constraints([(count("A") == 2).penalty(5.0)], batch, LABELS, ChainParts(batch.offsets, 3))
    rng = np.random.default_rng(0)
    for method in ("beam", "astar"):
        fixed = {tuple(decode(scores, rows, method).outputs.tolist()) for _ in range(3)}
        assert len(fixed) == 1
        drawn = [decode(scores, rows, method, rng=rng) for _ in range(300)]
        assert all(found.value[0] == 0.0 for found in drawn)
        seen = Counter(tuple(found.outputs.tolist()) for found in drawn)
        assert len(seen) >= 20  # of 24 outputs with two A
        assert max(seen.values()) < 90
    free = Counter(
        tuple(decode(scores, Rows.none(scores.parts), rng=rng).outputs.tolist()) for _ in range(300)
    )  # fmt: skip
    assert len(free) > 70  # of 81


def test_an_empty_batch_and_empty_sequences_have_answers() -> None:
    none = Chain([0], np.zeros((0, 3)), np.zeros((3, 3)))
    assert decode(none, Rows.none(none.parts)).outputs.shape == (0,)
    empty = Chain([0, 0, 0], np.zeros((0, 3)), np.zeros((3, 3)))
    row = {"instance": 1, "norm": Norm.L1, "rows": [({}, -3.0, False)]}
    rows = rows_over(empty.parts, [{**row, "kind": Kind.PENALTY, "amount": 2.0}], [])
    for method in ("auto", "beam", "astar", "ilp"):
        found = decode(empty, rows, method)
        assert found.value.tolist() == [0.0, -6.0]
        assert found.proved.all()
    two = decode_kbest(empty, rows, 2)
    assert two.value.tolist() == [[0.0, -6.0], [-np.inf, -np.inf]]
    hard = rows_over(empty.parts, [{**row, "kind": Kind.HARD, "amount": 0.0}], [])
    with pytest.raises(InfeasibleError, match="instance 1: constraint 'c0' cannot hold") as raised:
        decode(empty, hard)
    assert raised.value.slack == pytest.approx(3.0)


def test_what_cannot_be_decoded_is_refused_by_name() -> None:
    scores = random_chain(0)
    coupling = (share("A").per("corpus") <= 0.2).named("few A")
    with pytest.raises(ConstraintError, match="'few A' spans several instances"):
        decode(scores, compile_constraints([coupling], BATCH, LABELS, ChainParts(BATCH.offsets, 3)))
    with pytest.raises(ConstraintError, match="'sparse' spans several instances"):
        decode(
            scores,
            compile_constraints(
                [few_labels_per(word, strength=2.0).named("sparse")], BATCH, LABELS, ChainParts(BATCH.offsets, 3)
            ),
        )
    with pytest.raises(ConstraintError, match="the penalty of constraint 'later' has not been learned"):
        decode(
            scores,
            compile_constraints(
                [(starts("A") <= 1).learned().named("later")], BATCH, LABELS, ChainParts(BATCH.offsets, 3)
            ),
        )
    rows = Rows.none(scores.parts)
    with pytest.raises(UnknownNameError, match="unknown decoding method 'beem'; did you mean 'beam'"):
        decode(scores, rows, "beem")
    for wrong in (0, -1, 2.5, True, "50"):
        with pytest.raises(DataError, match="beam must be a whole number, 1 or more"):
            decode(scores, rows, beam=wrong)  # type: ignore[arg-type]
    other = Chain([0, 1], np.zeros((1, 3)), np.zeros((3, 3)))
    with pytest.raises(DataError, match="the rows are over 3 instances.*compile the constraints for the batch"):
        decode(other, rows)
    # as many instances, labels and slots, but cut otherwise
    some = compile_constraints([(count("A") >= 1).penalty(1.0)], BATCH, LABELS, scores.parts)
    with pytest.raises(DataError, match="cut otherwise: compile the constraints for the batch"):
        decode(Chain([0, 3, 6, 9], np.zeros((9, 3)), np.zeros((3, 3))), some)


@pytest.mark.parametrize("method", ["beam", "astar"])
def test_a_method_that_does_not_know_the_structure_says_which_it_knows(method: str) -> None:
    chain = random_chain(0)
    for scores, what in (
        (Joint(chain, chain), r"outputs \(kind 'chain\+chain'\)"),
        (Permutations(np.zeros((2, 3, 3))), "permutations"),
    ):
        with pytest.raises(
            ConstraintError, match=f"{method!r} serves .* 'categorical' and 'chain', .* {what}: .*'ilp'"
        ):
            decode(scores, Rows.none(scores.parts), method)


def test_a_structure_brings_its_own_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """A module registered under its kind is asked before an integer program is."""

    class Search:
        methods = ("beam",)

        def __init__(self, remaining: Any) -> None:
            self.remaining = remaining

        def beam(self, progress: Any, todo: np.ndarray, width: int) -> None:
            progress.replace({i: [(2, 1, 0)] for i in todo.tolist()})
            progress.value[todo] = progress.bound[todo] = 0.0
            progress.method[todo] = "beam"

    module = ModuleType("permutation_search")
    module.Search = Search  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "permutation_search", module)
    monkeypatch.setattr(kernels, "_MODULES", dict(kernels._MODULES))
    monkeypatch.setattr(PermutationParts, "kind", "permutations")
    kernels.register("permutations", "permutation_search")
    scores = Permutations(np.zeros((3, 3, 3)))
    row = ({9: 1.0, 13: 1.0}, 0.5, False)
    group = {"instance": 1, "kind": Kind.PENALTY, "norm": Norm.L1, "amount": 1.0, "rows": [row]}
    found = decode(scores, rows_over(scores.parts, [group], []))
    assert found.method.tolist() == ["argmax", "beam", "argmax"]
    assert found.outputs == [(0, 1, 2), (2, 1, 0), (0, 1, 2)]
    assert kernels.kinds_with("beam") == ["categorical", "chain", "permutations"]


def joint(seed: int = 0) -> Joint:
    rng = np.random.default_rng(seed)
    return Joint(random_chain(seed), Categorical(rng.normal(size=(3, 2)), first=7))


@pytest.mark.parametrize("scores", [joint(), Permutations(np.zeros((3, 3, 3)), first=7)])
def test_a_conflict_is_named_in_every_structure(scores: Structure) -> None:
    used = [int(p) for p in scores.parts.of(scores.argmax().outputs) if scores.parts.instance_of(p) == 2]
    both = used[-1], used[-2]
    hard = {"instance": 2, "kind": Kind.HARD, "norm": Norm.LINF, "amount": 0.0}
    groups = [
        {**hard, "rows": [(dict.fromkeys(both, -1.0), -2.0, False)]},
        {**hard, "rows": [(dict.fromkeys(used[:-2], 1.0), 5.0, False)]},
        {**hard, "rows": [({both[0]: 1.0}, 0.25, False)]},
    ]
    with pytest.raises(InfeasibleError, match="instance 9: constraints 'c0' and 'c2' cannot hold together") as raised:
        decode(scores, rows_over(scores.parts, groups, []))
    assert raised.value.constraints == ("c0", "c2")
    # to give up one of the two parts costs 1, to use it 0.75
    assert raised.value.slack == pytest.approx(0.75)
    loose = [{**group, "kind": Kind.SLACK, "amount": 0.75} for group in groups]
    assert decode(scores, rows_over(scores.parts, loose, [])).proved.all()


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_two_directions_of_an_alignment_that_must_agree_are_decoded_together(seed: int) -> None:
    """Rows that are not written out, and scores that know more than parts: moves from place to place."""
    rng = np.random.default_rng(seed)
    sizes, jump, begin = ([2, 3, 0], [3, 2, 1]), rng.random(9) + 0.1, rng.random(5) + 0.1
    moves = {"jump": jump, "first_place": begin, "p_null": 0.4}
    both = Joint(
        Alignment(*sizes, rng.normal(size=12), rng.normal(size=6), **moves),
        Alignment(*sizes, rng.normal(size=12), rng.normal(size=5), **moves, forward=False),
    )
    batch = Batch.from_sentences([["a", "b", "c"], ["d", "e"], ["f"]])
    rules = [forward.links == backward.links, (forward.links() <= 2).penalty(0.5)]
    rows = compile_constraints(rules, batch, LABELS, both.parts)
    assert rows.implicit
    found = decode(both, rows)
    assert found.proved.all()
    assert "ilp" in found.method
    np.testing.assert_array_equal(found.value, penalised_value(both, rows, found.outputs))
    for i in range(3):
        one, mine = both.instances(i, i + 1), rows.shard(i, i + 1)
        n, m = sizes[0][i], sizes[1][i]
        values = [
            penalised_value(one, mine, (np.array(y, np.int32), np.array(z, np.int32)))[0]
            for y in itertools.product(range(-1, n), repeat=m)
            for z in itertools.product(range(-1, m), repeat=n)
        ]
        assert found.value[i] == pytest.approx(max(values), rel=1e-12)
