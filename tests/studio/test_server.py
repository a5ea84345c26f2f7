"""What the page asks: texts, labels, rules; and what a stranger's page, program or file cannot do."""

from __future__ import annotations

import json
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import trellis.studio
from tests.studio.conftest import TEXTS, TOKEN
from trellis.studio.server import FILES

STATIC = Path(trellis.studio.__file__).parent / "static"


def test_texts_come_in_windows_and_are_searched_and_filtered(studio):
    found = studio.get("texts", first=2, n=3)
    assert (found["total"], [one["number"] for one in found["texts"]]) == (7, [3, 4, 5])
    assert [one["text"] for one in studio.get("texts", search="ROE")["texts"]] == ["Dee Roe , 2003"]
    assert studio.get("texts", order="length")["texts"][0]["text"] == "no year"
    studio.label(0, "NAME", "NAME", "YEAR")
    studio.label(5, None, "O")
    assert [one["number"] for one in studio.get("texts", filter="labelled")["texts"]] == [1, 6]
    assert [one["number"] for one in studio.get("texts", filter="partly")["texts"]] == [6]
    assert studio.get("texts", filter="unlabelled")["total"] == 5
    assert studio.get("state")["counts"]["labelled"] == 2


def test_a_label_is_kept_and_can_be_taken_back(studio, folder):
    row = studio.label(0, "NAME", "NAME", "YEAR")
    assert row["labels"] == ["NAME", "NAME", "YEAR"]
    assert json.loads((folder / "labels.jsonl").read_text())["labels"] == ["NAME", "NAME", "YEAR"]
    studio.label(0, None, None, None)
    assert studio.row()["labels"] is None
    assert studio.row()["version"] == ""


def test_two_tabs_do_not_overwrite_each_other(studio):
    row = studio.row()
    studio.post("label", id=row["id"], labels=["NAME", None, None], version=row["version"])
    answer = studio.post("label", 409, id=row["id"], labels=["YEAR", None, None], version=row["version"])
    assert answer["text"]["labels"] == ["NAME", None, None]
    assert "changed elsewhere" in answer["error"]
    rules = studio.get("rules")
    studio.post("rules", text=rules["text"] + "# one", version=rules["version"])
    assert "changed elsewhere" in studio.post("rules", 409, text="# two", version=rules["version"])["error"]


def test_of_many_labels_at_once_none_is_lost(studio, folder):
    rows = studio.get("texts")["texts"]

    def label(row):
        return studio.post("label", id=row["id"], labels=["O"] * len(row["spans"]), version="")

    with ThreadPoolExecutor(7) as pool:
        list(pool.map(label, rows))
    assert len((folder / "labels.jsonl").read_text().splitlines()) == len(TEXTS)


def waiting(question, wanted):
    """Ask until the answer, which is found behind the page, is there."""
    for _ in range(600):
        found = question()
        if wanted(found):
            return found
        time.sleep(0.1)
    raise AssertionError(found)


def test_rules_are_tried_listed_suggested_and_switched(studio):
    studio.label(0, "NAME", "NAME", "YEAR")
    studio.label(3, "YEAR", "NAME", "YEAR")
    row = studio.row(6)
    found = studio.post("rules/suggest", id=row["id"], first=2, last=3, label="YEAR")
    by = {one["about"]: one for one in found["rules"]}
    assert by["words like '2020' are YEAR"]["found"]["places"] == 7
    assert by["the word '2020' is YEAR"]["found"]["at"][0]["word"] == "2020"
    version = studio.get("rules")["version"]
    studio.post("rules/add", toml=by["the word '2020' is YEAR"]["toml"], version=version)

    listed = waiting(lambda: studio.get("rules"), lambda r: len(r["rules"]) == 3 and r["rules"][2]["found"])["rules"]
    assert [one["name"] for one in listed] == ["years", "names begin", "2020"]
    assert listed[0]["found"]["places"] == 7
    assert listed[1]["labels"] == {"tested": 2, "broken": 1}
    broken = waiting(lambda: studio.get("texts", filter="broken", rule="names begin"), lambda found: found["total"])
    assert [one["number"] for one in broken["texts"]] == [4]
    assert broken["texts"][0]["broken"]["labels"] == ["names begin"]

    studio.post("rules/switch", number=1, on=False, version=studio.get("rules")["version"])
    assert [one["on"] for one in studio.get("rules")["rules"]] == [True, False, True]
    waiting(lambda: studio.get("texts", filter="broken", rule="names begin"), lambda found: not found["total"])
    studio.post("rules/remove", number=2, version=studio.get("rules")["version"])
    assert [one["name"] for one in studio.get("rules")["rules"]] == ["years", "names begin"]


