"""NeuralParts: networks over segments, word alignments, trees and a structure that the library does not know."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from tests.structures.subsets import SubsetParts  # noqa: E402
from trellis.constraints import backward, count, forward, trusted  # noqa: E402
from trellis.data.batch import Batch  # noqa: E402
from trellis.data.vocabulary import Vocabulary  # noqa: E402
from trellis.errors import DataError  # noqa: E402
from trellis.learn import UEM, CoDL  # noqa: E402
from trellis.models import CRF, SemiCRF, load_model  # noqa: E402
from trellis.models.alignment.model import AlignmentModel  # noqa: E402
from trellis.neural import NeuralParts  # noqa: E402

from .test_crf import LABELS, NAMES, TEXT, WORDS  # noqa: E402

PEOPLE = [["ann", "lee", "bob", "ran"], ["bob", "ann", "ran"], ["ann", "lee", "ran"]]
SPANS = [["P", "P", "B-P", "O"], ["P", "B-P", "O"], ["P", "P", "O"]]


class SegmentScores(torch.nn.Module):
    """Scores of words by label, of words that begin a segment beside another one, and of lengths."""

    def __init__(self):
        super().__init__()
        self.known = sorted({w for s in PEOPLE for w in s})
        self.word = torch.nn.Parameter(torch.zeros(len(self.known), 2, dtype=torch.float64))
        self.again = torch.nn.Parameter(torch.zeros(len(self.known), 2, dtype=torch.float64))
        self.length = torch.nn.Parameter(torch.zeros(3, 2, dtype=torch.float64))

    def forward(self, batch, parts):
        words = [self.known.index(w) for w in batch.column("word").strings()]
        slots, lengths, labels = np.ogrid[: batch.n_slots, 1:4, :2]
        numbers = [parts.grid(), parts.again(slots[..., 0], labels[0]), parts.segment(slots, lengths, labels)]
        values = [self.word[words], self.again[words], self.length.expand(batch.n_slots, 3, 2)]
        return np.concatenate([one.ravel() for one in numbers]), torch.cat([one.reshape(-1) for one in values])


def segments(**settings):
    given = {"solver": "lbfgs", "l2": 0.05, "max_iter": 200, "tol": 1e-13, **settings}
    return NeuralParts(SegmentScores(), SemiCRF(["P", "O"], longest=3), **given)


def test_segments_are_learned_and_kept_in_a_file(tmp_path):
    model = segments().fit(PEOPLE, SPANS)
    assert model.predict(PEOPLE) == SPANS
    assert model.score(PEOPLE, SPANS) == 1.0
    assert model.infer(model.encode(PEOPLE)).labels == SPANS
    assert [q.shape for q in model.predict_proba(PEOPLE)] == [(4, 2), (3, 2), (3, 2)]
    model.save(tmp_path / "m")
    again = load_model(tmp_path / "m", module=SegmentScores())
    assert again.predict(PEOPLE) == SPANS
    np.testing.assert_array_equal(again.predict_proba(PEOPLE)[0], model.predict_proba(PEOPLE)[0])


def test_mini_batch_steps_reach_the_same_optimum():
    exact = segments().fit(PEOPLE, SPANS)
    steps = segments(solver="adamw", weight_decay=0.0, learning_rate=0.1, max_iter=600)
    steps = steps.fit(PEOPLE, SPANS)

    def value(model):
        batch = model.encode(PEOPLE, SPANS)
        return model.scores(batch).log_prob(batch.outputs).sum() + model.log_prior()

    assert value(steps) == pytest.approx(value(exact), abs=1e-3)


@pytest.mark.parametrize("n", [0, 1, 2])
def test_segments_of_none_one_and_two_sentences(n):
    assert [len(found) for found in segments().fit(PEOPLE, SPANS).predict(PEOPLE[:n])] == [4, 3][:n]


@pytest.mark.parametrize("learner", [UEM, CoDL])
def test_segments_are_learned_under_rules(learner):
    """No label is known of the last sentence but that it has two people's words at least."""
    settings = {"tol": 0} if learner is UEM else {"beta": None}
    made = learner(segments(), [count("P") >= 2], max_iter=3, **settings)
    found = made.fit(PEOPLE, [SPANS[0], [None, "B-P", None], None]).predict(PEOPLE)
    assert found[0] == SPANS[0]
    assert all(sum(label != "O" for label in own) >= 2 for own in found)


class WordScores(torch.nn.Module):
    """Scores of labels alone, at the parts of a chain: the features of a plain CRF, and transitions."""

    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(len(WORDS), 3, dtype=torch.float64))
        self.edge = torch.nn.Parameter(torch.zeros(3, 3, dtype=torch.float64))

    def forward(self, batch, parts):
        words = [WORDS.index(w) for w in batch.column("word").strings()]
        grid = parts.grid()
        moves = parts.transition_grid()
        numbers = np.concatenate([grid.ravel(), moves.ravel()])
        return numbers, torch.cat([self.weight[words].reshape(-1), self.edge.expand(moves.shape).reshape(-1)])


