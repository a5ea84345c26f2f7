"""NeuralCRF: the CRF's optimum with a linear network, the enumerated objective of PR, and every learner over it."""

from __future__ import annotations

from itertools import pairwise, product

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis.constraints import count, shares, word  # noqa: E402
from trellis.data.corpus import corpus_of  # noqa: E402
from trellis.data.document import Document  # noqa: E402
from trellis.data.vocabulary import Vocabulary  # noqa: E402
from trellis.errors import DataError, UnknownNameError  # noqa: E402
from trellis.learn import GE, UEM, CoDL, MultiView  # noqa: E402
from trellis.models import CRF, HMM, load_model  # noqa: E402
from trellis.neural import BiLSTM, NeuralCRF  # noqa: E402

NAMES = ["D", "N", "V"]
TEXT = [s.split() for s in ("the dog barks", "a dog sleeps", "the cat runs", "a cat barks", "dogs bark", "stop")]
LABELS = [["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"], ["D", "N", "V"], ["N", "V"], ["V"]]
WORDS = sorted({w for s in TEXT for w in s})


class OneHot(torch.nn.Module):
    """A weight for every word and label, in double precision: the features of a plain CRF."""

    def __init__(self, n_labels=3):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(len(WORDS), n_labels, dtype=torch.float64))

    def forward(self, sentences):
        return self.weight[[WORDS.index(w) for sentence in sentences for w in sentence]]


def small(**settings):
    encoder = BiLSTM(word_size=8, char_size=0, hidden=6, layers=1, min_count=1, dropout=0.0, word_dropout=0.0)
    return NeuralCRF(encoder, NAMES, **{"max_iter": 30, "learning_rate": 0.05, "weight_decay": 0.0, **settings})


