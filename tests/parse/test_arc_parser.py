"""The edge-factored parser: gradients, the three ways to train it, the four verbs, and files."""

from __future__ import annotations

import numpy as np
import pytest
from models.corpora import assert_phi_is_the_feature_map

from trellis.constraints import arcs, column, root
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM
from trellis.models import load_model
from trellis.models.arc_keys import text_of
from trellis.models.arc_parser import FIRST_SQUARE, ArcParser, step_towards
from trellis.models.kernels import arc_features

from .toy import pairs, treebank

SMALL = {"bits": 12, "min_count": 1}


def fitted(n: int = 40, **settings) -> ArcParser:
    return ArcParser(**{**SMALL, **settings}).fit(*pairs(treebank(n)))


def test_scores_are_sums_of_the_weights_of_features_that_statistics_count():
    """w · collect(certain of y) = score(y), for any weights: both sides know the same features."""
    X, y = pairs(treebank(8))
    parser = ArcParser(**SMALL)
    batch = parser.encode(X, y, fit=True)
    parser.randomize(np.random.default_rng(0))
    scores = parser.scores(batch)
    for outputs in (batch.labels, scores.argmax().outputs):
        for i in range(len(batch)):
            one = batch.instances(i, i + 1)
            own = outputs[batch.offsets[i] : batch.offsets[i + 1]]
            counted = parser.collect(one, parser.uniform(one).certain(own)).counts @ parser.weights_
            assert abs(counted - scores.score(outputs)[i]) < 1e-9


def test_features_see_words_tags_order_and_distance():
    """Two arcs that differ in any of these have different scores under random weights."""
    parser = ArcParser(**SMALL)
    sentences = [
        [("a", "D"), ("b", "N"), ("c", "V")],
        [("x", "D"), ("b", "N"), ("c", "V")],  # another word
        [("a", "P"), ("b", "N"), ("c", "V")],  # another tag
        [("b", "N"), ("a", "D"), ("c", "V")],  # another order
        [("a", "D"), ("b", "N"), ("b", "N"), ("c", "V")],  # farther off
        [("a", "D"), ("b", "P"), ("c", "V")],  # something else between
    ]
    batch = parser.encode(sentences, fit=True)
    parser.randomize(np.random.default_rng(1))
    arc, parts = parser.scores(batch).arc, parser.parts(batch)
    places = [(3, 1), (3, 1), (3, 1), (3, 2), (4, 1), (3, 1)]
    found = [arc[parts.arc_within(i, h, c)] for i, (h, c) in enumerate(places)]
    assert len(set(np.round(found, 9))) == len(sentences)


def test_the_feature_map_is_what_weights_are_multiplied_with():
    X, y = pairs(treebank(5))
    parser = ArcParser(**SMALL)
    batch = parser.encode(X, y, weights=[1.0, 2.0, 0.5, 1.0, 0.0], fit=True)
    parser.randomize(np.random.default_rng(0))
    assert_phi_is_the_feature_map(parser, batch, batch.labels)
    assert_phi_is_the_feature_map(parser, batch, parser.scores(batch).argmax().outputs)


@pytest.mark.parametrize("projective", [True, False])
@pytest.mark.parametrize("single_root", [True, False])
def test_the_gradient_of_the_likelihood_is_right(projective, single_root):
    X, y = pairs(treebank(5))
    parser = ArcParser(**SMALL, projective=projective, single_root=single_root)
    batch = parser.encode(X, y, weights=[1.0, 2.0, 0.5, 1.0, 0.0], fit=True)
    from trellis.engine import Piece, engine_for

    statistics = parser.collect(batch, parser._given(batch))
    objective = parser._objective(
        statistics.counts, [engine_for(1).place([Piece(batch.instances(0, 2)), Piece(batch.instances(2, 5))])]
    )
    rng = np.random.default_rng(0)
    weights = rng.normal(size=1 << 12)
    _, gradient = objective(weights)
    for _ in range(5):
        direction = rng.normal(size=len(weights))
        step = 1e-5
        rise = objective(weights + step * direction)[0] - objective(weights - step * direction)[0]
        assert abs(rise / (2 * step) - gradient @ direction) < 1e-5 * max(1.0, abs(gradient @ direction))


def test_a_step_on_the_likelihood_goes_down_its_gradient():
    """One sparse step of AdaGrad from nothing: every weight moves against the sign of its gradient."""
    X, y = pairs(treebank(1))
    parser = ArcParser(bits=20, min_count=1)
    batch = parser.encode(X, y, fit=True)
    p, q = parser.scores(batch).infer(), parser._given(batch)
    gradient = np.zeros(1 << 20)
    text = text_of(batch, parser.parts(batch), parser.word_names_, 20)
    arc_features.add_arcs(text, p.marginal - q.marginal, gradient)
    steps = np.zeros((3, 1 << 20))
    steps[0] = FIRST_SQUARE["adagrad"]
    step_towards(parser, batch, q, steps)
    moved = np.abs(gradient) > 0.05
    assert np.count_nonzero(moved) > 50
    agrees = np.sign(parser.weights_[moved]) == -np.sign(gradient[moved])
    assert np.mean(agrees) > 0.95  # arcs of opposite signs may share a feature, and are met one after the other


