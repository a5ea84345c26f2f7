"""Every page of README and docs is true: its Python runs, its commands run, and what it shows is what comes out."""

from __future__ import annotations

import ast
import io
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tests.docs.blocks import blocks_of, commands_of
from tests.docs.sandbox import PRELUDE, ROOT, furnish
from tests.hostile.command import run

PAGES = {
    str(path.relative_to(ROOT / "docs" if path.name != "README.md" else ROOT)): path
    for path in [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
}
BLOCKS = {name: blocks_of(path.read_text(encoding="utf-8")) for name, path in PAGES.items()}
WITH_PYTHON = [name for name, blocks in BLOCKS.items() if any(b.language == "python" for b in blocks)]
WITH_COMMANDS = [name for name, blocks in BLOCKS.items() if any(commands_of(b) for b in blocks)]
DECIMAL, ANY_DECIMAL = re.compile(r"\d+\\\.\d+"), r"(\\d+\\.\\d+)"

NEEDS = {
    "aggregation.md": ("sklearn",),
    "neural.md": ("torch",),
    "integrations/spacy.md": ("spacy",),
    "integrations/frames.md": ("pandas", "polars", "pyarrow"),
    "integrations/scikit-learn.md": ("sklearn", "pandas"),
    "integrations/snorkel-skweak.md": ("snorkel", "skweak", "spacy", "pandas"),
}
"""Optional libraries of a page, which is skipped without them."""
SERVERS = (["trellis", "serve"], ["trellis", "studio"])
NO_BROWSER = {"serve": [], "studio": ["--no-browser"]}


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_PYTHON)
def test_the_python_of_a_page_runs_and_shows_what_it_says(name, tmp_path, monkeypatch):
    for library in NEEDS.get(name, ()):
        pytest.importorskip(library, reason=f"the page needs {library}, which is not installed")
    furnish(name, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(ROOT / "examples"))
    module = ModuleType("page")  # where a dataclass of the page looks for its module
    monkeypatch.setitem(sys.modules, "page", module)
    session = module.__dict__
    exec(PRELUDE.get(name, ""), session)
    for block in BLOCKS[name]:
        if block.language == "python":
            _run_python(block, PAGES[name], session)


def _run_python(block, path, session):
    """Statement by statement; an expression with a comment that is a value has that value."""
    # Blank lines in front keep the line numbers of a traceback those of the page.
    source = "\n" * (block.line - 1) + "\n".join(block.lines)
    for statement in ast.parse(source).body:
        code = compile(ast.Module([statement], []), str(path), "exec")
        said = _value(source.splitlines()[statement.end_lineno - 1], statement)
        if said is None:
            exec(code, session)
            continue
        found = eval(compile(ast.Expression(statement.value), str(path), "eval"), session)
        assert repr(found) == repr(said), f"{path.name}, line {statement.end_lineno}"


def _value(line, statement):
    """What the comment behind an expression says that it is, where that is a value at all."""
    if not isinstance(statement, ast.Expr):
        return None
    comment = re.search(r"\S\s+# (.+)$", line)
    try:
        return ast.literal_eval(comment[1]) if comment else None
    except (SyntaxError, ValueError):
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_the_commands_of_a_page_run_and_print_what_it_shows(name, tmp_path, monkeypatch, capfd, servers):
    furnish(name, tmp_path)
    given = {path: path.read_bytes() for path in tmp_path.iterdir() if path.is_file()}
    for block in BLOCKS[name]:
        monkeypatch.chdir(tmp_path)  # a page may go into a folder, and begins each block where its reader began
        for command, shown in commands_of(block):
            words = shlex.split(re.split(r"\s+# ", command)[0])
            if words[0] == "cd":
                monkeypatch.chdir(words[1])
                continue
            if words[:2] in SERVERS:
                servers.start(words[1:], shown)
                continue
            if words[0] == "curl" and shutil.which("curl") is None:
                continue
            command = servers.where_they_are(command)
            words = servers.where_they_are(words)
            _make_room(words)
            found = _output(words, command, capfd, monkeypatch)
            for path, content in given.items():  # what the reader has stays: labels are in few.tsv now, say
                if not path.exists() or path.read_bytes() != content:
                    path.write_bytes(content)
            if shown is not None:
                _compare(shown, found, f"{name}: {command}")


