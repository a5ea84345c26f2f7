"""The package as its users first meet it: importing, versions, and how the command line ends."""

from __future__ import annotations

import importlib.metadata
import inspect
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest
import typer

import trellis
from trellis.cli.app import app, main
from trellis.cli.info import _kernels, inspect_kernel_cache
from trellis.errors import TrellisError

ROOT = Path(__file__).resolve().parent.parent
HEAVY = ("numba", "scipy", "matplotlib")


def run_python(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, **environment},
        check=False,
    )


OF_A_RUN = {"self", "n_jobs", "engine", "verbose"}
"""Arguments that mean the same everywhere: docs/command-line.md."""


@pytest.mark.parametrize(
    "name", [name for name in trellis.__all__ if hasattr(getattr(trellis, name), "get_params")]
)  # fmt: skip
def test_docstrings_say_what_every_argument_is_and_of_no_other(name: str) -> None:
    estimator = getattr(trellis, name)
    sections = re.split(r"^(\w+)\n-+$", inspect.cleandoc(estimator.__doc__), flags=re.MULTILINE)
    if "Parameters" in sections:  # all of them, in order
        described = re.findall(r"^(\w+) : \S", sections[sections.index("Parameters") + 1], flags=re.MULTILINE)
        assert described == list(inspect.signature(estimator).parameters)
        return
    said = set()
    for line in re.split(r"Learned:|>>>", inspect.cleandoc(estimator.__doc__))[0].splitlines():
        for names in re.findall(r"(?:^|;  )(\w+(?:, \w+)*(?: and the rest)?) :", line):
            said |= set(re.split(", | and ", names))
    wanted = set(inspect.signature(estimator.__init__).parameters) - OF_A_RUN
    assert said - OF_A_RUN - {"the rest"} <= wanted
    assert "the rest" in said or said >= wanted


@pytest.mark.slow
@pytest.mark.parametrize(
    "statement",
    [
        "import trellis",
        "import trellis; trellis.TrellisError; dir(trellis)",
        "import trellis.cli",
        "from trellis.cli import main\ntry: main(['--help'])\nexcept SystemExit as end: assert not end.code",
    ],
)
def test_import_and_help_stay_light(statement):
    code = f"import sys\n{statement}\nprint('heavy:', [name for name in {HEAVY} if name in sys.modules])"
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1] == "heavy: []"


def test_only_networks_load_torch():
    code = (
        "import sys, trellis.neural, trellis.models\n"
        "from trellis import Aggregator, Extractor, Parser, Relater, Tagger\n"
        "Extractor(['A'], encoder='bilstm'), Relater('', encoder='bilstm'), Aggregator(encoder='bilstm')\n"
        "dir(trellis.neural)\nprint('torch' in sys.modules)"
    )
    done = run_python(code)
    assert (done.returncode, done.stdout.split()) == (0, ["False"]), done.stderr


@pytest.mark.slow
def test_an_aligner_loads_neither_linear_algebra_nor_models_of_other_structures():
    code = (
        "import sys\nfrom trellis import Aligner\nAligner(n_jobs=1).fit([('a b', 'x y'), ('a', 'x')])\n"
        "print([name for name in ('scipy.sparse', 'scipy.linalg', 'trellis.models.crf', 'trellis.learn.ccm') "
        "if name in sys.modules])"
    )
    done = run_python(code)
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr


@pytest.mark.slow
def test_kernels_of_others_still_have_blas_and_lapack():
    code = (
        "import numpy as np\nfrom numba import njit\nimport trellis.structures\na = np.array([[2.0, 1], [0, 4]])\n"
        "print(njit(lambda a: a @ a)(a).tolist(), njit(lambda a: np.linalg.inv(a))(a).tolist())\n"
        "from numba.np import linalg\nprint(linalg.ensure_blas.__module__, linalg.ensure_blas.__name__)"
    )
    done = run_python(code)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "[[4.0, 6.0], [0.0, 16.0]] [[0.5, -0.125], [0.0, 0.25]]", "numba.np.linalg ensure_blas",
    ]  # fmt: skip


@pytest.mark.parametrize("package", [trellis.models, trellis.learn])
def test_every_name_of_a_package_is_imported_on_first_use(package):
    for name in package.__all__:
        assert name in dir(package)
        assert not inspect.ismodule(getattr(package, name))
    with pytest.raises(AttributeError, match=f"module '{package.__name__}' has no attribute 'HNM'"):
        package.HNM  # noqa: B018


def test_every_export_exists_and_is_listed():
    for name in trellis.__all__:
        assert getattr(trellis, name) is not None
        assert name in dir(trellis)
    for name in trellis._SUBPACKAGES:
        assert getattr(trellis, name) is sys.modules[f"trellis.{name}"]


def test_unknown_export_is_an_attribute_error():
    with pytest.raises(AttributeError, match="'trellis' has no attribute 'TrelisError'"):
        trellis.TrelisError  # noqa: B018


def test_versions_agree():
    assert importlib.metadata.version("trellis-learn") == trellis.__version__, "run: make install"
    citation = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert re.search(r"^version: (.+)$", citation, re.MULTILINE).group(1) == trellis.__version__


