"""The studio in a real browser, as a person uses it: Chromium, driven by Playwright, where both are installed."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.browser import needs_browser
from tests.hostile.command import run
from tests.serve.conftest import serving
from tests.studio.conftest import NARROW, TEXTS, TOKEN, WIDE, drag, saved
from trellis.data.text_files import read_labelled
from trellis.studio.server import Studio

pytestmark = [pytest.mark.slow, needs_browser]

PICTURES = os.environ.get("TRELLIS_STUDIO_PICTURES")
"""A folder for pictures of the page: those of docs/studio.md are made so."""
PEOPLE = [
    f"{name} {family} , {place} , {year}"
    for name, family, place, year in zip(
        ["Ann", "Bob", "Cy", "Dee", "Eve", "Flo", "Gil", "Hal", "Ida", "Jon"] * 3,
        ["Lee", "Ray", "Fox", "Roe", "Day", "May"] * 5,
        ["Ely", "Rome", "Oslo", "Lima", "Bath"] * 6,
        range(1985, 2015),
        strict=True,
    )
]


def picture(page, name):
    if PICTURES:
        page.wait_for_timeout(300)
        page.screenshot(path=Path(PICTURES) / f"studio-{name}.png")


def fits(page):
    assert page.evaluate("document.documentElement.scrollWidth <= window.innerWidth")


def train(page, number, **settings):
    page.click("nav >> text=Training")
    for name, value in settings.items():
        (page.select_option if name in ("model_kind", "method") else page.fill)(f"#set-{name}", value)
    page.click("#train")
    page.wait_for_selector(f"text=Model {number} is trained", timeout=240_000)


def test_from_texts_to_a_model_and_its_export(opened, tmp_path, monkeypatch):
    folder = tmp_path / "people"
    folder.mkdir()
    with serving(Studio(folder, TOKEN).app) as served:
        page = opened(served.port)
        page.fill("#new-texts", "\n".join(PEOPLE))
        page.fill("#new-labels", "NAME, PLACE, YEAR, O")
        picture(page, "start")
        page.click("#create")
        page.wait_for_selector(".row >> text=Ann Lee")

        for number in range(5):  # label five, by drag and keyboard
            page.click(f".row >> nth={number}")
            page.wait_for_selector(f"text=Text {number + 1}")
            for first, last, key in ((0, 1, "1"), (3, 3, "2"), (5, 5, "3")):
                drag(page, first, last)
                page.keyboard.press(key)
            page.keyboard.press("o")
            page.wait_for_selector("text=6 of 6 tokens labelled")
        saved(page, 5)
        kept = {t.text: t.labels for t in read_labelled(folder / "labels.jsonl")}
        assert kept[PEOPLE[0]] == ("NAME", "NAME", "O", "PLACE", "O", "YEAR")
        assert len(kept) == 5

        page.click("text=Undo")  # and back
        page.wait_for_selector("text=4 of 6 tokens labelled")
        page.keyboard.press("o")
        page.wait_for_selector("text=6 of 6 tokens labelled")

        drag(page, 5, 5)  # a rule from a selection
        page.keyboard.press("s")
        page.wait_for_selector(".suggestion")
        chosen = page.locator(".suggestion", has_text="words like")
        assert "30 places in 30 of 30 texts; labels violate it in 0 of 5" in chosen.inner_text()
        chosen.locator("summary").click(position={"x": 5, "y": 8})
        assert chosen.locator("mark").first.inner_text() == "1985"
        picture(page, "texts")
        chosen.locator(".add").click()
        page.wait_for_selector("text=Added")
        assert "if_word_matches = '^\\d{4}$'" in (folder / "rules.toml").read_text()

        page.click("nav >> text=Rules")  # its matches
        page.wait_for_selector(".rule .facts li")
        page.wait_for_selector("text=labels violate it in 0 of 5 places")
        page.fill("#toml", page.input_value("#toml").replace("{4}", "{5}"))
        page.wait_for_selector("#tried >> text=0 places in 0 texts")
        page.fill("#toml", page.input_value("#toml") + "if_wrod = 1\n")
        page.wait_for_selector("#tried .bad >> text=did you mean")
        page.click("#revert-rules")
        picture(page, "rules")

        train(page, 1, model_kind="hmm", rounds="1", folds="2")
        picture(page, "training")
        page.click("nav >> text=Texts")
        page.wait_for_selector(".row .guess")
        page.keyboard.press("Escape")
        page.click("#editor")
        page.keyboard.press("n")  # see fields, correct one
        page.wait_for_selector("#tokens .guess")
        picture(page, "predictions")
        page.keyboard.press("a")
        page.wait_for_selector("text=6 of 6 tokens labelled")
        drag(page, 0, 0)
        page.keyboard.press("4")
        page.wait_for_selector(".token.differs")
        saved(page, 6)

        train(page, 2, folds="")
        page.wait_for_selector("text=Changed since model 1")
        page.wait_for_selector("#models >> text=cross-validated")
        fits(page)

        page.click("nav >> text=Export")
        page.select_option("#format", "csv")
        with page.expect_download() as download:
            page.click("#download")
        rows = Path(download.value.path()).read_text().splitlines()
        assert rows[0] == "text,label,start,end,field,probability,source"
        assert any(row.endswith("predicted") for row in rows)
        assert any(row.endswith("labelled") for row in rows)
        monkeypatch.chdir(folder)
        for form, made in (("csv", ["predictions.csv", "labels.csv"]), ("spacy", ["predictions.jsonl", "out.spacy"])):
            page.select_option("#format", form)
            for line in page.locator("#export-commands code").all_inner_texts()[:-1]:  # but the server
                words = shlex.split(line)
                if words[0] == "trellis":
                    assert run(*words[1:], "--force" if "-o" in words else "--json") == 0
                elif find_spec("spacy"):
                    subprocess.run([sys.executable, *words[1:]], check=True)
            assert all((folder / name).exists() for name in made if find_spec("spacy") or name != "out.spacy")


@pytest.mark.parametrize("viewport, scheme", [(WIDE, "light"), (NARROW, "dark"), (NARROW, "light"), (WIDE, "dark")])
def test_every_view_fits_and_has_the_colours_of_the_system(opened, studio, viewport, scheme):
    page = opened(studio.port, viewport, scheme)
    for view in ("Texts", "Rules", "Training", "Export"):
        page.click(f"nav >> text={view}")
        page.wait_for_timeout(200)
        fits(page)
        if view == "Rules":
            page.wait_for_selector(".rule .facts li")
            rules, editor = (page.locator(name).bounding_box() for name in ("#rule-list", "#rule-editor"))
            beside = rules["x"] + rules["width"] <= editor["x"]
            assert beside or rules["y"] + rules["height"] <= editor["y"]
    ground = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == ("rgb(20, 25, 29)" if scheme == "dark" else "rgb(255, 255, 255)")
    page.click("nav >> text=Texts")
    page.click(".row >> nth=1")
    drag(page, 0, 1)
    page.click(".palette >> text=NAME")
    page.wait_for_selector("text=2 of 4 tokens labelled")
    fits(page)


def test_by_keyboard_alone(opened, studio, folder):
    page = opened(studio.port)
    page.wait_for_selector(".row")
    for _ in range(30):
        page.keyboard.press("Tab")
        if page.evaluate("document.activeElement.id") == "list":
            break
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("text=Text 1")
    page.keyboard.press("ArrowDown")
    page.wait_for_selector("text=Text 2")
    page.keyboard.press("e")
    page.keyboard.press("Home")
    page.keyboard.press("Shift+ArrowRight")
    page.keyboard.press("1")
    page.wait_for_selector("text=2 of 4 tokens labelled")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("2")
    page.wait_for_selector("text=3 of 4 tokens labelled")
    page.keyboard.press("u")
    page.wait_for_selector("text=2 of 4 tokens labelled")
    page.keyboard.press("o")
    page.wait_for_selector("text=4 of 4 tokens labelled")
    page.keyboard.press("s")
    page.wait_for_selector(".suggestion")
    assert page.evaluate("document.activeElement.tagName") == "SUMMARY"
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    page.wait_for_selector("text=Added")
    [kept] = read_labelled(folder / "labels.jsonl")
    assert kept.labels == ("NAME", "NAME", "O", "O")
    assert len((folder / "rules.toml").read_text().split("[[rule]]")) == 4


def test_a_label_in_one_tab_is_shown_in_the_other_and_never_overwritten(opened, studio, folder):
    one, other = opened(studio.port), opened(studio.port)
    for page in (one, other):
        page.click(".row >> nth=0")
        page.wait_for_selector("#tokens")
    drag(one, 0, 1)
    one.keyboard.press("1")
    one.wait_for_selector("text=2 of 3 tokens labelled")
    drag(other, 2, 2)
    other.keyboard.press("2")  # refused if the other tab has not looked yet; then it shows what is there
    other.wait_for_selector("text=/[23] of 3 tokens labelled/")
    [kept] = read_labelled(folder / "labels.jsonl")
    assert kept.labels[:2] == ("NAME", "NAME")


HOSTILE = [
    "<script>document.title='owned'</script> 1999",
    "<img src=x onerror=\"document.title='owned'\"> 2001",
    "javascript:alert(1) \u202e evil {{7*7}} ${7*7} </span></div> 1987",
    "a" * 5000,
]


def test_texts_rules_and_names_run_no_script(opened, tmp_path):
    folder = tmp_path / "<img src=x onerror=alert(1)>"
    folder.mkdir()
    (folder / "text.txt").write_text("".join(line + "\n" for line in HOSTILE))
    evil = "<b onmouseover=alert(1)>"
    (folder / "rules.toml").write_text(
        f'labels = ["{evil}", "O"]\n[[rule]]\nname = "{evil}"\nif_word = "1999"\nthen_label = "{evil}"\n'
    )
    with serving(Studio(folder, TOKEN).app) as served:
        page = opened(served.port)
        page.wait_for_selector(".row >> text=onerror")
        page.click(".row >> nth=0")
        drag(page, 0, 1)
        page.keyboard.press("1")
        page.wait_for_selector("text=/2 of/")
        page.keyboard.press("s")
        page.wait_for_selector(".suggestion")
        for view in ("Rules", "Training", "Export", "Texts"):
            page.click(f"nav >> text={view}")
            page.wait_for_timeout(150)
        assert page.title() == "Trellis studio"
        assert page.locator("main img, main script, main b").count() == 0
        assert "document.title='owned'</script>" in page.inner_text("#tokens")


def test_a_file_that_breaks_outside_is_told(opened, studio, folder):
    page = opened(studio.port)
    page.wait_for_selector(".row")
    (folder / "labels.jsonl").write_text("{broken\n")
    page.wait_for_selector("text=labels.jsonl cannot be read")
    (folder / "labels.jsonl").write_text(
        json.dumps({"text": TEXTS[0], "tokens": TEXTS[0].split(), "labels": ["NAME", "NAME", "YEAR"]}) + "\n"
    )
    page.wait_for_selector(".row .told")
    assert page.inner_text("#faults") == ""


def test_twenty_thousand_texts_scroll_and_filter_without_delay(opened, tmp_path):
    lines = [f"{name} {n} , {2000 + n % 20}" for n in range(4000) for name in ("Ann", "Bob", "Cy", "Dee", "Eve")]
    (tmp_path / "text.txt").write_text("".join(line + "\n" for line in lines))
    (tmp_path / "rules.toml").write_text('labels = ["NAME", "YEAR", "O"]\n')
    begin = time.perf_counter()
    app = Studio(tmp_path, TOKEN).app
    with serving(app) as served:
        page = opened(served.port)
        page.wait_for_selector(".row >> text=Ann 0")
        assert time.perf_counter() - begin < 5.0  # on a busy machine; a tenth of it elsewhere
        assert "20,000 texts" in page.inner_text("#total")
        assert page.locator(".row").count() < 60
        page.evaluate("document.querySelector('#list').scrollTop = 68 * 15000")
        page.wait_for_selector(".row >> text=Ann 3000 ")
        page.fill("#search", "dee 3999")
        page.wait_for_selector("text=1 text")
        page.wait_for_selector(".row >> text=Dee 3999")
        assert page.locator(".row").count() == 1
