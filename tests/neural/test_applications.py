"""Encoders in the applications: fields, tags and trees from the command line, and the files that they leave."""

from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis.apps.extract.extractor import Extractor  # noqa: E402
from trellis.apps.parse.parser import Parser  # noqa: E402
from trellis.apps.parse.tagger import Tagger  # noqa: E402
from trellis.cli import main  # noqa: E402
from trellis.data.document import Document  # noqa: E402
from trellis.errors import DataError, UnknownNameError  # noqa: E402
from trellis.models import load_model  # noqa: E402
from trellis.neural import NeuralParser  # noqa: E402

RULES = """
labels = ["NAME", "YEAR"]
[[rule]]
name = "years"
if_word_matches = '^(19|20)\\d\\d$'
then_label = "YEAR"
strength = "hard"
"""
FEW = ["Ann Lee 1999", "Bob Ray 2001", "Cy 1987"]
LABELS = [["NAME", "NAME", "YEAR"], ["NAME", "NAME", "YEAR"], ["NAME", "YEAR"]]
TREES = [
    Document(("the", "dog", "barks"), ("D", "N", "V"), {"head": ("2", "3", "0"), "deprel": ("det", "nsubj", "root")}),
    Document(("dogs", "bark"), ("N", "V"), {"head": ("2", "0"), "deprel": ("nsubj", "root")}),
] * 3


def run(*arguments):
    with pytest.raises(SystemExit) as ended:
        main(list(arguments))
    return ended.value.code


@pytest.fixture
def vectors(tmp_path):
    """A text file of word vectors, in which names are alike and years are."""
    names = ["Ann", "Lee", "Bob", "Ray", "Cy", "Di", "Fox"]
    lines = [f"{name} 1.0 {i / 10} 0.0" for i, name in enumerate(names)] + [f"{y} 0.0 0.1 1.0" for y in (1999, 2001)]
    (tmp_path / "vectors.txt").write_text(f"{len(lines)} 3\n" + "\n".join(lines) + "\n")
    return tmp_path / "vectors.txt"


@pytest.mark.parametrize("static", [False, True])
def test_an_extractor_over_an_encoder_with_rules(static, vectors, tmp_path):
    extractor = Extractor(RULES, encoder=str(vectors) if static else "bilstm", max_iter=1)
    extractor.fit(FEW, LABELS, unlabelled=["Di Fox 2003", "Fox 1987"])
    assert [type(one).__name__ for one in extractor.ccm_.model_.members] == ["CRF", "NeuralCRF"]
    assert extractor.predict(["Di Fox 1984"]) == [["NAME", "NAME", "YEAR"]]
    extractor.save(tmp_path / "fields.trellis")
    again = load_model(tmp_path / "fields.trellis")
    texts = ["Di Fox 1984", "Bob 1980"]
    assert again.predict(texts) == extractor.predict(texts)
    for one, other in zip(again.infer(texts).marginals, extractor.infer(texts).marginals, strict=True):
        np.testing.assert_array_equal(one, other)


def test_a_parser_and_a_tagger_over_an_encoder(tmp_path):
    parser = Parser(encoder="bilstm", max_iter=2).fit(TREES)
    assert isinstance(parser.arcs_, NeuralParser)
    parser.save(tmp_path / "parser.trellis")
    again = load_model(tmp_path / "parser.trellis")
    assert again.predict(TREES) == parser.predict(TREES)
    assert set(again.predict(TREES)[0].columns["deprel"]) <= {"det", "nsubj", "root"}
    tagger = Tagger(encoder="bilstm", max_iter=60).fit(TREES)
    tagger.save(tmp_path / "tagger.trellis")
    found = load_model(tmp_path / "tagger.trellis").predict([["the", "dog", "barks"], "dogs bark"])
    assert [s.labels for s in found] == [("D", "N", "V"), ("N", "V")]


def test_the_command_line_takes_an_encoder(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.toml").write_text(RULES)
    rows = [
        f"{w}\t{k}\n"
        for text, own in zip(FEW, LABELS, strict=True)
        for w, k in [*zip(text.split(), own, strict=True), ("", "")]
    ]
    (tmp_path / "few.tsv").write_text("".join(row if row != "\t\n" else "\n" for row in rows))
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "--save", "m", "--encoder", "bilstm", "-q") == 0
    (tmp_path / "new.txt").write_text("Di Fox 1984\n")
    assert run("extract", "predict", "--model", "m", "new.txt", "-o", "out.tsv", "-q") == 0
    assert (tmp_path / "out.tsv").read_text().split()[-1] == "YEAR"
    assert run("extract", "train", "rules.toml", "-l", "few.tsv", "--save", "m", "--encoder", "bert", "-q") == 2
    assert "unknown encoder 'bert'" in capsys.readouterr().err


def test_mistakes_are_told_before_learning():
    with pytest.raises(DataError, match="an encoder scores the labels of a CRF"):
        Extractor(RULES, encoder="bilstm", model_kind="hmm").fit(FEW, LABELS)
    with pytest.raises(DataError, match="device must be"):
        Parser(encoder="bilstm", device="tpu?").fit(TREES)
    with pytest.raises(UnknownNameError, match="unknown encoder"):
        Tagger(encoder="nothing").fit(TREES)
