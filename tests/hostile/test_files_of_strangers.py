"""Random edits of every kind of file end in our error or in an identical model, and never in a crash.

Two kinds of edits. Bytes changed, cut or repeated, and zips written again by another program: they are noticed, or
change nothing. Forgeries, whose header and arrays say other things and whose digest is right: they are refused, or are
another model that works, for nobody can tell a forged number from a learned one.
"""

from __future__ import annotations

import importlib
import json
import pkgutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import trellis
from tests.hostile.saved import SAVED
from trellis.constraints import dictionary
from trellis.constraints.context import Context
from trellis.constraints.rule import Patterns
from trellis.data.archive import read_archive, write_archive
from trellis.data.arrays import ArrayOf, check_arrays
from trellis.data.batch import Batch
from trellis.data.vocabulary import Vocabulary
from trellis.errors import DataError, ModelFileError
from trellis.models import CRF, HMM, ArcParser, load_model, saving
from trellis.structures import CategoricalParts

pytestmark = pytest.mark.slow

QUICK, SLOW = 40, 10_000


def attack(folder, count, *kinds):
    command = [sys.executable, "-m", "tests.hostile.attack", str(folder), "0", str(count), *kinds]
    ended = subprocess.run(command, capture_output=True, text=True, cwd=Path(__file__).parents[2])
    found = {one["kind"]: one for one in map(json.loads, ended.stdout.splitlines())}
    now = folder / "now"
    died = f"exit code {ended.returncode} in {now.read_text() if now.exists() else 'nothing'}\n{ended.stderr[-3000:]}"
    return found, died if ended.returncode else ""


def judge(kind, found, died, count):
    assert kind in found, died
    assert found[kind]["faults"] == []
    outcomes = found[kind]["outcomes"]
    assert sum(outcomes.values()) == count
    # Edits that are all refused, or all without an effect, would prove little.
    assert outcomes["refused"] > 0.4 * count
    return outcomes.get("identical", 0)


def test_random_edits_end_in_our_error_or_in_a_model_that_works(tmp_path):
    found = attack(tmp_path, QUICK, *SAVED)
    identical = sum(judge(kind, *found, QUICK) for kind in SAVED)
    assert identical > 0.02 * QUICK * len(SAVED)


@pytest.mark.long
@pytest.mark.parametrize("kind", SAVED)
def test_ten_thousand_edits(kind, tmp_path):
    assert judge(kind, *attack(tmp_path, SLOW, kind), SLOW) > 0.005 * SLOW


def test_every_class_that_is_saved_is_attacked():
    """Everything that has a file of its own; what is there for others to inherit from alone is not in the list."""
    for module in pkgutil.walk_packages(trellis.__path__, "trellis."):
        if not module.name.endswith("__main__") and not module.name.startswith("trellis.neural."):
            importlib.import_module(module.name)
    found, kinds = set(), [saving.SavedEstimator]
    while kinds:
        kind = kinds.pop()
        kinds += kind.__subclasses__()
        if kind.__module__.startswith("trellis."):
            found.add(kind.__name__)
    # tests/neural attacks the networks; test_load_model_knows_every_class_that_saves has the other way
    assert set(saving.known_classes()) <= found
    assert set(saving.known_classes()) <= {kind.split()[0] for kind in SAVED}


@pytest.mark.parametrize(
    "kind, name, value",
    [
        ("UEM", "projection_tol", -1.0),
        ("UEM", "gamma", 1e-320),
        ("Aggregator", "word_weight", 1e308),
        ("SSVM", "beam", 10**7),
    ],
)
def test_settings_that_cannot_be_are_refused_in_files_too(kind, name, value, tmp_path):
    saved = SAVED[kind]
    saved.make(str(tmp_path / "m"))
    archive = read_archive(tmp_path / "m")
    archive.header["configuration"][name] = value
    write_archive(tmp_path / "evil", archive.header, archive.arrays)
    with pytest.raises(ModelFileError, match=name if name != "gamma" else "γ must be 0"):
        saved.read(str(tmp_path / "evil"))


@pytest.mark.parametrize("n", [0, -2, 99])
def test_a_word_that_stands_in_no_sentence_or_in_too_many_is_refused(n, tmp_path):
    SAVED["GraphPairs"].make(str(tmp_path / "m"))
    archive = read_archive(tmp_path / "m")
    archive.header["learned"]["count"]["dog"] = n
    write_archive(tmp_path / "evil", archive.header, archive.arrays)
    with pytest.raises(ModelFileError, match="in no sentence, or in more than there are"):
        load_model(tmp_path / "evil")


def test_a_tag_that_is_no_text_is_a_tag(tmp_path):
    text = [[("a", "\ud800"), ("b", "V")]]
    ArcParser(bits=8, min_count=1).fit(text, [[2, 0]]).save(tmp_path / "m")
    assert load_model(tmp_path / "m").predict(text) == [[2, 0]]


