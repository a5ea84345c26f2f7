"""The files that commands write are the same bytes for any number of threads and wherever shards run."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.align.toy import toy_text
from tests.engine.isolating import IsolatingEngine
from tests.extract.samples import rules_of, write_samples
from trellis.cli.app import main
from trellis.engine import threads as engine_threads
from trellis.engine.dask import DaskEngine

pytestmark = pytest.mark.filterwarnings("ignore::trellis.errors.ConvergenceWarning")

COMMANDS = {
    "align": "align -s s -t t -o {to}/links --scores --save {to}/m",
    "induce": "induce s --method sparse --states 4 --rounds 4 --em-rounds 2 -o {to}/tags --save {to}/m",
    "codl": "train rules.toml -l few.tsv -u text.txt --method codl --rounds 2 --save {to}/m",
    "pr": "train rules.toml -l few.tsv -u text.txt --method pr --rounds 2 --save {to}/m",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("corpora")
    pairs, _ = toy_text(400)
    for name, side in (("s", 0), ("t", 1)):
        (made / name).write_text("".join(" ".join(pair[side]) + "\n" for pair in pairs))
    write_samples("citations", made, sizes=(5, 60, 5))
    (made / "rules.toml").write_text(rules_of("citations"))
    return made


@pytest.fixture(autouse=True)
def small_shards(monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
    monkeypatch.setattr("trellis.data.shards.SMALLEST", 300)
    monkeypatch.setattr("trellis.data.shards.LARGEST", 600)
    monkeypatch.chdir(folder)


def written(command: str, *more: object) -> dict[str, bytes]:
    """What a command wrote, by the name of the file."""
    to = Path("out")
    to.mkdir(exist_ok=True)
    for file in to.iterdir():
        file.unlink()
    with pytest.raises(SystemExit) as stop:
        main([*COMMANDS[command].format(to=to).split(), "--quiet", *map(str, more)])
    assert stop.value.code == 0
    return {file.name: file.read_bytes() for file in to.iterdir()}


known: dict[str, dict[str, bytes]] = {}


def alone(command: str) -> dict[str, bytes]:
    if command not in known:
        known[command] = written(command, "--threads", 1)
        assert len(known[command]) >= 1
    return known[command]


@pytest.mark.slow
@pytest.mark.parametrize("threads", [2, 4])
@pytest.mark.parametrize("command", COMMANDS)
def test_any_number_of_threads(command: str, threads: int) -> None:
    assert written(command, "--threads", threads) == alone(command)


@pytest.mark.slow
@pytest.mark.parametrize("command", ["align", "induce", "codl", "pr"])
def test_a_text_on_disk(command: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert written(command, "--memory", "1K", "--threads", 2) == alone(command)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_copies_of_everything(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = alone(command)
    monkeypatch.setitem(engine_threads._clusters, "copy://", IsolatingEngine())
    assert written(command, "--engine", "copy://") == expected


@pytest.fixture(scope="module")
def cluster() -> Iterator[Any]:
    engine = DaskEngine.local(2)
    address = engine.client.scheduler.address
    yield engine
    if address in engine_threads._clusters:
        engine_threads._clusters.pop(address).close()  # else it would look for its scheduler in the background for ever
    engine.close()


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS)
def test_two_workers(command: str, cluster: Any) -> None:
    assert written(command, "--engine", cluster.client.scheduler.address) == alone(command)


@pytest.mark.slow
def test_a_worker_that_is_killed(cluster: Any) -> None:
    """(engine/test_same_bits.py kills others, between and inside passes.)"""
    command = "align"
    victim = next(iter(cluster.client.run(os.getpid).values()))
    expected = alone(command)
    killer = threading.Timer(0.3, os.kill, (victim, signal.SIGKILL))
    killer.start()
    assert written(command, "--engine", cluster.client.scheduler.address) == expected
    killer.join()
