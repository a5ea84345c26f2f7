"""Rows of a corpus that are kept on disk, shard by shard: the rows that they are in memory, and the same bits."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from trellis.constraints import compilation as of_rows
from trellis.constraints import count, each_label, exists, few_labels_per, label, shares, starts, transitions, word
from trellis.constraints.compilation import rows_in_file
from trellis.constraints.rows import Rows
from trellis.engine import SerialEngine, ThreadEngine
from trellis.errors import InfeasibleError
from trellis.learn import CCM
from trellis.learn.expectation import ProjectedStep, SolverSettings
from trellis.learn.training import Training
from trellis.models import HMM
from trellis.models.model import rows_of

from .corpora import LABELS, tagged_sentences

TEXT, TAGS = tagged_sentences(600)
SOME = [tags if i % 40 == 0 else None for i, tags in enumerate(TAGS)]
TEXT, SOME = [*TEXT, ["zebra", "runs"]], [*SOME, None]
LOCAL = [
    (count("V") >= 1).penalty(2.0),
    word.isin("the", "a").implies(label("D")).constraint(),
    (transitions(from_="D", to="V") <= 0).slack(0.1),
    each_label(lambda L: starts(L) <= 2).penalty(1.0),
    exists(word == "dog").implies(count("N") >= 1).penalty(3.0),
    (count("N") - count("V") <= 2).penalty(1.5, "squared"),
    transitions(from_="D", to="D") == 0,
]


def training(engine: Any = None) -> Training:
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    made = Training(model, model.encode(TEXT, SOME, fit=True), SerialEngine() if engine is None else engine)
    made.learn_supervised()
    return made


def in_file(made: Training, parts: Any, rules: Any, memory: Any) -> Any:
    return rows_in_file(rules, parts, lambda part: rows_of(made.model, part, rules), memory, lambda rows: rows)


def assert_equal(one: Any, other: Any) -> None:
    for name in ("start", "part", "coefficient", "bound", "equality", "instance", "group", "constraint"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name), err_msg=name)
    for one_array, other_array in zip(one.groups.__dict__.values(), other.groups.__dict__.values(), strict=True):
        np.testing.assert_array_equal(one_array, other_array)
    assert one.names == other.names
    for mine, theirs in zip(one.forbidden.listed(), other.forbidden.listed(), strict=True):
        np.testing.assert_array_equal(mine, theirs)


def test_rows_of_each_shard_are_those_of_the_whole_corpus() -> None:
    made = training()
    assert len(made.free_parts) > 2
    stored = in_file(made, made.free_parts, LOCAL, 0)
    assert stored is not None
    whole = rows_of(made.model, made.free_batch, LOCAL).canonical()
    for shard, rows in zip(made.free_shards, stored[1], strict=True):
        assert_equal(rows, whole.shard(shard.instances.start, shard.instances.stop))
    heads = Rows.of_shards(whole.parts, stored[0])
    assert len(heads.part) == 0
    for name in ("bound", "equality", "instance", "constraint", "row_number"):
        np.testing.assert_array_equal(getattr(heads, name), getattr(whole, name), err_msg=name)
    assert bool(len(heads.forbidden)) == bool(len(whole.forbidden))
    assert {one.name for one in fields(heads)} == {one.name for one in fields(whole)}


@pytest.mark.slow
@pytest.mark.parametrize("gamma, generic", [(1.0, False), (0.4, True), (0.0, False)])
def test_the_e_step_has_the_same_bits(gamma: float, generic: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("trellis.projection.projector.SMALL", 10**9 if generic else 0)
    rules = [rule for rule in LOCAL if gamma > 0.0 or "squared" not in rule.describe().lower()][:4]
    found = []
    for memory, engine in (("100G", None), (0, None), (0, ThreadEngine(2))):
        made = training(engine)
        step = ProjectedStep(made, rules, SolverSettings(memory=memory))
        assert bool(len(step.rows.part)) == (memory != 0)
        one = step.run(gamma)
        two = step.run(gamma, one.state)
        found.append(
            (one.objective, two.objective, one.statistics.transition, two.statistics.transition, two.state.row)
        )
        assert two.state.means_by_name(step.projector.rows)
    for other in found[1:]:
        for mine, theirs in zip(found[0], other, strict=True):
            np.testing.assert_array_equal(mine, theirs)


@pytest.mark.parametrize("method", ["codl", "pr", "uem"])
def test_every_method_learns_the_same_from_disk(method: str) -> None:
    rules = [rule.learned() for rule in LOCAL[:3]]
    found = []
    for memory in (0, "100G"):
        made = CCM(HMM(LABELS, min_count=1, unknown=None), rules, method=method, max_iter=2, memory=memory, n_jobs=2)
        made.fit(TEXT, SOME)
        found.append((made.model_.parameters(), made.penalties_, made.duals_, made.history_.objective))
    for key, value in found[0][0].items():
        np.testing.assert_array_equal(value, found[1][0][key])
    assert found[0][1:] == found[1][1:]


@pytest.mark.parametrize(
    "rule",
    [
        count("V").per("corpus") <= 0.2 * count().per("corpus"),
        0.2 * count() >= count("V").per("corpus"),
        count("V").per(word) <= 30,
        shares({"D": 0.9}, where=word == "the").penalty(1.0),
        few_labels_per(word, strength=4.0),
        each_label(lambda L: count(L).per("corpus") >= 1),
    ],
)
def test_what_ties_instances_together_stays_in_memory(rule: Any) -> None:
    made = training()
    assert in_file(made, made.free_parts, [*LOCAL, rule], 0) is None


def test_rows_that_fit_stay_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    made = training()
    monkeypatch.setattr(of_rows, "MANY_ENTRIES", 10**9)
    n = len(rows_of(made.model, made.free_batch, LOCAL).part)
    for times, stays in ((1.3, True), (0.7, False)):
        memory = int(times * n * of_rows.ENTRY_BYTES / of_rows.SHARE)
        found = in_file(made, made.free_parts, LOCAL, memory)
        assert (found is None) is stays
    assert in_file(made, made.free_parts[:1], LOCAL, 0) is None
    assert in_file(made, made.free_parts, (), 0) is None


def test_an_instance_that_cannot_be_is_named_by_its_number_in_the_text() -> None:
    made = training()
    rule = exists(word == "zebra").implies(count("V") >= 3)
    with pytest.raises(InfeasibleError, match=f"instance {len(made.free) - 1}, which has 2 tokens") as found:
        ProjectedStep(made, [*LOCAL, rule], SolverSettings(memory=0))
    assert found.value.instances == (len(made.free) - 1,)
