"""The semi-Markov CRF against enumeration and central differences, and the CRF that it is without segments."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from structures.segment_twin import all_segmentations

from trellis import UEM
from trellis.constraints import count, starts
from trellis.engine import SerialEngine, place_batch
from trellis.errors import DataError
from trellis.models import CRF, SemiCRF, load_model

from .corpora import random_labels, random_sentences

NAMES = ["A", "B"]
LISTS = {"pairs": [[f"w{i}", f"w{j}"] for i in range(3) for j in range(3)], "single": [["w1"], ["w2"]]}


def labelled(rng, n=6, longest=4):
    """Sentences and labels, some of which begin a segment beside its like."""
    X = [s for s in random_sentences(rng, n, 3, longest=longest) if len(s)]
    y = random_labels(rng, X, NAMES)
    marked = [["B-" + k if t and own[t - 1] == k and rng.random() < 0.4 else k for t, k in enumerate(own)] for own in y]
    return X, marked


def case(seed=0, **settings):
    rng = np.random.default_rng(seed)
    X, y = labelled(rng)
    model = SemiCRF(NAMES, **{"dictionaries": LISTS, "longest": 3, **settings})
    batch = model.encode(X, y, weights=rng.random(len(X)) + 0.5, fit=True)
    model.randomize(rng)
    return model, X, y, batch


def codes(pieces, k):
    found, before = [], None
    for label, size in pieces:
        found += [label + k * (label == before), *[label] * (size - 1)]
        before = label
    return found


def test_words_and_dictionaries_are_features_of_segments():
    model, *_ = case()
    names = list(model.feature_names_)
    assert {"word=w0", "begins: w0", "ends: w0"} <= set(names)
    assert {name for name in names if "tokens: " in name} == {"1 tokens: single", "2 tokens: pairs"}


@pytest.mark.parametrize("settings", [{}, {"all_pairs": True}, {"ends": False}, {"longest": 1}, {"dictionaries": None}])
def test_the_feature_map_is_what_weights_are_multiplied_with(settings):
    model, _, _, batch = case(**settings)
    scores, k = model.scores(batch), len(NAMES)
    listings = [all_segmentations(int(n), k) for n in batch.lengths]
    for turn in range(max(map(len, listings))):
        y = np.array([c for own in listings for c in codes(own[turn % len(own)], k)], dtype=np.int32)
        np.testing.assert_allclose(model.phi(batch, y) @ model.weights_, scores.score(y), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("settings", [{}, {"all_pairs": True}, {"ends": False}, {"longest": 1}])
def test_gradient_agrees_with_central_differences(settings):
    model, _, _, batch = case(1, **settings)
    placed = [place_batch(SerialEngine(), batch)]
    rng = np.random.default_rng(5)
    q = model.scores(batch).temper(1.7).infer(weights=batch.weights)  # soft labels
    value = model.loss(model.collect(batch, q), placed)
    w = rng.normal(size=len(model.weights_))
    _, gradient = value(w)
    for _ in range(6):
        direction = rng.normal(size=len(w))
        step = 1e-5
        slope = (value(w + step * direction)[0] - value(w - step * direction)[0]) / (2 * step)
        assert slope == pytest.approx(gradient @ direction, rel=1e-6, abs=1e-6)


def test_expected_features_are_sums_over_segmentations():
    model, _, _, batch = case(2)
    scores, k = model.scores(batch), len(NAMES)
    total = np.zeros(len(model.weights_))
    for i in range(len(batch)):
        one = batch.instances(i, i + 1)
        own = scores.instances(i, i + 1)
        listing = [np.array(codes(p, k), dtype=np.int32) for p in all_segmentations(int(batch.lengths[i]), k)]
        value = np.array([own.score(y)[0] for y in listing])
        share = np.exp(value - np.logaddexp.reduce(value))
        rows = np.stack([model.phi(one, y).toarray()[0] for y in listing])
        total += batch.weights[i] * (share @ rows)
    found = model.vector(model.collect(batch, scores.infer(weights=batch.weights)))
    np.testing.assert_allclose(found, total, rtol=1e-9, atol=1e-10)


def test_given_labels_are_counted_with_their_segments():
    model, _X, y, batch = case(3)
    assert model.decode(batch, batch.labels) == y
    certain = model.scores(batch).certain(batch.labels, weights=batch.weights)
    np.testing.assert_allclose(model.vector(model.collect(batch, certain)), model.given_counts(batch))


def test_without_features_of_segments_it_is_a_crf():
    """Lengths and beginnings weigh nothing, and nothing is again: the sums are those of the chain."""
    rng = np.random.default_rng(0)
    X, _ = labelled(rng)
    y = random_labels(rng, X, NAMES)
    crf = CRF(NAMES)
    batch = crf.encode(X, y, fit=True)
    crf.randomize(rng)
    semi = SemiCRF(NAMES, longest=2)
    own = semi.encode(X, y, fit=True)
    plain = semi.layout_.role == 0
    weights, pairs = np.zeros(len(semi.weights_)), crf.layout_.n_pairs
    assert list(np.array(semi.feature_names_.names)[plain]) == list(crf.feature_names_)
    kept = np.flatnonzero(np.repeat(plain, np.diff(semi.layout_.first_pair)))
    weights[kept] = crf.weights_[:pairs]
    weights[semi.layout_.n_pairs :][: len(crf.weights_) - pairs] = crf.weights_[pairs:]
    again = semi.layout_.own(weights)[0]
    again[:] = -50.0
    semi.weights_ = weights
    one, other = crf.scores(batch).infer(), semi.scores(own).infer()
    np.testing.assert_allclose(one.log_partition, other.log_partition, atol=1e-9)
    np.testing.assert_allclose(one.node, other.node, atol=1e-9)


def test_a_mark_that_says_nothing_is_a_label():
    model = SemiCRF(NAMES)
    batch = model.encode([["a", "b", "c"]], [["B-A", "B-B", "B-B"]], fit=True)
    assert batch.labels.tolist() == [0, 1, 3]
    assert list(SemiCRF().fit([["a", "b"]], [["X", "B-X"]]).label_names_) == ["X"]
    # a label of one's own that looks like a mark stays one
    assert list(SemiCRF(["X", "B-X"]).fit([["a", "b"]], [["X", "B-X"]]).label_names_) == ["X", "B-X"]


def test_unknown_labels_may_be_segments_of_any_kind():
    model, _, _, batch = case(4)
    scores, k = model.scores(batch), len(NAMES)
    rng = np.random.default_rng(0)
    known = np.where(rng.random(batch.n_slots) < 0.5, batch.labels, -1)
    alone = (known >= k) & (np.roll(known, 1) < 0)  # a mark beside a label that is not known
    for i in range(len(batch)):
        lo, hi = batch.offsets[i], batch.offsets[i + 1]
        own, given = scores.instances(i, i + 1), known[lo:hi]
        total = -np.inf
        for pieces in all_segmentations(int(hi - lo), k):
            y, begins = np.array(codes(pieces, k)), np.zeros(hi - lo, dtype=bool)
            begins[np.cumsum([0, *(size for _, size in pieces)])[:-1]] = True
            agrees = all(
                given[t] < 0
                or (
                    (y[t] % k == given[t] % k)
                    and (given[t] < k or begins[t])
                    and not (given[t] < k and t and given[t - 1] >= 0 and given[t - 1] % k == given[t] and begins[t])
                )
                for t in range(hi - lo)
            )
            if agrees:
                total = np.logaddexp(total, own.score(y.astype(np.int32))[0])
        np.testing.assert_allclose(own.clamp(given).infer().log_partition[0], total)
    assert alone.any()


def test_saved_and_loaded_predicts_the_same_bits(tmp_path):
    rng = np.random.default_rng(6)
    X, y = labelled(rng, n=20)
    model = SemiCRF(dictionaries=LISTS, longest=4, l2=0.1).fit(X, y)
    model.save(tmp_path / "m.trellis")
    again = load_model(tmp_path / "m.trellis")
    assert again.predict(X) == model.predict(X)
    for a, b in zip(again.predict_proba(X), model.predict_proba(X), strict=True):
        np.testing.assert_array_equal(a, b)
    assert any(label.startswith("B-") for own in model.predict(X) for label in own)


def test_it_learns_from_rules_and_unlabelled_text():
    """Posterior regularization over segments: the count of segments in expectation, in every sentence."""
    rng = np.random.default_rng(7)
    X, y = labelled(rng, n=12)
    rules = [(starts("A") <= 1).named("one A"), (count("B") >= 1).penalty(3.0).named("some B")]
    learner = UEM(SemiCRF(NAMES, longest=3), rules, max_iter=2, tol=0, projection_tol=1e-6).fit(
        X, [*y[:5], *[None] * (len(X) - 5)]
    )
    assert learner.violations(X)["one A"] == pytest.approx(0.0, abs=1e-4)
    assert learner.violations(X, constrained=False)["one A"] > 1e-3


def test_mistakes_are_explained():
    with pytest.raises(DataError, match="longest must be"):
        SemiCRF(NAMES, longest=0).fit([["a"]], [["A"]])
    model, _, _, batch = case()
    wrong = np.where(np.arange(batch.n_slots) == 0, 2, batch.labels % 2).astype(np.int32)
    with pytest.raises(DataError, match="says that a segment of label 0 follows another one of it"):
        model.scores(replace(batch, labels=wrong)).score(wrong)
