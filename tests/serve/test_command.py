"""``trellis serve`` as a process: it says where it serves, answers, and ends in order."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time

import pytest

from tests.hostile.command import run
from tests.serve.conftest import Served


class Started:
    """A server in a process of its own."""

    def __init__(self, *arguments):
        command = [sys.executable, "-m", "trellis", "serve", *map(str, arguments), "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        first = self.process.stderr.readline()
        found = re.search(r"http://\S+:(\d+)", first)
        assert found, first + self.process.stderr.read()
        self.served = Served(int(found[1]))

    def end(self, number=signal.SIGTERM):
        self.process.send_signal(number)
        code = self.process.wait(90)  # a process that is just starting is waited for
        self.process.stderr.close()
        return code


@pytest.mark.slow
@pytest.mark.parametrize(
    "workers, number, code", [(1, signal.SIGTERM, 143), (1, signal.SIGINT, 130), (2, signal.SIGTERM, 0)]
)
def test_a_server_ends_after_the_request_that_it_answers(files, workers, number, code):
    server = Started(files["fields"], f"words={files['tagger']}", "--workers", workers)
    try:
        assert server.served.predict("m", "Cy Fox 1987")
        assert server.served.predict("words", "a cat")
        found = []
        many = {"inputs": ["Cy Fox 1987 and Dee Roe 2003"] * 900}
        thread = threading.Thread(target=lambda: found.append(server.served.ask("POST", "/models/m/predict", many)))
        thread.start()
        time.sleep(0.25)
    finally:
        ended = server.end(number)
    thread.join(20)
    assert ended == code
    [(status, _, answer)] = found
    assert (status, len(answer["results"])) == (200, 900)


@pytest.mark.slow
def test_a_worker_that_dies_is_replaced(files):
    import os

    server = Started(files["tagger"], "--workers", 2)
    try:
        assert server.served.predict("tagger", "a cat")
        counts = server.served.ask("GET", "/metrics")[2]
        process = int(re.search(r'process="(\d+)"', counts)[1])
        os.kill(process, signal.SIGKILL)
        for _ in range(100):
            time.sleep(0.1)
            alive = set(re.findall(r'trellis_resident_bytes\{process="(\d+)"', server.served.ask("GET", "/metrics")[2]))
            if len(alive) == 2 and str(process) not in alive:
                break
        else:
            raise AssertionError(alive)
        assert server.served.predict("tagger", "a cat")
    finally:
        server.end()


@pytest.mark.parametrize(
    "line, said",
    [
        ("missing.trellis", "missing.trellis: cannot be read: No such file"),
        ("rules.toml", "rules.toml"),
        ("hmm", "holds a HMM, which is not served; models that are: Extractor"),
        ("m --host 0.0.0.0", "--host 0.0.0.0 can be reached from other machines: give a --token-file"),
        ("m --host ::", "can be reached from other machines"),
        ("m --host example.org", "can be reached from other machines"),
        ("m --token-file s", "a token is one word of 16 ASCII characters or more"),
        ("m a=m b=m m", "would both be called 'm'"),
        ("m --max-body none", "--max-body must be a size such as 4M"),
        ("-m m", "models are named without a flag"),
    ],
)
def test_mistakes_are_told_in_a_sentence(folder, monkeypatch, capfd, line, said):
    monkeypatch.chdir(folder)
    assert run("serve", *line.split()) == 2
    assert said in " ".join(capfd.readouterr().err.split())


def test_a_port_that_is_taken(folder, files, server, capfd):
    assert run("serve", files["tagger"], "--port", server.port) == 2
    assert "choose another with --port" in capfd.readouterr().err


def test_without_the_extra(folder, files, monkeypatch, capfd):
    monkeypatch.setitem(sys.modules, "starlette.applications", None)
    for name in [name for name in sys.modules if name.startswith("trellis.serve.app")]:
        monkeypatch.delitem(sys.modules, name)
    assert run("serve", files["tagger"]) == 2
    assert "pip install 'trellis-learn[serve]'" in capfd.readouterr().err


def test_json_of_the_health(server):
    assert json.dumps(server.ask("GET", "/health")[2]["models"][0]) == '{"name": "fields", "kind": "extract"}'
