"""Arrays that grow in memory or on disk: the same entries, nothing left behind, and errors that say what to do."""

import errno
import io
import os
import signal
import subprocess
import sys
import tempfile

import numpy as np
import pytest

from trellis.apps.align.aligner import Aligner
from trellis.apps.induce.inducer import Inducer
from trellis.data import storage
from trellis.data.corpus import corpus_of
from trellis.data.document import Document
from trellis.data.storage import Spilled, Storage, bytes_of, free_memory, mapped_zeros, release_mapped
from trellis.errors import DataError
from trellis.learn import UEM
from trellis.models import HMM


def grown(memory, n=50_000):
    place = Storage(memory)
    codes, lengths = place.growing("i"), place.growing("q")
    rng = np.random.default_rng(0)
    expected = []
    for number in range(0, n, 1000):
        some = rng.integers(0, 2**31, 1000).tolist()
        codes.extend(some)
        lengths.append(number)
        expected += some
        place.settle()
    assert len(codes) == n
    return place, codes.finished(), lengths.finished(), np.array(expected, np.int32)


@pytest.mark.parametrize("memory", [0, 50_000, "1G"])
def test_entries_are_the_same_wherever_they_are(memory, monkeypatch):
    monkeypatch.setattr(storage, "AT_ONCE", 10_000)
    place, codes, lengths, expected = grown(memory)
    assert place.is_on_disk == (memory != "1G")
    assert codes.dtype == np.int32
    assert codes.flags.writeable, "kernels know no other arrays"
    np.testing.assert_array_equal(codes, expected)
    np.testing.assert_array_equal(lengths, np.arange(0, 50_000, 1000))
    release_mapped()
    np.testing.assert_array_equal(codes, expected, "pages that were let go of come back")


def test_an_array_without_entries_is_empty():
    for memory in (0, "1G"):
        place = Storage(memory)
        one = place.growing("i")
        place.growing("i").append(1)
        place.settle()
        assert one.finished().tolist() == []


