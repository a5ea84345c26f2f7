"""NaiveBayes and MaxEnt: closed forms, scikit-learn's own results, soft labels, files."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

from trellis.engine import shards_of
from trellis.errors import ConvergenceWarning, DataError, NotFittedError, UnknownNameError
from trellis.models import MaxEnt, NaiveBayes, load_model

from .corpora import assert_never_falls, assert_phi_is_the_feature_map, em, expectation, known, placed


def counts(rng, n=80, n_features=12, n_labels=3):
    y = rng.integers(0, n_labels, n)
    rates = rng.gamma(0.5, 2.0, (n_labels, n_features))
    return rng.poisson(rates[y]), np.array(["a", "b", "c"])[y]


def test_naive_bayes_is_scikit_learns():
    from sklearn import naive_bayes as sklearn

    rng = np.random.default_rng(0)
    X, y = counts(rng)
    weights = rng.gamma(1.0, 1.0, len(y))
    ours = NaiveBayes(feature_prior=1.7).fit(X, y, sample_weight=weights)
    theirs = sklearn.MultinomialNB(alpha=0.7).fit(X, y, sample_weight=weights)
    np.testing.assert_allclose(np.log(ours.feature_.T), theirs.feature_log_prob_, rtol=1e-12)
    np.testing.assert_allclose(np.log(ours.prior_), theirs.class_log_prior_, rtol=1e-12)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-12)
    np.testing.assert_allclose(ours.predict_log_proba(X), theirs.predict_log_proba(X), atol=1e-9)
    assert ours.score(X, y) == theirs.score(X, y)


@pytest.mark.slow
def test_maxent_is_scikit_learns_logistic_regression():
    from sklearn import linear_model as sklearn

    rng = np.random.default_rng(1)
    X, y = counts(rng)
    ours = MaxEnt(l2=0.5, tol=1e-14).fit(X, y)
    theirs = sklearn.LogisticRegression(C=2.0, tol=1e-10, max_iter=5000).fit(X, y)
    np.testing.assert_allclose(ours.feature_weights_.T, theirs.coef_, atol=1e-5)
    np.testing.assert_allclose(ours.predict_proba(X), theirs.predict_proba(X), atol=1e-6)
    without = MaxEnt(l2=0.5, tol=1e-14, fit_intercept=False).fit(X, y)
    plain = sklearn.LogisticRegression(C=2.0, tol=1e-10, max_iter=5000, fit_intercept=False).fit(X, y)
    np.testing.assert_allclose(without.feature_weights_.T, plain.coef_, atol=1e-5)
    assert not without.intercept_.any()


@pytest.mark.parametrize(
    "settings",
    [
        {"feature_prior": 1.0},
        {"class_prior": 3.0, "feature_prior": 1.2},
        {"variational": True, "class_prior": 0.5, "feature_prior": 0.05},
    ],
)
def test_em_on_rows_without_labels_never_falls(settings):
    rng = np.random.default_rng(2)
    X, _ = counts(rng)
    model = NaiveBayes(3, **settings)
    batch = model.encode(X, weights=rng.gamma(1.0, 1.0, len(X)), fit=True)
    model.randomize(rng)
    trace = em(model, batch, 30)
    assert_never_falls(trace)
    assert trace[-1] > trace[0] + 1.0


def test_em_on_labelled_rows_is_counting():
    rng = np.random.default_rng(3)
    X, y = counts(rng)
    fitted = NaiveBayes(feature_prior=1.5).fit(X, y)
    model = NaiveBayes(feature_prior=1.5)
    batch = model.encode(X, y, fit=True)
    model.update(expectation(model, batch, clamp=True)[0])
    np.testing.assert_allclose(model.feature_, fitted.feature_, rtol=1e-12)
    np.testing.assert_allclose(model.prior_, fitted.prior_, rtol=1e-12)


def test_maxent_gradient_agrees_with_central_differences():
    rng = np.random.default_rng(4)
    X = rng.standard_normal((9, 4))
    model = MaxEnt(3)
    batch = model.encode(X, weights=rng.gamma(1.0, 1.0, 9), fit=True)
    model.randomize(rng)
    statistics = model.collect(batch, model.scores(batch).infer())
    objective = model._objective(model._vector(statistics), [placed([batch.instances(0, 5), batch.instances(5, 9)])])
    weights = rng.standard_normal(15)
    _, gradient = objective(weights)
    for j in range(15):
        up, down = weights.copy(), weights.copy()
        up[j] += 1e-5
        down[j] -= 1e-5
        assert gradient[j] == pytest.approx((objective(up)[0] - objective(down)[0]) / 2e-5, abs=1e-7)
    # Soft labels that the model itself gives are where it stands still.
    np.testing.assert_allclose(objective(model.weights_)[1], 0.0, atol=1e-12)


def test_rows_without_labels_are_left_out_of_fit():
    rng = np.random.default_rng(5)
    X, y = counts(rng)
    partial = y.astype(object)
    partial[::3] = None
    keep = np.array([label is not None for label in partial])
    for model, settings in ((NaiveBayes, {}), (MaxEnt, {"tol": 1e-13})):
        some = model(**settings).fit(X, partial)
        alone = model(**settings).fit(X[keep], y[keep])
        assert some.predict_proba(X).tolist() == alone.predict_proba(X).tolist()
        assert some.score(X, partial) == alone.score(X[keep], y[keep])


@pytest.mark.parametrize("model", [NaiveBayes(), MaxEnt()])
def test_sparse_and_dense_rows_give_the_same_bits(model):
    X, y = counts(np.random.default_rng(6))
    dense = model.fit(X, y).predict_proba(X)
    for form in (sparse.csr_matrix, sparse.csc_array, sparse.coo_array):
        assert model.fit(form(X), y).predict_proba(form(X)).tobytes() == dense.tobytes()


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(7)
    X, y = rng.standard_normal((9000, 3)), rng.integers(0, 3, 9000)
    model = MaxEnt()
    batch = model.encode(X, y, fit=True)
    shards = [shard.of(batch) for shard in shards_of(batch)]
    assert len(shards) > 1
    statistics = model.collect(batch, known(model, batch))
    weights = rng.standard_normal(12)
    found = [model._objective(model._vector(statistics), [placed(shards, threads)])(weights) for threads in (1, 2, 4)]
    assert len({value for value, _ in found}) == 1
    assert len({gradient.tobytes() for _, gradient in found}) == 1


@pytest.mark.slow
def test_adagrad_comes_near_the_optimum():
    X, y = counts(np.random.default_rng(8))
    exact = MaxEnt(l2=1.0).fit(X, y)
    stochastic = MaxEnt(l2=1.0, solver="adagrad", max_iter=300, batch_size=10, random_state=0).fit(X, y)

    def objective(model):
        log_p = model.predict_log_proba(X)
        return log_p[np.arange(len(y)), np.searchsorted(model.classes_, y)].sum() + model.log_prior()

    start = MaxEnt()
    start.encode(X, y, fit=True)
    gap = (objective(exact) - objective(stochastic)) / (objective(exact) - objective(start))
    assert 0.0 <= gap < 0.01


@pytest.mark.parametrize("labels", [["a", "b", "c"], [3, -1, 7], [True, False, True], [2.0, 5.0, 9.0]])
@pytest.mark.parametrize("model", [NaiveBayes(), MaxEnt(), NaiveBayes(variational=True, feature_prior=0.3)])
def test_saved_and_loaded_predicts_the_same_bits(tmp_path, labels, model):
    rng = np.random.default_rng(9)
    X, _ = counts(rng)
    y = np.array(labels)[rng.integers(0, 3, len(X))]
    model.fit(X, y)
    model.save(tmp_path / "model")
    loaded = load_model(tmp_path / "model")
    assert loaded.classes_.dtype == model.classes_.dtype
    assert loaded.predict(X).tolist() == model.predict(X).tolist()
    assert loaded.predict_proba(X).tobytes() == model.predict_proba(X).tobytes()
    assert loaded.get_params() == model.get_params()


def test_unseen_features_of_maximum_likelihood_are_impossible_and_not_nan():
    model = NaiveBayes(feature_prior=1.0).fit([[1, 0, 2], [0, 1, 1]], ["a", "b"])
    np.testing.assert_array_equal(model.predict_proba([[1, 0, 0], [0, 3, 0]]), [[1.0, 0.0], [0.0, 1.0]])
    assert model.predict_log_proba([[1, 0, 0]])[0, 1] == -np.inf


@pytest.mark.parametrize(
    "model, X, y, message",
    [
        (NaiveBayes(), [[-1.0, 2.0]], ["a"], "Negative values"),
        (NaiveBayes(feature_prior=0.5), [[1.0]], ["a"], "no mode"),
        (NaiveBayes(), [[1.0]], None, "requires y"),
        (NaiveBayes(), [[1.0]], [None], "there are no labels"),
        (MaxEnt(labels=["b"]), [[1.0]], ["a"], "unknown label 'a'"),
        (MaxEnt(l2=-1), [[1.0]], ["a"], "l2"),
        (MaxEnt(), [[1.0]], ["a", "b"], "inconsistent numbers of samples: 1 rows, 2 labels"),
        (MaxEnt(), [[np.nan]], ["a"], "NaN"),
        (MaxEnt(), [1.0, 2.0], ["a", "b"], "Reshape your data"),
        (MaxEnt(), [[1.0], [2.0]], [0.5, 1.5], "Unknown label type"),
    ],
)
def test_mistakes_are_explained(model, X, y, message):
    with pytest.raises(DataError, match=message):
        model.fit(X, y)


def test_unfitted_models_say_so_and_parameters_are_checked():
    with pytest.raises(NotFittedError, match="call fit first"):
        MaxEnt().predict([[1.0]])
    model = NaiveBayes().fit([[1, 2], [2, 1]], ["a", "b"])
    with pytest.raises(DataError, match="X has 1 features, but NaiveBayes is expecting 2"):
        model.predict([[1.0]])
    with pytest.raises(DataError, match="feature must sum to 1"):
        model.set_parameters({"prior": [0.5, 0.5], "feature": np.ones((2, 2))})
    with pytest.raises(UnknownNameError, match="unknown parameter 'prior'"):
        model.set_parameters({})
    with pytest.warns(ConvergenceWarning, match="raise max_iter"):
        MaxEnt(max_iter=1, tol=0.0).fit([[1.0, 0.0], [0.0, 2.0]], ["a", "b"])


@pytest.mark.parametrize("fit_intercept", [True, False])
@pytest.mark.parametrize("form", [np.asarray, sparse.csr_matrix])
def test_the_feature_map_is_what_weights_are_multiplied_with(fit_intercept, form):
    rng = np.random.default_rng(3)
    features, y = rng.normal(size=(20, 4)), rng.integers(3, size=20)
    model = MaxEnt(fit_intercept=fit_intercept)
    batch = replace(model.encode(form(features), y, fit=True), weights=rng.uniform(0.0, 2.0, size=20))
    model.randomize(rng)
    assert_phi_is_the_feature_map(model, batch, batch.labels)
