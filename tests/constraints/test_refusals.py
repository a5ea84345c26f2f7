"""What has no linear form, no meaning, or no solution is refused with words that lead on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from structures.subsets import SubsetParts

from trellis.constraints import (
    column,
    compile_constraints,
    count,
    dictionary,
    each_label,
    exists,
    few_labels_per,
    label,
    length,
    ordered,
    position,
    preceding,
    share,
    starts,
    trusted,
    word,
)
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError, InfeasibleError, UnknownNameError
from trellis.structures import CategoricalParts, ChainParts, JointParts, Parts

from .plain import compile_over_chains

LABELS = Vocabulary(["NOUN", "VERB", "DET"], kind="label")


def batch() -> Batch:
    return Batch.from_sentences([["the", "dog", "barks"], ["the"], ["a", "b", "c", "d"]])


REFUSED: list[tuple[Callable[[], Any], str]] = [
    (lambda: 0.1 <= share("VERB") <= 0.2, r"write share\('VERB'\).between\(0.1, 0.2\)"),
    (lambda: bool(count("VERB") >= 1), "has no truth value"),
    (lambda: label("VERB") and label("NOUN"), r"write & \| ~ in place of and, or, not"),
    (lambda: count("VERB") * count("NOUN"), r"count\('VERB'\) \* count\('NOUN'\) has no linear form"),
    (lambda: count("VERB") / count(), r"write share\('A'\)"),
    (lambda: 1 / count("VERB"), "has no linear form"),
    (lambda: count("VERB") + "x", "has no linear form"),
    (lambda: count("VERB") - label("NOUN"), "has no linear form"),
    (lambda: count("VERB") / 0, "divided by 0"),
    (lambda: count("VERB") != 1, "supported are <=, >= and =="),
    (lambda: count("VERB") > 1, "compared with <=, >= or =="),
    (lambda: count("VERB") < 1, "compared with <=, >= or =="),
    (lambda: count("VERB") >= "one", "compared with a number or another count, got 'one'"),
    (lambda: count("VERB") >= float("nan"), "bounds must be finite"),
    (lambda: count("VERB").between(2, 1), "cannot lie between 2 and 1"),
    (lambda: count("VERB").per("sentnce"), "unknown scope 'sentnce'"),
    (lambda: count("VERB").per(3), "not per 3"),
    (lambda: count("A").per("corpus") <= count("B").per("token"), "counted in different scopes"),
    (lambda: count([]), "empty list of labels"),
    (lambda: share(), "needs at least one label"),
    (lambda: share("A", where=label("B")), "must not depend on labels"),
    (lambda: label(), "at least one name"),
    (lambda: ordered("A"), "ordered takes two labels or more"),
    (lambda: length(at_least=2), "needs at least one label"),
    (lambda: length("A"), "needs at_least, at_most or both"),
    (lambda: length("A", at_most=0), "at_most of length.* is a whole number of tokens from 1, got 0"),
    (lambda: length("A", at_least=2.0), "at_least of length.* is a whole number of tokens from 1, got 2.0"),
    (lambda: length("A", at_least=3, at_most=2), "cannot lie between 3 and 2"),
    (lambda: label("A") & (count("B") >= 1), "is about one token"),
    (lambda: label("A").implies("B"), "must be a rule"),
    (lambda: (count("A") >= 2) & (count("B") >= 1), "list .* as two constraints"),
    (lambda: exists("A") & label("B"), "list .* as two constraints"),
    (lambda: exists("A") & exists("B") & (count("C") >= 2), r"count\('C'\) >= 2 cannot be the condition"),
    (lambda: (exists("A") & exists("B")).implies(label("C")), r"write exists\(label\('C'\)\)"),
    (lambda: bool(exists("A") & exists("B")), "no truth value"),
    (lambda: compile_over_chains([exists("A") & exists("B")], batch(), LABELS), "a constraint is a comparison"),
    (lambda: (count("A") >= 2) | exists("B"), "has no linear form; supported are exists"),
    (lambda: ~(count("A") >= 2), "supported is ~exists"),
    (lambda: (count("A") >= 2).implies(exists("B")), r"count\('A'\) >= 2 cannot be the condition"),
    (lambda: exists("A").implies(label("B")), r"write exists\(label\('B'\)\)"),
    (lambda: exists("A").implies(3), "must be a comparison of counts"),
    (lambda: exists("A").implies(count("B").per("corpus") >= 1), "must be counted per sentence"),
    (lambda: preceding(label("A")), r"write previous\(...\)"),
    (lambda: word == 3, "compared with a string"),
    (lambda: word.isin("a", ["b", 3]), "takes strings, got 3"),
    (lambda: word.matches("(["), "not a valid regular expression"),
    (lambda: position == 1.5, "a whole number"),
    (lambda: count("A", where="x"), "where= takes a condition"),
    (lambda: few_labels_per("word", strength=1), "takes word, column"),
    (lambda: few_labels_per(word, strength=1, min_count=0), "1 or more"),
    (lambda: few_labels_per(word, strength=1).hard(), "is a penalty"),
    (lambda: few_labels_per(word, strength=-1), "not negative"),
    (lambda: dictionary({"the": []}), "no label at all for 'the'"),
    (lambda: trusted("guess", at_least=0.9), r"write column\('guess'\)"),
    (lambda: trusted(at_least=90), "0 to 1, got 90"),
    (lambda: (count("A") >= 1).named(" "), "a non-empty string"),
    (lambda: (count("A") >= 1).with_strength("hard"), r"a strength is hard\(\)"),
    (lambda: (count("A") >= 1).penalty(1, "l3"), "unknown norm 'l3'"),
    (lambda: compile_over_chains([3], batch(), LABELS), "a constraint is a comparison"),
    (
        lambda: compile_over_chains([label("VERB").named("x"), label("NOUN").named("x")], batch(), LABELS),
        "two constraints are called 'x'",
    ),
    (
        lambda: compile_over_chains([each_label(lambda L: (starts(L) <= 1).penalty(1))], batch(), LABELS),
        "give the strength and the name to each_label",
    ),
    (lambda: compile_over_chains([each_label(lambda L: 3)], batch(), LABELS), "gave 3"),
]


@pytest.mark.parametrize("make, message", REFUSED, ids=[message for _, message in REFUSED])
def test_an_expression_without_meaning_is_refused(make: Callable[[], Any], message: str) -> None:
    with pytest.raises(ConstraintError, match=message):
        make()


def test_unknown_labels_and_columns_get_suggestions() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown label 'VREB' in the constraint .*; did you mean 'VERB'"):
        compile_over_chains([count("VREB") >= 1], batch(), LABELS)
    with pytest.raises(UnknownNameError, match="unknown column 'wrod' in the constraint .*; did you mean 'word'"):
        compile_over_chains([(column("wrod") == "x").implies(label("VERB"))], batch(), LABELS)
    with pytest.raises(UnknownNameError, match="unknown label 'VREB'"):
        compile_over_chains([trusted([["VREB", None, None], None, None], at_least=0.5)], batch(), LABELS)


def test_given_labels_must_fit_the_batch() -> None:
    with pytest.raises(DataError, match="for 1 instances, but the batch has 3"):
        compile_over_chains([trusted([["VERB"]], at_least=0.5)], batch(), LABELS)
    with pytest.raises(DataError, match="instance 1 has 1 tokens but 2 given labels"):
        compile_over_chains([trusted([None, ["VERB", "VERB"], None], at_least=0.5)], batch(), LABELS)


@pytest.mark.parametrize(
    "parts, message",
    [
        (CategoricalParts(3, 3), "3 slots with 3 labels each, but the batch has 8 slots and there are 3 labels"),
        (
            ChainParts(batch().offsets, 2),
            "8 slots with 2 labels each, but the batch has 8 slots and there are 3 labels",
        ),
        (ChainParts(np.array([0, 3, 8]), 3), "parts of 2 instances, but the batch has 3"),
        (SubsetParts(np.array([0, 1]), np.array([0]), np.array([1])), "parts of 1 instances, but the batch has 3"),
    ],
)
def test_parts_must_be_those_of_the_batch(parts: Parts, message: str) -> None:
    with pytest.raises(DataError, match=message):
        compile_constraints([], batch(), LABELS, parts)


def test_constraints_on_labels_are_refused_where_there_are_none() -> None:
    members = [ChainParts(batch().offsets, 3), ChainParts(batch().offsets, 3)]
    for parts in (
        SubsetParts(np.array([0, 1, 1, 2]), np.zeros(3, np.int64), np.ones(3, np.int64)),
        JointParts(tuple(members)),
    ):
        assert len(compile_constraints([], batch(), LABELS, parts)) == 0
        for constraint in (count("VERB") >= 1, label("VERB"), few_labels_per(word, strength=1), starts("VERB") <= 1):
            with pytest.raises(ConstraintError, match=f"refers to labels, but these {parts.outputs_are} have none"):
                compile_constraints([constraint], batch(), LABELS, parts)


def test_a_count_above_the_length_names_constraint_instance_and_slack() -> None:
    many = (count("VERB") >= 3).named("three verbs")
    with pytest.raises(InfeasibleError, match="'three verbs' cannot hold.*at least 3, but in instance 1.*1 token") as e:
        compile_over_chains([many], batch(), LABELS)
    assert e.value.constraints == ("three verbs",)
    assert e.value.instances == (1,)
    assert e.value.slack == 2
    compile_over_chains([many.slack(e.value.slack)], batch(), LABELS)
    with pytest.raises(InfeasibleError, match="at least 3 up to 1.9"):
        compile_over_chains([many.slack(1.9)], batch(), LABELS)
    compile_over_chains([many.penalty(1)], batch(), LABELS)


def test_messages_count_instances_from_the_first_of_the_corpus() -> None:
    later = batch().instances(1, 3)
    with pytest.raises(InfeasibleError, match="in instance 1, which has 1 token") as e:
        compile_over_chains([count("VERB") >= 3], later, LABELS)
    assert e.value.instances == (1,)


def test_a_token_without_labels_names_a_smallest_guilty_set() -> None:
    innocent = [(word == f"w{i}").implies(label("VERB")).named(f"innocent {i}") for i in range(18)]
    first = (word == "the").implies(label("DET")).named("articles")
    second = position.first.implies(label("NOUN", "VERB")).named("start")
    with pytest.raises(InfeasibleError, match="token 0 \\('the'\\) of instance 0 is left without a label") as e:
        compile_over_chains([*innocent, first, *[r.named(r.name + "!") for r in innocent], second], batch(), LABELS)
    assert set(e.value.constraints) == {"articles", "start"}
    assert e.value.slack == pytest.approx(0.5)
    soft = [first.slack(e.value.slack), second.slack(e.value.slack)]
    compile_over_chains(soft, batch(), LABELS)


def test_three_constraints_may_be_needed_to_leave_no_label() -> None:
    each = [(~label(name)).named(f"no {name}") for name in LABELS]
    with pytest.raises(InfeasibleError) as e:
        compile_over_chains([each[0], each[1], each[1].named("again"), each[2]], batch(), LABELS)
    assert len(e.value.constraints) == 3
    assert e.value.slack == pytest.approx(1 / 3)


def test_a_dictionary_that_forbids_every_label_is_named() -> None:
    labels = Vocabulary(["X", "Y"], kind="label")
    tags = dictionary({"the": ["X"]}).named("tags")
    with pytest.raises(InfeasibleError) as e:
        compile_over_chains([tags, (~label("X")).named("no X"), label("Y", "X").named("fine")], batch(), labels)
    assert set(e.value.constraints) == {"tags", "no X"}


def test_unnamed_twins_get_names_of_their_own() -> None:
    rows = compile_over_chains([count("VERB") <= 1, count("VERB") <= 1], batch(), LABELS)
    assert rows.names == ("count('VERB') <= 1", "count('VERB') <= 1 (2)")


def test_an_empty_batch_and_no_constraints_compile_to_nothing() -> None:
    empty = Batch.from_sentences([])
    assert len(compile_over_chains([count("VERB") >= 1, label("VERB"), starts("VERB") <= 1], empty, LABELS)) == 0
    rows = compile_over_chains([], batch(), LABELS)
    assert len(rows) == 0
    assert len(rows.forbidden) == 0
