"""Save, load, predict: the same bits. Killed and resumed: the same bits. One thread or four: the same bits."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from trellis.constraints import count, few_labels_per, word
from trellis.errors import DataError, ModelFileError
from trellis.learn import UEM, History
from trellis.models import HMM, load_model

from .corpora import LABELS, tagged_sentences

pytestmark = pytest.mark.slow

CONSTRAINTS = {
    "none": [],
    "local": [count("V") >= 1, count("N") <= 2.5],
    "coupling": [count("V").per("corpus") <= 0.2 * count().per("corpus"), few_labels_per(word, strength=2.0)],
}


def learner(kind: str, **settings: Any) -> UEM:
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    return UEM(model, CONSTRAINTS[kind], **{"tol": 0.0, "random_state": 0, "max_evaluations": 30, **settings})


def assert_same(one: UEM, other: UEM) -> None:
    for name, value in one.model_.parameters().items():
        np.testing.assert_array_equal(value, other.model_.parameters()[name])


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_resumed_equals_uninterrupted(kind: str, tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    whole = learner(kind, max_iter=9).fit(text)
    path = tmp_path / "run.checkpoint"
    learner(kind, max_iter=5, checkpoint=path, checkpoint_every=2).fit(text)
    resumed = learner(kind, max_iter=9, checkpoint=path, checkpoint_every=2).fit(text, resume=True)
    assert_same(whole, resumed)
    assert resumed.history_.objective == whole.history_.objective


def test_restarts_resume_too(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    whole = learner("local", max_iter=4, n_init=3).fit(text)
    path = tmp_path / "run.checkpoint"
    learner("local", max_iter=4, n_init=3, checkpoint=path, checkpoint_every=1).fit(text)
    resumed = learner("local", max_iter=4, n_init=3, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert_same(whole, resumed)


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from learn.corpora import tagged_sentences
from learn.test_persistence import learner
text, _ = tagged_sentences(60)
made = learner("local", max_iter=9, checkpoint={path!r}, checkpoint_every=1)
update = type(made.model).update
rounds = 0
def counting(*args, **kwargs):
    global rounds
    rounds += 1
    if rounds == 5:
        os.kill(os.getpid(), signal.SIGKILL)   # in the middle of a round: after its E-step, before its M-step ends
    return update(*args, **kwargs)
type(made.model).update = counting
made.fit(text)
"""


