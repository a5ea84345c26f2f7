"""Files of networks: what is edited is refused with our error, and nothing larger than the file is made."""

from __future__ import annotations

import copy

import numpy as np
import pytest

torch = pytest.importorskip("torch", reason="needs PyTorch: pip install 'trellis-learn[torch]'")

from trellis.data.archive import read_archive, write_archive  # noqa: E402
from trellis.errors import ModelFileError, NotFittedError  # noqa: E402
from trellis.models import load_model  # noqa: E402
from trellis.neural import BiLSTM, NeuralClassifier, NeuralCRF, NeuralParser, WordVectors  # noqa: E402

from .test_crf import LABELS, NAMES, TEXT, OneHot, small  # noqa: E402


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    path = tmp_path_factory.mktemp("files") / "m"
    small(max_iter=2).fit(TEXT, LABELS).save(path)
    return read_archive(path)


def refused(tmp_path, header, arrays, match):
    write_archive(tmp_path / "evil", header, arrays)
    with pytest.raises(ModelFileError, match=match):
        load_model(tmp_path / "evil")


def test_the_same_training_gives_the_same_bytes(tmp_path):
    for name in ("a", "b"):
        small(max_iter=2).fit(TEXT, LABELS).save(tmp_path / name)
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_arrays_must_be_those_of_the_network(archive, tmp_path):
    name = "net/linear.weight"
    for value, match in (
        (archive.arrays[name][:, :-1], "must have shape"),
        (archive.arrays[name].astype(np.float64), "must be of type float32"),
        (np.full_like(archive.arrays[name], np.nan), "must hold numbers"),
        (np.full_like(archive.arrays[name], np.inf), "must hold numbers"),
    ):
        refused(tmp_path, archive.header, {**archive.arrays, name: value}, match)
    refused(tmp_path, archive.header, {**archive.arrays, "net/more": np.zeros(1)}, "more")
    some = {key: value for key, value in archive.arrays.items() if key != name}
    refused(tmp_path, archive.header, some, "expected the arrays")


@pytest.mark.parametrize("setting", ["hidden", "word_size", "char_size"])
def test_a_setting_that_asks_for_more_than_the_file_holds_is_refused_before_it_is_made(archive, setting, tmp_path):
    """It would be terabytes of parameters."""
    header = copy.deepcopy(archive.header)
    header["learned"]["encoder"]["configuration"][setting] = 10**6
    refused(tmp_path, header, archive.arrays, "must have shape|expected the arrays")


@pytest.mark.parametrize(
    "place, value, match",
    [
        ("hidden", -1, "hidden must be"),
        ("layers", 10**9, "layers"),
        ("dropout", 2.0, "dropout"),
        ("words", 3, "words"),
        ("vectors", "/etc/passwd", "vectors"),
    ],
)
def test_an_encoder_is_only_what_it_may_be(archive, place, value, match, tmp_path):
    header = copy.deepcopy(archive.header)
    inner = header["learned"]["encoder"]
    inner["learned" if place == "words" else "configuration"][place] = value
    refused(tmp_path, header, archive.arrays, match)


def test_another_class_in_the_place_of_an_encoder_is_refused(archive, tmp_path):
    header = copy.deepcopy(archive.header)
    header["learned"]["encoder"]["class"] = "HMM"
    refused(tmp_path, header, archive.arrays, "must be of class Encoder")


def test_a_module_of_ones_own_is_given_again(tmp_path):
    NeuralCRF(OneHot(), NAMES, max_iter=5).fit(TEXT, LABELS).save(tmp_path / "own")
    with pytest.raises(ModelFileError, match="load_model\\(path, module=...\\)"):
        load_model(tmp_path / "own")
    again = load_model(tmp_path / "own", module=OneHot())
    assert again.predict(TEXT) == NeuralCRF(OneHot(), NAMES, max_iter=5).fit(TEXT, LABELS).predict(TEXT)
    with pytest.raises(ModelFileError, match="must have shape"):
        load_model(tmp_path / "own", module=OneHot(4))


def test_a_classifier_and_vectors_come_back(tmp_path):
    rows, y = np.eye(4)[[0, 1, 2, 3, 0, 1]], ["a", "a", "b", "b", "a", "a"]
    model = NeuralClassifier(torch.nn.Linear(4, 2), learning_rate=0.1).fit(rows, y)
    model.save(tmp_path / "rows")
    again = load_model(tmp_path / "rows", module=torch.nn.Linear(4, 2))
    np.testing.assert_array_equal(again.predict_proba(rows), model.predict_proba(rows))
    (tmp_path / "v.txt").write_text("dog 1 0 0.5\ncat 0.9 0 0.5\nthe 0 1 0\n")
    tagger = NeuralCRF(WordVectors(tmp_path / "v.txt"), NAMES, max_iter=30, learning_rate=0.1).fit(TEXT, LABELS)
    tagger.save(tmp_path / "tags")
    (tmp_path / "v.txt").unlink()
    assert load_model(tmp_path / "tags").predict(TEXT) == tagger.predict(TEXT)


@pytest.mark.parametrize("kind", [NeuralCRF, NeuralParser, BiLSTM])
def test_what_is_not_fitted_is_not_saved(kind, tmp_path):
    with pytest.raises(NotFittedError, match="call fit"):
        kind().save(tmp_path / "m")
    assert not list(tmp_path.iterdir())
