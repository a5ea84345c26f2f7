"""Rules about entities and relations as rows: against all outputs, against cvxpy, both ways of the E-step."""

from __future__ import annotations

import itertools

import cvxpy as cp
import numpy as np
import pytest

from trellis.constraints import (
    counts_like,
    entities,
    entity,
    first,
    one_relation_per_pair,
    parse_rules,
    relation,
    relations,
    second,
    word,
)
from trellis.constraints.expression import read_constraints, write_constraints
from trellis.data.document import Document, Span
from trellis.errors import ConstraintError, UnknownNameError
from trellis.models.model import rows_of
from trellis.models.relation_model import RelationModel
from trellis.projection import project
from trellis.search import decode
from trellis.search.prices import penalised_value

from .sample import RULES, sentences

TYPES, TIES = ("Peop", "Loc"), ("Live_In", "Kill")
LIVES = relation("Live_In").implies(first(entity("Peop")) & second(entity("Loc")))
KILLS = relation("Kill").implies(second(entity("Peop")))
OBSERVED = word.isin("m0").implies(entity("Loc"))


def case(counts, tied=0, both_ways=False, seed=0, scale=1.5):
    """A model of no features worth mentioning, with random scores."""
    texts = [
        Document(tuple(f"m{i}" for i in range(n)), spans=tuple(Span(None, i, i + 1) for i in range(n))) for n in counts
    ]
    model = RelationModel(TYPES, TIES, min_count=1, tied=tied, both_ways=both_ways)
    batch = model.encode(texts, fit=True)
    rng = np.random.default_rng(seed)
    parts = model.parts(batch)
    n = int(parts.starts[2])
    scores = parts.zeros().add(np.arange(n), scale * rng.normal(size=n))
    return model, batch, scores


def outputs(batch, i):
    codes = batch.column("first").codes[batch.offsets[i] : batch.offsets[i + 1]]
    return itertools.product(*(range(2) if c < 0 else range(3) for c in codes))


def obeys(batch, i, y, rules):
    """By plain words, for the rules above: labels Peop 0, Loc 1; None 0, Live_In 1, Kill 2."""
    low = int(batch.offsets[i])
    f, s = batch.column("first").codes, batch.column("second").codes
    related = {}
    for k, label in enumerate(y):
        if f[low + k] < 0:
            continue
        a, b = int(f[low + k]), int(s[low + k])
        related[a, b] = label
        if "lives" in rules and label == 1 and not (y[a] == 0 and y[b] == 1):
            return False
        if "kills" in rules and label == 2 and y[b] != 0:
            return False
    if "observed" in rules and len(y) and y[0] != 1:
        return False
    return "one" not in rules or not any(related[a, b] and related[b, a] for a, b in related)


NAMED = {"lives": LIVES, "kills": KILLS, "observed": OBSERVED, "one": one_relation_per_pair()}


@pytest.mark.slow
@pytest.mark.parametrize("tied", [0, 3])
@pytest.mark.parametrize("names", [("lives",), ("kills", "observed"), ("lives", "kills", "one")])
def test_rows_hold_of_exactly_the_outputs_that_obey(names, tied):
    model, batch, scores = case([1, 2, 3], tied, both_ways=True)
    rows = rows_of(model, batch, [NAMED[n] for n in names]).canonical()
    base = decode(scores.flat(), rows).outputs
    for i in range(len(batch)):
        every = list(outputs(batch, i))
        chosen = np.random.default_rng(i).permutation(len(every))[:150]  # of three mentions there are 5832
        for y in (every[n] for n in chosen):
            whole = base.copy()
            whole[batch.offsets[i] : batch.offsets[i + 1]] = y
            allowed = penalised_value(scores.flat(), rows, whole)[i] > -np.inf
            assert allowed == obeys(batch, i, y, names), (i, y)