def test_files_have_no_name(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    _, codes, _, expected = grown(0)
    assert os.listdir(tmp_path) == []
    np.testing.assert_array_equal(codes, expected)


@pytest.mark.parametrize("text, size", [("0", 0), ("4G", 4 * 2**30), ("1.5 MB", 1.5 * 2**20), ("2KiB", 2048), (7, 7)])
def test_amounts_of_memory(text, size):
    assert bytes_of(text) == size


@pytest.mark.parametrize("text", ["", "many", "-1", -1, "4Q", 1.5, True, "G"])
def test_what_is_no_amount_of_memory_is_refused(text):
    with pytest.raises(DataError, match="such as 4G"):
        bytes_of(text)


def test_by_default_half_of_what_is_free():
    assert 0 < bytes_of(None) <= free_memory() * 0.6


def test_a_full_disk_is_told_with_the_folder(monkeypatch):
    class Full(io.BytesIO):
        def write(self, data):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(tempfile, "TemporaryFile", lambda **_: Full())
    monkeypatch.setenv("TMPDIR", "/some/where")
    with pytest.raises(DataError, match=r"/some/where: No space left on device; name another folder in TMPDIR"):
        grown(0)


GROW = """
from trellis.data.storage import Storage
place = Storage(0)
codes = place.growing("i")
for _ in range(20):
    codes.extend(range(1000))
    place.settle()
found = codes.finished()
"""


def test_a_full_disk_in_earnest(tmp_path):
    """A limit on the size of files makes the write fail half-way, as a full disk does."""
    limit = (
        "import resource, signal\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))\n"
    )
    run = subprocess.run([sys.executable, "-c", limit + GROW], capture_output=True, text=True, check=False)
    assert "cannot be kept in the temporary folder" in run.stderr
    assert "File too large" in run.stderr


def test_zeros_on_disk_are_worked_on_like_others(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    found = mapped_zeros((300, 7), np.float32)
    found[5:200:3] += np.arange(7)
    release_mapped()
    assert os.listdir(tmp_path) == []
    assert found.sum() == 65 * 21
    assert mapped_zeros((0, 7), np.float32).shape == (0, 7)
    with pytest.raises(DataError, match=f"cannot be kept in the temporary folder {tmp_path}: "):
        mapped_zeros((2**30, 2**30), np.float32)


def test_things_on_disk_are_made_anew_each_time(tmp_path, monkeypatch):
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    some = Spilled({"row": np.arange(k)} for k in range(5))
    some[3]["row"][0] = 7
    release_mapped()
    assert [one["row"].tolist() for one in some] == [list(range(k)) for k in range(5)]
    assert len(some[1:3]) == 2
    assert some[-1]["row"].flags.writeable
    assert os.listdir(tmp_path) == []
    with pytest.raises(IndexError):
        some[5]
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="cannot be kept in the temporary folder .*absent: No such file"):
        Spilled([1])


def test_a_folder_that_cannot_be_written_to_is_told(monkeypatch, tmp_path):
    monkeypatch.setenv("TMPDIR", str(tmp_path / "absent"))
    with pytest.raises(DataError, match="No such file"):
        grown(0)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_nothing_is_left_of_a_process_that_was_killed(tmp_path):
    wait = "import time\nprint('grown', flush=True)\ntime.sleep(60)\n"
    child = subprocess.Popen(
        [sys.executable, "-c", GROW + wait], stdout=subprocess.PIPE, text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    )  # fmt: skip
    assert child.stdout is not None
    assert child.stdout.readline() == "grown\n"
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    assert os.listdir(tmp_path) == []


def test_a_corpus_on_disk_is_that_in_memory():
    sentences = [Document((f"w{k % 7}", f"v{k % 5}"), ("A", None if k % 3 else "B")) for k in range(3000)]
    one, other = (corpus_of(sentences, storage=Storage(memory)) for memory in (0, "1G"))
    np.testing.assert_array_equal(one.batch.labels, other.batch.labels)
    np.testing.assert_array_equal(one.batch.column("word").codes, other.batch.column("word").codes)
    assert one.label_names == other.label_names


@pytest.mark.parametrize("memory", [0, "1G"])
def test_columns_made_of_words_are_those_that_come_with_sentences(memory):
    texts = [[f"w{k % 7}", "A", f"V{k % 5}"] for k in range(20)]
    given = corpus_of(Document(tuple(t), columns={"low": tuple(w.lower() for w in t)}) for t in texts)
    place = Storage(memory)
    made = corpus_of((Document(tuple(t), path="f", line=3) for t in texts), storage=place)
    made = made.with_columns({"low": str.lower}, place)
    np.testing.assert_array_equal(made.batch.column("low").codes, given.batch.column("low").codes)
    assert made.batch.column("low").vocabulary == given.batch.column("low").vocabulary
    assert made.sentence(9) == Document(tuple(texts[9]))
    assert made.sentence(9).path == "f"


def test_instances_that_stand_together_are_taken_as_views():
    batch = corpus_of(Document(("a", f"w{k}")) for k in range(6)).batch
    some, same = batch.take(np.arange(2, 5)), batch.take(np.array([2, 4, 3]))
    assert np.shares_memory(some.column("word").codes, batch.column("word").codes)
    assert (some.first, len(some), some.n_slots) == (same.first, 3, 6)
    np.testing.assert_array_equal(some.origin.instances, [2, 3, 4])
    np.testing.assert_array_equal(some.origin.starts, [4, 6, 8])


@pytest.mark.slow
def test_learning_from_disk_gives_the_same_bits():
    pairs = [(f"a{k % 9} b{k % 4} c", f"x{k % 9} z y{k % 4}") for k in range(1500)]
    links = [
        [row.pharaoh(scores=True) for row in Aligner(n_jobs=2, memory=memory).fit_align(iter(pairs))]
        for memory in (0, "1G")
    ]
    assert links[0] == links[1]
    text = [left for left, _ in pairs]
    states = [
        Inducer(3, method="em", max_iter=3, memory=memory, random_state=0, n_jobs=2).fit(iter(text)).posterior_states
        for memory in (0, "1G")
    ]
    assert states[0].tolist() == states[1].tolist()


def test_sentences_one_by_one_teach_a_model_the_same_bits(monkeypatch):
    text = [[f"a{k % 9}", f"b{k % 4}", "c"][: 1 + k % 3] for k in range(400)]
    known = [["A", "B", "C"][: len(words)] if k % 2 else None for k, words in enumerate(text)]

    def learned(X, y=known):
        learner = UEM(HMM(["C", "B", "A"], min_count=1), max_iter=3, tol=0, random_state=0).fit(X, y)
        return learner.model_.parameters()

    expected = learned(text)
    sentences = (
        Document(tuple(words), None if own is None else tuple(own)) for words, own in zip(text, known, strict=True)
    )
    on_disk = corpus_of(sentences, storage=Storage(0))
    for found in (learned(iter(text)), learned(on_disk, None)):
        assert {name: table.tobytes() for name, table in found.items()} == {
            name: table.tobytes() for name, table in expected.items()
        }
    monkeypatch.setattr("trellis.models.hmm_words.streamed", None)
    learned(text)  # a list is no stream
    with pytest.raises(TypeError):
        learned(iter(text))


@pytest.mark.parametrize(
    "given, message",
    [(["a b"], "sentence 0 is of type str"), ([["a"], ["b", 3]], "sentence 1 has 3"), ([["a"]], "for 1 sentences but")],
)
def test_mistakes_of_sentences_one_by_one(given, message):
    with pytest.raises(DataError, match=message):
        HMM(["A", "B"]).encode(iter(given), [["A"], None], fit=True)