def test_killed_in_the_middle_of_a_round_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    path = tmp_path / "run.checkpoint"
    code = KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
    ended = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    whole = learner("local", max_iter=9).fit(text)
    resumed = learner("local", max_iter=9, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert_same(whole, resumed)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    text, _ = tagged_sentences(20)
    path = tmp_path / "run.checkpoint"
    learner("none", max_iter=2, checkpoint=path).fit(text)
    with pytest.raises(ModelFileError, match="alpha"):
        learner("none", max_iter=4, alpha=0.5, checkpoint=path).fit(text, resume=True)
    with pytest.raises(ModelFileError, match="data"):
        learner("none", max_iter=4, checkpoint=path).fit(text[:-1], resume=True)


LOCAL = [count("V") >= 1, count("N") <= 2.5]
OTHERS: dict[str, Any] = {
    "another bound": {"constraints": [count("V") >= 0.9, count("N") <= 2.5]},
    "a constraint more": {"constraints": [*LOCAL, count("D") <= 5]},
    "a constraint less": {"constraints": LOCAL[:1]},
    "another strength": {"constraints": [LOCAL[0].penalty(3.0), LOCAL[1]]},
    "another gamma": {"gamma": 0.5},
    "another schedule": {"gamma": [1.0, 1.0, 0.5]},
    "other weights": {"weights": True},
    "other text of the same size": {"text": True},
    "another label": {"y": True},
    "another prior": {"prior": 1.2},
}


@pytest.mark.parametrize("what", OTHERS)
def test_any_other_content_is_refused(what: str, tmp_path: Path) -> None:
    text, _ = tagged_sentences(20)
    labels: list[Any] = [[LABELS[0], *[None] * (len(text[0]) - 1)], *[None] * 19]

    def fit(change: dict[str, Any], **more: Any) -> UEM:
        prior = change.get("prior", 1.1)
        model = HMM(LABELS, min_count=1, unknown=None, emission_prior=prior, transition_prior=1.1)
        made = UEM(
            model, change.get("constraints", LOCAL), gamma=change.get("gamma", 1.0), tol=0.0, random_state=0,
            checkpoint=tmp_path / "run.checkpoint", start="random", **more,
        )  # fmt: skip
        words = [list(reversed(text[0])), *text[1:]] if "text" in change else text
        known = [[LABELS[1], *labels[0][1:]], *labels[1:]] if "y" in change else labels
        weights = np.r_[2.0, np.ones(19)] if "weights" in change else None
        return made.fit(words, known, sample_weight=weights, resume=more["max_iter"] > 2)

    fit({}, max_iter=2)
    with pytest.raises(ModelFileError, match="was written by a run with different"):
        fit(OTHERS[what], max_iter=3)
    assert len(fit({}, max_iter=3).history_) == 3


def test_a_run_that_began_with_another_model_is_not_gone_on_with(tmp_path: Path) -> None:
    text, labels = tagged_sentences(10)
    other = [list(reversed(own)) for own in labels]

    def fit(known: Any, rounds: int) -> UEM:
        model = HMM(LABELS, min_count=1, unknown=None).fit(text, known)
        settings = {"start": "model", "tol": 0.0, "checkpoint": tmp_path / "run", "checkpoint_every": 1}
        return UEM(model, LOCAL, max_iter=rounds, **settings).fit(text, resume=rounds > 2)

    fit(labels, 2)
    with pytest.raises(ModelFileError, match="parameters to start from"):
        fit(other, 3)
    assert len(fit(labels, 3).history_) == 3


def test_stepwise_learning_resumes_to_the_same_bits(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    whole = learner("local", max_iter=6, online=10).fit(text)
    path = tmp_path / "run.checkpoint"
    learner("local", max_iter=3, online=10, checkpoint=path, checkpoint_every=1).fit(text)
    resumed = learner("local", max_iter=6, online=10, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert_same(whole, resumed)


def test_resuming_without_a_checkpoint_says_what_is_missing() -> None:
    with pytest.raises(DataError, match="checkpoint=path"):
        learner("none", max_iter=1).fit([["a"]], resume=True)


FEATURES = """
import sys
sys.path.insert(0, {tests!r})
from trellis.learn import UEM
from trellis.models import CRF
from trellis.constraints import count
def features(words, t):
    return {{"word=" + words[t]: 1.0, "first": float(t == 0)}}
text = [["a", "b"], ["b", "c", "a"], ["c"]]
labels = [["N", "V"], None, None]
made = UEM(CRF(["N", "V"], features=features, max_iter=5), [count("V") <= 1.5], max_iter={limit}, tol=0.0,
           checkpoint={path!r}, checkpoint_every=1).fit(text, labels, resume={limit} > 2)
print(len(made.history_))
"""


def test_a_feature_function_does_not_stand_in_the_way_of_another_process(tmp_path: Path) -> None:
    for rounds in (2, 4):
        code = FEATURES.format(
            tests=str(Path(__file__).parents[1]), path=str(tmp_path / "run.checkpoint"), limit=rounds
        )
        ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert ended.stdout.strip() == str(rounds), ended.stderr


@pytest.mark.filterwarnings("ignore:the projection was not solved")  # four evaluations are few on purpose
@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_one_and_four_threads_give_the_same_bits(kind: str) -> None:
    text, _ = tagged_sentences(1_500)  # a dozen shards
    one = learner(kind, max_iter=2, n_jobs=1, max_evaluations=4).fit(text)
    four = learner(kind, max_iter=2, n_jobs=4, max_evaluations=4).fit(text)
    assert_same(one, four)
    assert one.history_.objective == four.history_.objective


def test_saved_loaded_predicts_the_same_bits(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    made = learner("local", max_iter=4).fit(text)
    made.model_.save(tmp_path / "model.trellis")
    loaded = load_model(tmp_path / "model.trellis")
    assert loaded.predict(text) == made.predict(text, constrained=False)
    plain = made.predict_proba(text, constrained=False)
    for p, q in zip(loaded.predict_proba(text), plain, strict=True):
        np.testing.assert_array_equal(p, q)
    again = UEM(loaded, CONSTRAINTS["local"], start="model", max_iter=1, max_evaluations=30, tol=0.0)
    again.model_ = loaded
    for p, q in zip(
        again.predict_proba(text, constrained=True), made.predict_proba(text, constrained=True), strict=True
    ):
        np.testing.assert_array_equal(p, q)


def test_history_survives_its_file(tmp_path: Path) -> None:
    text, _ = tagged_sentences(20)
    made = learner("local", max_iter=3).fit(text)
    made.history_.save(tmp_path / "history.jsonl")
    assert list(History.load(tmp_path / "history.jsonl")) == list(made.history_)


def test_interrupt_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    code = (
        KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
        .replace("rounds == 5", "False")
        .replace("max_iter=9", "max_iter=100_000")
    )
    # A shell starts what it puts into the background with this signal ignored, and children inherit that.
    code = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n" + code
    process = subprocess.Popen([sys.executable, "-c", code], stderr=subprocess.PIPE)
    deadline = time.monotonic() + 60
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode != 0
    assert b"KeyboardInterrupt" in error
    text, _ = tagged_sentences(60)
    resumed = learner("local", max_iter=1, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert len(resumed.history_) >= 1
    assert [p.name for p in tmp_path.iterdir()] == ["run.checkpoint"]