def test_faults_and_conflicts_of_rules_are_explained(studio):
    found = studio.post("rules/check", text='[[rule]]\nif_wrod = "a"\nthen_label = "NAME"\n')
    assert "did you mean 'if_word'" in found["error"]
    assert found["line"] == 2
    assert studio.post("rules/check", text="labels = [")["error"].startswith("rules.toml")
    rules = 'labels = ["A", "B"]\n' + "".join(
        f'[[rule]]\nname = "{name}"\nif_token = "first"\nthen_label = "{name}"\n' for name in "AB"
    )
    conflict = studio.post("rules/check", text=rules)
    assert "is left without a label (6 more like it): 'A' forbids B; 'B' forbids A" in conflict["conflict"]
    assert "slack" in conflict["conflict"]
    assert "(text 1: 'Cy Fox 1987')" in conflict["conflict"]


def test_labels_and_texts_begin_a_project(tmp_path):
    from tests.serve.conftest import serving
    from tests.studio.conftest import Asked
    from trellis.studio.server import Studio

    with serving(Studio(tmp_path, TOKEN).app) as served:
        studio = Asked(served.port)
        assert studio.get("state")["counts"]["all"] == 0
        studio.post("labels", labels=["NAME", "O"])
        assert studio.post("add-texts", text="Ann 1999\r\nBob\n")["added"] == 2
        assert studio.get("state")["labels"] == ["NAME", "O"]
        assert (tmp_path / "rules.toml").read_text() == 'labels = ["NAME", "O"]\n'
        for odd in ([""], ["a\nb"], [4], "NAME", ["B-X"], ["x" * 60], ["_"]):
            studio.post("labels", 422, labels=odd)


def test_what_is_added_at_once_is_bounded(studio, folder):
    before = (folder / "text.txt").read_bytes()
    many = {"text": "\n" * 29_000_000}
    assert "more than 400000 lines: add them in parts" in studio.post("add-texts", 422, **many)["error"]
    assert "at most" in studio.post("add-texts", 422, text="\n".join(map(str, range(200_000))))["error"]
    for name, largest in (("add-texts", 64_000_000), ("rules", 4_000_000), ("label", 4_000_000)):
        with socket.create_connection(("127.0.0.1", studio.port)) as own:
            head = f"POST /{TOKEN}/api/{name} HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
            own.sendall(f"{head}Content-Length: {largest + 1}\r\n\r\n".encode())
            answer = b"".join(iter(lambda own=own: own.recv(4096), b""))
        assert b" 413 " in answer.split(b"\r\n")[0]
        assert f"more than {largest} bytes".encode() in answer
    assert (folder / "text.txt").read_bytes() == before
    assert studio.post("add-texts", text="\r" * 1_000_000 + "\n" * 400_000 + "new")["added"] == 1


def test_exports(studio):
    def export(what, form):
        return studio.ask("GET", f"/{TOKEN}/export?what={what}&format={form}")

    assert export("predictions", "jsonl")[0] == 422
    studio.label(0, "NAME", "NAME", "YEAR")
    studio.label(2, "NAME", None, "YEAR")
    assert export("labels", "tsv")[2].startswith("Cy\tNAME\nFox\tNAME\n1987\tYEAR\n\nAnn\tNAME\n,\t_\n")
    status, headers, text = export("both", "csv")
    assert (status, headers["Content-Disposition"]) == (200, 'attachment; filename="both.csv"')
    assert text.splitlines()[1] == "1,NAME,0,6,Cy Fox,,labelled"
    first = json.loads(export("labels", "jsonl")[2].splitlines()[0])
    assert first["fields"][0] == {"label": "NAME", "start": 0, "end": 6, "text": "Cy Fox"}
    assert export("labels", "exe")[0] == 422
    studio.post("add-texts", text="=1+1 1999")
    studio.label(7, "NAME", "NAME", "NAME", "NAME", "YEAR")
    assert "'=1+1" in export("labels", "csv")[2]


def test_of_a_text_that_is_too_long_the_beginning_is_shown(studio):
    studio.post("add-texts", text="x " * 1_000_000 + "end\nnext")
    status, _, answer = studio.ask("GET", f"/{TOKEN}/api/texts?n=50")
    long = answer["texts"][7]
    assert (status, len(long["text"]), long["spans"]) == (200, 50_001, [])
    assert "more than 50000 characters: split it" in studio.label(7, status=422)["error"]
    assert studio.get("texts", search="end")["total"] == 1
    assert studio.row(8)["spans"] == [[0, 4]]


# who may ask


def test_nothing_is_answered_without_the_token_of_the_address(studio):
    for path in ("/", "/wrong/", "/wrong/api/state", f"/{TOKEN}x/", f"/{TOKEN[:-1]}/static/main.js", "/api/state"):
        assert studio.ask("GET", path)[0] in (403, 404)
    assert studio.ask("POST", "/wrong/api/label", {})[0] == 403
    assert studio.ask("GET", f"/{TOKEN}/")[0] == 200