@pytest.mark.parametrize("seed", range(3))
def test_exact_sums_under_rules_agree_with_enumeration(seed):
    names = ("lives", "kills", "one")
    model, batch, scores = case([2, 3], tied=3, both_ways=True, seed=seed)
    found = project(scores, rows_of(model, batch, [NAMED[n] for n in names])).posterior
    parts = model.parts(batch)
    for i in range(len(batch)):
        listed = [y for y in outputs(batch, i) if obeys(batch, i, y, names)]
        low, high = int(batch.offsets[i]), int(batch.offsets[i + 1])
        values = []
        for y in listed:
            whole = np.zeros(batch.n_slots, np.int32)
            whole[low:high] = y
            values.append(scores.score(whole)[i])
        p = np.exp(np.array(values) - np.logaddexp.reduce(values))
        assert found.log_partition[i] == pytest.approx(np.logaddexp.reduce(values), abs=1e-9)
        for slot in range(low, high):
            own = np.bincount([y[slot - low] for y in listed], p, minlength=3)
            kind = 0 if batch.column("first").codes[slot] < 0 else 1
            number = int(np.flatnonzero(parts.slots[kind] == slot)[0])
            part = parts.starts[kind] + number * parts.variables[kind].size + np.arange(parts.variables[kind].size)
            np.testing.assert_allclose(found.at(part), own[: len(part)], atol=1e-9)


def primal(batch, scores, rows, gamma):
    """The E-step over independent variables, by cvxpy: marginals of every variable and their entropies."""
    parts = scores.parts
    q = cp.Variable(parts.n_parts)
    flat = scores.value
    held = [q >= 0]
    for kind in (0, 1):
        size = parts.variables[kind].size
        for start in range(int(parts.starts[kind]), int(parts.starts[kind + 1]), size):
            held.append(cp.sum(q[start : start + size]) == 1)
    for r in range(len(rows)):
        span = slice(int(rows.start[r]), int(rows.start[r + 1]))
        held.append(rows.coefficient[span] @ q[rows.part[span]] <= rows.bound[r])
    listed = rows.forbidden.listed()[0]
    if len(listed):
        held.append(q[listed] == 0)
    problem = cp.Problem(cp.Minimize(-gamma * cp.sum(cp.entr(q)) - flat @ q), held)
    problem.solve(solver=cp.CLARABEL)
    return q.value, problem.value


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.3, 1.0])
@pytest.mark.parametrize("seed", range(3))
def test_counts_of_the_corpus_and_rules_of_sentences_agree_with_cvxpy(gamma, seed):
    model, batch, scores = case([2, 3, 2], seed=seed)
    rules = [LIVES, KILLS, one_relation_per_pair(), counts_like({"Live_In": 0.2, "Kill": 0.1}, within=0.2)]
    rows = rows_of(model, batch, rules).canonical()
    wanted, value = primal(batch, scores, rows, gamma)
    for generic in (False, True):
        found = project(scores, rows, gamma, tolerance=1e-7, max_evaluations=2000, generic=generic)
        np.testing.assert_allclose(found.posterior.marginal, wanted, atol=2e-4)
        assert found.value == pytest.approx(value, abs=1e-3)


@pytest.mark.parametrize("strength", ["hard", "penalty", "linf"])
def test_the_fused_projection_is_the_generic_one(strength):
    model, batch, scores = case([2, 3, 1, 3], seed=7, scale=3.0)
    rules = [LIVES, KILLS, (relations("Kill") <= 0.3).named("few kills"), (entities("Loc") == 1.0).penalty(0.5)]
    if strength == "penalty":
        rules = [rule.penalty(2.0) for rule in rules]
    if strength == "linf":
        rules = [rule.penalty(2.0, "linf") for rule in rules]  # which the fused one leaves to the other
    rows = rows_of(model, batch, rules[: 3 if strength == "hard" else 4]).canonical()
    answers = [project(scores, rows, 0.5, tolerance=1e-7, max_evaluations=3000, generic=g) for g in (False, True)]
    np.testing.assert_allclose(answers[0].posterior.marginal, answers[1].posterior.marginal, atol=1e-5)
    assert answers[0].value == pytest.approx(answers[1].value, abs=1e-6)
    assert answers[0].kkt_residual <= 1e-6


