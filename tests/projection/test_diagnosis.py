"""Rule sets that cannot hold: the error names exactly the guilty ones, the instance, and the slack that would do."""

from __future__ import annotations

import re
import warnings
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from trellis.constraints import compile_constraints, count, dictionary, each_label, label, share, transitions, word
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConvergenceWarning, InfeasibleError
from trellis.projection import diagnosis, project
from trellis.projection.columns import average_outputs
from trellis.projection.diagnosis import refuse_conflict
from trellis.projection.shard import ShardRows
from trellis.structures import Chain, ChainParts

pytestmark = pytest.mark.slow

NAMES = [f"L{k}" for k in range(6)]
LABELS = Vocabulary(NAMES, kind="label")
TEXT = [["a", "b", "c", "d"], ["b", "c"], ["a", "d", "e"]]


def refusal(constraints: list[Any], gamma: float = 1.0) -> InfeasibleError:
    batch = Batch.from_sentences(TEXT)
    rng = np.random.default_rng(0)
    chain = Chain(batch.offsets, rng.normal(size=(batch.n_slots, 6)), rng.normal(size=(6, 6)))
    with pytest.raises(InfeasibleError) as caught:
        project(chain, compile_constraints(constraints, batch, LABELS, ChainParts(batch.offsets, len(LABELS))), gamma)
    return caught.value


def harmless() -> list[Any]:
    """Eighteen hard rules that all can hold together with either of the guilty ones."""
    rules: list[Any] = [(count(name) <= 3.5).named(f"{name} is not everything") for name in NAMES]
    rules += [(count(name) >= 0.01).named(f"{name} now and then") for name in NAMES]
    rules += [(transitions(from_=name, to=name) <= 2.9).named(f"{name} does not always stay") for name in NAMES]
    return rules


@pytest.mark.parametrize("gamma", [0.3, 1.0, 0.0])
def test_two_contradicting_hard_rules_among_twenty_are_named(gamma: float) -> None:
    guilty = [(count("L0") >= 1.5).named("many"), (count("L0") <= 1.0).named("few")]
    rules = harmless()
    error = refusal([*rules[:7], guilty[0], *rules[7:], guilty[1]], gamma)
    assert len(rules) == 18
    assert set(error.constraints) == {"many", "few"}
    assert error.slack == pytest.approx(0.25, abs=1e-6)
    assert "'many' and 'few' cannot hold together" in str(error)


def test_a_count_above_the_length_of_a_sentence_is_named() -> None:
    error = refusal([*harmless(), (count("L1") >= 3).named("three of them")])
    assert error.constraints == ("three of them",)
    assert error.instances == (1,)
    assert error.slack == pytest.approx(1.0)


def test_a_dictionary_that_forbids_every_label_of_a_token_is_named() -> None:
    rules = [
        *harmless(),
        dictionary({"e": ["L0", "L1"]}).named("lexicon"),
        word.isin("e").implies(label("L2") | label("L3")).named("guess"),
    ]
    error = refusal(rules)
    assert set(error.constraints) == {"lexicon", "guess"}
    assert error.instances == (2,)


def test_a_forbidding_rule_and_a_count_that_conflict_are_named() -> None:
    rules = [
        *harmless(),
        word.matches("[abc]").implies(~label("L0")).named("not there"),
        (count("L0") >= 1).named("one"),
    ]
    error = refusal(rules)
    assert set(error.constraints) == {"not there", "one"}
    assert error.instances == (1,)


def test_three_rules_of_which_any_two_can_hold_are_all_named() -> None:
    rules = [
        (count("L0") >= 0.9).named("zero"),
        (count("L1") >= 0.9).named("one"),
        (count("L2") >= 0.9).named("two"),
        (count("L3") <= 3).named("harmless"),
    ]
    error = refusal(rules)
    assert set(error.constraints) == {"zero", "one", "two"}
    assert error.instances == (1,)
    assert error.slack == pytest.approx(0.7 / 3, abs=1e-6)


def test_conflicts_over_the_corpus_are_named() -> None:
    rules = [
        (count("L0").per("corpus") >= 6).named("six"),
        (count("L1").per("corpus") >= 5).named("five"),
        (count("L2").per("corpus") <= 5).named("harmless"),
    ]
    error = refusal(rules)
    assert set(error.constraints) == {"six", "five"}
    assert error.slack == pytest.approx(1.0, abs=1e-6)


