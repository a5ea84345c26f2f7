"""A setting of the inducer that would have no effect is refused, and none is replaced by another."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from typer.testing import CliRunner

from trellis.apps.induce.inducer import Inducer
from trellis.cli.app import app
from trellis.errors import DataError
from trellis.learn import UEM
from trellis.models import HMM

from .toy import sentences

TEXT, _ = sentences(60)


def test_a_short_run_by_a_table_has_rounds_of_sparsity():
    """The 30 rounds before it were all of a run of 20."""
    settings = {"emissions": "table", "frequent": 5, "max_iter": 20, "random_state": 0}
    plain, sparse = (Inducer(4, method=method, **settings).fit(TEXT) for method in ("em", "sparse"))
    assert len(sparse.history_) == 20
    assert sparse.labels_per_word_ < plain.labels_per_word_


@pytest.mark.parametrize(
    "settings, said",
    [
        ({"em_iter": 5, "max_iter": 5}, "leaves none for sparsity"),
        ({"em_iter": 9, "max_iter": 5}, "leaves none for sparsity"),
        ({"emission_prior": 0.5}, "emission_prior requires emissions='table'"),
        ({"emission_prior": 0.5, "emissions": "features", "method": "em"}, "emission_prior requires emissions='table'"),
        ({"strength": 4.0, "method": "em"}, "strength requires method 'sparse'"),
        ({"l2": 1.0, "method": "vb"}, "l2 requires emissions='features'"),
        ({"l2": 1.0, "emissions": "table"}, "l2 requires emissions='features'"),
    ],
)
def test_settings_without_effect_are_refused(settings, said):
    with pytest.raises(DataError, match=said):
        Inducer(4, **settings).fit(TEXT)


@pytest.mark.parametrize(
    "arguments, said",
    [
        (("--method", "em", "--strength", "10"), "--strength cannot be combined"),
        (("--method", "vb", "--em-rounds", "3"), "--em-rounds cannot be combined"),
        (("--method", "em", "--dual-steps", "3"), "--dual-steps cannot be combined"),
        (("--closed", "tags", "--min-count", "3"), "--min-count cannot be combined"),
        (("--emission-prior", "0.5"), "emission_prior requires"),
        (("--rounds", "5", "--em-rounds", "5"), "leaves none for sparsity"),
    ],
)
def test_options_without_effect_are_refused(arguments, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text").write_text("".join(" ".join(words) + "\n" for words in TEXT))
    (tmp_path / "tags").write_text("the\tD\n")
    done = CliRunner().invoke(app, ["induce", "text", "-o", "out", "-q", *arguments])
    assert isinstance(done.exception, DataError)
    assert said in str(done.exception)


DICTIONARY = {
    word: ["A", "B"] if i % 2 else ["B", "C", "D"] for i, word in enumerate(sorted({w for s in TEXT for w in s}))
}


def test_the_uniform_start_has_equal_shares_of_the_tags_that_the_dictionary_allows():
    names = ["A", "B", "C", "D"]
    settings = {"method": "em", "emissions": "table", "min_count": 1, "max_iter": 1}
    inducer = Inducer(names, start="uniform", tag_dictionary=DICTIONARY, **settings).fit(TEXT)
    # by hand: uniform over sequences is independent over tokens
    hmm = HMM(names, min_count=1, unknown=None, tag_dictionary=DICTIONARY, transition_prior=1, emission_prior=1)
    hmm.encode(TEXT, fit=True)
    share = {w: np.array([n in own for n in names]) / len(own) for w, own in DICTIONARY.items()}
    start, transition = np.zeros(4), np.zeros((4, 4))
    emission = np.zeros((len(hmm.symbols_), 4))
    for sentence in TEXT:
        start += share[sentence[0]]
        for word in sentence:
            emission[hmm.symbols_.number(word)] += share[word]
        for one, other in pairwise(sentence):
            transition += np.outer(share[one], share[other])
    hmm.set_parameters({
        "start": start / start.sum(), "transition": transition / transition.sum(axis=1, keepdims=True),
        "emission": emission / emission.sum(axis=0),
    })  # fmt: skip
    after = UEM(hmm, start="model", max_iter=1, tol=0.0).fit(TEXT).model_
    assert inducer.model_.emission_ == pytest.approx(after.emission_, abs=1e-9)
    assert inducer.model_.transition_ == pytest.approx(after.transition_, abs=1e-9)


def test_a_start_that_teaches_nothing_is_refused():
    with pytest.raises(DataError, match="all states would stay equal"):
        Inducer(4, start="uniform").fit(TEXT)
    with pytest.raises(DataError, match="needs labelled sentences"):
        Inducer(4, start="labelled").fit(TEXT)


def test_unlabelled_sentences_weigh_as_told():
    tags = [["a" if word < "m" else "b" for word in sentence] for sentence in TEXT[:5]]
    settings = {"method": "em", "emissions": "table", "min_count": 1, "max_iter": 4}
    known = [*tags, *[None] * 10]
    twice = Inducer(["a", "b"], **settings).fit([*TEXT[:15], *TEXT[5:15]], [*known, *[None] * 10])
    heavy = Inducer(["a", "b"], unlabelled_weight=2.0, **settings).fit(TEXT[:15], known)
    assert heavy.model_.emission_ == pytest.approx(twice.model_.emission_, abs=1e-9)
    none = Inducer(["a", "b"], unlabelled_weight=0.0, **settings).fit(TEXT[:15], known)
    alone = HMM(["a", "b"], min_count=1, unknown=None, transition_prior=1, emission_prior=1)
    alone.encode(TEXT[:15], fit=True)
    alone.update(alone.count(alone.encode(TEXT[:5], tags)))
    assert none.model_.emission_ == pytest.approx(alone.emission_, abs=1e-9)


def test_accuracy_on_ambiguous_tokens_and_a_tuned_gamma_on_the_command_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "gold.tsv").write_text("the\tD\nwalk\tN\n\nthey\tP\nwalk\tV\n\n")
    (tmp_path / "found.tsv").write_text("the\tD\nwalk\tN\n\nthey\tP\nwalk\tN\n\n")
    (tmp_path / "tags").write_text("the\tD\nwalk\tN\nwalk\tV\nthey\tP\n")
    run = CliRunner()
    done = run.invoke(app, ["evaluate", "--induction", "gold.tsv", "found.tsv", "--dictionary", "tags"])
    assert "ambiguous   50.00 of 2 tokens" in done.output
    done = run.invoke(app, ["evaluate", "gold.tsv", "found.tsv", "--dictionary", "tags"])
    assert "requires --induction" in str(done.exception)
    text = ["induce", "gold.tsv", "-l", "gold.tsv", "--method", "em", "--rounds", "2", "-q", "-o", "out.tsv"]
    done = run.invoke(app, [*text, "--tune", "found.tsv", "--emissions", "table"])
    assert done.exit_code == 0, done.exception
    assert "chosen on found.tsv (0.1: " in done.stderr
    done = run.invoke(app, [*text, "--tune", "half", "--force", "--emissions", "table"])
    assert done.exit_code == 0, done.exception
    assert "chosen on half" in done.stderr
