"""Settings and words that cannot be are refused by our errors, before anything is learned or lost."""

from __future__ import annotations

import numpy as np
import pytest

from tests.hostile.command import run
from trellis.apps.extract.extractor import Extractor
from trellis.apps.induce.inducer import Inducer
from trellis.constraints import count
from trellis.data.tokens import tokenise
from trellis.errors import DataError, TrellisError
from trellis.learn import CCM, UEM, CoDL, tune
from trellis.learn.margin import JLIS, MIRA, SSVM
from trellis.models import CRF, HMM, MaxEnt, NaiveBayes, load_model

TEXT, TAGS = [["a", "b"], ["b", "a", "a"]], [["X", "Y"], ["Y", "X", "X"]]
RULES = 'labels = ["X", "Y"]\n[[rule]]\ncount = "X"\nat_least = 1\npenalty = 1\n'
NAN = float("nan")


def hmm(**settings):
    return HMM(**{"labels": ["X", "Y"], "min_count": 1, "unknown": None, "emission_prior": 1.1, **settings})


FITS = {
    "UEM": lambda **s: UEM(hmm(), [count("X") >= 1], start="random", **{"max_iter": 1, **s}).fit(TEXT),
    "CoDL": lambda **s: CoDL(hmm(), [count("X") >= 1], **{"max_iter": 1, **s}).fit(TEXT),
    "CCM": lambda **s: CCM(hmm(), [count("X") >= 1], **{"max_iter": 1, **s}).fit(TEXT),
    "Inducer": lambda **s: Inducer(**{"labels": 2, "max_iter": 2, "em_iter": 1, "frequent": 1, **s}).fit(TEXT),
    "Extractor": lambda **s: Extractor(RULES, **s).fit([], unlabelled=[tokenise("a b")]),
    "SSVM": lambda **s: SSVM(CRF(), **s).fit(TEXT, TAGS),
    "MIRA": lambda **s: MIRA(CRF(), **s).fit(TEXT, TAGS),
    "JLIS": lambda **s: JLIS(CRF(), **s).fit(TEXT, TAGS),
    "HMM": lambda **s: hmm(**s).fit(TEXT, TAGS),
    "CRF": lambda **s: CRF(**s).fit(TEXT, TAGS),
    "MaxEnt": lambda **s: MaxEnt(**s).fit(np.eye(2), ["a", "b"]),
}
NO_COUNT = [0, -1, 1.5, "3", NAN, True, 10**30]
NO_SEED = [-1, 1.5, "x"]
NO_AMOUNT = [-1.0, "x", NAN]
WRONG = {
    "SSVM": {
        "C": [0.0, *NO_AMOUNT], "tol": NO_AMOUNT, "max_iter": NO_COUNT, "loss": ["log", None], "beam": NO_COUNT,
        "method": ["sgd", 3], "random_state": NO_SEED, "checkpoint_every": NO_COUNT, "n_jobs": [0, -2, "2"],
    },
    "MIRA": {"k_best": NO_COUNT, "C": [0.0, *NO_AMOUNT], "max_iter": NO_COUNT},
    "JLIS": {
        "C": [0.0, *NO_AMOUNT], "C_binary": [0.0, *NO_AMOUNT], "n_init": [2, *NO_COUNT], "start": ["zero"],
        "inner_tol": NO_AMOUNT, "inner_iter": NO_COUNT, "tol": NO_AMOUNT,
    },
    "UEM": {
        "checkpoint_every": NO_COUNT, "max_iter": NO_COUNT, "n_init": NO_COUNT, "max_evaluations": NO_COUNT,
        "online": NO_COUNT, "few_dual_steps": NO_COUNT, "patience": NO_COUNT, "random_state": NO_SEED,
        "projection_tol": [0, *NO_AMOUNT], "tol": NO_AMOUNT, "start_scale": NO_AMOUNT, "alpha": [1.5, *NO_AMOUNT],
        "beta": [1.5, *NO_AMOUNT], "gamma": NO_AMOUNT, "n_jobs": [0, -2, 1.5, "2", True],
    },
    "CoDL": {
        "max_iter": [-1, 1.5, "3"], "k_best": NO_COUNT, "beam": NO_COUNT, "random_state": NO_SEED, "beta": NO_AMOUNT,
        "smoothing": NO_AMOUNT, "start_scale": NO_AMOUNT,
    },
    "CCM": {
        "random_state": NO_SEED, "projection_tol": [0, *NO_AMOUNT], "max_evaluations": NO_COUNT, "smoothing": NO_AMOUNT,
    },
    "Inducer": {
        "labels": [0, 1.5, "12"], "max_iter": NO_COUNT, "em_iter": [-1, 0.5], "frequent": NO_COUNT,
        "dual_steps": NO_COUNT, "random_state": NO_SEED, "strength": NO_AMOUNT, "gamma": NO_AMOUNT,
        "smoothing": NO_AMOUNT, "min_count": NO_COUNT, "start_scale": NO_AMOUNT,
    },
    "Extractor": {
        "random_state": NO_SEED, "beam": [*NO_COUNT, 10**9], "max_iter": [-1, 1.5], "k_best": NO_COUNT,
        "min_count": NO_COUNT, "smoothing": NO_AMOUNT, "beta": [2.0, *NO_AMOUNT],
    },
    "HMM": {
        "min_count": NO_COUNT, "tag_dictionary": [[1], {"a": 1}, {"a": [1]}], "unknown": [3], "labels": [[1, 2], "XY"],
    },
    "CRF": {
        "min_count": NO_COUNT, "max_iter": NO_COUNT, "batch_size": NO_COUNT, "tol": NO_AMOUNT, "random_state": NO_SEED,
        "learning_rate": [0, *NO_AMOUNT], "l2": NO_AMOUNT,
    },
    "MaxEnt": {"max_iter": NO_COUNT, "random_state": NO_SEED, "tol": NO_AMOUNT},
}  # fmt: skip
CASES = [(kind, name, value) for kind, own in WRONG.items() for name, values in own.items() for value in values]


