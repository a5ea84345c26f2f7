"""The one file of a model: what goes in comes out, and nothing else is let in."""

from __future__ import annotations

import io
import json
import os
import pickle
import tracemalloc
import zipfile

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from trellis.data.archive import VERSION, read_archive, write_archive
from trellis.errors import DataError, ModelFileError

HEADER = {"class": "HMM", "labels": ["Ä", "\ud800", "語"], "penalty": float("inf"), "none": None, "n": 3}
ARRAYS = {
    "start": np.array([0.1, -0.0, np.nan, np.inf, 5e-324]),
    "counts/edge": np.asfortranarray(np.arange(6, dtype=">i4").reshape(2, 3)),
    "empty": np.zeros((0, 7), dtype=np.float32),
    "scalar": np.array(True),
}


def write(folder, name="model.trellis", header=HEADER, arrays=ARRAYS):
    path = folder / name
    write_archive(path, header, arrays)
    return path


def test_header_and_arrays_come_back_bit_for_bit(tmp_path):
    archive = read_archive(write(tmp_path))
    assert archive.header == HEADER
    assert list(archive.arrays) == list(ARRAYS)
    for name, array in ARRAYS.items():
        read = archive.arrays[name]
        assert read.dtype == array.dtype
        assert read.shape == array.shape
        assert read.tobytes() == array.tobytes()


@pytest.mark.slow
@given(hnp.arrays(st.sampled_from([np.float64, np.int32, np.bool_]), hnp.array_shapes(min_dims=0, min_side=0)))
def test_any_array_comes_back(tmp_path_factory, array):
    path = tmp_path_factory.mktemp("archive") / "a"
    write_archive(path, {}, {"a": array})
    assert read_archive(path).arrays["a"].tobytes() == array.tobytes()


def test_same_contents_give_the_same_bytes(tmp_path):
    first, second = write(tmp_path, "a"), write(tmp_path, "b")
    os.utime(first, (0, 0))
    assert first.read_bytes() == second.read_bytes()


@pytest.mark.slow
@given(data=st.data())
def test_a_changed_byte_is_noticed_or_changes_nothing(tmp_path_factory, data):
    folder = tmp_path_factory.mktemp("archive")
    path = write(folder)
    raw = bytearray(path.read_bytes())
    at = data.draw(st.integers(0, len(raw) - 1))
    raw[at] ^= data.draw(st.integers(1, 255))
    path.write_bytes(raw)
    try:
        archive = read_archive(path)
    except ModelFileError:
        return
    # Dates and attributes are outside any checksum; the header, and names and contents of arrays are not.
    assert archive.header == HEADER
    assert list(archive.arrays) == list(ARRAYS)
    assert all(archive.arrays[name].tobytes() == array.tobytes() for name, array in ARRAYS.items())


@given(st.binary(max_size=400), st.sampled_from([b"", b"PK\x03\x04"]))
def test_random_bytes_are_refused_by_our_error(tmp_path_factory, raw, magic):
    path = tmp_path_factory.mktemp("archive") / "junk"
    path.write_bytes(magic + raw)
    with pytest.raises(ModelFileError):
        read_archive(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9, 0.999])
def test_cut_files_are_refused(tmp_path, share):
    path = write(tmp_path)
    raw = path.read_bytes()
    path.write_bytes(raw[: int(share * len(raw))])
    with pytest.raises(ModelFileError, match="damaged|not a file that Trellis wrote"):
        read_archive(path)


def test_pickled_objects_are_never_loaded(tmp_path):
    path = tmp_path / "evil"
    body = io.BytesIO()
    np.save(body, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "trellis archive", "version": VERSION, "content": {}}))
        archive.writestr("a.npy", body.getvalue())
    with pytest.raises(ModelFileError, match="damaged"):
        read_archive(path)
    path.write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(ModelFileError, match="not a file that Trellis wrote"):
        read_archive(path)


def zipped(path, entries, packing=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path, "w", packing) as archive:
        archive.writestr("header.json", json.dumps({"format": "trellis archive", "version": VERSION, "content": {}}))
        for name, content in entries:
            archive.writestr(name, content)
    return path


