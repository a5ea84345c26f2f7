"""Large-margin learners in the one loop: engines, checkpoints, interruption, files, scikit-learn's habits."""

from __future__ import annotations

import numpy as np
import pytest
from engine.isolating import IsolatingEngine

from trellis import load_model
from trellis.constraints import count
from trellis.engine import ThreadEngine
from trellis.errors import ModelFileError
from trellis.learn.margin import JLIS, LCLR, MIRA, SSVM, LatentSSVM, Perceptron, shuffled
from trellis.loop import Loop
from trellis.models import CRF

from ..corpora import LABELS, tagged_sentences

TEXT, TAGS = tagged_sentences(24, seed=3)
BAD = shuffled(TEXT, random_state=0)
ASKED = (TEXT + BAD, [1] * len(TEXT) + [-1] * len(BAD))
SOME = [[t if (i + j) % 4 else None for j, t in enumerate(tags)] for i, tags in enumerate(TAGS)]
RULES = [(count("V") >= 1).penalty(0.5)]


def crf() -> CRF:
    return CRF(LABELS)


class Bounded(CRF):
    """A CRF whose weights are never negative."""

    def weight_bounds(self):
        return np.zeros(len(self.weights_)), np.full(len(self.weights_), np.inf)


LEARNERS = {
    "perceptron": lambda **s: (Perceptron(crf(), max_iter=4, **s), (TEXT, TAGS), {}),
    "mira": lambda **s: (MIRA(crf(), k_best=2, C=0.1, max_iter=3, **s), (TEXT, TAGS), {}),
    "ssvm": lambda **s: (SSVM(crf(), RULES, tol=1e-4, max_iter=8, **s), (TEXT, TAGS), {}),
    "subgradient": lambda **s: (SSVM(crf(), method="subgradient", max_iter=4, **s), (TEXT, TAGS), {}),
    "exponentiated": lambda **s: (
        SSVM(crf(), method="exponentiated-gradient", loss="hinge", tol=1e-4, max_iter=6, **s), (TEXT, TAGS), {},
    ),
    "latent": lambda **s: (LatentSSVM(crf(), max_iter=5, tol=0.0, **s), (TEXT, SOME), {}),
    "lclr": lambda **s: (LCLR(crf(), random_ties=True, n_init=2, max_iter=3, tol=0.0, **s), ASKED, {}),
    "bounded": lambda **s: (JLIS(Bounded(LABELS), max_iter=3, tol=0.0, **s), (TEXT[:6], TAGS[:6]), {"binary": ASKED}),
    "jlis": lambda **s: (
        JLIS(crf(), RULES, max_iter=4, tol=0.0, inner_iter=5, **s), (TEXT[:6], TAGS[:6]), {"binary": ASKED},
    ),
}  # fmt: skip
pytestmark = pytest.mark.filterwarnings("ignore:stopped after max_iter")


def trained(name: str, **settings):
    learner, data, more = LEARNERS[name](**settings)
    return learner.fit(*data, **more)


def bits(learner):
    return learner.model_.weights_.tobytes(), learner.bias_, learner.history_.objective


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ssvm", "latent", "lclr", "jlis"])
def test_any_engine_gives_the_bits_of_one_thread(name):
    alone = bits(trained(name))
    assert bits(trained(name, engine=IsolatingEngine())) == alone
    assert bits(trained(name, engine=ThreadEngine(3))) == alone


@pytest.mark.slow
@pytest.mark.parametrize("name", LEARNERS)
def test_a_run_that_was_interrupted_goes_on_to_the_same_bits(name, tmp_path, monkeypatch):
    whole = bits(trained(name, checkpoint=tmp_path / "whole", checkpoint_every=1))
    rounds, update = {"n": 0}, Loop._update

    def interrupted(self, *arguments, **more):
        rounds["n"] += 1
        if rounds["n"] == 2:
            raise KeyboardInterrupt
        return update(self, *arguments, **more)

    monkeypatch.setattr(Loop, "_update", interrupted)
    with pytest.raises(KeyboardInterrupt):
        trained(name, checkpoint=tmp_path / "cut", checkpoint_every=1)
    monkeypatch.setattr(Loop, "_update", update)
    learner, data, more = LEARNERS[name](checkpoint=tmp_path / "cut", checkpoint_every=1)
    assert bits(learner.fit(*data, **more, resume=True)) == whole


def test_a_checkpoint_of_other_settings_is_refused(tmp_path):
    trained("ssvm", checkpoint=tmp_path / "run")
    learner, data, _ = LEARNERS["ssvm"](checkpoint=tmp_path / "run")
    with pytest.raises(ModelFileError, match="different C"):
        learner.set_params(C=0.3).fit(*data, resume=True)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in LEARNERS if name != "bounded"])
def test_a_file_predicts_the_same(name, tmp_path):
    learner = trained(name)
    learner.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert type(again) is type(learner)
    assert list(again.predict(TEXT)) == list(learner.predict(TEXT))
    assert again.decision_function(TEXT).tobytes() == learner.decision_function(TEXT).tobytes()
    assert again.history_.objective == learner.history_.objective


def test_a_development_set_decides_which_round_is_kept():
    learner = Perceptron(crf(), max_iter=5).fit(TEXT[:20], TAGS[:20], dev=(TEXT[20:], TAGS[20:]))
    best = max(entry.dev for entry in learner.history_)
    assert learner.score(TEXT[20:], TAGS[20:]) == best


def test_the_habits_of_scikit_learn():
    from sklearn.base import clone
    from sklearn.model_selection import GridSearchCV

    learner = SSVM(CRF(), C=0.7)
    twin = clone(learner)
    assert twin.C == 0.7
    assert not hasattr(twin, "model_")
    search = GridSearchCV(SSVM(CRF(), max_iter=20), {"C": [1e-6, 0.1]}, cv=2).fit(TEXT, TAGS)
    assert search.best_params_ == {"C": 0.1}
    assert repr(LCLR(CRF(), C=3.0)) == "LCLR(model=CRF(), C=3.0)"
