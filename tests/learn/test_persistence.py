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
from trellis.errors import ModelFileError
from trellis.learn import UEM, History
from trellis.models import HMM, load_model

from .corpora import LABELS, tagged_sentences

CONSTRAINTS = {
    "none": [],
    "local": [count("V") >= 1, count("N") <= 2.5],
    "coupling": [count("V").per("corpus") <= 0.2 * count().per("corpus"), few_labels_per(word, strength=2.0)],
}


def learner(kind: str, **settings: Any) -> UEM:
    model = HMM(LABELS, min_count=1, unknown=None, emission_prior=1.1, transition_prior=1.1)
    return UEM(model, CONSTRAINTS[kind], **{"tol": 0.0, "random_state": 0, "evaluations": 30, **settings})


def assert_same(one: UEM, other: UEM) -> None:
    for name, value in one.model.parameters().items():
        np.testing.assert_array_equal(value, other.model.parameters()[name])


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_resumed_equals_uninterrupted(kind: str, tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    whole = learner(kind, max_rounds=9).fit(text)
    path = tmp_path / "run.checkpoint"
    learner(kind, max_rounds=5, checkpoint=path, checkpoint_every=2).fit(text)
    resumed = learner(kind, max_rounds=9, checkpoint=path, checkpoint_every=2).fit(text, resume=True)
    assert_same(whole, resumed)
    assert resumed.history_.objective == whole.history_.objective


def test_restarts_resume_too(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    whole = learner("local", max_rounds=4, n_init=3).fit(text)
    path = tmp_path / "run.checkpoint"
    learner("local", max_rounds=4, n_init=3, checkpoint=path, checkpoint_every=1).fit(text)
    resumed = learner("local", max_rounds=4, n_init=3, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert_same(whole, resumed)


KILLED = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from learn.corpora import tagged_sentences
from learn.test_persistence import learner
text, _ = tagged_sentences(60)
made = learner("local", max_rounds=9, checkpoint={path!r}, checkpoint_every=1)
update = made.model.update
rounds = 0
def counting(*args, **kwargs):
    global rounds
    rounds += 1
    if rounds == 5:
        os.kill(os.getpid(), signal.SIGKILL)   # in the middle of a round: after its E-step, before its M-step ends
    return update(*args, **kwargs)
made.model.update = counting
made.fit(text)
"""


def test_killed_in_the_middle_of_a_round_and_resumed_equals_uninterrupted(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    path = tmp_path / "run.checkpoint"
    code = KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
    ended = subprocess.run([sys.executable, "-c", code], env=os.environ, capture_output=True, text=True)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    whole = learner("local", max_rounds=9).fit(text)
    resumed = learner("local", max_rounds=9, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert_same(whole, resumed)


def test_a_checkpoint_of_other_settings_is_refused(tmp_path: Path) -> None:
    text, _ = tagged_sentences(20)
    path = tmp_path / "run.checkpoint"
    learner("none", max_rounds=2, checkpoint=path).fit(text)
    with pytest.raises(ModelFileError, match="alpha"):
        learner("none", max_rounds=4, alpha=0.5, checkpoint=path).fit(text, resume=True)
    with pytest.raises(ModelFileError, match="instances"):
        learner("none", max_rounds=4, checkpoint=path).fit(text[:-1], resume=True)


@pytest.mark.parametrize("kind", list(CONSTRAINTS))
def test_one_and_four_threads_give_the_same_bits(kind: str) -> None:
    text, _ = tagged_sentences(1_500)  # a dozen shards
    one = learner(kind, max_rounds=2, threads=1, evaluations=4).fit(text)
    four = learner(kind, max_rounds=2, threads=4, evaluations=4).fit(text)
    assert_same(one, four)
    assert one.history_.objective == four.history_.objective


def test_saved_loaded_predicts_the_same_bits(tmp_path: Path) -> None:
    text, _ = tagged_sentences(60)
    made = learner("local", max_rounds=4).fit(text)
    made.model.save(tmp_path / "model.trellis")
    loaded = load_model(tmp_path / "model.trellis")
    assert loaded.predict(text) == made.predict(text)
    for p, q in zip(loaded.predict_proba(text), made.predict_proba(text), strict=True):
        np.testing.assert_array_equal(p, q)
    again = UEM(loaded, CONSTRAINTS["local"], start="model", max_rounds=1, evaluations=30, tol=0.0)
    for p, q in zip(
        again.predict_proba(text, constrained=True), made.predict_proba(text, constrained=True), strict=True
    ):
        np.testing.assert_array_equal(p, q)


def test_history_survives_its_file(tmp_path: Path) -> None:
    text, _ = tagged_sentences(20)
    made = learner("local", max_rounds=3).fit(text)
    made.history_.save(tmp_path / "history.jsonl")
    assert list(History.load(tmp_path / "history.jsonl")) == list(made.history_)


def test_interrupt_leaves_a_checkpoint_to_go_on_from(tmp_path: Path) -> None:
    path = tmp_path / "run.checkpoint"
    code = (
        KILLED.format(tests=str(Path(__file__).parents[1]), path=str(path))
        .replace("rounds == 5", "False")
        .replace("max_rounds=9", "max_rounds=100_000")
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
    resumed = learner("local", max_rounds=1, checkpoint=path, checkpoint_every=1).fit(text, resume=True)
    assert len(resumed.history_) >= 1
    assert [p.name for p in tmp_path.iterdir()] == ["run.checkpoint"]
