"""Kernels compiled ahead: the list is true, a plan is in order, and nothing that goes wrong stops a run."""

from __future__ import annotations

import importlib.util
import inspect
import io
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from trellis.engine import compiling
from trellis.engine.compiling import (
    FILE,
    CompilePlan,
    Kernel,
    KernelList,
    announced,
    compile_ahead,
    compile_in_children,
    numba_type,
    read_kernels,
)
from trellis.engine.progress import Progress

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parent.parent.parent


@pytest.fixture(scope="module")
def recorder():
    """tools/record_kernels.py, which is no part of the package."""
    spec = importlib.util.spec_from_file_location("record_kernels", ROOT / "tools" / "record_kernels.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_listed_kernel_exists_and_takes_so_many_arguments():
    stale = []
    for kernel in read_kernels().kernels:
        try:
            parameters = inspect.signature(kernel.function().py_func).parameters
        except (ImportError, AttributeError):
            stale.append(kernel.name)
        else:
            stale += [kernel.name] if len(parameters) != len(kernel.types) else []
    assert not stale, "kernels have changed: run `make kernels`"


def test_every_listed_type_is_one_that_numba_has(recorder):
    types = {json.dumps(t) for kernel in read_kernels().kernels for t in kernel.types}
    for text in map(json.loads, types):
        assert recorder.type_name(numba_type(text)) == text


def test_callees_come_first_and_uses_name_kernels_that_are_listed():
    listed = read_kernels()
    assert all(callee < number for number, kernel in enumerate(listed.kernels) for callee in kernel.calls)
    assert all(number < len(listed.kernels) for numbers in listed.uses.values() for number in numbers)


def test_every_use_has_a_way_to_record_it(recorder):
    assert set(recorder.USES) <= set(read_kernels().uses) <= {*recorder.USES, recorder.REST}


def test_what_starts_a_run_names_a_use_that_is_listed():
    """A name that is not listed is no error, so a misspelt one would go unnoticed."""
    from trellis.apps.induce.inducer import METHODS as INDUCTION
    from trellis.learn.ccm import METHODS as TRAINING

    named = {"HMM", "HMM+rules", "CRF", "align", "align-model", "predict"}
    named |= {f"train-{method}" for method in TRAINING} | {f"induce-{method}" for method in INDUCTION}
    assert named <= set(read_kernels().uses)


def toy(*calls: list[int], names: str = "abcdef", seconds: float = 1.0) -> KernelList:
    return KernelList([Kernel(n, [], seconds, c) for n, c in zip(names, calls, strict=False)], {})


def test_a_plan_hands_out_callees_first_and_the_longest_way_before_others():
    plan = CompilePlan(toy([], [], [0], [2]), [0, 1, 2, 3])  # 0 <- 2 <- 3, and 1 by itself
    assert [plan.take(), plan.take()] == [0, 1]
    plan.finish(0)
    assert plan.take() == 2
    plan.finish(1)
    plan.finish(2)
    assert plan.take() == 3
    plan.finish(3)
    assert plan.take() is None
    assert plan.n_done == plan.total == 4


def test_two_forms_of_a_kernel_are_never_under_way_together():
    plan = CompilePlan(toy([], [], [], names="aab"), [0, 1, 2])
    assert {plan.take(), plan.take()} == {0, 2}


def test_callees_that_are_compiled_already_are_not_waited_for():
    plan = CompilePlan(toy([], [0]), [1])
    assert plan.take() == 1


def test_children_that_die_cost_time_only(monkeypatch):
    monkeypatch.setattr(compiling, "CHILD", "raise SystemExit(1)")
    assert compile_in_children(CompilePlan(toy([], [0], [1]), [0, 1, 2])) <= 3


def test_no_child_outlives_an_interruption(monkeypatch):
    started = []

    def start():
        pipe = subprocess.PIPE
        started.append(subprocess.Popen([sys.executable, "-c", "input()"], stdin=pipe, stdout=pipe, text=True))
        return started[-1]

    def interrupt(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(compiling, "start_child", start)
    monkeypatch.setattr(Progress, "advance", interrupt)
    monkeypatch.setattr(compiling.usable_cores, "__code__", (lambda: 2).__code__)
    with pytest.raises(KeyboardInterrupt):
        compile_in_children(CompilePlan(toy([], []), [0, 1]))
    assert len(started) == 2
    assert all(child.poll() is not None for child in started)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_many_are_done(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Terminal())
    monkeypatch.setattr(compiling, "_silent", False)
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setenv("TERM", "xterm")
    with announced(41, 2) as shown:
        shown.advance(12)
    assert "Compiling numerical kernels (this happens once)" in sys.stderr.getvalue()
    assert "12/41" in sys.stderr.getvalue()


def test_elsewhere_one_line_says_what_happens_and_quiet_means_none(monkeypatch, capsys):
    monkeypatch.setattr(compiling, "_silent", False)
    with announced(41, 2) as shown:
        shown.advance(12)
        shown.advance(41)
    assert capsys.readouterr().err == "Compiling 41 numerical kernels on 2 cores; this happens once.\n"
    compiling.silence()
    for stderr in (sys.stderr, Terminal()):
        monkeypatch.setattr(sys, "stderr", stderr)
        with announced(41, 2) as shown:
            shown.advance(41)
        assert not stderr.getvalue() if isinstance(stderr, Terminal) else capsys.readouterr().err == ""


KERNELS = """
from numba import njit

@njit(nogil=True, cache=True)
def double(x):
    return x + x

@njit(nogil=True, cache=True)
def fourfold(x):
    return double(double(x))
"""
LIST = """
from pathlib import Path
from trellis.engine import compiling

listed = compiling.read_kernels(Path(__file__).with_name("list.json"))
compiling.read_kernels = lambda: listed
compiling.CHILD = "from toy_list import compiling; compiling.serve()"
"""
RUN = """
from toy_list import compiling
found = compiling.compile_ahead("toy"), compiling.compile_ahead("toy")
from toy_kernels import fourfold
assert fourfold(2) == 8
print(*found, sum(fourfold.stats.cache_hits.values()), sum(fourfold.stats.cache_misses.values()))
"""


@pytest.fixture
def toy_run(tmp_path):
    """Run a program that compiles two kernels ahead and calls one of them, in a process of its own."""
    (tmp_path / "toy_kernels.py").write_text(KERNELS)
    (tmp_path / "toy_list.py").write_text(LIST)
    rows = [
        {"name": "toy_kernels.double", "types": ["int64"], "seconds": 2.0, "calls": []},
        {"name": "toy_kernels.fourfold", "types": ["int64"], "seconds": 2.0, "calls": [0]},
        {"name": "toy_kernels.moved", "types": ["int64"], "seconds": 2.0, "calls": []},
    ]
    (tmp_path / "list.json").write_text(json.dumps({"uses": {"toy": [1, 2]}, "kernels": rows}))

    def run(**environment: str) -> tuple[str, str]:
        done = subprocess.run(
            [sys.executable, "-c", RUN], capture_output=True, text=True, check=True,
            env={**os.environ, "PYTHONPATH": str(tmp_path), "NUMBA_CACHE_DIR": str(tmp_path / "cache"),
                 "TRELLIS_COMPILE_AHEAD": "1", **environment},
        )  # fmt: skip
        return done.stdout.strip(), done.stderr

    return run


def test_a_run_finds_compiled_what_children_compiled_and_says_so_once(toy_run):
    out, err = toy_run()
    assert out == "2 0 1 0"  # two ahead (the one that moved is passed over), none again, one hit, no miss
    assert err.startswith("Compiling 2 numerical kernels on ")
    assert err.count("\n") == 1
    assert toy_run() == ("0 0 1 0", "")


def test_it_can_be_turned_off(toy_run):
    assert toy_run(TRELLIS_COMPILE_AHEAD="0") == ("0 0 0 1", "")


def test_kernels_that_are_not_compiled_at_all_are_left_alone(toy_run):
    with pytest.raises(subprocess.CalledProcessError) as failed:  # plain Python has no ``stats``
        toy_run(NUMBA_DISABLE_JIT="1")
    assert "'function' object has no attribute 'stats'" in failed.value.stderr
    assert "Compiling" not in failed.value.stderr


def test_unknown_uses_and_broken_lists_are_passed_over(monkeypatch):
    monkeypatch.setenv("TRELLIS_COMPILE_AHEAD", "1")
    assert compile_ahead("no such use") == 0
    monkeypatch.setattr(compiling, "read_kernels", lambda: json.loads("{"))
    assert compile_ahead("no such use either") == 0


@pytest.mark.long
def test_the_list_is_what_recording_gives(tmp_path):
    """Runs every use with an empty cache: minutes."""
    out = tmp_path / "kernels.json"
    subprocess.run([sys.executable, ROOT / "tools" / "record_kernels.py", "--no-tests", "--out", out], check=True)
    new, old = read_kernels(out), read_kernels(FILE)
    for use, numbers in new.uses.items():
        assert forms(new, numbers) == forms(old, old.uses[use]), f"{use}: run `make kernels`"


def forms(listed: KernelList, numbers: list[int]) -> set[str]:
    return {json.dumps([listed.kernels[number].name, listed.kernels[number].types]) for number in numbers}
