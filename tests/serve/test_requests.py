"""Requests that cannot be answered get a status of their own and a sentence; the server goes on."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from tests.serve.conftest import serving
from trellis.serve.application import ServerSettings, application

FINE = {"inputs": ["Cy Fox 1987"]}
PREDICT = "/models/fields/predict"


def refused(server, status, said, path=PREDICT, body=None, headers=None, method="POST"):
    """The request is refused so; the server answers another one."""
    found, _, answer = server.ask(method, path, body, headers)
    assert (found, said in answer["error"]) == (status, True), answer
    assert answer["error"][0].islower() or answer["error"][0].isdigit()
    assert server.predict("fields", "Cy Fox 1987")


@pytest.mark.parametrize(
    "body, said",
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b"\xff", "the body is not UTF-8: byte 1 is 0xff"),
        (b"[]", 'expected {"inputs": [...]}'),
        (b"null", 'expected {"inputs": [...]}'),
        (b'{"inputs": "a"}', 'expected {"inputs": [...]}'),
        (b'{"inputs": [], "x": 1}', "unknown key 'x'"),
        (b"[" * 100_000, "not JSON"),
        (b'{"inputs": [' + b"1" * 5000 + b"]}", "not JSON that can be read"),
        ({"inputs": [1]}, "input 0: expected an object with 'text' or 'tokens' but found a number"),
        ({"inputs": ["a", None]}, "input 1: expected an object"),
        ({"inputs": ["a", {"txt": "b"}]}, "input 1: expected the key 'text' or 'tokens'; did you mean 'txt'?"),
        ({"inputs": [{"tokens": ["a", ""]}]}, "input 0: expected a list of strings in 'tokens', none of them empty"),
        ({"inputs": [{"text": 4}]}, "input 0: expected the key 'text'"),
        ({"inputs": ["a" * 150_000]}, "input 0: a text has 150000 characters; at most 100000 are allowed"),
        (b'{"inputs": ["\\ud800"]}', "input 0: found an unpaired surrogate"),
    ],
)
def test_malformed_bodies(server, body, said):
    refused(server, 422, said, body=body, headers={"Content-Type": "application/json"})


@pytest.mark.parametrize(
    "model, given, said",
    [
        ("tagger", 4, "expected an object with 'tokens' but found a number"),
        ("tagger", {"tokens": "ab"}, "expected a list of non-empty strings in 'tokens'"),
        ("parser", "a cat", "expected an object with 'tokens' or 'tags'"),
        ("parser", {"tokens": ["a"], "tags": []}, "expected a tag for each token but found 1 token and 0 tags"),
        ("relater", {"tokens": ["a"], "mentions": [{"start": 0, "end": 2}]}, "span 0 covers tokens 0..1"),
        ("relater", {}, "expected the key 'tokens'"),
        ("matcher", ["a"], "expected an object with 'left' or 'right' but found a list"),
        ("matcher", ["a", ""], "the right side must be a non-empty string"),
        ("matcher", {"left": "a"}, "expected the keys 'left' and 'right'"),
        ("aligner", ["a", 4], "expected a list of non-empty strings in 'target'"),
        ("aggregator", {"tokens": ["a"], "votes": {"f": []}}, "found 1 token but 0 votes of function 'f'"),
        ("aggregator", {"tokens": ["a"], "votes": {"g": ["O"]}}, "unknown labelling function 'g'"),
    ],
)
def test_malformed_inputs_of_each_kind(server, model, given, said):
    refused(server, 422, said, f"/models/{model}/predict", {"inputs": [given]})


def test_addresses_and_methods(server):
    refused(server, 404, "there is no model 'other'; models: fields", "/models/other/predict", FINE)
    refused(server, 404, "there is nothing at this address", "/nothing", FINE)
    refused(server, 404, "there is nothing at this address", "/../etc/passwd", method="GET")
    refused(server, 405, "this address takes another method", method="GET")


def test_limits_on_size(server):
    refused(server, 413, "51 inputs, but at most 50 are allowed", body={"inputs": ["a"] * 51})
    refused(server, 413, "more than 200000 bytes", body={"inputs": ["a" * 90_000] * 3})
    refused(server, 413, "more than 200000 bytes", body="{}", headers={"Content-Length": "9999999999"})


def test_a_body_without_a_length_is_measured_as_it_comes(server):
    piece = b"%x\r\n%s\r\n" % (50_000, b" " * 50_000)
    with socket.create_connection(("127.0.0.1", server.port)) as own:
        head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
        own.sendall(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n" + piece * 4)
        own.sendall(piece)
        assert own.recv(100).startswith(b"HTTP/1.1 413")


def test_only_json_is_taken(server):
    # what a form of another site can send without being asked
    refused(server, 415, "expected Content-Type: application/json", body="{}", headers={"Content-Type": "text/plain"})


@pytest.mark.parametrize("path", ["/", PREDICT, "/metrics", "/openapi.json"])
def test_other_hosts_and_origins_are_refused(server, path):
    method, body = ("POST", FINE) if path == PREDICT else ("GET", None)
    for host in ("evil.example", "localhost.evil.example", "127.0.0.1.nip.io:80", "", "evil.example:80"):
        refused(server, 421, "does not answer for the host", path, body, {"Host": host}, method)
    for origin in ("https://evil.example", "null", "http://localhost:1"):
        refused(server, 403, "requests from pages of", path, body, {"Origin": origin}, method)
    refused(server, 403, "pages of other sites", path, body, {"Sec-Fetch-Site": "cross-site"}, method)
    own = f"localhost:{server.port}"
    assert server.ask(method, path, body, {"Host": own, "Origin": f"http://{own}"})[0] == 200


def test_with_a_token(files):
    token = "0123456789abcdef"
    with serving(application(ServerSettings({"fields": files["fields"]}, token=token))) as server:
        assert server.ask("GET", "/health")[0] == 200
        for path in ("/", "/metrics", "/openapi.json"):
            for header in (None, "Bearer wrong", f"Basic {token}", token, "Bearer ", f"Bearer {token}x"):
                status, headers, answer = server.ask("GET", path, None, header and {"Authorization": header})
                assert status == 401
                assert headers["WWW-Authenticate"] == "Bearer"
                assert "a token is needed" in answer["error"]
        mine = {"Authorization": f"Bearer {token}", "Host": "models.example"}  # a name that others know it by
        assert server.ask("POST", PREDICT, FINE, mine)[0] == 200


def test_limit_on_time(files):
    with serving(application(ServerSettings({"fields": files["fields"]}, seconds=0.2))) as server:
        model = server.ask("GET", "/health")[2]["models"]
        assert model == [{"name": "fields", "kind": "extract"}]
        with socket.create_connection(("127.0.0.1", server.port)) as slow:  # a body that never comes
            head = f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            slow.sendall(head.encode() + b"Content-Length: 10\r\n\r\n{")
            assert slow.recv(100).startswith(b"HTTP/1.1 408")
        assert server.predict("fields", "Cy Fox 1987")


def test_a_batch_that_takes_too_long_is_answered_503_and_those_behind_it_too(files, monkeypatch):
    import trellis.serve.kinds as kinds

    app_models = {}
    with monkeypatch.context():
        from dataclasses import replace

        from trellis.serve.application import load_models

        settings = ServerSettings({"fields": files["fields"]}, seconds=0.3)
        [(name, (model, kind))] = load_models(settings).items()

        def slowly(model, texts):
            time.sleep(0.5 if len(texts) > 1 else 0.0)
            return kinds.EXTRACT.answer(model, texts)

        app_models[name] = (model, replace(kind, answer=slowly))
    with serving(application(settings, app_models)) as server, ThreadPoolExecutor(2) as pool:
        first = pool.submit(server.ask, "POST", PREDICT, {"inputs": ["a", "b"]})
        time.sleep(0.1)
        second = pool.submit(server.ask, "POST", PREDICT, FINE)
        for found in (first.result(), second.result()):
            assert found[0] == 503
            assert "not ready within 0.3 s" in found[2]["error"]
            assert found[1]["Retry-After"] == "1"
        time.sleep(0.3)
        assert server.predict("fields", "Cy Fox 1987")


def test_a_bug_is_a_500_without_its_traceback(files):
    from dataclasses import replace

    from trellis.serve.application import load_models

    settings = ServerSettings({"fields": files["fields"]})
    [(name, (model, kind))] = load_models(settings).items()

    def broken(model, texts):
        if texts and texts[0].text == "bug":
            raise ZeroDivisionError("secret")
        return kind.answer(model, texts)

    with serving(application(settings, {name: (model, replace(kind, answer=broken))})) as server:
        status, _, answer = server.ask("POST", PREDICT, {"inputs": ["bug"]})
        assert (status, answer) == (500, {"error": "the request failed; the server's log has the reason"})
        assert server.predict("fields", "Cy Fox 1987")


def test_pages_and_documents(server):
    _, headers, page = server.ask("GET", "/")
    assert "POST /models/aligner/predict" in page
    assert "default-src 'none'" in headers["Content-Security-Policy"]
    assert "<script" not in page
    document = server.ask("GET", "/openapi.json")[2]
    assert set(document["paths"]) > {"/health", "/metrics", PREDICT}
    for path, item in document["paths"].items():  # every example is answered
        if "post" in item:
            example = item["post"]["requestBody"]["content"]["application/json"]["example"]
            assert server.ask("POST", path, example)[0] == 200, path


def test_metrics_count(server):
    def counts():
        lines = server.ask("GET", "/metrics")[2].splitlines()
        return {name: float(n) for name, n in (line.rsplit(" ", 1) for line in lines if line[0] != "#")}

    before = counts()
    server.predict("tagger", "a cat", "a dog")
    server.ask("POST", "/models/tagger/predict", b"{", {"Content-Type": "application/json"})
    after = counts()

    def grown(name, labels='model="tagger"'):
        return after[f"{name}{{{labels}}}"] - before[f"{name}{{{labels}}}"]

    assert grown("trellis_inputs_total") == 2
    assert grown("trellis_requests_total", 'model="tagger",status="2xx"') == 1
    assert grown("trellis_requests_total", 'model="tagger",status="4xx"') == 1
    assert grown("trellis_request_seconds_count") == 2
    assert grown("trellis_request_seconds_bucket", 'model="tagger",le="+Inf"') == 2
    assert any(name.startswith("trellis_resident_bytes") for name in after)


def test_odd_requests_on_the_wire(server):
    for raw in (
        b"\r\n\r\n",
        b"GET\r\n\r\n",
        b"\x00" * 1000,
        b"GET / HTTP/1.1\r\nHost: localhost\r\nX: " + b"a" * 100_000,
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as own:
            own.sendall(raw)
            own.shutdown(socket.SHUT_WR)
            answer = own.recv(100)
            assert answer == b"" or answer.startswith(b"HTTP/1.1 400")
    with socket.create_connection(("127.0.0.1", server.port)) as own:  # gone before the answer
        body = json.dumps(FINE)
        own.sendall(
            f"POST {PREDICT} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
    assert server.predict("fields", "Cy Fox 1987")