def array_entry(shape, dtype="<f8", body=b"\0" * 64):
    raw = io.BytesIO()
    np.lib.format.write_array_header_1_0(raw, {"descr": dtype, "fortran_order": False, "shape": shape})
    return raw.getvalue() + body


def test_packed_entries_are_refused_before_they_are_unpacked(tmp_path):
    path = zipped(tmp_path / "bomb", [("a.npy", array_entry((10**7,), "|u1", b"\0" * 10**7))], zipfile.ZIP_DEFLATED)
    assert path.stat().st_size < 20_000
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="packed"):
        read_archive(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_encrypted_entries_are_refused(tmp_path):
    path = zipped(tmp_path / "locked", [("a.npy", array_entry((8,)))])
    raw = bytearray(path.read_bytes())
    raw[raw.rindex(b"PK\1\2") + 8] |= 1  # the flag in the directory
    path.write_bytes(raw)
    with pytest.raises(ModelFileError, match="'a.npy' in it is compressed or encrypted"):
        read_archive(path)


@pytest.mark.parametrize(
    "shape, dtype",
    [
        ((10**9,), "<f8"), ((10**18,), "<f8"), ((10**30,), "<f8"), ((9,), "<f8"), ((7,), "<f8"), ((-8, -1), "<f8"),
        ((10**9, 0), "|S0"), ((10**9,), "|V0"), ((8,), "<M8[s]"), ((16,), "<U1"), ((4,), "<c16"), ((8,), "|O"),
    ],
)  # fmt: skip
def test_what_a_header_of_an_array_claims_is_bounded_by_the_file(tmp_path, shape, dtype):
    path = zipped(tmp_path / "claim", [("a.npy", array_entry(shape, dtype))])
    tracemalloc.start()
    with pytest.raises(ModelFileError, match="damaged"):
        read_archive(path)
    assert tracemalloc.get_traced_memory()[1] < 10**6
    tracemalloc.stop()


def test_entries_that_the_writer_never_makes_are_refused(tmp_path):
    with pytest.raises(ModelFileError, match="it contains 'evil.py'"):
        read_archive(zipped(tmp_path / "more", [("evil.py", b"print()")]))
    with pytest.warns(UserWarning, match="Duplicate name"):
        path = zipped(tmp_path / "twice", [("a.npy", array_entry((8,))), ("a.npy", array_entry((8,)))])
    with pytest.raises(ModelFileError, match="an entry twice"):
        read_archive(path)
    with pytest.raises(ModelFileError, match="damaged.*digest"):
        read_archive(zipped(tmp_path / "none", [("a.npy", array_entry((8,)))]))


def test_arrays_that_changed_names_are_noticed(tmp_path):
    path = write(tmp_path, arrays={"start": np.zeros(3), "other": np.ones(3)})
    raw = path.read_bytes()
    path.write_bytes(raw.replace(b"start.npy", b"third.npy").replace(b"other.npy", b"start.npy"))
    with pytest.raises(ModelFileError, match="do not belong together"):
        read_archive(path)


def test_an_older_format_says_so(tmp_path):
    path = tmp_path / "older"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", json.dumps({"format": "trellis archive", "version": 1, "content": {}}))
    with pytest.raises(ModelFileError, match="format 1.*anew"):
        read_archive(path)


def test_a_newer_format_says_so(tmp_path):
    path = tmp_path / "newer"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr(
            "header.json", json.dumps({"format": "trellis archive", "version": VERSION + 1, "content": {}})
        )
    with pytest.raises(ModelFileError, match=f"format {VERSION + 1}.*newer Trellis"):
        read_archive(path)


def test_another_zip_is_not_ours(tmp_path):
    path = tmp_path / "other.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelFileError, match="a zip without header.json"):
        read_archive(path)


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(ModelFileError, match="nowhere.*cannot be read: No such file"):
        read_archive(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "header, arrays, message",
    [
        ({"a": object()}, {}, "must be JSON"),
        ({}, {"a": np.array([None])}, "of type object"),
        ({}, {"../a": np.zeros(1)}, "cannot be named"),
    ],
)
def test_what_cannot_be_written_leaves_the_old_file(tmp_path, header, arrays, message):
    path = write(tmp_path)
    before = path.read_bytes()
    with pytest.raises(DataError, match=message):
        write_archive(path, header, arrays)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]