def test_rows_that_share_many_variables_are_settled_by_newton_steps():
    """One dual variable at a time, these do not end within 400 sweeps; and no other solver is asked for so few."""
    for seed, scale in ((3, 3.0), (3, 6.0), (0, 10.0), (3, 10.0)):
        model, batch, scores = case([7, 7, 7], seed=seed, scale=scale)
        rows = rows_of(model, batch, [LIVES, KILLS]).canonical()
        found = project(scores, rows, 0.3, tolerance=1e-5, max_evaluations=40)
        assert found.kkt_residual <= 1e-5


@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
@pytest.mark.parametrize("seed", range(4))
def test_members_under_rows_bound_the_exact_value_and_meet_it_where_tight(gamma, seed):
    names = ("lives", "kills")
    rules = [NAMED[n] for n in names]
    model, batch, scores = case([2, 3], tied=3, seed=seed)
    exact_rows = rows_of(model, batch, rules).canonical()
    free, _, members = case([2, 3], seed=seed)
    np.testing.assert_array_equal(members.value, scores.members().value)
    relaxed = project(members, rows_of(free, batch, rules).canonical(), gamma, tolerance=1e-6, max_evaluations=2000)
    exact = project(scores, exact_rows, gamma)
    assert relaxed.value <= exact.value + 1e-5
    if gamma == 0.0:
        best = float(decode(scores, exact_rows).value.sum())
        assert exact.value == pytest.approx(-best, abs=1e-6)
        if np.all(relaxed.integral):
            assert relaxed.value == pytest.approx(-best, abs=1e-6)


def test_counts_are_linear_in_one_variable_and_need_factors_for_more():
    model, batch, _ = case([2])
    both = relation("Kill") & first(entity("Loc"))
    from trellis.constraints import count

    with pytest.raises(ConstraintError, match="no linear form"):
        rows_of(model, batch, [count(where=both) <= 1])
    tied, batch, scores = case([2], tied=2)
    rows = rows_of(tied, batch, [(count(where=both) <= 0.1).named("few")])
    assert len(rows) == 1
    q = project(scores, rows, tolerance=1e-6).posterior
    assert rows.expect(q)[0] <= 0.1 + 1e-5


def test_mistakes_in_rules_are_told():
    model, batch, _ = case([2])
    with pytest.raises(ConstraintError, match="use first"):
        rows_of(model, batch, [relation("Kill").implies(entity("Loc"))])
    with pytest.raises(UnknownNameError, match="Lok"):
        rows_of(model, batch, [relation("Kill").implies(first(entity("Lok")))])
    with pytest.raises(ConstraintError, match="takes a condition on a mention"):
        second(relation("Kill"))
    with pytest.raises(ConstraintError, match="within must be between"):
        counts_like({"Kill": 0.1}, within=2)


def test_rules_are_written_and_read_back():
    rules = [
        LIVES,
        KILLS,
        counts_like({"Kill": 0.1}, 0.2),
        counts_like({"Kill": 0.1}, {"Kill": 0.5}),
        one_relation_per_pair(),
        relations("Kill").per("corpus") <= 3,
    ]
    again = read_constraints(write_constraints(rules, TYPES))
    assert [c.code() for c in again] == [r.code() for r in rules]
    assert LIVES.describe() == (
        "For every two mentions, if the relation is Live_In then the first is Peop and the second "
        "is Loc, as a hard constraint."
    )


def test_a_rules_file_says_the_same():
    rules = parse_rules(RULES)
    assert rules.kinds["relations"] == ("Live_In", "Work_For")
    codes = {c.name: c.code() for c in rules}
    assert codes["one lives in a place"] == "relation('Live_In').implies(second(entity('Loc')))"
    assert codes["towns"] == "word.isin('Ely', 'Hull').implies(entity('Loc'))"
    shares = next(c for c in rules if c.name == "as many as in labelled text").of(sentences(12)).shares
    pairs = sum(len(t.spans) * (len(t.spans) - 1) for t in sentences(12))
    assert shares["Live_In"] == sum(r.label == "Live_In" for t in sentences(12) for r in t.relations) / pairs
