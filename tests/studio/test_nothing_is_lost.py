"""A label that was acknowledged is there after the studio was killed, whenever that was."""

from __future__ import annotations

import json
import random
import re
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from http.client import HTTPException

import pytest

from tests.serve.conftest import Served
from trellis.data.text_files import read_labelled


class Process(Served):
    """A studio in a process of its own."""

    def __init__(self, folder):
        command = [sys.executable, "-m", "trellis", "studio", str(folder), "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        line = self.process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:(\d+)(/\S+/)", line)
        assert found, line + self.process.stderr.read()
        super().__init__(int(found[1]))
        self.base = found[2]

    def end(self, number):
        self.process.send_signal(number)
        self.process.wait(90)
        self.process.stderr.close()

    def texts(self):
        return self.ask("GET", f"{self.base}api/texts?n=200")[2]["texts"]


@pytest.mark.slow
def test_every_acknowledged_label_outlives_a_kill_at_a_random_moment(folder):
    dice = random.Random(4)
    acknowledged = {}
    for _ in range(8):
        studio = Process(folder)
        rows = studio.texts()
        found = {row["id"]: row["labels"] for row in rows}
        for key, labels in acknowledged.items():  # of the process before
            assert found[key] == labels
        stop, some = threading.Event(), threading.Event()

        asked = {}

        def label(rows=rows, studio=studio, stop=stop, some=some, asked=asked):
            versions = {row["id"]: row["version"] for row in rows}
            while not stop.is_set():
                row = next((one for one in rows if one["id"] not in acknowledged), dice.choice(rows))
                labels = [dice.choice(["NAME", "YEAR", "O"]) for _ in row["spans"]]
                given = {"id": row["id"], "labels": labels, "version": versions[row["id"]]}
                try:
                    status, _, answer = studio.ask("POST", f"{studio.base}api/label", given)
                except (OSError, HTTPException, json.JSONDecodeError):
                    asked[row["id"]] = labels  # it may be there or not
                    return
                assert status == 200
                versions[row["id"]] = answer["version"]
                acknowledged[row["id"]] = labels
                some.set()

        thread = threading.Thread(target=label)
        thread.start()
        assert some.wait(60)
        time.sleep(dice.uniform(0.02, 0.4))
        studio.end(signal.SIGKILL)
        stop.set()
        thread.join(20)
        kept = {t.text: list(t.labels) for t in read_labelled(folder / "labels.jsonl")}
        for row in rows:
            if row["id"] in acknowledged and kept[row["text"]] != acknowledged[row["id"]]:
                assert kept[row["text"]] == asked[row["id"]]
                acknowledged[row["id"]] = asked[row["id"]]
    assert len(acknowledged) == len(rows)
    left = [path.name for path in folder.iterdir() if path.name.endswith(".tmp")]
    assert len(left) <= 1  # of the last one; the next write removes it


def test_a_folder_is_open_once(folder):
    studio = Process(folder)
    try:
        second = subprocess.run(
            [sys.executable, "-m", "trellis", "studio", str(folder), "--no-browser"],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert second.returncode == 2
        assert "another `trellis studio` has this folder open" in second.stderr
    finally:
        studio.end(signal.SIGTERM)
    again = Process(folder)
    again.end(signal.SIGINT)
    assert again.process.returncode == 130


def test_the_address_is_of_this_machine_and_has_a_token_of_its_own(folder):
    tokens = set()
    for _ in range(2):
        studio = Process(folder)
        tokens.add(studio.base)
        assert len(studio.base) >= 30
        assert studio.ask("GET", "/x/")[0] == 403
        studio.end(signal.SIGTERM)
    assert len(tokens) == 2


@pytest.mark.parametrize("odd", ["text.txt", "missing/folder"])
def test_folders_that_cannot_be(folder, monkeypatch, capfd, odd):
    from tests.hostile.command import run

    monkeypatch.chdir(folder)
    assert run("studio", odd, "--no-browser") == 2
    assert "cannot be used as a project folder" in capfd.readouterr().err
    with suppress(FileNotFoundError):
        assert not (folder / "missing").exists()
