"""The CRF: objective against enumeration, gradients by differences, against crfsuite, special cases, files."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.engine import shards_of
from trellis.errors import ConvergenceWarning, DataError, UnknownNameError
from trellis.models import CRF, MaxEnt, load_model
from trellis.structures import LabelPosterior

from .corpora import assert_phi_is_the_feature_map, known, placed, random_labels, random_sentences

pytestmark = pytest.mark.slow

NAMES = ["A", "B", "C"]


def tokens(rng, sentences):
    """Dictionaries with words, numbers and shared features: pairs of every frequency occur."""
    return [
        [
            {"w": word, "bias": True, "x": float(rng.normal()), "p": str(rng.integers(3)), "odd": bool(rng.integers(2))}
            for word in sentence
        ]
        for sentence in sentences
    ]


def soft(rng, crf, batch):
    """A random posterior that is a proper one: of a random model."""
    weights = crf.weights_
    crf.randomize(rng)
    q = crf.scores(batch).infer(weights=batch.weights)
    crf.set_parameters({"weights": weights})
    return q


def case(seed=0, n=6, known=1.0, weights=True, **settings):
    rng = np.random.default_rng(seed)
    sentences = random_sentences(rng, n, 5, longest=4)
    X, y = tokens(rng, sentences), random_labels(rng, sentences, NAMES, known=known)
    crf = CRF(NAMES, **settings)
    batch = crf.encode(X, y, weights=rng.gamma(1.0, 1.0, n) if weights else None, fit=True)
    return rng, crf, batch, X, y


def enumerated_value(crf, batch, X, q_of):
    """Σ_i weight_i E_q[log p(y | x_i)] by listing all outputs, scores taken feature by feature."""
    total = 0.0
    edge, start, stop = crf.edge_, crf.start_, crf.stop_
    for i, sentence in enumerate(X):
        outputs = list(itertools.product(range(3), repeat=len(sentence)))
        scores = []
        for output in outputs:
            score = 0.0
            for t, (token, label) in enumerate(zip(sentence, output, strict=True)):
                for name, value in (
                    (f"w={token['w']}", 1.0), ("bias", 1.0), ("x", token["x"]), (f"p={token['p']}", 1.0),
                    ("odd", float(token["odd"])),
                ):  # fmt: skip
                    if value:
                        score += value * crf.feature_weight(name, NAMES[label])
                        if t > 0 and crf.edge_features:
                            of_feature = crf.weights_[-9 * len(crf.feature_names_) :].reshape(-1, 3, 3)
                            score += value * of_feature[crf.feature_names_.number(name)][output[t - 1], label]
                score += start[label] if t == 0 else edge[output[t - 1], label]
            scores.append(score + (stop[output[-1]] if output else 0.0))
        log_p = np.array(scores) - np.log(np.exp(scores).sum())
        total += batch.weights[i] * sum(q_of(i, o) * lp for o, lp in zip(outputs, log_p, strict=True))
    return total


SETTINGS: list[dict[str, Any]] = [
    {}, {"all_pairs": True}, {"ends": False}, {"edge_features": True}, {"transitions": False},
    {"transitions": False, "ends": False},
]  # fmt: skip


@pytest.mark.parametrize("settings", SETTINGS)
def test_objective_agrees_with_enumeration(settings):
    rng, crf, batch, X, _ = case(**settings)
    crf.randomize(rng, 0.7)
    statistics = crf.collect(batch, known(crf, batch))
    value, _ = crf._objective(crf._vector(statistics), [placed([batch])])(crf.weights_)

    def given(i, output):
        return float(batch.labels[batch.offsets[i] : batch.offsets[i + 1]].tolist() == list(output))

    assert -value == pytest.approx(enumerated_value(crf, batch, X, given), rel=1e-11)


@pytest.mark.parametrize("known", [1.0, 0.4])
@pytest.mark.parametrize("settings", SETTINGS)
def test_gradient_agrees_with_central_differences(known, settings):
    rng, crf, batch, _, _ = case(1, known=known, **settings)
    statistics = crf.collect(batch, soft(rng, crf, batch))
    objective = crf._objective(crf._vector(statistics), [placed([batch.instances(0, 4), batch.instances(4, 6)])])
    weights = 0.5 * rng.standard_normal(crf.layout_.n_weights)
    _, gradient = objective(weights)
    h = 1e-5
    for j in range(len(weights)):
        up, down = weights.copy(), weights.copy()
        up[j] += h
        down[j] -= h
        assert gradient[j] == pytest.approx((objective(up)[0] - objective(down)[0]) / (2 * h), abs=1e-7)


def test_the_m_step_ends_where_the_gradient_vanishes():
    rng, crf, batch, _, _ = case(2, known=0.5, l2=0.5, tol=1e-14)
    statistics = crf.collect(batch, soft(rng, crf, batch))
    found = crf.update(statistics, shards=[placed([batch])])
    _, gradient = crf._objective(crf._vector(statistics), [placed([batch])])(crf.weights_)
    np.testing.assert_allclose(gradient + 0.5 * crf.weights_, 0.0, atol=2e-6)
    assert found.objective == pytest.approx(
        crf._objective(crf._vector(statistics), [placed([batch])])(crf.weights_)[0] - crf.log_prior(), rel=1e-12
    )


def test_soft_labels_that_are_certain_are_supervised_training():
    _, crf, batch, X, y = case(3, weights=False, l2=0.3, tol=1e-14)
    shards = [batch.instances(0, 2), batch.instances(2, 6)]
    clamped = [crf.scores(shard).clamp(shard.labels).infer(weights=shard.weights) for shard in shards]
    statistics = crf.collect(shards[0], clamped[0]) + crf.collect(shards[1], clamped[1])
    crf.update(statistics, shards=[placed(shards)])
    fitted = CRF(NAMES, l2=0.3, tol=1e-14).fit(X, y)
    np.testing.assert_allclose(crf.weights_, fitted.weights_, atol=1e-6)


def test_without_transitions_tokens_are_classified_by_themselves():
    X, y = [["a", "b"], ["b"], ["a", "c", "b"], ["c"]], [["A", "B"], ["B"], ["B", "C", "B"], ["C"]]
    tagger = CRF(NAMES, transitions=False, ends=False, all_pairs=True, l2=0.5, tol=1e-14).fit(X, y)
    tokens = [word for words in X for word in words]
    rows = np.array([[word == one for one in "abc"] for word in tokens], float)
    labels = [label for own in y for label in own]
    classifier = MaxEnt(NAMES, fit_intercept=False, l2=0.5, tol=1e-14).fit(rows, labels)
    np.testing.assert_allclose(np.concatenate(tagger.predict_proba(X)), classifier.predict_proba(rows), atol=1e-6)
    assert not tagger.edge_.any()
    np.testing.assert_allclose(tagger.phi(tagger.encode(X, y), tagger.encode(X, y).labels).sum(), len(tokens))


def test_zero_weight_is_absence():
    rng = np.random.default_rng(4)
    sentences = random_sentences(rng, 8, 4, shortest=1)
    labels = random_labels(rng, sentences, NAMES)
    weights = np.array([1.0, 0.0] * 4)
    weighted = CRF(NAMES, all_pairs=True, tol=1e-14).fit(sentences, labels, sample_weight=weights)
    batch = weighted.encode(sentences[::2], labels[::2])
    alone = CRF(NAMES, all_pairs=True, tol=1e-14)
    alone.encode(sentences, labels, fit=True)
    alone.update(alone.collect(batch, known(alone, batch)), shards=[placed([batch])])
    np.testing.assert_allclose(weighted.weights_, alone.weights_, atol=1e-6)


def test_crfsuite_reaches_the_same_objective(tmp_path):
    import pycrfsuite

    rng = np.random.default_rng(5)
    sentences = random_sentences(rng, 80, 12, shortest=1)
    X = [[[f"w={w}", f"s={w[-1]}", "bias"] for w in sentence] for sentence in sentences]
    y = random_labels(rng, sentences, NAMES)
    crf = CRF(l2=1.0, ends=False, tol=1e-13).fit(X, y)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(sentence), labels)
    trainer.set_params({"c1": 0.0, "c2": 0.5, "feature.possible_transitions": True, "epsilon": 1e-9, "delta": 1e-12})
    trainer.train(str(tmp_path / "crfsuite"))
    log = trainer.logparser.last_iteration
    assert log["active_features"] == crf.layout_.n_weights
    # its log has six decimals
    assert crf.objective_ == pytest.approx(log["loss"], rel=1e-7)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite"))
    assert crf.predict(X) == [tagger.tag(sentence) for sentence in X]


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(6)
    sentences = random_sentences(rng, 2000, 50)
    crf = CRF(NAMES)
    batch = crf.encode(sentences, random_labels(rng, sentences, NAMES), fit=True)
    shards = [shard.of(batch) for shard in shards_of(batch)]
    assert len(shards) > 1
    counts = crf.collect(batch, known(crf, batch))
    weights = rng.standard_normal(crf.layout_.n_weights)
    found = [crf._objective(crf._vector(counts), [placed(shards, threads)])(weights) for threads in (1, 2, 4)]
    assert len({value for value, _ in found}) == 1
    assert len({gradient.tobytes() for _, gradient in found}) == 1
    trained = [CRF(max_iter=5, n_jobs=threads, tol=0.0) for threads in (1, 2)]
    with pytest.warns(ConvergenceWarning, match="stopped after 5 rounds"):
        bits = {crf.fit(sentences, crf_labels(sentences)).weights_.tobytes() for crf in trained}
    assert len(bits) == 1


def crf_labels(sentences):
    return [["A" if word in ("w1", "w2") else "B" for word in sentence] for sentence in sentences]


def test_pairs_are_those_that_the_data_allows():
    crf = CRF(NAMES)
    batch = crf.encode([[["f", "g"], ["g"], ["h"]]], [["A", "B", None]], fit=True)
    layout = crf.layout_
    bounds = zip(crf.feature_names_, itertools.pairwise(layout.first_pair), strict=True)
    found = {name: layout.pair_label[a:b].tolist() for name, (a, b) in bounds}
    assert found == {"f": [0], "g": [0, 1], "h": [0, 1, 2]}
    assert crf.scores(batch).node.shape == (3, 3)
    assert crf.feature_weight("f", "B") == 0.0


def test_adagrad_comes_near_the_optimum():
    _, _, _, X, y = case(7, n=60, weights=False)
    exact = CRF(NAMES, l2=2.0).fit(X, y)
    stochastic = CRF(NAMES, l2=2.0, solver="adagrad", max_iter=300, batch_size=8, random_state=0, learning_rate=0.3)
    stochastic.fit(X, y)

    def objective(crf):
        return crf.log_likelihood(X, y) + crf.log_prior()

    start = CRF(NAMES)
    start.encode(X, y, fit=True)
    gap = (objective(exact) - objective(stochastic)) / (objective(exact) - objective(start))
    assert 0.0 <= gap < 0.01
    again = CRF(**stochastic.get_params()).fit(X, y)
    assert again.weights_.tobytes() == stochastic.weights_.tobytes()


def test_log_likelihood_is_that_of_labels_given_text():
    rng, crf, _, X, y = case(8)
    crf.randomize(rng)
    listed = 0.0
    for sentence in X[:2]:
        outputs = [list(o) for o in itertools.product(NAMES, repeat=len(sentence))]
        listed = sum(np.exp(crf.log_likelihood([sentence], [output])) for output in outputs)
        assert listed == pytest.approx(1.0, rel=1e-10)
    assert crf.log_likelihood(X, y) < 0.0
    assert crf.log_likelihood(X) == pytest.approx(0.0, abs=1e-9)


def test_uniform_scores_weigh_all_outputs_alike():
    _, crf, batch, _, _ = case(9)
    np.testing.assert_allclose(crf.uniform(batch).infer().node, 1 / 3)
    np.testing.assert_allclose(crf.scores(batch).infer().node, 1 / 3)


def last_letters(sentence, t):
    return {"word": sentence[t], "last": sentence[t][-1]}


@pytest.mark.parametrize("function, edge_features", [(None, False), (last_letters, False), (None, True)])
def test_saved_and_loaded_predicts_the_same_bits(tmp_path, function, edge_features):
    rng = np.random.default_rng(10)
    sentences = random_sentences(rng, 30, 12)
    labels = random_labels(rng, sentences, NAMES)
    crf = CRF(features=function, edge_features=edge_features, l2=0.1).fit(sentences, labels)
    crf.save(tmp_path / "crf")
    if function is None:
        loaded = load_model(tmp_path / "crf")
    else:
        with pytest.raises(DataError, match=r"feature function .*last_letters.*features=\.\.\."):
            load_model(tmp_path / "crf").predict(sentences)
        loaded = load_model(tmp_path / "crf", features=function)
    assert loaded.predict(sentences) == crf.predict(sentences)
    for one, other in zip(loaded.predict_proba(sentences), crf.predict_proba(sentences), strict=True):
        assert one.tobytes() == other.tobytes()
    assert loaded.score(sentences, labels) == crf.score(sentences, labels)
    with pytest.raises(UnknownNameError, match="did you mean 'features'"):
        load_model(tmp_path / "crf", feature=function)


def test_a_corpus_gives_its_columns_to_features():
    corpus = corpus_of(
        [
            Document(("the", "dog"), ("D", "N"), {"shape": ("x", "y")}),
            Document(("a", "cat"), ("D", "N"), {"shape": ("x", "y")}),
            Document(("odd",), (None,), {"shape": ("z",)}),
        ]
    )
    crf = CRF(features=lambda sentence, t: {"shape": sentence[t]["shape"]}).fit(corpus)
    assert crf.feature_names_.names == ("shape=x", "shape=y")
    assert crf.predict(corpus) == [["D", "N"], ["D", "N"], crf.predict(corpus)[2]]
    assert crf.encode(corpus).column("word").strings() == ["the", "dog", "a", "cat", "odd"]


@pytest.mark.parametrize(
    "arguments, X, y, message",
    [
        ({}, [["a"]], None, "no sentence is fully labelled"),
        ({}, [["a", "b"]], [["X", None]], "no sentence is fully labelled"),
        ({"l2": -1.0}, [["a"]], [["X"]], "l2 must be"),
        ({"solver": "lbgfs"}, [["a"]], [["X"]], "did you mean 'lbfgs'"),
        ({"max_iter": 0}, [["a"]], [["X"]], "max_iter must be a whole number, 1 or more"),
        ({"tol": -1.0}, [["a"]], [["X"]], "tol must be a number, 0 or more"),
        ({"min_count": 0}, [["a"]], [["X"]], "min_count must be a whole number, 1 or more"),
        ({"labels": ["Y"]}, [["a"]], [["X"]], "unknown label 'X'"),
        ({}, [["a"], ["b"]], [["X"]], "labels for 2 sentences but got 1"),
        ({}, ["a b"], [["X"]], "split strings first"),
    ],
)
def test_mistakes_are_explained(arguments, X, y, message):
    with pytest.raises(DataError, match=message):
        CRF(**arguments).fit(X, y)


def test_an_m_step_without_data_says_what_it_needs():
    _, crf, batch, _, _ = case(11)
    with pytest.raises(DataError, match="looks at the data again: give the shards"):
        crf.update(crf.collect(batch, known(crf, batch)))
    with pytest.raises(DataError, match="edge counts"):
        crf.collect(batch, LabelPosterior(np.zeros((batch.n_slots, 3)), np.zeros(len(batch))))
    with pytest.raises(DataError, match="make it with the model's encode"):
        crf.scores(CRF(NAMES).encode([["z"]], fit=True))


@pytest.mark.realdata
def test_chunking_reaches_crfsuites_objective_and_accuracy(data_dir, tmp_path):
    """Issue 4, must hold 2, on the first sentences; ``make bench-crf`` runs it on all."""
    import pycrfsuite

    from trellis.data.columns import read_columns

    def read(name, limit):
        found = itertools.islice(
            read_columns(data_dir / "chunk/conll2000" / name, label=2, columns={"pos": 1}, separator=None), limit
        )
        pairs = [(list(zip(s.tokens, s.columns["pos"], strict=True)), list(s.labels)) for s in found]
        return [window(s) for s, _ in pairs], [y for _, y in pairs]

    def window(sentence):
        padded = [("<", "<"), *sentence, (">", ">")]
        return [[f"{k}{d}={padded[t + 1 + d][k]}" for k in (0, 1) for d in (-1, 0, 1)] for t in range(len(sentence))]

    X, y = read("train.txt", 1000)
    crf = CRF(l2=2.0, ends=False, tol=1e-9).fit(X, y)
    trainer = pycrfsuite.Trainer(algorithm="lbfgs", verbose=False)
    for sentence, labels in zip(X, y, strict=True):
        trainer.append(pycrfsuite.ItemSequence(sentence), labels)
    trainer.set_params({"c1": 0.0, "c2": 1.0, "feature.possible_transitions": True})
    trainer.train(str(tmp_path / "crfsuite"))
    assert crf.objective_ <= trainer.logparser.last_iteration["loss"] * (1.0 + 1e-4)
    tagger = pycrfsuite.Tagger()
    tagger.open(str(tmp_path / "crfsuite"))
    Z, gold = read("test.txt", 300)
    theirs = [tagger.tag(sentence) for sentence in Z]
    right = [a == b for one, other in zip(theirs, gold, strict=True) for a, b in zip(one, other, strict=True)]
    assert abs(crf.score(Z, gold) - np.mean(right)) <= 1e-3


@pytest.mark.parametrize("ends", [True, False])
@pytest.mark.parametrize("all_pairs, edge_features", [(True, False), (False, False), (False, True)])
def test_the_feature_map_is_what_weights_are_multiplied_with(ends, all_pairs, edge_features):
    rng = np.random.default_rng(3)
    sentences = [*random_sentences(rng, 12, 6, shortest=1), []]
    labels = random_labels(rng, sentences, ["A", "B", "C"])
    crf = CRF(["A", "B", "C"], ends=ends, all_pairs=all_pairs, edge_features=edge_features)
    batch = replace(crf.encode(sentences, labels, fit=True), weights=rng.uniform(0.0, 2.0, size=13))
    crf.randomize(rng)
    assert_phi_is_the_feature_map(crf, batch, batch.labels)
    assert_phi_is_the_feature_map(crf, batch, rng.integers(3, size=batch.n_slots).astype(np.int32))
