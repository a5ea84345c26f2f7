"""Opening text, and replacing files only when complete."""

from __future__ import annotations

import errno
import gzip
import io
import os
import subprocess
import sys
import threading
import zipfile
from pathlib import Path

import pytest

from trellis.data.files import numbered_lines, writing, writing_bytes
from trellis.errors import DataError

posix = pytest.mark.skipif(os.name != "posix", reason="needs POSIX files")


def write_then_raise(path: Path, error: BaseException, size: int = 1) -> None:
    with writing(path) as out:
        out.write("new" * size)
        raise error


def text_of(path: Path | str) -> list[str]:
    return [line for _, line in numbered_lines(path)]


def test_lines_are_numbered_from_one_and_lose_their_ends(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"\xef\xbb\xbfone\r\n\ntwo\x0b\xc2\x85\xe2\x80\xa8three\r\n\xef\xbb\xbflast")
    # Only LF ends a line: the signs that str.splitlines takes for ends stay in it.
    assert list(numbered_lines(path)) == [(1, "one"), (2, ""), (3, "two\x0b\x85\u2028three"), (4, "\ufefflast")]


@pytest.mark.slow
def test_lines_stream_without_holding_the_file(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "a.gz"
    with writing(path) as out:
        for _ in range(200_000):
            out.write("a line of some thirty characters\n")
    tracemalloc.start()
    try:
        assert sum(1 for _ in numbered_lines(path)) == 200_000
        assert tracemalloc.get_traced_memory()[1] < 500_000
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("cut", [0, 1, 9, 15, -9, -4, -1])
def test_truncated_gzip_is_our_error(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "a.gz"
    whole = gzip.compress(b"time\tNOUN\n" * 50)
    path.write_bytes(whole[:cut])
    with pytest.raises(DataError, match="incomplete gzip file") as e:
        text_of(path)
    assert e.value.path == str(path)


def test_damaged_gzip_is_our_error(tmp_path: Path) -> None:
    path = tmp_path / "a.gz"
    whole = bytearray(gzip.compress(os.urandom(300).hex().encode()))
    whole[-6] ^= 255  # checksum
    path.write_bytes(whole)
    with pytest.raises(DataError, match="incomplete gzip file"):
        text_of(path)
    whole[40:60] = bytes(20)  # data
    path.write_bytes(whole)
    with pytest.raises(DataError, match="incomplete gzip file"):
        text_of(path)
    path.write_bytes(b"plain text\n")
    with pytest.raises(DataError, match="incomplete gzip file"):
        text_of(path)


def test_gzip_members_after_one_another_are_one_text(tmp_path: Path) -> None:
    path = tmp_path / "a.GZ"
    path.write_bytes(gzip.compress(b"a\nb") + gzip.compress(b"c\n"))
    assert text_of(path) == ["a", "bc"]


def test_utf16_is_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_bytes("dog\n".encode("utf-16"))
    with pytest.raises(DataError, match="line 1: expected UTF-8 but byte 1 of the line is 0xff .* UTF-16"):
        text_of(path)


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_missing_file_directory_and_impossible_name_are_our_errors(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(DataError, match="nowhere.* cannot be read: No such file"):
        text_of(tmp_path / f"nowhere{suffix}")
    folder = tmp_path / f"folder{suffix}"
    folder.mkdir()
    with pytest.raises(DataError, match="cannot be read: Is a directory"):
        text_of(folder)
    with pytest.raises(DataError, match="not a valid file name"):
        text_of(f"a\0b{suffix}")


@posix
@pytest.mark.skipif(hasattr(os, "geteuid") and os.geteuid() == 0, reason="root may read and write everything")
def test_forbidden_files_are_our_errors(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("x")
    path.chmod(0)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        text_of(path)
    tmp_path.chmod(0o500)
    try:
        with pytest.raises(DataError, match="cannot be written: Permission denied"), writing(tmp_path / "b"):
            pass
    finally:
        tmp_path.chmod(0o700)


def test_permission_denied_is_our_error_whoever_runs_this(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr("builtins.open", refuse)
    with pytest.raises(DataError, match="cannot be read: Permission denied"):
        text_of(tmp_path / "a")
    monkeypatch.undo()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(DataError, match="cannot be written: Permission denied"), writing(tmp_path / "a"):
        pass


def test_standard_input_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"\xef\xbb\xbfone\r\ntwo"), encoding="ascii"))
    assert text_of("-") == ["one", "two"]
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"a\n\xff"), encoding="ascii"))
    with pytest.raises(DataError, match="standard input, line 2: expected UTF-8"):
        text_of("-")