@pytest.mark.parametrize("change", [np.int64(10**8), np.int64(-1)])
def test_offsets_of_a_crf_that_lead_out_of_its_weights_are_refused(change, tmp_path):
    CRF(max_iter=5, tol=1.0).fit([["a", "b"], ["b"]], [["X", "Y"], ["Y"]]).save(tmp_path / "m")
    archive = read_archive(tmp_path / "m")
    first = archive.arrays["first_pair"]
    for moved in (first + change, np.concatenate([first[:1], first[1:] + change]), first[::-1], first[:-1]):
        write_archive(tmp_path / "evil", archive.header, {**archive.arrays, "first_pair": np.array(moved)})
        with pytest.raises(ModelFileError, match=r"evil: .*(first_pair|pair_label) must"):
            load_model(tmp_path / "evil")


def test_names_that_claim_a_large_table_allocate_nothing(tmp_path):
    HMM(min_count=1, unknown=None, tag_dictionary={"a": ["X"]}).fit([["a", "b"]], [["X", "Y"]]).save(tmp_path / "m")
    archive = read_archive(tmp_path / "m")
    many = {"names": [str(i) for i in range(200_000)], "kind": "label", "unknown": None}
    archive.header["learned"] = {"labels": {**many, "names": ["X", *many["names"]]}, "symbols": many}
    write_archive(tmp_path / "evil", archive.header, archive.arrays)
    with pytest.raises(ModelFileError, match="must have shape"):  # of 40 GB, if it were made
        load_model(tmp_path / "evil")


@pytest.mark.parametrize("name", ["labels", "functions"])
def test_a_long_list_of_names_is_refused_before_a_table_is_made_of_it(name, saved_file, tmp_path):
    archive = read_archive(saved_file("VoteHMM"))
    archive.header["configuration"][name] += [str(i) for i in range(100_000)]
    write_archive(tmp_path / "evil", archive.header, archive.arrays)
    with pytest.raises(ModelFileError, match="must have shape"):  # of 10 GB, if it were made
        load_model(tmp_path / "evil")


def test_a_dictionary_makes_rows_of_the_labels_that_occur_alone():
    """10,000 sets of labels over 10,000 labels are a table of 100 MB."""
    labels = [str(i) for i in range(10_000)]
    rule = dictionary({name: [name] for name in labels})
    batch = Batch.from_sentences([["3"], ["x"]])
    context = Context(batch, Vocabulary(labels, kind="label"), CategoricalParts(2, len(labels)))
    found = rule.table(Patterns(context, {id(rule): rule.codes(context)}, np.zeros(2, np.bool_)))
    assert found.shape == (2, 1, 10_000)
    assert found.sum(axis=(1, 2)).tolist() == [1, 10_000]


TABLE = {
    "starts": ArrayOf(np.int64, ("rows + 1",), offsets_of="pairs"),
    "label": ArrayOf(np.int32, ("pairs",), below="labels", rises_in="starts"),
    "weight": ArrayOf(np.float64, ("pairs", 2), low=0.0, high=1.0),
    "single": ArrayOf(np.float32, ("any",)),
}
GOOD = {
    "starts": np.array([0, 2, 2, 3]),
    "label": np.array([0, 2, 1], np.int32),
    "weight": np.full((3, 2), 0.5),
    "single": np.ones(4, np.float32),
}


def test_arrays_as_the_table_says_pass_and_come_out_as_kernels_want_them():
    swapped = {**GOOD, "weight": np.asfortranarray(GOOD["weight"]), "starts": GOOD["starts"].astype(">i8")}
    for name, array in check_arrays(TABLE, swapped, rows=3, labels=3).items():
        np.testing.assert_array_equal(array, GOOD[name])
        assert array.dtype == GOOD[name].dtype
        assert array.flags.c_contiguous


@pytest.mark.parametrize(
    "name, array, message",
    [
        ("starts", np.array([0, 2, 2, 4]), "label must have shape"),
        ("starts", np.array([0, 2, 3]), r"starts must have shape \(4,\) but has \(3,\)"),
        ("starts", np.array([0, 3, 2, 3]), "starts must rise from 0 to 3"),
        ("starts", np.array([1, 2, 2, 3]), "starts must rise"),
        ("starts", np.array([0, -1, 2, 3]), "starts must rise"),
        ("starts", np.array([0.0, 2, 2, 3]), "starts must be of type int64 but is of type float64"),
        ("label", np.array([0, 3, 1], np.int32), "label must hold numbers from 0 to 2, but has 3"),
        ("label", np.array([0, -1, 1], np.int32), "label must hold"),
        ("label", np.array([2, 0, 1], np.int32), "label must rise inside each row of starts"),
        ("label", np.array([1, 1, 1], np.int32), "label must rise inside each row of starts"),
        ("weight", np.full((3, 2), np.nan), "weight must hold numbers from 0 to 1, but has nan"),
        ("weight", np.full((3, 2), 1.5), "weight must hold"),
        ("weight", np.full(6, 0.5), "weight must have shape"),
        ("single", np.full(4, np.inf, np.float32), "single must hold"),
    ],
)
def test_arrays_unlike_the_table_are_refused_with_their_name(name, array, message):
    with pytest.raises(DataError, match=message):
        check_arrays(TABLE, {**GOOD, name: array}, rows=3, labels=3)


def test_arrays_that_are_missing_or_too_many_are_named():
    with pytest.raises(DataError, match="expected the arrays .* but found"):
        check_arrays(TABLE, {**GOOD, "more": np.zeros(1)}, rows=3, labels=3)
    with pytest.raises(DataError, match="expected the arrays .* but found"):
        check_arrays(TABLE, {}, rows=3, labels=3)
