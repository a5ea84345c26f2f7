"""A server of one model of each kind, in a thread of this process."""

from __future__ import annotations

import http.client
import json
import threading
import time
from contextlib import closing, contextmanager

import pytest

pytest.importorskip("uvicorn", reason="no uvicorn: pip install 'trellis-learn[serve]'")

from tests.cli.every import furnish
from trellis.serve.application import ServerSettings, application
from trellis.serve.running import config, listen

MODELS = {
    "fields": "m", "tagger": "tagger", "parser": "parser", "relater": "relater", "matcher": "matcher",
    "aligner": "aligner", "aggregator": "aggregator",
}  # fmt: skip


class Served:
    """A server that runs, and how it is asked."""

    def __init__(self, port):
        self.port = port

    def ask(self, method, path, body=None, headers=None):
        """Status, headers and what was answered, JSON or text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        own = {} if body is None else {"Content-Type": "application/json"}
        data = body if body is None or isinstance(body, bytes | str) else json.dumps(body)
        with closing(connection):  # a server that is killed leaves no open socket behind
            connection.request(method, path, data, {**own, **(headers or {})})
            answer = connection.getresponse()
            text = answer.read().decode("utf-8")
        is_json = answer.headers.get_content_type() == "application/json"
        return answer.status, answer.headers, json.loads(text) if is_json else text

    def predict(self, model, *inputs):
        status, _, answer = self.ask("POST", f"/models/{model}/predict", {"inputs": list(inputs)})
        assert status == 200, answer
        return answer["results"]


@contextmanager
def serving(app):
    """The application behind a port of this machine."""
    import uvicorn

    opened = listen("127.0.0.1", 0)
    server = uvicorn.Server(config(app))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [opened]}, daemon=True)
    thread.start()
    while not server.started:
        assert thread.is_alive()
        time.sleep(0.01)
    try:
        yield Served(opened.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(20)
        opened.close()


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("served")
    with pytest.MonkeyPatch.context() as patch:
        furnish(made, patch)
    return made


@pytest.fixture(scope="session")
def files(folder):
    return {name: str(folder / file) for name, file in MODELS.items()}


@pytest.fixture(scope="session")
def server(files):
    with serving(application(ServerSettings(files, body=200_000, batch=50))) as found:
        yield found