def test_standard_output_gets_utf8_and_stays_open(capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    program = (
        "import sys\n"
        "from trellis.data.files import writing\n"
        "print('before')\n"
        "with writing('-') as out: out.write('é\\n')\n"
        "print('after')\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONIOENCODING": "ascii"}
    subprocess.run([sys.executable, "-c", program], check=True, env=environment)
    assert capfdbinary.readouterr().out.replace(b"\r\n", b"\n") == b"before\n\xc3\xa9\nafter\n"


@posix
def test_full_standard_output_is_our_error_and_a_broken_pipe_is_left_to_the_command() -> None:
    program = (
        "from trellis.data.files import writing\n"
        "from trellis.errors import DataError\n"
        "import sys, os\n"
        "try:\n"
        "    with writing('-') as out: out.write('x' * 100_000)\n"
        "except (DataError, BrokenPipeError) as error:\n"
        "    sys.stderr.write(f'{type(error).__name__}: {error}')\n"
        "    sys.stderr.flush(); os._exit(0)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with open("/dev/full", "wb") as full:
        run = subprocess.run([sys.executable, "-c", program], stdout=full, stderr=subprocess.PIPE, env=environment)
    assert run.stderr.startswith(b"DataError: standard output: cannot be written: No space left")
    reader, writer = os.pipe()
    os.close(reader)
    run = subprocess.run([sys.executable, "-c", program], stdout=writer, stderr=subprocess.PIPE, env=environment)
    os.close(writer)
    assert run.stderr.startswith(b"BrokenPipeError")


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("error", [KeyError("bug"), KeyboardInterrupt(), SystemExit(1), OSError("elsewhere")])
def test_an_exception_leaves_the_old_file_and_nothing_else(tmp_path: Path, suffix: str, error: BaseException) -> None:
    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")
    with pytest.raises(type(error)) as e:
        write_then_raise(path, error, 100_000)
    assert e.value is error
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_an_exception_makes_no_file_where_there_was_none(tmp_path: Path, suffix: str) -> None:
    with pytest.raises(RuntimeError):
        write_then_raise(tmp_path / f"a{suffix}", RuntimeError())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("suffix", ["", ".gz"])
@pytest.mark.parametrize("call", ["fsync", "replace"])
def test_a_full_disk_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, suffix: str
) -> None:
    def full(*_: object) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")

    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, call, full)
    with pytest.raises(DataError, match="a.* cannot be written: No space left on device"), writing(path) as out:
        out.write("new" * 100_000)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@posix
@pytest.mark.parametrize("suffix", ["", ".gz"])
def test_a_write_that_finds_no_room_leaves_the_old_file(tmp_path: Path, suffix: str) -> None:
    import resource

    path = tmp_path / f"a{suffix}"
    path.write_bytes(b"old")
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (5_000, limits[1]))
    try:
        with pytest.raises(DataError, match="a.* cannot be written: File too large"), writing(path) as out:
            out.writelines(f"{number * number}\n" for number in range(20_000))
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize("size", [1, 1_000_000])
def test_a_device_that_is_full_is_our_error(size: int) -> None:
    with pytest.raises(DataError, match="/dev/full: cannot be written: No space left"), writing("/dev/full") as out:
        out.write("x" * size)


@posix
def test_pipes_are_written_straight(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    got: list[bytes] = []
    reader = threading.Thread(target=lambda: got.append(path.read_bytes()))
    reader.start()
    with writing(path) as out:
        out.write("through\n")
    reader.join()
    assert got == [b"through\n"]
    assert list(tmp_path.iterdir()) == [path]


def test_the_target_changes_only_at_the_end(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("old\n")
    with writing(path) as out:
        out.write("new\n")
        out.flush()
        assert text_of(path) == ["old"]
    assert text_of(path) == ["new"]


def test_a_file_may_be_rewritten_from_its_own_lines(tmp_path: Path) -> None:
    path = tmp_path / "a"
    path.write_text("one\ntwo\n")
    with writing(path) as out:
        for number, line in numbered_lines(path):
            out.write(f"{number} {line}\n")
    assert text_of(path) == ["1 one", "2 two"]


def test_unwritable_places_are_refused_before_the_body_runs(tmp_path: Path) -> None:
    for path, why in [
        (tmp_path, "it is a directory"),
        (tmp_path / "no" / "a", "No such file"),
        ("a\0b", "not a valid file name"),
    ]:
        with pytest.raises(DataError, match=why), writing(path):
            pytest.fail("the body ran")


@posix
def test_modes_and_links_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "a"
    old = os.umask(0o027)
    try:
        with writing(path):
            pass
        assert path.stat().st_mode & 0o777 == 0o640
    finally:
        os.umask(old)
    path.chmod(0o604)
    link = tmp_path / "link"
    link.symlink_to(path)
    with writing(link) as out:
        out.write("new\n")
    assert link.is_symlink()
    assert text_of(path) == ["new"]
    assert path.stat().st_mode & 0o777 == 0o604


@posix
def test_the_longest_name_can_be_written(tmp_path: Path) -> None:
    path = tmp_path / ("n" * 255)
    with writing(path) as out:
        out.write("x")
    assert list(tmp_path.iterdir()) == [path]


def test_gzip_output_is_the_same_bytes_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / "a.gz", tmp_path / "other.gz"
    for path, time in ((first, 1e9), (second, 1.5e9)):
        monkeypatch.setattr("time.time", lambda time=time: time)
        with writing(path) as out:
            out.write("same\n")
    assert first.read_bytes() == second.read_bytes()
    assert gzip.decompress(first.read_bytes()) == b"same\n"


def test_binary_files_are_replaced_in_the_same_manner(tmp_path: Path) -> None:
    import zipfile

    path = tmp_path / "model.zip"
    with writing_bytes(path) as raw, zipfile.ZipFile(raw, "w") as packed:
        packed.writestr("a", b"1")
    with pytest.raises(TypeError), writing_bytes(path) as raw:
        raw.writelines([b"broken", "no bytes"])  # type: ignore[list-item]
    with zipfile.ZipFile(path) as packed:
        assert packed.read("a") == b"1"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("name", ["m.trellis", "m.txt"])
def test_an_archive_is_not_read_as_text(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("header.json", "{}")
    with pytest.raises(DataError, match="expected text but found a model or other zip archive"):
        text_of(path)