@pytest.mark.parametrize(
    "settings",
    [
        {"solver": "margin"},
        {"solver": "margin", "average": False},
        {"solver": "adagrad", "learning_rate": 0.1},
        {"solver": "lbfgs", "max_iter": 30},
        {"solver": "lbfgs", "max_iter": 30, "projective": False},
        {"solver": "adagrad", "learning_rate": 0.1, "projective": False, "single_root": False},
    ],
    ids=str,
)
@pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")
def test_every_way_of_training_learns_the_grammar(settings):
    parser = fitted(**settings)
    X, y = pairs(treebank(30, seed=5))
    assert parser.score(X, y) > 0.97
    for own in parser.predict_proba(X):
        np.testing.assert_allclose(own.sum(axis=1), 1.0, atol=1e-9)


def test_the_seed_decides_the_parser_and_threads_do_not():
    X, _ = pairs(treebank(400, seed=3))
    one, other = fitted(random_state=1), fitted(random_state=1)
    np.testing.assert_array_equal(one.weights_, other.weights_)
    alone = one.predict(X)
    one.threads = 3
    assert one.predict(X) == alone


def test_a_saved_parser_predicts_the_same_bits(tmp_path):
    parser = fitted()
    X, _ = pairs(treebank(5, seed=9))
    parser.save(tmp_path / "p.trellis")
    again = load_model(tmp_path / "p.trellis")
    for a, b in zip(parser.predict_proba(X), again.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)


def test_unknown_words_are_known_by_their_ends_and_unknown_tags_are_one():
    parser = ArcParser(bits=12, min_count=2).fit(*pairs(treebank(20)))
    batch = parser.encode([[("zzing", "NOUN"), ("qqing", "NOUN"), ("cat", "XYZ")]])
    text = text_of(batch, parser.parts(batch), parser.word_names_, 12)
    assert text.word_keys[text.words[0]] == text.word_keys[text.words[1]] != text.word_keys[text.words[2]]
    assert batch.column("upos").strings()[2] == "<other>"
    assert len(parser.predict([[("zzing", "NOUN"), ("cat", "XYZ")]])[0]) == 2


def test_trees_that_the_model_has_not_are_left_out_of_fit_and_refused_by_learners():
    X, y = pairs(treebank(10))
    crossing = [("a", "N"), ("b", "N"), ("c", "N"), ("d", "N")]
    parser = ArcParser(**SMALL).fit([*X, crossing], [*y, [3, 4, 0, 3]])
    assert parser.n_left_out_ == 1
    with pytest.raises(DataError, match="the tree of sentence 10"):
        UEM(ArcParser(**SMALL), max_iter=1).fit([*X, crossing], [*y, [3, 4, 0, 3]])
    assert ArcParser(**SMALL, projective=False, solver="adagrad").fit([crossing], [[3, 4, 0, 3]]).n_left_out_ == 0


@pytest.mark.parametrize(
    "make, error, words",
    [
        (lambda X, y: ArcParser(solver="sgd").fit(X, y), UnknownNameError, "unknown solver"),
        (lambda X, y: ArcParser(bits=2).fit(X, y), DataError, "bits"),
        (lambda X, y: ArcParser(**SMALL).fit(X, None), DataError, "no sentence has a complete tree"),
        (lambda X, y: ArcParser(**SMALL).fit([["dogs"]], [[0]]), DataError, "a word and its tag"),
        (lambda X, y: ArcParser(**SMALL).fit(X, y[:-1]), DataError, "expected heads for"),
        (lambda X, y: ArcParser(**SMALL).fit([[("a", "N")]], [[1]]), DataError, "must be another of its 1 words"),
        (lambda X, y: ArcParser(**SMALL, projective=False).fit(X, y), DataError, "margin steps require projective"),
    ],
)
def test_mistakes_are_told(make, error, words):
    X, y = pairs(treebank(3))
    with pytest.raises(error, match=words):
        make(X, y)


@pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")
@pytest.mark.parametrize("gamma", [0.0, 0.5, 1.0])
def test_a_learner_teaches_the_parser_from_a_few_trees_heads_and_rules(gamma):
    """Two trees, some heads known, and three rules: the M-step of a learner is the parser's own."""
    trees = treebank(30, seed=2)
    X, y = pairs(trees)
    known = [own if i < 2 else ([h if h == 0 else None for h in own] if i < 6 else None) for i, own in enumerate(y)]
    tag = column("upos")
    rules = [
        (arcs(head=root, child=tag == "VERB") >= 0.9).named("verbs are roots"),
        (arcs(head=tag == "NOUN", child=tag.isin("DET", "ADJ"), direction="left", share=True).per("corpus") >= 0.9)
        .named("phrases"),
        (arcs(head=tag == "VERB", child=tag == "NOUN", share=True).per("corpus") >= 0.8).named("nouns"),
    ]  # fmt: skip
    model = ArcParser(**SMALL, solver="lbfgs", max_iter=15)
    learner = UEM(model, rules, gamma=gamma, max_iter=4, tol=0, random_state=0).fit(X, known)
    test = pairs(treebank(20, seed=8))
    assert learner.score(*test) > 0.8
    assert max(learner.history_[-1].violation.values()) < 0.02
