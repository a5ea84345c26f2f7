"""New text without end: results come while text is still read, are those of the whole text, and memory stays flat."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from types import SimpleNamespace

import pytest

from tests.hostile.command import run, train
from tests.match.test_matcher import names
from tests.parse.toy import treebank
from tests.relate.sample import RULES as RELATION_RULES
from tests.relate.sample import sentences as related
from trellis import HMM, Aligner, Matcher, Parser, Relater, Tagger
from trellis.data.conllu import write_conllu
from trellis.data.related import write_related

pytestmark = pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")

COMMANDS = {
    "columns": ("predict -m {model} -", "extractor"),
    "json": ("predict -m {model} - --json", "extractor"),
    "view": ("predict -m {model} - --format view", "extractor"),
    "tag": ("tag predict - -m {model}", "tagger"),
    "parse": ("parse predict - -m {model}", "parser"),
    "relate": ("relate predict - -m {model}", "relater"),
    "match": ("match predict - -m {model}", "matcher"),
    "induce": ("induce - -m {model}", "hmm"),
    "align": ("align -i - -m {model} --scores", "aligner"),
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("endless")
    rules = 'labels = ["NAME", "YEAR"]\n[[rule]]\nname = "a year"\ncount = "YEAR"\nat_least = 1\n'
    rules += '[[rule]]\nname = "years"\nif_word_matches = "^[0-9]+$"\nthen_label = "YEAR"\n'
    rules += '[[rule]]\nname = "words"\nif_word_matches = "^[a-z]+$"\nthen_label = "NAME"\n'
    os.rename(train(made, rules), made / "extractor")
    return made


def model_of(folder, name):
    """The file of a small trained model, made when it is first asked for."""
    path = folder / name
    if path.exists():
        return path
    if name == "tagger":
        Tagger(min_count=1).fit(treebank(20)).save(path)
    elif name == "parser":
        Parser(bits=12, min_count=1, max_iter=1).fit(treebank(20)).save(path)
    elif name == "relater":
        Relater(RELATION_RULES, max_iter=1).fit(related(20)).save(path)
    elif name == "matcher":
        Matcher("names", negatives=3, max_iter=1, random_state=0).fit(names(20)).save(path)
    elif name == "hmm":
        HMM(["A", "B"], min_count=1).fit([["a", "b"], ["b", "a"]], [["A", "B"], ["B", "A"]]).save(path)
    elif name == "aligner":
        Aligner(max_iter=1, model1_iter=1).fit([("a b", "x y"), ("a", "x"), ("b c", "y z")]).save(path)
    return path


def text_for(name, tmp_path):
    """Lines of about 100 instances, some of which are odd or blank where a command takes that."""
    if name == "extractor":
        years = [f"Ann Bo {1900 + k}\n".encode() for k in range(100)]
        years[7], years[60:62] = b"\xff\n", [b"none here\n", b"\n"]
        return years
    if name == "tagger":
        return [f"the {word} sees a tree .\n".encode() for word in ("dog", "", "old cat", "gardener") * 25]
    if name == "parser":
        write_conllu(tmp_path / "in", treebank(60, seed=3))
    elif name == "relater":
        write_related(tmp_path / "in", related(40, first=50), columns=False)
    elif name == "matcher":
        pairs = [f"{a}\t{b}\t1\n".encode() for a, b in names(60, seed=4)]
        return [*pairs, b"odd\n", *pairs]
    elif name == "hmm":
        return [b"a b b a\n", b"\n", b"b c\n"] * 40
    else:
        return [b"a b ||| x y\n", b"c a ||| z\n", b"|||\n"] * 40
    return (tmp_path / "in").read_bytes().splitlines(keepends=True)


def fed(monkeypatch, arguments, lines, more=("--threads", 1)):
    """Standard output of a command, and how much of it there was when each line was read; None: it failed."""
    out, seen = io.BytesIO(), []

    def giving():
        for line in lines:
            seen.append(len(out.getvalue()))
            yield line

    monkeypatch.setattr(sys, "stdin", SimpleNamespace(buffer=giving(), isatty=lambda: False))
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(out, encoding="utf-8", write_through=True))
    assert run(*arguments.split(), *more) == 0
    sys.stdout.flush()
    return out.getvalue(), seen


@pytest.mark.parametrize("command", COMMANDS)
def test_results_come_before_the_text_ends_and_are_those_of_the_whole(command, folder, tmp_path, monkeypatch, capfd):
    arguments, name = COMMANDS[command]
    arguments = arguments.format(model=model_of(folder, name))
    lines = text_for(name, tmp_path)
    capfd.readouterr()
    whole, _ = fed(monkeypatch, arguments, lines)
    told = capfd.readouterr().err
    monkeypatch.setattr("trellis.data.shards.SMALLEST", 60)
    monkeypatch.setattr("trellis.apps.align.pairs.CHUNK", 11)
    found, seen = fed(monkeypatch, arguments, lines)
    assert found == whole
    assert capfd.readouterr().err == told
    assert len(whole) > 100
    assert len(whole) // 4 < seen[len(lines) // 2] < len(whole)
    if name == "extractor":
        assert "1 of 100 texts could not be read" in told
        assert "1 of 100 texts cannot satisfy these rules" in told
        assert "standard input, line 61: 'words'" in told


@pytest.mark.parametrize("form", ["", " --plain", " --json"])
def test_tokens_come_before_the_text_ends(form, monkeypatch):
    lines = [b"\n", b" \n", *(f"Ann, Bo {k}\n".encode() for k in range(40))]
    found, seen = fed(monkeypatch, "tokens -" + form, lines, more=())
    assert seen[2] == 0
    assert 0 < seen[20] < len(found)
    few, seen = fed(monkeypatch, "tokens - -n 3" + form, lines, more=())
    assert found.startswith(few)
    assert len(seen) < 8, "no more is read than is asked for"


def test_a_file_is_whole_or_not_written(folder, tmp_path, monkeypatch, capfd):
    """The fault comes long after the first results."""
    monkeypatch.setattr("trellis.data.shards.SMALLEST", 60)
    write_conllu(tmp_path / "in.conllu", treebank(60))
    with open(tmp_path / "in.conllu", "a") as file:
        file.write("1\tno\n\n")
    (tmp_path / "out").write_text("before\n")
    command = "parse", "predict", tmp_path / "in.conllu", "-m", model_of(folder, "parser"), "-o", tmp_path / "out"
    assert run(*command, "--threads", 1) == 2
    assert "expected 10 tab-separated columns but found 2" in capfd.readouterr().err
    assert (tmp_path / "out").read_text() == "before\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["in.conllu", "out"]


SMALL = "from trellis.data import shards\nshards.SMALLEST = {size}\n"
MAIN = "import sys\nfrom trellis.cli.app import main\nmain(sys.argv[1:])\n"


def test_a_pipe_has_its_results_while_it_is_open(folder):
    child = subprocess.Popen(
        [sys.executable, "-c", SMALL.format(size=40) + MAIN, "predict", "-m", folder / "extractor", "--threads", "1"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    child.stdin.write(b"Ann Bo 1999\n" * 15)
    child.stdin.flush()
    assert child.stdout.readline() == b"Ann\tNAME\n"
    rest, _ = child.communicate(b"Cy 1987\n", timeout=120)
    assert child.returncode == 0
    assert rest.count(b"YEAR") == 16


MEASURED = """
import atexit, sys
from types import SimpleNamespace
lines = (b"Ann Bo Cy Dee Eve Fay %d\\n" % (1900 + k % 100) for k in range(int(sys.argv.pop())))
sys.stdin = SimpleNamespace(buffer=lines, isatty=lambda: False)
atexit.register(lambda: print(open("/proc/self/status").read().split("VmHWM:")[1].split()[0], file=sys.stderr))
"""


@pytest.mark.slow
@pytest.mark.skipif(not os.path.exists("/proc/self/status"), reason="no file says what a process has needed")
def test_memory_does_not_grow_with_the_text(folder):
    """Not by getrusage: to it a child has needed what its parent had when it was started."""
    peaks = []
    for n in (300, 2_000):
        command = ["extract", "predict", "-m", str(folder / "extractor"), "-o", "/dev/null", "--threads", "1", str(n)]
        done = subprocess.run(
            [sys.executable, "-c", MEASURED + SMALL.format(size=4_000) + MAIN, *command],
            capture_output=True, text=True, timeout=300, check=True,
        )  # fmt: skip
        peaks.append(int(done.stderr.split()[-1]) / 1024)
    assert peaks[1] < peaks[0] + 15, f"MB: {peaks}"