def test_over_chains_it_is_the_crf():
    crf = CRF(NAMES, all_pairs=True, l2=0.5, tol=1e-13, ends=False).fit(TEXT, LABELS)
    ours = NeuralParts(WordScores(), CRF(NAMES, ends=False), solver="lbfgs", l2=0.5, max_iter=500, tol=1e-13)
    ours.fit(TEXT, LABELS)
    for mine, theirs in zip(ours.predict_proba(TEXT), crf.predict_proba(TEXT), strict=True):
        np.testing.assert_allclose(mine, theirs, atol=1e-4)


class LinkScores(torch.nn.Module):
    """A score for every two words."""

    def __init__(self):
        super().__init__()
        self.pair = torch.nn.Parameter(torch.zeros(5, 5, dtype=torch.float64))
        self.null = torch.nn.Parameter(torch.zeros(2, dtype=torch.float64))

    def forward(self, batch, parts):
        numbers, values = [], []
        for side, null in enumerate(self.null):
            own, first = parts.member(side)
            part, source, target = own.linked_words()
            numbers += [part + first, own.null(np.arange(own.n_observed)) + first]
            values += [self.pair[batch.source[source], batch.target[target]], null.expand(own.n_observed)]
        return np.concatenate(numbers), torch.cat(values)


PAIRS = [("a b", "x y"), ("b c", "y z"), ("c a", "x z"), ("c", "z"), ("", "x")]
LIKE = AlignmentModel("model1", prefix=None)


def test_alignments_agree_and_obey_links_that_are_known():
    network = NeuralParts(LinkScores(), LIKE, learning_rate=0.05, l2=0.01, weight_decay=0.0, max_iter=60)
    known = trusted(links=[[(0, 0)], [], [], [(0, 0)], []], at_least=1.0)
    made = UEM(network, [forward.links == backward.links, known], max_iter=3, tol=0).fit(PAIRS)
    found = made.model_.predict(PAIRS)
    assert [[own.tolist() for own in directions] for directions in found[:4]] == [
        [[0, 1], [0, 1]], [[0, 1], [0, 1]], [[1, 0], [1, 0]], [[0], [0]],
    ]  # fmt: skip
    assert [len(q) for q in made.model_.predict_proba(PAIRS[:2])] == [12, 12]  # links and null links of both directions


class OwnSubsets:
    """A model of a structure that the library does not know: subsets of numbers, of a size that is given."""

    label_names_ = Vocabulary([], kind="label")
    outputs_are = "subsets"

    def encode(self, X, y=None, weights=None, fit=False):
        offsets = np.cumsum([0, *map(len, X)])
        labels = np.full(offsets[-1], -1) if y is None else np.array([int(v) for own in y for v in own])
        flat = np.array([x for own in X for x in own], float)[:, None]
        return OwnBatch(offsets, labels, np.ones(len(X)) if weights is None else weights, features=flat)

    def parts(self, batch):
        return SubsetParts(batch.offsets, np.full(len(batch), 1), np.full(len(batch), 2))


class OwnBatch(Batch):
    @property
    def outputs(self):
        return self.labels > 0


class Slope(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.slope = torch.nn.Parameter(torch.zeros(1, dtype=torch.float64))

    def forward(self, batch, parts):
        return torch.from_numpy(batch.features[:, 0]) * self.slope


def test_a_structure_of_ones_own_is_learned():
    X, y = [[1.0, -1.0, 2.0], [0.5, -2.0], [3.0]], [[True, False, True], [True, False], [True]]
    model = NeuralParts(Slope(), OwnSubsets(), solver="lbfgs", l2=0.1).fit(X, y)
    assert [own.tolist() for own in model.predict([[2.0, -1.0, 1.0], [-1.0]])] == [[True, False, True], [True]]
    assert [len(q) for q in model.predict_proba(X)] == [3, 2, 1]
    with pytest.raises(DataError, match="cannot hold a OwnSubsets"):
        model.save("nowhere")


class Few(Slope):
    def forward(self, batch, parts):
        return self.slope


def test_mistakes_are_told():
    with pytest.raises(DataError, match="like must be a model"):
        NeuralParts(SegmentScores(), "SemiCRF").fit(PEOPLE, SPANS)
    with pytest.raises(DataError, match="use a torch.nn.Module to score parts"):
        NeuralParts("bilstm", SemiCRF(["P", "O"])).fit(PEOPLE, SPANS)
    with pytest.raises(DataError, match="a score for each part"):
        NeuralParts(Few(), SemiCRF(["P", "O"])).fit(PEOPLE, SPANS)
    with pytest.raises(DataError, match="no instance is fully labelled"):
        segments().fit(PEOPLE, [None, None, None])
