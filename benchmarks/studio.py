"""The studio over 20,000 texts (`make bench-studio`): time to the first page, of scrolling and filtering, and memory.

    make bench-studio
    make bench-studio ARGS="--small"       400 texts

One studio process; its page is opened in Chromium, driven by Playwright. Without these the same answers are fetched
over HTTP, and what the browser adds is missing.

start     from the start of the process until its address is printed, and from there until the first texts are shown
windows   50 texts at random places; a search, every filter, and a label: median and slowest
memory    of the studio and of the process that evaluates the rules, when all texts have been looked at
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import re
import shutil
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import _small

from trellis.serve.metrics import resident

RULES = r"""labels = ["NAME", "YEAR", "O"]

[[rule]]
name = "years"
if_word_matches = '^20\d\d$'
then_label = "YEAR"

[[rule]]
name = "first"
if_token = "first"
then_label = "NAME"
"""
FILTERS = ("unlabelled", "labelled", "disagree", "changed", "broken-labels", "applies")


def write_project(folder: Path, n: int) -> None:
    names = ("Ann", "Bob", "Cy", "Dee", "Eve")
    place = "and a text that is as long as a reference is , with a title , a journal and its pages"
    lines = (f"{names[k % 5]} {k} , {2000 + k % 20} {place} {k} to {k + 9}\n" for k in range(n))
    (folder / "text.txt").write_text("".join(lines), encoding="utf-8")
    (folder / "rules.toml").write_text(RULES, encoding="utf-8")


class Studio:
    """A studio process, and how its page asks it."""

    def __init__(self, folder: Path) -> None:
        begin = time.perf_counter()
        command = [sys.executable, "-m", "trellis", "studio", str(folder), "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        line = self.process.stderr.readline()
        found = re.search(r"(http://127\.0\.0\.1:(\d+)(/\S+/))", line)
        if found is None:
            raise SystemExit(line + self.process.stderr.read())
        self.spent = time.perf_counter() - begin
        self.address, self.base = found[1], found[3]
        self.connection = http.client.HTTPConnection("127.0.0.1", int(found[2]), timeout=120)

    def ask(self, name: str, given: Any = None, **asked: Any) -> Any:
        if given is None:
            self.connection.request("GET", f"{self.base}api/{name}?{urlencode(asked)}")
        else:
            body, headers = json.dumps(given), {"Content-Type": "application/json"}
            self.connection.request("POST", f"{self.base}api/{name}", body, headers)
        answer = self.connection.getresponse()
        found = json.loads(answer.read())
        if answer.status != 200:
            raise SystemExit(found["error"])
        return found

    def megabytes(self) -> list[float]:
        """Of the process and of its children."""
        own = self.process.pid
        children = Path(f"/proc/{own}/task/{own}/children").read_text(encoding="ascii").split()
        return [resident(pid) / 1e6 for pid in (own, *map(int, children))]


@contextmanager
def browser() -> Iterator[Any]:
    """Chromium, or None."""
    path = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        path = None
    if path is None:
        yield None
        return
    with sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        opened.new_page().goto("about:blank")
        yield opened
        opened.close()


def seconds(call: Callable[[], Any]) -> float:
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def show(name: str, spent: list[float]) -> None:
    print(f"{name:<34}{1e3 * statistics.median(spent):>9.0f}{1e3 * max(spent):>10.0f}", flush=True)


def measure(studio: Studio, opened: Any, n: int) -> None:
    dice = random.Random(0)
    print(f"{n:,} texts: milliseconds             median   slowest")
    show("start until the address", [studio.spent])
    if opened is None:
        show("first texts (no browser)", [seconds(lambda: (studio.ask("state"), studio.ask("texts", n=50)))])
    else:
        page = opened.new_page()
        show(
            "first texts in the browser",
            [seconds(lambda: (page.goto(studio.address), page.wait_for_selector(".row .preview")))],
        )
        spent = []
        for at in (dice.randrange(n) for _ in range(20)):
            shown = "at => [...document.querySelectorAll('.row .number')].some(one => one.textContent == at + 1)"
            scroll = "at => { document.querySelector('#list').scrollTop = 68 * at; }"

            def go(at: int = at, scroll: str = scroll, shown: str = shown) -> None:
                page.evaluate(scroll, at)
                page.wait_for_function(shown, arg=at)

            spent.append(seconds(go))
        show("scroll to a text in the browser", spent)
    show("50 texts", [seconds(lambda: studio.ask("texts", first=dice.randrange(n), n=50)) for _ in range(50)])
    show("search", [seconds(lambda k=k: studio.ask("texts", search=f"dee {k}", n=50)) for k in range(20)])
    filters = [{"filter": name, "rule": "years", "order": order} for name in FILTERS for order in ("file", "doubt")]
    show("filter", [seconds(lambda asked=asked: studio.ask("texts", n=50, **asked)) for asked in filters])
    spent = []
    for row in studio.ask("texts", n=100)["texts"]:
        given = {"id": row["id"], "version": row["version"], "labels": ["O"] * len(row["spans"])}
        spent.append(seconds(lambda given=given: studio.ask("label", given)))
    show("label, until it is on the disk", spent)
    while True:
        found = [rule["found"] for rule in studio.ask("rules")["rules"]]
        if all(one and one["texts"] == n for one in found):
            break
        time.sleep(0.5)
    print("MB of the processes:", ", ".join(f"{size:.0f}" for size in studio.megabytes()))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--texts", type=int, default=20_000, help="number of texts")
    options = _small.arguments(parser, texts=400)
    folder = _small.scratch_folder()
    write_project(folder, options.texts)
    with browser() as opened:
        studio = Studio(folder)
        try:
            measure(studio, opened, options.texts)
        finally:
            studio.connection.close()
            studio.process.terminate()
            studio.process.wait(30)
            if studio.process.stderr is not None:
                studio.process.stderr.close()


if __name__ == "__main__":
    main()