def test_pages_of_other_sites_and_other_names_are_refused(studio):
    body = {"labels": ["EVIL"]}
    for headers in (
        {"Origin": "https://evil.example"}, {"Origin": "null"}, {"Origin": "http://localhost:1"},
        {"Host": "evil.example"}, {"Host": f"evil.example:{studio.port}"}, {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ):  # fmt: skip
        assert studio.ask("POST", f"/{TOKEN}/api/labels", body, headers)[0] in (403, 421)
        assert studio.ask("GET", f"/{TOKEN}/api/state", None, headers)[0] in (403, 421)
    assert studio.ask("POST", f"/{TOKEN}/api/labels", "{}", {"Content-Type": "text/plain"})[0] == 415
    assert studio.ask("GET", f"/{TOKEN}/api/label")[0] == 405
    assert studio.get("state")["labels"] == ["NAME", "YEAR", "O"]


@pytest.mark.parametrize(
    "name",
    ["../server.py", "..%2fserver.py", "%2e%2e/%2e%2e/pyproject.toml", "/etc/passwd", "%2fetc%2fpasswd", "index.html",
     "..", "main.js%00", "main.js/", "MAIN.JS", ".", "....//main.js"],
)  # fmt: skip
def test_no_other_file_is_read(studio, name):
    with socket.create_connection(("127.0.0.1", studio.port)) as own:  # as it stands: a client would tidy it
        own.sendall(f"GET /{TOKEN}/static/{name} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: own.recv(4096), b""))
    assert b" 404 " in answer.split(b"\r\n")[0]
    assert b"root:" not in answer


@pytest.mark.parametrize("odd", ["../../etc/passwd", "1/../1", "", "1\x00", "a", "999", "1.trellis", "-1"])
def test_no_other_model_is_read(studio, odd):
    assert studio.post("use", 404, model=odd)["error"] == "there is no such model"


def test_a_text_file_that_is_a_link_out_of_the_folder_cannot_be_named_by_a_request(studio, folder):
    assert studio.ask("GET", f"/{TOKEN}/export?what=../../etc/passwd&format=jsonl")[0] == 422
    assert not [name for name in FILES if "/" in name]


@pytest.mark.parametrize(
    "name, given",
    [
        ("label", {}), ("label", {"id": 1, "labels": [], "version": ""}), ("label", {"id": "x", "labels": "NAME"}),
        ("label", {"id": "x", "labels": [1], "version": ""}), ("add-texts", {"text": 1}),
        ("add-texts", {"text": "\ud800"}),
        ("rules", {"text": None}), ("rules/suggest", {"id": "x", "label": "NAME", "first": 0, "last": 1}),
        ("rules/switch", {"number": 0, "on": 1}), ("rules/switch", {"number": 99, "on": True, "version": ""}),
        ("rules/remove", {"number": "x" * 50}), ("rules/remove", {"number": True}), ("train", {"method": "rm -rf"}),
        ("train", {"rounds": -1}), ("train", {"rounds": 1e9}), ("train", {"folds": 10**30}),
        ("train", {"save": "/etc/x"}),
        ("train", {"hard": "yes"}), ("use", {"model": None}),
    ],
)  # fmt: skip
def test_odd_requests_are_4xx_with_a_sentence_and_change_nothing(studio, folder, name, given):
    before = {path.name: path.read_bytes() for path in folder.iterdir()}
    status, _, answer = studio.ask("POST", f"/{TOKEN}/api/{name}", given)
    assert status in (404, 409, 422), answer
    assert answer["error"]
    assert {path.name: path.read_bytes() for path in folder.iterdir()} == before


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b"\xff", b"[" * 200_000, b'{"text": "\\ud800"}'])
def test_bodies_that_are_no_objects(studio, body):
    found = studio.ask("POST", f"/{TOKEN}/api/add-texts", body, {"Content-Type": "application/json"})
    assert found[0] == 422


@pytest.mark.parametrize("asked", ["first=x", "n=-1e9", "filter=__class__", "order=x", "first=99999999999999999999"])
def test_odd_questions(studio, asked):
    assert studio.ask("GET", f"/{TOKEN}/api/texts?{asked}")[0] == 422
    assert studio.get("texts", first=-5, n=100_000)["total"] == 7


def test_pages_may_run_no_script_but_their_own(studio):
    for path, kind in ((f"/{TOKEN}/", "text/html"), (f"/{TOKEN}/static/main.js", "text/javascript")):
        status, headers, _ = studio.ask("GET", path)
        assert (status, headers.get_content_type()) == (200, kind)
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'; script-src 'self'; style-src 'self'" in policy
        assert "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "no-referrer"  # the token is in the address


def test_scripts_put_text_into_the_page_as_text():
    for name in FILES:
        source = (STATIC / name).read_text()
        for way in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "srcdoc",
        ):
            assert way not in source, name
    page = (STATIC / "index.html").read_text()
    assert "style=" not in page
    assert "onclick" not in page.lower()
    assert page.count("<script") == 1
