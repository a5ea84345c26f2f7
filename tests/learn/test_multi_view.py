"""Views that agree: the closed forms against generic projections, the identities of section 6, and learning."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import cvxpy as cp
import numpy as np
import pytest
from scipy.stats import dirichlet
from sklearn.base import clone

from trellis import load_model
from trellis.constraints import compile_constraints, count
from trellis.constraints.rows import Groups, Rows
from trellis.constraints.strength import Kind, Norm
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError, UnknownNameError
from trellis.learn import MultiView
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes
from trellis.models.views import Views
from trellis.projection import agree, project
from trellis.structures import Categorical, Chain, Joint

from .corpora import LABELS, tagged_sentences


def chains(rng: np.random.Generator, lengths: list[int], k: int) -> Chain:
    offsets, n = np.cumsum([0, *lengths]), sum(lengths)
    return Chain(
        offsets, rng.normal(size=(n, k)), rng.normal(size=(k, k)), start=rng.normal(size=k), stop=rng.normal(size=k)
    )


def outputs_of(chain: Chain) -> tuple[np.ndarray, np.ndarray]:
    """All outputs of a chain of one instance, and their probabilities."""
    outputs = np.array(list(itertools.product(range(chain.n_labels), repeat=chain.n_slots)), dtype=np.int32)
    score = np.array([chain.score(y)[0] for y in outputs])
    p = np.exp(score - score.max())
    return outputs, p / p.sum()


def equal_parts(joint: Joint) -> Rows:
    """Hard rows that say of each part of the first member that the second uses it as often."""
    parts = joint.parts
    first, start = parts.member(1)
    of_label, of_pair = first.grid(), first.transition_grid()
    own = np.concatenate([of_label.ravel(), of_pair.ravel()])
    n, one = len(own), np.ones(len(own))
    order = np.argsort(parts.instance_of(own), kind="stable")
    own, zero = own[order], np.zeros(n, np.int64)
    return Rows(
        parts, ("agreement",), np.arange(n + 1) * 2, np.stack([own, own + start], axis=1).ravel(),
        np.stack([one, -one], axis=1).ravel(), np.zeros(n), np.ones(n, np.bool_), parts.instance_of(own),
        parts.instance_of(own), zero, np.arange(n),
        Groups(*(np.full(len(joint), v, np.int8) for v in (Kind.HARD, Norm.LINF)), np.zeros(len(joint))),
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["categorical", "chain"])
def test_the_closed_form_is_the_generic_projection_of_a_joint_structure(kind: str) -> None:
    rng = np.random.default_rng(0)
    if kind == "chain":
        one, two = chains(rng, [3, 1, 2], 2), chains(rng, [3, 1, 2], 2)
    else:
        one, two = (Categorical(rng.normal(size=(4, 3))) for _ in range(2))
    joint = Joint(one, two)
    generic = project(joint, equal_parts(joint), tolerance=1e-9, max_evaluations=5000, generic=True)
    closed = agree(one, two)
    assert generic.converged
    assert closed.value == pytest.approx(generic.value, abs=1e-7)
    for found, wanted in zip(generic.posterior.members, closed.members, strict=True):
        np.testing.assert_allclose(found.node, wanted.node, atol=1e-6)


def test_the_value_of_agreement_is_twice_the_bhattacharyya_distance() -> None:
    """Prop. 6.1, for sequences (6.2), listed one by one; of three views three times."""
    rng = np.random.default_rng(1)
    views = [chains(rng, [4], 3) for _ in range(3)]
    for n in (2, 3):
        p = np.array([outputs_of(one)[1] for one in views[:n]])
        distance = -np.log(np.prod(p ** (1.0 / n), axis=0).sum())
        logs = sum(float(one.infer().log_partition.sum()) for one in views[:n])
        assert agree(*views[:n]).value + logs == pytest.approx(n * distance, abs=1e-9)


def test_through_maps_it_is_the_distance_of_the_classes() -> None:
    """Prop. 6.3."""
    rng = np.random.default_rng(2)
    one, two = Categorical(rng.normal(size=(5, 4))), Categorical(rng.normal(size=(5, 3)))
    maps = [np.array([0, 1, 1, 2]), np.array([2, 1, 0])]
    p = [np.exp(view.node - view.infer().log_partition[:, None]) for view in (one, two)]
    of_class = [own @ (given[:, None] == np.arange(3)) for own, given in zip(p, maps, strict=True)]
    distance = -np.log(np.sqrt(of_class[0] * of_class[1]).sum(axis=1)).sum()
    found = agree(one, two, maps=maps)
    logs = sum(float(view.infer().log_partition.sum()) for view in (one, two))
    assert found.value + logs == pytest.approx(2 * distance, abs=1e-9)
    inside = found.members[0].node[:, 1:3] / found.members[0].node[:, 1:3].sum(axis=1, keepdims=True)
    np.testing.assert_allclose(inside, p[0][:, 1:3] / p[0][:, 1:3].sum(axis=1, keepdims=True), atol=1e-12)


@pytest.mark.parametrize("with_maps", [False, True])
def test_three_views_agree_as_cvxpy_has_it(with_maps: bool) -> None:
    rng = np.random.default_rng(3)
    maps = [np.array([0, 1, 1]), np.array([1, 0, 1]), np.array([0, 0, 1])] if with_maps else [np.arange(3)] * 3
    scores = rng.normal(size=(3, 3))
    q = [cp.Variable(3) for _ in scores]
    cost = sum(-cp.sum(cp.entr(x)) - s @ x for x, s in zip(q, scores, strict=True))
    rows = [cp.sum(x) == 1 for x in q]
    for z in range(3):
        a, *others = (x @ (m == z).astype(float) for x, m in zip(q, maps, strict=True))
        rows += [a == b for b in others]
    problem = cp.Problem(cp.Minimize(cost), rows)
    problem.solve(solver=cp.CLARABEL, tol_gap_abs=1e-10, tol_gap_rel=1e-10, tol_feas=1e-10)
    found = agree(*(Categorical(s[None]) for s in scores), maps=maps if with_maps else None)
    assert found.value == pytest.approx(problem.value, abs=1e-7)
    for own, x in zip(found.members, q, strict=True):
        np.testing.assert_allclose(own.node[0], x.value, atol=1e-5)


@pytest.mark.parametrize("gamma", [1.0, 0.5])
@pytest.mark.parametrize("strength", ["hard", "penalty", "forbidden"])
def test_constraints_and_maps_are_one_program(strength: str, gamma: float) -> None:
    """Chains of two tokens with three and two labels, classes 0 | 1 2: against cvxpy over every output."""
    rng = np.random.default_rng(5)
    sizes, maps = (3, 2), [np.array([0, 1, 1]), np.array([0, 1])]
    views = [chains(rng, [2, 2], k) for k in sizes]
    rule: Any = count("C") >= 1.3
    rule = {"hard": rule, "penalty": rule.penalty(0.8), "forbidden": count("C") <= 0}[strength]
    batch = Batch.from_sentences([["x", "y"], ["y", "z"]])
    rows = compile_constraints(rule, batch, Vocabulary(["A", "B", "C"], kind="label"), views[0].parts)
    found = agree(*views, maps=maps, rows=rows, gamma=gamma, tolerance=1e-8)
    total, expected = 0.0, []
    listed = [list(itertools.product(range(k), repeat=2)) for k in sizes]
    for i in range(2):
        q = [cp.Variable(len(some), nonneg=True) for some in listed]
        cost, same = 0, [cp.sum(x) == 1 for x in q]
        for view, x, some in zip(views, q, listed, strict=True):
            scores = np.array([view.instances(i, i + 1).score(np.array(y, np.int32))[0] for y in some])
            cost += -gamma * cp.sum(cp.entr(x)) - scores @ x
        for classes in itertools.product(range(2), repeat=2):
            one, other = (np.array([tuple(g[list(y)]) == classes for y in some], float)
                          for g, some in zip(maps, listed, strict=True))  # fmt: skip
            same.append(one @ q[0] == other @ q[1])
        third = np.array([y.count(2) for y in listed[0]], float) @ q[0]
        cost += 0.8 * cp.pos(1.3 - third) if strength == "penalty" else 0
        same += {"hard": [third >= 1.3], "forbidden": [third == 0]}.get(strength, [])
        problem = cp.Problem(cp.Minimize(cost), same)
        problem.solve(solver=cp.CLARABEL)
        total += problem.value
        for t in range(2):
            expected.append([sum(p for p, y in zip(q[0].value, listed[0], strict=True) if y[t] == k) for k in range(3)])
    assert found.value == pytest.approx(total, abs=1e-5)
    np.testing.assert_allclose(found.members[0].node, expected, atol=1e-4)
    np.testing.assert_allclose(found.scores[1].infer().node, found.members[1].node, atol=1e-7)


def test_three_chains_agree_on_classes_of_neighbours() -> None:
    rng = np.random.default_rng(4)
    views = [chains(rng, [3, 2], k) for k in (2, 3, 3)]
    maps = [np.array([0, 1]), np.array([0, 1, 1]), np.array([1, 0, 0])]
    found = agree(*views, maps=maps, tolerance=1e-7)
    shares = [own.node @ (m[:, None] == np.arange(2)) for own, m in zip(found.members, maps, strict=True)]
    np.testing.assert_allclose(shares[0], shares[1], atol=1e-6)
    np.testing.assert_allclose(shares[0], shares[2], atol=1e-6)


TEXT, TAGS = tagged_sentences(60)
FEW = [tags if i % 8 == 0 else None for i, tags in enumerate(TAGS)]
PARTLY = [[None, *TAGS[i][1:]] if i % 8 == 1 and len(TAGS[i]) > 1 else tags for i, tags in enumerate(FEW)]


def last_letter(sentence: Any, at: int) -> list[str]:
    return [f"last={sentence[at][-1]}", f"length={len(sentence[at])}"]


def taggers() -> list[Any]:
    return [CRF(LABELS, l2=0.3, features=last_letter, max_iter=40), HMM(LABELS, min_count=1)]


def rows_of_two_views(n: int) -> tuple[list[np.ndarray], list[str]]:
    """Two noisy descriptions of one hidden label."""
    rng = np.random.default_rng(5)
    hidden = rng.integers(2, size=n)
    views = [(rng.random((n, 6)) < np.where(hidden[:, None] == 1, 0.7, 0.3)).astype(float) for _ in range(2)]
    return views, ["yes" if one else "no" for one in hidden]


@pytest.mark.slow
@pytest.mark.parametrize(
    "kind", ["two crfs", "edges of features", "crf and hmm", "maxent", "maxent and naive bayes", "constrained"]
)
def test_the_objective_rises_in_every_round(kind: str) -> None:
    if "maxent" in kind:
        X, y = rows_of_two_views(120)
        models: list[Any] = [MaxEnt(l2=0.5), NaiveBayes() if "bayes" in kind else MaxEnt(l2=0.5)]
        known: Any = [label if i % 10 == 0 else None for i, label in enumerate(y)]
    else:
        models, X, known = taggers(), [TEXT, TEXT], PARTLY
        if kind in ("two crfs", "edges of features"):
            models = [models[0], CRF(LABELS, l2=1.0, max_iter=40)]
            models[0].set_params(edge_features=kind == "edges of features")
            models[1].set_params(edge_features=kind == "edges of features")
    constraints = [(count("V") >= 1).penalty(2.0), count("D").per("corpus") <= 80] if kind == "constrained" else []
    learner = MultiView(models, constraints, max_iter=6, tol=0.0).fit(X, known)
    objective = learner.history_.objective
    rises = np.diff(objective)
    assert np.all(rises >= -1e-6 * np.abs(objective[0])), objective
    assert objective[-1] > objective[0]


def test_the_objective_is_that_of_equation_47() -> None:
    """Losses of the labelled instances and c times n times the distances of the others, computed from probabilities."""
    X, y = rows_of_two_views(40)
    known: Any = [label if i < 10 else None for i, label in enumerate(y)]
    learner = MultiView([MaxEnt(l2=0.5), MaxEnt(l2=2.0)], weight=3.0, shares=None, max_iter=4, tol=0.0).fit(X, known)
    again = MultiView([MaxEnt(l2=0.5), MaxEnt(l2=2.0)], weight=3.0, shares=None, max_iter=5, tol=0.0).fit(X, known)
    p = [model.predict_proba(own) for model, own in zip(learner.models_, X, strict=True)]
    truth = np.array([label == "yes" for label in y], dtype=int)
    loss = -sum(np.log(own[:10][np.arange(10), truth[:10]]).sum() for own in p)
    distances = -np.log(np.sqrt(p[0] * p[1]).sum(axis=1))[10:]
    prior = sum(model.log_prior() for model in learner.models_)
    expected = -loss - 2.0 * (3.0 * 10 / 30) * distances.sum() + prior
    assert again.history_.objective[4] == pytest.approx(expected, abs=1e-9)
    assert again.history_[4].kl == pytest.approx(2.0 * distances.sum(), abs=1e-9)


@pytest.mark.slow
def test_the_weight_of_unlabelled_instances_pays_for_agreement_with_the_labels() -> None:
    """The more it is, the nearer the views and the larger their loss; in the end they say the same of everything."""
    X, y = rows_of_two_views(300)
    known: Any = [label if i < 20 else None for i, label in enumerate(y)]
    distance, loss = [], []
    for weight in (0.1, 1.0, 10.0, 1000.0):
        learner = MultiView([MaxEnt(l2=0.5), MaxEnt(l2=0.5)], weight=weight, shares=None, tol=1e-4).fit(X, known)
        p = [learner.predict_proba(X, by=view) for view in (0, 1)]
        distance.append(-np.log(np.sqrt(p[0] * p[1]).sum(axis=1))[20:].mean())
        truth = (np.array(y[:20]) == "yes").astype(int)
        loss.append(-sum(np.log(own[np.arange(20), truth]).sum() for own in p))
    assert np.all(np.diff(distance) < 0)
    assert np.all(np.diff(loss) > 0)
    assert distance[-1] < 1e-4


def test_labels_stay_as_common_as_they_are_where_they_are_known() -> None:
    """Left to themselves the product of two views soon says the same of everything; the bounds are by scipy.

    What was agreed on last shows in the views that learned it: an intercept without a prior keeps its sum.
    """
    rng = np.random.default_rng(1)
    truth = rng.random(300) < 0.35
    X = [rng.normal(size=(300, 8)) + 0.4 * truth[:, None] * (np.arange(8) < 2) for _ in range(2)]
    known: Any = [["no", "yes"][int(t)] if i < 24 else None for i, t in enumerate(truth)]
    found = {}
    for shares, gamma in ((None, 0.5), (2.0, None), (0.5, None)):
        learner = MultiView([MaxEnt(l2=1.0)] * 2, weight=10.0, shares=shares, gamma=gamma, max_iter=12, tol=0.0)
        p = learner.fit(X, known).predict_proba(X, by=0)[:, 1]
        found[shares] = p[24:].mean() + (p[:24] - truth[:24]).mean() / 10.0
    n = int(truth[:24].sum())
    usual = dirichlet([24 - n + 1, n + 1])
    mean, deviation = usual.mean()[1], usual.var()[1] ** 0.5
    assert found[None] < mean - 2.0 * deviation - 0.02
    for shares in (2.0, 0.5):
        assert found[shares] == pytest.approx(mean - shares * deviation, abs=0.01)  # where it would be less by itself


def test_the_temperature_is_the_product_of_the_views_where_shares_are_known() -> None:
    X, y = rows_of_two_views(40)
    known: Any = [label if i < 10 else None for i, label in enumerate(y)]
    whole = MultiView([MaxEnt()] * 2, max_iter=1, tol=0.0).fit(X, known)
    p = [whole.predict_proba(X, by=view) for view in (0, 1)]
    for settings, power in (({}, 1.0), ({"shares": None}, 0.5), ({"gamma": 2.0}, 0.25)):
        product = (p[0] * p[1]) ** power
        q = whole.set_params(**{"shares": 2.0, "gamma": None, **settings}).predict_proba(X)
        np.testing.assert_allclose(q, product / product.sum(axis=1, keepdims=True), atol=1e-9)


def test_constraints_hold_of_what_views_agree_on() -> None:
    learner = MultiView(taggers(), [count("V") <= 1]).fit([TEXT, TEXT], FEW)
    found = learner.predict_proba([TEXT, TEXT])
    verbs = np.array([own[:, LABELS.index("V")].sum() for own in found])
    assert verbs.max() <= 1.0 + 2e-3
    free = learner.predict_proba([TEXT, TEXT], constrained=False)
    assert max(own[:, LABELS.index("V")].sum() for own in free) > 1.1


SHORT = TEXT[:24]
COARSE = [None if tags is None else ["X" if tag == "N" else tag for tag in tags] for tags in TAGS[:24]]


def with_own_labels(**settings: Any) -> MultiView:
    """The first view has labels of some sentences, the second coarser labels of others."""
    models = [CRF(LABELS, l2=0.3, max_iter=40), HMM(["V", "X", "D"], min_count=1)]
    own = [tags if i % 4 == 0 else None for i, tags in enumerate(TAGS[:24])]
    coarse = [tags if i % 4 == 1 else None for i, tags in enumerate(COARSE)]
    maps = [{"N": "X"}, None]
    made = MultiView(models, maps=maps, tol=0.0, **{"max_iter": 2, **settings})
    return made.fit([SHORT, SHORT], [own, coarse], resume="checkpoint" in settings)


@pytest.mark.slow
@pytest.mark.parametrize("edges", [True, False])
def test_views_with_labels_of_their_own_agree_on_classes(edges: bool) -> None:
    learner = with_own_labels(edges=edges)
    rises = np.diff(learner.history_.objective)
    assert np.all(rises > -1e-3), learner.history_.objective
    fine, coarse = learner.predict_proba([SHORT, SHORT])
    for one, other in zip(fine, coarse, strict=True):
        np.testing.assert_allclose(one, other[:, [2, 1, 0]], atol=2e-3)
    labels = learner.predict([SHORT, SHORT])
    assert {tag for own in labels[0] for tag in own} <= set(LABELS)
    assert {tag for own in labels[1] for tag in own} <= {"V", "X", "D"}
    assert learner.score([SHORT, SHORT], [TAGS[:24], COARSE]) > 0.8
    assert learner.score([SHORT, SHORT], [TAGS[:24], COARSE], by=1) > 0.8


@pytest.mark.slow
def test_views_with_labels_of_their_own_agree_under_constraints() -> None:
    learner = with_own_labels(constraints=[(count("V") <= 0.9).penalty(5.0)])
    rises = np.diff(learner.history_.objective)
    assert np.all(rises > -1e-3), learner.history_.objective
    fine, coarse = learner.predict_proba([SHORT, SHORT])
    free = learner.predict_proba([SHORT, SHORT], constrained=False)[0]
    over, without = (sum(max(own[:, LABELS.index("V")].sum() - 0.9, 0.0) for own in some) for some in (fine, free))
    assert over < 0.7 * without
    for one, other in zip(fine, coarse, strict=True):
        np.testing.assert_allclose(one, other[:, [2, 1, 0]], atol=2e-3)


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["shared labels", "labels of their own"])
def test_saved_loaded_and_resumed_it_has_the_same_bits(kind: str, tmp_path: Path) -> None:
    def fit(**settings: Any) -> MultiView:
        if kind == "labels of their own":
            return with_own_labels(**settings)
        made = MultiView(taggers(), [count("V") <= 2], tol=0.0, **{"max_iter": 2, **settings})
        return made.fit([TEXT, TEXT], FEW, resume="checkpoint" in settings)

    whole = fit()
    saved = str(tmp_path / "views.trellis")
    whole.save(saved)
    loaded = load_model(saved)
    if kind == "shared labels":
        loaded.models_[0].features = last_letter
    assert loaded.predict([TEXT, TEXT]) == whole.predict([TEXT, TEXT])
    checkpoint = tmp_path / "run"
    fit(max_iter=1, checkpoint=checkpoint)
    gone_on = fit(checkpoint=checkpoint)
    for name, table in whole.model_.parameters().items():
        np.testing.assert_array_equal(table, gone_on.model_.parameters()[name])


def test_it_is_an_estimator_like_the_others() -> None:
    learner = MultiView(taggers(), weight=2.0)
    copy = clone(learner)
    assert copy.get_params()["weight"] == 2.0
    assert copy.models[0] is not learner.models[0]


@pytest.mark.parametrize(
    "settings, X, y, message",
    [
        ({"models": [MaxEnt()]}, [[[0.0]]], ["a"], "two models or more"),
        ({"models": [MaxEnt(), MaxEnt]}, [[[0.0]]], ["a"], "not the class"),
        ({"weight": -1.0}, [[[0.0]], [[1.0]]], ["a"], "weight"),
        ({}, [[0.0]], ["a"], "X must be a list of 2, one for each view"),
        ({}, [[[0.0], [1.0]], [[1.0]]], ["a", "b"], "label"),
        ({"models": [MaxEnt(["a", "b"]), MaxEnt(["b", "a"])]}, [[[0.0]], [[1.0]]], ["a"], "maps onto common classes"),
        ({"maps": [None]}, [[[0.0]], [[1.0]]], [["a"], ["a"]], "one for each view"),
        ({"maps": [None, {"b": "c"}]}, [[[0.0]], [[1.0]]], [["a"], ["b"]], "same classes"),
    ],
)
def test_mistakes_are_told(settings: Any, X: Any, y: Any, message: str) -> None:
    with pytest.raises(DataError, match=message):
        MultiView(**{"models": [MaxEnt(), MaxEnt()], **settings}).fit(X, y)


def test_constraints_over_the_corpus_are_refused_with_maps() -> None:
    learner = MultiView([MaxEnt(["a", "b"]), MaxEnt(["a", "b"])], [count("a").per("corpus") <= 0.5], maps=[None, None])
    with pytest.raises(ConstraintError, match="about single instances"):
        learner.fit([[[0.0], [1.0], [1.0]]] * 2, [["a", None, None]] * 2)


def test_a_mistyped_label_of_a_map_is_told() -> None:
    with pytest.raises(UnknownNameError, match="bee"):
        MultiView([MaxEnt(), MaxEnt()], maps=[{"bee": "a"}, None]).fit([[[0.0]], [[1.0]]], [["a"], ["a"]])


def test_views_of_other_instances_are_refused() -> None:
    views = Views([CRF(LABELS), HMM(LABELS, min_count=1)])
    with pytest.raises(DataError, match="view 1 has 1 of them"):
        views.encode([TEXT[:2], TEXT[:1]], fit=True)


def test_prediction_by_a_view_that_is_not_there_is_refused() -> None:
    X, y = rows_of_two_views(20)
    learner = MultiView([MaxEnt(), MaxEnt()], max_iter=1, tol=0.0).fit(X, y)
    with pytest.raises(DataError, match="0 to 1"):
        learner.predict(X, by=2)