@pytest.mark.slow
@pytest.mark.parametrize("kind, name, value", CASES)
def test_settings_that_cannot_be_are_refused_by_name(kind, name, value, tmp_path):
    more = {"checkpoint": tmp_path / "c"} if name == "checkpoint_every" else {}
    said = {"gamma": "γ|gamma", "labels": "label", "tag_dictionary": "dictionary|label", "unknown": "unknown"}.get(
        name, name
    )
    with pytest.raises(TrellisError, match=said):
        FITS[kind](**{name: value}, **more)


@pytest.mark.parametrize("kind", FITS)
def test_settings_as_they_are_meant_pass(kind):
    FITS[kind]()


def test_random_states_elsewhere_are_refused_too():
    with pytest.raises(DataError, match="random_state"):
        hmm().fit(TEXT, TAGS).sample([2], random_state=-1)
    with pytest.raises(DataError, match="random_state"):
        tune(UEM(hmm(), [count("X") >= 1], max_iter=1), TEXT * 5, gammas=[1.0], random_state=-1)


@pytest.mark.parametrize("command", ["train", "induce"])
def test_a_seed_below_zero_is_told_as_a_mistake_of_the_command_line(command, tmp_path, capfd):
    (tmp_path / "rules.toml").write_text(RULES)
    (tmp_path / "text").write_text("a b\nb a\n")
    files = ("rules.toml", "-u", "text", "--save", "m") if command == "train" else ("text", "-o", "out")
    given = [str(tmp_path / f) if not f.startswith("-") else f for f in files]
    assert run(command, *given, "--seed", -1, "-q") == 2
    assert "--seed" in capfd.readouterr().err


WORDS = {
    "numbers": [[1, 2], [2, 1, 1]],
    "bytes": [[b"a", b"b"], [b"a"] * 3],
    "None": [["a", None], ["a"] * 3],
    "tuples": [[("a", 1), ("b", 2)], [("a", 1)] * 3],
    "lists": [[[1], [2]], [[1]] * 3],
}


@pytest.mark.parametrize("words", WORDS)
@pytest.mark.parametrize("model", [HMM(min_count=1), CRF()])
def test_words_that_a_file_could_not_hold_are_refused_when_they_come(model, words):
    with pytest.raises(DataError, match="string|word|names"):
        model.fit(WORDS[words], TAGS)


@pytest.mark.parametrize("label", [1, b"1", True, ("a",)])
@pytest.mark.parametrize("model", [HMM(min_count=1), CRF()])
def test_labels_of_taggers_are_strings(model, label):
    with pytest.raises(DataError, match="string"):
        model.fit(TEXT, [[label, label], [label] * 3])


@pytest.mark.parametrize("model", [MaxEnt(), NaiveBayes()])
@pytest.mark.parametrize(
    "labels",
    [[b"a", b"b"], np.array(["2020-01-01", "2020-01-02"], "M8[D]"), np.array([1, 2], "m8[s]"), [("a",), ("b",)]],
    ids=["bytes", "dates", "times", "tuples"],
)  # fmt: skip
def test_labels_of_classifiers_that_a_file_could_not_hold_are_refused(model, labels):
    given = np.empty(2, object)
    given[:] = labels if isinstance(labels, list) else labels.tolist()
    for y in (labels, given) if not isinstance(labels[0], tuple) else (given,):
        with pytest.raises(DataError, match="labels are text, truth values or numbers"):
            model.fit(np.eye(2), y)


@pytest.mark.parametrize("model", [MaxEnt(), NaiveBayes()])
@pytest.mark.parametrize(
    "labels", [["", "b"], [True, False], [2**70, 1], np.array([1, 2], np.float16), [3, 1]], ids=str
)
def test_labels_that_are_accepted_survive_their_file(model, labels, tmp_path):
    model.fit(np.eye(2), labels).save(tmp_path / "m")
    found = load_model(tmp_path / "m").predict(np.eye(2))
    np.testing.assert_array_equal(found, model.predict(np.eye(2)))
    assert found.dtype == model.predict(np.eye(2)).dtype


def test_arguments_that_a_file_could_not_hold_are_named(tmp_path):
    with pytest.raises(DataError, match="ends must be True or False, got 'yes'"):
        CRF(max_iter=5, tol=1.0, ends="yes").fit(TEXT, TAGS)
    model = CRF(max_iter=5, tol=1.0).fit(TEXT, TAGS).set_params(ends="yes")
    with pytest.raises(DataError, match="argument 'ends' must be bool, but is 'yes'"):
        model.save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
