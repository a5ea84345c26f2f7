"""Files of models: what is refused, and how it is said."""

from __future__ import annotations

import numpy as np
import pytest

from trellis.data.archive import read_archive, write_archive
from trellis.errors import ModelFileError, NotFittedError
from trellis.models import HMM, load_model


@pytest.fixture
def saved(tmp_path):
    path = tmp_path / "hmm"
    HMM(min_count=1, unknown=None).fit([["a", "b"]], [["X", "Y"]]).save(path)
    return path


def rewritten(path, header=None, arrays=None):
    archive = read_archive(path)
    write_archive(path, {**archive.header, **(header or {})}, {**archive.arrays, **(arrays or {})})
    return path


def test_the_header_is_readable_json(saved):
    header = read_archive(saved).header
    assert header["class"] == "HMM"
    assert header["configuration"]["min_count"] == 1
    assert header["learned"]["labels"]["names"] == ["X", "Y"]


def test_unknown_classes_are_refused(saved):
    with pytest.raises(ModelFileError, match=r"holds 'Gardener', which is not a class of Trellis"):
        load_model(rewritten(saved, {"class": "Gardener"}))


def test_arguments_of_another_version_are_refused(saved):
    with pytest.raises(ModelFileError, match="another version"):
        load_model(rewritten(saved, {"configuration": {"nonsense": 1}}))
    with pytest.raises(ModelFileError, match="another version"):
        load_model(rewritten(saved, {"learned": {}}))


def test_arrays_that_do_not_fit_are_refused(saved):
    with pytest.raises(ModelFileError, match="emission must have shape"):
        load_model(rewritten(saved, arrays={"emission": np.ones((5, 5))}))


def test_sets_and_arrays_in_the_constructor_become_lists(tmp_path):
    model = HMM(np.array(["X", "Y"]), min_count=np.int64(1), tag_dictionary={"a": {"Y", "X"}, "b": ("Y",)})
    model.fit([["a", "b"]], [["X", "Y"]]).save(tmp_path / "m")
    loaded = load_model(tmp_path / "m")
    assert loaded.labels == ["X", "Y"]
    assert loaded.tag_dictionary == {"a": ["X", "Y"], "b": ["Y"]}
    assert loaded.predict([["a", "b"]]) == [["X", "Y"]]


def test_what_was_not_fitted_cannot_be_saved(tmp_path):
    with pytest.raises(NotFittedError):
        HMM().save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