@pytest.mark.parametrize("name", ["README.md", "start.md", "aggregation.md", "induction.md"])
def test_the_examples_of_first_pages_can_be_run_again(name):
    written = [
        command
        for block in BLOCKS[name]
        if block.language == "console"
        for command, _ in commands_of(block)
        if re.match(r"trellis (extract predict|aggregate|induce) .*-o ", command)
    ]
    assert written
    assert all("--force" in command for command in written)


class Servers:
    """Servers that a page starts, each on a port that is free in place of the one that the page shows."""

    def __init__(self):
        self.started, self.ports = [], {}

    def start(self, words, shown):
        """Start one; what it says first is what the page shows."""
        kept = [word for word in words if word != "&"]
        command = [sys.executable, "-m", "trellis", *kept, "--port", "0", *NO_BROWSER[kept[0]]]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self.started.append(process)
        said = process.stderr.readline()
        found = re.search(r":(\d+)", said)
        assert found, said + process.stderr.read()
        if shown is not None:
            port = re.search(r":(\d+)", shown[0])[1]
            self.ports[port] = found[1]
            _compare(
                [re.sub(r"token=\w+", "token=", shown[0])],
                re.sub(r"token=\w+", "token=", said.replace(found[1], port)),
                words,
            )

    def where_they_are(self, text):
        if isinstance(text, list):
            return [self.where_they_are(word) for word in text]
        for port, real in self.ports.items():
            text = text.replace(f"127.0.0.1:{port}", f"127.0.0.1:{real}")
        return text


@pytest.fixture
def servers():
    found = Servers()
    yield found
    for process in found.started:
        process.terminate()
        process.wait(20)
        process.stderr.close()


def _make_room(words):
    """A file of an earlier command of the page would be refused as labels that somebody wrote."""
    for option in {"-o", "--output", "--save"} & set(words):
        for name in words[words.index(option) + 1 : words.index(option) + 2]:
            Path(name).unlink(missing_ok=True)


def _output(words, command, capfd, monkeypatch):
    capfd.readouterr()
    if "|" in words:  # what stands before it is given to the last one
        at = command.rindex("|")
        before = subprocess.run(command[:at], shell=True, check=True, capture_output=True, timeout=60).stdout
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(before), encoding="utf-8"))
        words = words[len(words) - words[::-1].index("|") :]
    if words[0] == "trellis":
        into = words.index(">") if ">" in words else len(words)
        code = run(*words[1:into])
        out, err = capfd.readouterr()
        assert code == 0, f"{command}\n{err}"
        if into < len(words):
            with open(words[into + 1], "w", encoding="utf-8") as file:
                file.write(out)
        return out
    return subprocess.run(words, check=True, capture_output=True, text=True, timeout=60).stdout


def _compare(shown, found, where):
    """Line by line; ``...`` stands for any number of lines, or for the rest of one.

    Another machine may round the last digit otherwise.
    """
    pattern = "".join(
        "(?:.*\n)*?" if line.strip() == "..." else DECIMAL.sub(ANY_DECIMAL, _beginning(line.rstrip())) + r"[ \t]*\n"
        for line in _trimmed(shown)
    )
    match = re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in _trimmed(found.splitlines())))
    assert match, f"{where} prints\n{found}"
    said = re.findall(r"\d+\.\d+", "\n".join(line for line in shown if line.strip() != "..."))
    for one, other in zip(said, match.groups(), strict=True):
        assert abs(float(one) - float(other)) <= 1.01 * 10.0 ** -len(one.split(".")[1]), f"{where} prints\n{found}"


def _beginning(line):
    return re.escape(line.removesuffix("...")) + (".*" if line.endswith("...") else "")


def _trimmed(lines):
    lines = list(lines)
    while lines and not lines[-1].strip():
        lines.pop()
    return lines


def test_there_are_pages_to_look_at():
    assert len(WITH_PYTHON) > 8
    assert len(WITH_COMMANDS) > 10


def test_programs_side_by_side_have_ten_lines_or_fewer():
    page = PAGES["integrations/snorkel-skweak.md"].read_text(encoding="utf-8")
    programs = re.findall(r"<td>\n\n```python\n(.*?)```\n\n</td>", page, re.S)
    assert len(programs) == 4
    assert all(len([line for line in program.splitlines() if line.strip()]) <= 10 for program in programs)