def test_a_linear_network_reaches_the_optimum_of_the_crf():
    crf = CRF(NAMES, all_pairs=True, l2=0.5, tol=1e-13).fit(TEXT, LABELS)
    ours = NeuralCRF(OneHot(), NAMES, solver="lbfgs", l2=0.5, max_iter=500, tol=1e-13).fit(TEXT, LABELS)
    expected = crf.log_likelihood(TEXT, LABELS) + crf.log_prior()
    assert ours.log_likelihood(TEXT, LABELS) + ours.log_prior() == pytest.approx(expected, abs=1e-8)
    np.testing.assert_allclose(ours.parameters()["edge"], crf.edge_, atol=1e-4)
    for mine, theirs in zip(ours.predict_proba(TEXT), crf.predict_proba(TEXT), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


def test_mini_batch_steps_reach_it_too():
    crf = CRF(NAMES, all_pairs=True, l2=0.5, tol=1e-13).fit(TEXT, LABELS)
    ours = NeuralCRF(OneHot(), NAMES, l2=0.5, weight_decay=0.0, max_iter=600, learning_rate=0.1).fit(TEXT, LABELS)
    expected = crf.log_likelihood(TEXT, LABELS) + crf.log_prior()
    assert ours.log_likelihood(TEXT, LABELS) + ours.log_prior() == pytest.approx(expected, abs=1e-4)


def test_expected_transitions_are_counted_by_mini_batch():
    """Soft targets: the loss of all mini-batches is that of the whole, transitions included."""
    from trellis.neural.targets import mini_batches

    model = small()
    batch = model.encode(TEXT, LABELS[:2] + [None] * 4, weights=[1, 2, 0.5, 1, 1, 3], fit=True)
    model.randomize(np.random.default_rng(0))
    q = model.scores(batch).clamp(batch.labels).infer(weights=batch.weights)
    targets = model.collect(batch, q).joined()
    whole = model.likelihood_loss(model.net_, targets).item()
    parts = [p for size in (1, 2) for p in mini_batches(targets, size, np.random.default_rng(1))]
    assert len(parts) > 6
    assert sum(model.likelihood_loss(model.net_, p).item() for p in parts) == pytest.approx(2 * whole, rel=1e-5)


def enumerated_distance(model, sentence, least):
    """min_q KL(q ‖ p) with E_q[count of V] ≥ least over all label sequences, in closed form over one multiplier."""
    from scipy.optimize import minimize_scalar

    scores = model.scores(model.encode([sentence]))
    every = [np.array(y, np.int32) for y in product(range(3), repeat=len(sentence))]
    p = np.exp(np.array([scores.log_prob(y)[0] for y in every]))
    phi = np.array([np.sum(y == 2) for y in every], float)
    dual = minimize_scalar(lambda m: np.log(p @ np.exp(m * (phi - least))), bounds=(0, 60), method="bounded",
                           options={"xatol": 1e-12})  # fmt: skip
    return max(-dual.fun, 0.0)


def test_the_objective_of_pr_is_the_enumerated_one():
    least, text = 1.4, [["the", "dog"], ["dogs", "bark"], ["a", "cat", "runs"]]
    rule = [count("V") >= least]
    model = NeuralCRF(OneHot(), NAMES, solver="lbfgs", l2=0.1, max_iter=30)
    model.encode(TEXT, fit=True)
    model.randomize(np.random.default_rng(3))
    with torch.no_grad():
        model.net_.body.module.weight.normal_(generator=torch.Generator().manual_seed(0))
    learner = UEM(model, rule, start="model", max_iter=6, tol=0.0, projection_tol=1e-9).fit(text)
    prior = model.log_prior()
    expected = -sum(enumerated_distance(model, sentence, least) for sentence in text) + prior
    assert learner.history_[0].objective == pytest.approx(expected, abs=1e-6)
    objective = learner.history_.objective
    assert all(b >= a - 1e-7 for a, b in pairwise(objective))  # L-BFGS: an exact M-step
    assert objective[-1] > objective[0] + 0.05


@pytest.mark.parametrize(
    "learner",
    [
        lambda model: UEM(model, [count("V") >= 1], max_iter=2, tol=0),
        lambda model: UEM(model, [count("V") >= 1], gamma=0.0, max_iter=2, tol=0),
        lambda model: UEM(model, [count("V") >= 1], gamma=0.5, beta=0.5, max_iter=2, tol=0, alpha=0.7),
        lambda model: CoDL(model, [(count("V") >= 1).learned()], max_iter=2, beta=None),
        lambda model: CoDL(model, [count("V") >= 1], max_iter=2, k_best=2),
    ],
    ids=["pr", "hard", "mixed", "codl", "codl with beta"],
)
def test_learners_train_a_network_as_any_model(learner, tmp_path):
    y = [*LABELS[:2], None, None, [None, "V"], None]
    fitted = learner(small()).fit(TEXT, y)
    assert fitted.predict([["the", "cat", "sleeps"]]) == [["D", "N", "V"]]
    fitted.save(tmp_path / "learner.trellis")
    again = load_model(tmp_path / "learner.trellis")
    assert again.predict(TEXT) == fitted.predict(TEXT)


def test_a_network_and_an_hmm_agree():
    views = MultiView([small(), HMM(NAMES, min_count=1, unknown=None)], max_iter=3, tol=0)
    views.fit([TEXT, TEXT], [*LABELS[:3], None, None, None])
    assert views.predict([TEXT, TEXT])[3] == ["D", "N", "V"]


def test_a_network_agrees_with_an_hmm_whose_transitions_depend_on_marks():
    """A linear network gives what the CRF gives, though it counts transitions by groups of sentences."""
    documents = [
        Document(
            tuple(s),
            None if own is None else tuple(own),
            {"mark": tuple("." if w == "a" else "" for w in s), "form": tuple(s)},
        )
        for s, own in zip(TEXT, [*LABELS[:3], None, [None, "V"], None], strict=True)
    ]
    text = corpus_of(documents, label_names=Vocabulary(NAMES, kind="label"))
    hmm = HMM(NAMES, min_count=1, unknown=None, back_off=1.0, after="mark")
    linear = NeuralCRF(OneHot(), NAMES, solver="lbfgs", l2=0.5, max_iter=200, tol=1e-12, batch_size=2)
    crf = CRF(NAMES, features=own_word, all_pairs=True, l2=0.5, max_iter=200, tol=1e-12)
    ours, theirs = (MultiView([one, hmm], max_iter=3, tol=0).fit([text, text]) for one in (linear, crf))
    for by in (0, 1):
        for mine, other in zip(*(views.predict_proba([text, text], by=by) for views in (ours, theirs)), strict=True):
            np.testing.assert_allclose(mine, other, atol=1e-4)


def own_word(sentence, at):
    return [sentence[at]["word"]]


def test_expectations_of_a_network_are_fitted_to_targets():
    """GE: a linear network gives what the CRF gives."""
    targets = [shares({"D": 0.9, "N": 0.05, "V": 0.05}, where=word == "the").penalty(10.0, "squared"),
               shares({"D": 0.05, "N": 0.9, "V": 0.05}, where=word == "dog").penalty(10.0, "squared")]  # fmt: skip
    ours = GE(NeuralCRF(OneHot(), NAMES, l2=0.1), targets).fit(TEXT)
    crf = GE(CRF(NAMES, all_pairs=True, l2=0.1), targets).fit(TEXT)
    for mine, theirs in zip(ours.predict_proba(TEXT), crf.predict_proba(TEXT), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=2e-3)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_predictions_of_none_one_and_two_sentences(n):
    model = small().fit(TEXT, LABELS)
    assert [len(labels) for labels in model.predict(TEXT[:n])] == [3] * n
    assert [q.shape for q in model.predict_proba(TEXT[:n])] == [(3, 3)] * n
    assert model.predict([[], ["dog"], []])[0] == []


def test_training_on_soft_and_on_empty_sentences():
    model = small(max_iter=2).fit([[], *TEXT, []], [[], *LABELS, []])
    assert model.predict([[]]) == [[]]


def test_same_seed_same_network():
    one, other, third = small().fit(TEXT, LABELS), small().fit(TEXT, LABELS), small(random_state=1).fit(TEXT, LABELS)
    for name, array in one.parameters().items():
        np.testing.assert_array_equal(array, other.parameters()[name])
    assert any(np.any(array != third.parameters()[name]) for name, array in one.parameters().items())


def test_fitting_leaves_the_given_module_as_it_was():
    module = OneHot()
    NeuralCRF(module, NAMES, max_iter=2).fit(TEXT, LABELS)
    assert not module.weight.detach().any()


def test_the_best_pass_on_dev_is_kept_and_patience_stops():
    model = small(max_iter=40, patience=2).fit(TEXT, LABELS, dev=(TEXT, LABELS))
    assert model.n_iter_ < 40
    assert model.score(TEXT, LABELS) == max(entry.dev for entry in model.history_)


def test_vectors_as_tokens_and_functions_of_a_batch():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(n, 4)) for n in (3, 1, 2)]
    y = [["A" if x[0] > 0 else "B" for x in sentence] for sentence in X]
    model = NeuralCRF(torch.nn.Linear(4, 2), max_iter=80, learning_rate=0.1).fit(X, y)
    assert model.predict(X) == y
    picked = NeuralCRF(torch.nn.Linear(1, 2), max_iter=80, learning_rate=0.1, inputs=first_column).fit(X, y)
    assert picked.predict(X) == y


def first_column(batch):
    return torch.from_numpy(batch.features[:, :1]).float()


def test_mistakes_are_told():
    with pytest.raises(UnknownNameError, match="unknown encoder 'bilsm'"):
        NeuralCRF("bilsm").fit(TEXT, LABELS)
    with pytest.raises(DataError, match=r"must give a score for each token and label, a tensor of shape \(15, 3\)"):
        NeuralCRF(OneHot(2)).fit(TEXT, LABELS)
    with pytest.raises(DataError, match="patience watches a development metric"):
        small(patience=3).fit(TEXT, LABELS)
    with pytest.raises(DataError, match="unknown solver"):
        small(solver="sgd").fit(TEXT, LABELS)
    with pytest.raises(DataError, match="device must be"):
        small(device="gpu").fit(TEXT, LABELS)
    if not torch.cuda.is_available():
        with pytest.raises(DataError, match="needs a GPU"):
            small(device="cuda").fit(TEXT, LABELS)
    with pytest.raises(DataError, match="all have the same length"):
        NeuralCRF(torch.nn.Linear(2, 2), ["A", "B"]).fit([[[1.0, 2.0], [1.0]]], [["A", "B"]])
