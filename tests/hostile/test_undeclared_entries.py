"""A model file holds what its class declares as saved, and nothing that reaches outside: no host, no path, no code."""

from __future__ import annotations

import copy
import os
import socket
from typing import Any, get_args

import numpy as np
import pytest

from tests.hostile.saved import NEW, PAIRS, SAVED, TAGS, TEXT
from trellis.apps.align.aligner import Aligner
from trellis.constraints import count
from trellis.data.archive import read_archive, write_archive
from trellis.errors import DataError, ModelFileError
from trellis.learn import UEM
from trellis.models import HMM, load_model, saving

pytestmark = pytest.mark.slow

MODELS = [kind for kind in SAVED if not kind.startswith("checkpoint")]
CHECKPOINTS = [kind for kind in SAVED if kind.startswith("checkpoint")]
OUTSIDE = {
    "engine": "tcp://127.0.0.1:{}", "checkpoint": "checkpoint", "checkpoint_every": 1, "n_jobs": 64, "memory": "1T",
    "verbose": True, "files": {"names.tsv": "x"}, "wordnet": "/etc", "tagger": "x", "parser": "x", "model": "x",
    "constraints": [], "priors": {},
}  # fmt: skip


@pytest.fixture
def port():
    """A port on which nobody may call."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(0.01)
        yield server.getsockname()[1]
        with pytest.raises(TimeoutError):
            server.accept()


def first_of_each_class(path):
    """Numbers of the headers in a file, the first of each class."""
    found = {}
    for number, header in enumerate(headers(read_archive(path).header)):
        found.setdefault(header["class"], (number, header))
    return list(found.values())


def headers(tree):
    """All headers of models, the nested ones too."""
    if isinstance(tree, dict):
        if set(tree) == {"class", "configuration", "learned"}:
            yield tree
        for part in tree.values():
            yield from headers(part)
    elif isinstance(tree, list):
        for part in tree:
            yield from headers(part)


def edited(path, target, edit):
    archive = read_archive(path)
    header = copy.deepcopy(archive.header)
    edit(header)
    write_archive(target, header, archive.arrays)
    return str(target)


def test_an_aligner_with_the_address_of_a_scheduler_is_refused(saved_file, tmp_path, port):
    evil = edited(
        saved_file("Aligner"),
        tmp_path / "evil",
        lambda header: header["configuration"].update(engine=f"tcp://127.0.0.1:{port}"),
    )
    try:
        aligner = Aligner.load(evil)
        aligner.align(PAIRS)
        aligner.fit(PAIRS)
    except ModelFileError as refusal:
        assert "argument 'engine' is not allowed here" in str(refusal)  # noqa: PT017
    else:
        pytest.fail("a file that names a scheduler was read")


@pytest.mark.parametrize("kind", MODELS)
def test_settings_that_reach_outside_are_refused_in_every_model_of_a_file(kind, saved_file, tmp_path, port):
    for number, own in first_of_each_class(saved_file(kind)):
        for name in OUTSIDE if kind == "UEM" else ("engine", "checkpoint") if number == 0 else ("engine",):
            outside = OUTSIDE[name]
            value = outside.format(port) if isinstance(outside, str) else outside
            if name in own["configuration"]:  # the argument ``model`` of some classes is the name of a method
                assert name == "model"
                continue

            def put(header, number=number, name=name, value=value):
                list(headers(header))[number]["configuration"][name] = value

            with pytest.raises(ModelFileError, match=f"argument '{name}' is not allowed here"):
                SAVED[kind].read(edited(saved_file(kind), tmp_path / "evil", put))


@pytest.mark.parametrize("kind", MODELS)
def test_entries_that_a_class_does_not_declare_are_refused(kind, saved_file, tmp_path):
    for number, _ in first_of_each_class(saved_file(kind)):
        for place in (None, "learned"):

            def put(header, number=number, place=place):
                own = list(headers(header))[number]
                (own if place is None else own[place])["more"] = 1

            with pytest.raises(ModelFileError, match="'more'"):
                SAVED[kind].read(edited(saved_file(kind), tmp_path / "evil", put))


@pytest.mark.parametrize("kind", MODELS)
def test_arrays_that_a_class_does_not_declare_are_refused(kind, saved_file, tmp_path):
    archive = read_archive(saved_file(kind))
    prefixes = [name[: name.rindex("/") + 1] for name in archive.arrays if "/" in name]
    for prefix in {"", *prefixes[-1:]}:
        write_archive(tmp_path / "evil", archive.header, {**archive.arrays, f"{prefix}more": np.zeros(1)})
        with pytest.raises(ModelFileError, match="more"):
            SAVED[kind].read(str(tmp_path / "evil"))


@pytest.mark.parametrize("kind", CHECKPOINTS)
def test_entries_that_a_checkpoint_does_not_declare_are_refused(kind, saved_file, tmp_path):
    archive = read_archive(saved_file(kind))
    places = [[], ["run"], ["run", "rng_state"], ["run", "history", 0], ["fingerprint"]]
    for place in places:
        header = copy.deepcopy(archive.header)
        inner = header
        for key in place:
            inner = inner[key]
        inner["engine"] = "tcp://127.0.0.1:1"
        write_archive(tmp_path / "evil", header, archive.arrays)
        with pytest.raises(ModelFileError, match="evil: .*(engine|figure|entry)"):
            SAVED[kind].use(str(tmp_path / "evil"))
    for more in ("more", "run.more", "run.parameters.more", "best.parameters.more"):
        write_archive(tmp_path / "evil", archive.header, {**archive.arrays, more: np.zeros(1)})
        with pytest.raises(ModelFileError, match="more"):
            SAVED[kind].use(str(tmp_path / "evil"))


@pytest.mark.parametrize("name", saving.known_classes())
def test_no_argument_that_is_saved_can_be_a_path_a_host_or_any_object(name):
    def parts(hint):
        yield hint
        for part in get_args(hint):
            yield from parts(part) if not isinstance(part, list) else ()

    for argument, hint in saving.saved_arguments(saving.known_class(name)).items():
        assert argument not in set(OUTSIDE) - {"model"}
        assert hint is not Any, argument
        assert os.PathLike not in [getattr(part, "__origin__", part) for part in parts(hint)], argument


def test_a_loaded_model_is_fitted_again_with_the_settings_of_the_caller(tmp_path):
    some = [*TAGS[:3], None]
    learner = UEM(HMM(["D", "N", "V"], min_count=1), [count("V") <= 4], max_iter=1, tol=0.0, n_jobs=2)
    learner.fit(TEXT[:4], some).save(tmp_path / "m")
    learner = load_model(tmp_path / "m", n_jobs=1)
    assert (learner.engine, learner.checkpoint, learner.n_jobs) == (None, None, 1)
    before = set(tmp_path.iterdir())
    assert len(learner.fit(TEXT[:4], some).predict(NEW)) == len(NEW)
    assert set(tmp_path.iterdir()) == before


# subclasses of users


class Shouting(HMM):
    def predict(self, X, **more):
        return [[label.upper() + "!" for label in labels] for labels in super().predict(X, **more)]


class HMMWithMore(HMM):
    def __init__(self, labels=None, *, min_count=1, shift=0):
        super().__init__(labels, min_count=min_count)
        self.shift = shift


def test_a_subclass_reads_its_own_file(tmp_path):
    Shouting(min_count=1, unknown=None).fit([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")
    assert Shouting.load(tmp_path / "m").predict([["a"]]) == [["X!"]]
    assert load_model(tmp_path / "m", subclasses=[Shouting]).predict([["a"]]) == [["X!"]]
    assert HMM.load(tmp_path / "m", subclasses=[Shouting]).predict([["a"]]) == [["X!"]]


def test_a_subclass_with_arguments_of_its_own_reads_its_own_file(tmp_path):
    HMMWithMore(shift=3).fit([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")
    assert HMMWithMore.load(tmp_path / "m").shift == 3


def test_a_subclass_inside_a_learner_is_read_where_it_is_named(tmp_path):
    UEM(Shouting(["x", "y"], min_count=1), max_iter=1).fit([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")
    assert isinstance(UEM.load(tmp_path / "m", subclasses=[Shouting]).model_, Shouting)
    with pytest.raises(ModelFileError, match="holds 'Shouting', which is not a class of Trellis.*subclasses="):
        UEM.load(tmp_path / "m")


def test_a_file_of_a_subclass_is_refused_elsewhere_with_what_to_do(tmp_path):
    Shouting(min_count=1, unknown=None).fit([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")
    for read in (load_model, HMM.load):
        with pytest.raises(ModelFileError, match="holds 'Shouting', which is not a class of Trellis.*subclasses="):
            read(tmp_path / "m")
    HMM(min_count=1, unknown=None).fit([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")
    with pytest.raises(ModelFileError, match="holds 'HMM', not 'Shouting'"):
        Shouting.load(tmp_path / "m")


def test_a_subclass_that_takes_the_name_of_one_of_ours_is_not_saved(tmp_path):
    mine = type("HMM", (HMM,), {})
    with pytest.raises(DataError, match="give the subclass another name"):
        mine(min_count=1, unknown=None).fit([["a", "b"]], [["x", "y"]]).save(tmp_path / "m")
    assert list(tmp_path.iterdir()) == []