def test_forbidden_transitions_and_words_that_leave_no_path_are_named() -> None:
    rules = [
        *harmless()[12:],
        (transitions() == 0).named("stay"),
        word.isin("a").implies(label("L0")).named("a"),
        word.isin("d").implies(label("L1")).named("d"),
    ]
    error = refusal(rules)
    assert set(error.constraints) == {"stay", "a", "d"}
    assert error.instances == (0,)
    assert error.slack == pytest.approx(1 / 3, abs=1e-6)


def test_too_few_evaluations_warn_and_name_the_worst_constraint() -> None:
    batch = Batch.from_sentences(TEXT)
    rng = np.random.default_rng(0)
    chain = Chain(batch.offsets, rng.normal(size=(batch.n_slots, 6)) * 3, rng.normal(size=(6, 6)))
    rows = compile_constraints([(count("L0") >= 1.3).named("some")], batch, LABELS, chain.parts)
    with pytest.warns(ConvergenceWarning, match="'some'"):
        found = project(chain, rows, tolerance=1e-12, max_evaluations=2)
    assert not found.converged
    assert found.kkt_residual > 1e-12


def test_a_part_forbidden_twice_is_laid_to_whoever_is_needed() -> None:
    rules = [
        word.isin("b").implies(~label("L0")).named("harmless, though it forbids the same"),
        word.matches("[abc]").implies(~label("L0")).named("not there"),
        (count("L0") >= 1).named("one"),
    ]
    error = refusal(rules)
    assert set(error.constraints) == {"not there", "one"}


def drawn_conflict(seed: int) -> tuple[Chain, list[Any], Batch]:
    """Counts that ask for more than the sentences have, of several labels at once, some of them harmless."""
    rng = np.random.default_rng(seed)
    batch = Batch.from_sentences(TEXT)
    chain = Chain(batch.offsets, rng.normal(size=(batch.n_slots, 6)), rng.normal(size=(6, 6)))
    rules: list[Any] = []
    for number, name in enumerate(NAMES):
        scope = "corpus" if rng.random() < 0.3 else "instance"
        size = batch.n_slots if scope == "corpus" else 2
        side = count(name).per(scope)
        rule: Any = (
            side >= rng.uniform(0.1, 0.55) * size if rng.random() < 0.7 else side <= rng.uniform(0.0, 0.4) * size
        )
        rules.append((rule if rng.random() < 0.8 else rule.slack(0.05)).named(f"r{number}"))
    if rng.random() < 0.4:
        rules.append(word.isin("b", "c").implies(~label("L0", "L1")).constraint().named("not these"))
    return chain, rules, batch


def conflict_of(chain: Chain, rules: list[Any], batch: Batch) -> InfeasibleError | None:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            project(chain, compile_constraints(rules, batch, LABELS, chain.parts), 1.0)
    except InfeasibleError as error:
        return error
    return None


@pytest.mark.parametrize("seed", range(30))
def test_the_slack_that_is_advised_resolves_the_conflict_or_leaves_another(seed: int) -> None:
    """Taking the advice of each message in turn ends in a feasible problem, and no message comes twice."""
    chain, rules, batch = drawn_conflict(seed)
    told: set[tuple[tuple[int, ...], frozenset[str]]] = set()
    for _ in range(12):
        refused = conflict_of(chain, rules, batch)
        if refused is None:
            return
        guilty = frozenset(refused.constraints)
        assert (refused.instances, guilty) not in told, "the advice was taken and did not help"
        told.add((refused.instances, guilty))
        assert refused.slack is not None
        advised = float(re.findall(r"slack of ([0-9.e+-]+)", str(refused))[0])
        assert advised >= refused.slack - 1e-9
        rules = [
            rule.slack(rule.strength.amount + advised * (1 + 1e-6)) if rule.name in guilty else rule for rule in rules
        ]
    raise AssertionError("there was always another conflict")


