"""A model that the command line wrote opens in Python, and gives what the command gave."""

from __future__ import annotations

import pkgutil
from importlib import import_module

import pytest

import trellis
from tests.hostile.command import run, train
from trellis import load_model
from trellis.data.columns import read_columns
from trellis.data.text_files import read_labelled, read_texts
from trellis.models.saving import SavedEstimator, known_classes


@pytest.fixture
def folder(tmp_path, monkeypatch):
    train(tmp_path)
    (tmp_path / "s").write_text("a b c\nb a\nc a b\n" * 4)
    (tmp_path / "t").write_text("x y z\ny x\nz x y\n" * 4)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_load_model_opens_what_train_saved(folder):
    assert run("extract", "predict", "-m", "m", "text.txt", "-o", "out.tsv") == 0
    assert load_model("m").predict(read_texts("text.txt")) == [list(t.labels) for t in read_labelled("out.tsv")]


def test_load_model_opens_what_align_saved(folder):
    assert run("align", "-s", "s", "-t", "t", "-o", "links", "--save", "aligner", "-q", "--threads", 1) == 0
    pairs = zip((folder / "s").read_text().splitlines(), (folder / "t").read_text().splitlines(), strict=True)
    found = [links.pharaoh() for links in load_model("aligner").align(pairs)]
    assert found == (folder / "links").read_text().splitlines()


def test_load_model_opens_what_induce_saved(folder):
    quick = "-k", 2, "--method", "em", "--rounds", 3, "-q", "--threads", 1
    assert run("induce", "s", *quick, "--decoding", "viterbi", "-o", "tags.tsv", "--save", "tagger") == 0
    found = load_model("tagger").predict([line.split() for line in (folder / "s").read_text().splitlines()])
    assert found == [list(s.labels) for s in read_columns("tags.tsv")]


def below(kind):
    for made in kind.__subclasses__():
        yield made
        yield from below(made)


def test_load_model_knows_every_class_that_saves():
    for package in (trellis.apps, trellis.models, trellis.learn):
        for module in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
            import_module(module.name)
    abstract = {
        "SequenceModel", "TabularModel", "LogLinearModel", "TreeModel", "HMMParameters", "EmitsWords", "Learner",
        "ProjectedLearner", "SearchingLearner", "TreeTask", "MarginLearner", "IndirectLearner", "PairModel",
        "SlotMaxEnt",
    }  # fmt: skip
    found = {made.__name__ for made in below(SavedEstimator) if made.__module__.startswith("trellis.")}
    found -= {made.__name__ for made in below(SavedEstimator) if made.__module__.startswith("trellis.neural.")}
    assert found - abstract == set(known_classes())