def run_main(*arguments: str) -> int:
    with pytest.raises(SystemExit) as stop:
        main(arguments)
    return stop.value.code


@pytest.fixture
def failing_command(monkeypatch):
    """Add a command ``fail`` that raises what it is given, for one test."""
    monkeypatch.setattr(app, "registered_commands", list(app.registered_commands))

    def add(error: BaseException) -> None:
        @app.command()
        def fail() -> None:
            raise error

    return add


def test_version_option_prints_the_version(capfd):
    assert run_main("--version") == 0
    assert capfd.readouterr().out == f"trellis {trellis.__version__}\n"


def test_info_reports_versions_and_kernels(capfd):
    assert run_main("info") == 0
    lines = capfd.readouterr().out.splitlines()
    values = dict(line.split(maxsplit=1) for line in lines)
    assert values["trellis"] == trellis.__version__
    assert values["numba"] == importlib.metadata.version("numba")
    assert int(values["cores"]) >= 1
    assert "compiled" in values["kernels"]


@pytest.mark.slow
def test_kernel_cache_is_found_where_numba_writes_it(tmp_path):
    """In a process of its own, because numba reads NUMBA_CACHE_DIR once; the toy kernel stands for ours."""
    kernels = tmp_path / "toy" / "kernels.py"
    kernels.parent.mkdir()
    kernels.write_text(
        "from numba import njit\n\n@njit(nogil=True, cache=True)\ndef double(x):\n    return x + x\n\n"
        "@njit(nogil=True, cache=True)\ndef unused(x):\n    return x\n"
    )
    code = f"""if True:
        import sys
        from pathlib import Path
        from trellis.cli import info
        sys.path.insert(0, {str(tmp_path)!r})
        info.__file__ = {str(kernels.parent / "cli" / "info.py")!r}
        before = info.inspect_kernel_cache()
        from toy.kernels import double
        double(1.0)
        after = info.inspect_kernel_cache()
        print(before.compiled, before.total, after.compiled, after.total)
        print(*after.folders)
    """
    done = run_python(code, NUMBA_CACHE_DIR=str(tmp_path / "cache"))
    assert done.returncode == 0, done.stderr
    counts, folder = done.stdout.splitlines()
    assert counts == "0 2 1 2"
    assert Path(folder).parent == tmp_path / "cache"


def test_every_kernel_is_counted_once():
    places = [(kernel.py_func.__code__.co_filename, kernel.py_func.__name__) for kernel in _kernels()]
    assert len(places) == len(set(places)) == inspect_kernel_cache().total


def test_our_errors_are_one_message_and_exit_code_2(failing_command, monkeypatch, capfd):
    monkeypatch.delenv("TRELLIS_DEBUG", raising=False)
    error = TrellisError("[file].tsv, line 3: expected 2 columns but got 5" + ", really" * 20)
    error.add_note("Say which column is which with --columns.")
    failing_command(error)
    assert run_main("fail") == 2
    out, err = capfd.readouterr()
    assert out == ""
    assert err == f"Error: {error}\nSay which column is which with --columns.\n"


def test_debugging_keeps_the_traceback(failing_command, monkeypatch):
    monkeypatch.setenv("TRELLIS_DEBUG", "1")
    failing_command(TrellisError("found nothing"))
    with pytest.raises(TrellisError, match="found nothing"):
        main(["fail"])


def test_a_bug_is_not_mistaken_for_a_user_error(failing_command):
    failing_command(ZeroDivisionError("a bug"))
    with pytest.raises(ZeroDivisionError, match="a bug"):
        main(["fail"])


def test_a_command_chooses_its_exit_code(failing_command):
    failing_command(typer.Exit(3))
    assert run_main("fail") == 3


@pytest.mark.parametrize("arguments", [["inof"], ["info", "--colour"], ["--wat"]])
def test_mistyped_arguments_exit_with_code_2(arguments, capfd):
    assert run_main(*arguments) == 2
    err = capfd.readouterr().err
    assert arguments[-1] in err
    assert "Traceback" not in err


def test_mistyped_command_is_corrected(capfd):
    run_main("inof")
    assert "Did you mean `trellis info`?" in capfd.readouterr().err


def test_ctrl_c_says_interrupted_and_exits_with_130():
    # A shell starts what it puts into the background with this signal ignored, and children inherit that.
    code = """if True:
        import signal, time
        from trellis.cli.app import app, main

        signal.signal(signal.SIGINT, signal.default_int_handler)

        @app.command()
        def sleep():
            print("ready", flush=True)
            time.sleep(60)

        main(["sleep"])
    """
    process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    assert err == "interrupted\n"
    assert process.returncode == 130


@pytest.mark.slow
@pytest.mark.parametrize("argument", ["info", "--help", "--version"])
def test_a_closed_pipe_is_no_news(argument):
    process = subprocess.Popen(
        [sys.executable, "-m", "trellis", argument], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    process.stdout.close()  # the reader is gone before the first word
    assert process.stderr.read() == b""
    process.stderr.close()
    assert process.wait(timeout=60) == 1