def test_a_slack_in_l2_is_not_taken_for_one_in_l1() -> None:
    """Two rows may each be off by 0.7 within an L2 slack of 1: feasible, though 0.7 + 0.7 > 1."""
    batch = Batch.from_sentences([["a", "b"]])
    chain = Chain(batch.offsets, np.zeros((2, 6)), np.zeros((6, 6)))
    rule = each_label(lambda name: count(name) >= 1.6, "L0", "L1").slack(0.9, "l2")
    rows = compile_constraints([rule], batch, LABELS, chain.parts)
    found = project(chain, rows, 1.0)
    assert found.converged


@pytest.mark.parametrize("gamma", [1.0, 0.01])
def test_a_conflict_inside_an_instance_is_told_before_coupling_rows_are_solved(gamma: float) -> None:
    """Each of hundreds of evaluations for the coupling rows would solve, and try to rescue, what has no solution."""
    rng = np.random.default_rng(0)
    batch = Batch.from_sentences([["x", "y", "z", "x"], ["y", "z", "x", "y", "z"]])
    labels = Vocabulary(["A", "B", "C"], kind="label")
    chain = Chain(batch.offsets, rng.normal(size=(batch.n_slots, 3)), rng.normal(size=(3, 3)))
    rules = [
        (count("A") >= 2).named("two"),
        (count("A") <= 1).named("one"),
        (share("B").per(word) <= 0.6).named("few B"),
        (share("C").per("corpus") >= 0.3).named("many C"),
    ]
    rows = compile_constraints(rules, batch, labels, chain.parts)
    with (
        patch.object(ShardRows, "evaluate", autospec=True, side_effect=ShardRows.evaluate) as evaluate,
        pytest.raises(InfeasibleError, match="'two' and 'one' cannot hold together"),
    ):
        project(chain, rows, gamma)
    assert evaluate.call_count == 1


def test_of_many_constraints_each_is_asked_about_with_the_outputs_seen_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """A rule beside many shares of the corpus: the deletion filter solves a program per constraint, each in a round
    or two. From nothing they took 500 rounds in all."""
    rounds = []

    def counted(*arguments: Any, **more: Any) -> Any:
        found = average_outputs(*arguments, **more)
        rounds.append(found.rounds)
        return found

    k = 16
    text = Batch.from_sentences([["a", "b", "a", "c"], ["c", "a", "b"], ["b", "b", "c", "a"]])
    names = Vocabulary([f"L{i}" for i in range(k)], kind="label")
    shares = [(share(f"L{i}").per("corpus") >= 0.8 / k).named(f"c{i}") for i in range(k)]
    parts = ChainParts(text.offsets, k)
    rows = compile_constraints([(share("L0").per(word) >= 0.7).named("every word"), *shares], text, names, parts)
    rng = np.random.default_rng(0)
    chain = Chain(text.offsets, rng.normal(size=(text.n_slots, k)), rng.normal(size=(k, k)))
    monkeypatch.setattr(diagnosis, "average_outputs", counted)
    with pytest.raises(InfeasibleError, match="'every word' and 'c"):
        refuse_conflict([chain], rows)
    assert len(rounds) > k
    assert sum(rounds) < 5 * k


@pytest.mark.parametrize("gamma", [1.0, 0.05])
@pytest.mark.parametrize("size", [0.5, 0.74])
def test_rows_that_only_an_l2_slack_rules_out_are_refused_with_the_slack_they_lack(size: float, gamma: float) -> None:
    """Of two tokens one can be off by 0, the other by 1.2 in all: an L2 norm of at least 0.85, and 0.6 for each row."""
    batch = Batch.from_sentences([["a", "b"]])
    chain = Chain(batch.offsets, np.zeros((2, 6)), np.zeros((6, 6)))
    rules = [
        each_label(lambda name: count(name) >= 1.6, "L0", "L1").slack(size, "l2").named("both"),
        (count("L2") >= 0.1).slack(0.1).named("harmless"),
    ]
    rows = compile_constraints(rules, batch, LABELS, chain.parts)
    with pytest.raises(InfeasibleError, match="instance 0: constraint 'both' cannot hold") as caught:
        project(chain, rows, gamma)
    assert caught.value.constraints == ("both",)
    assert caught.value.slack is not None
    # rows are off by 0.6 each at best: what the L2 slack does not cover
    assert caught.value.slack == pytest.approx(0.6 - size / np.sqrt(2), abs=1e-4)
