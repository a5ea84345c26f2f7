"""Labels that are given faster than they are saved: each goes to the text that was shown, and none is lost."""

from __future__ import annotations

import pytest

from tests.browser import needs_browser
from tests.studio.conftest import TEXTS, drag, saved
from trellis.data.text_files import read_labelled

pytestmark = [pytest.mark.slow, needs_browser]


@pytest.fixture
def page(opened, studio):
    found = opened(studio.port)
    found.set_default_timeout(10_000)
    found.click(".row >> nth=0")
    found.wait_for_selector("text=Text 1")
    return found


@pytest.fixture
def hold(page):
    """Requests of an address wait until they are let go."""

    def wait(name):
        held, gone = [], []

        def handle(route):
            if gone:
                route.continue_()
            else:
                held.append(route)

        page.route(f"**/api/{name}?*" if name in ("text", "texts", "next") else f"**/api/{name}", handle)

        def go():
            gone.append(True)
            for route in held:
                route.continue_()

        return go

    return wait


def kept(folder):
    path = folder / "labels.jsonl"
    return {TEXTS.index(t.text): t.labels for t in read_labelled(path)} if path.exists() else {}


def give(page, at, key):
    drag(page, at, at)
    page.keyboard.press(key)


def settled(page):
    page.wait_for_function("() => !document.querySelector('#status').dataset.saving")


def test_two_labels_and_then_another_text(page, hold, folder):
    go = hold("label")
    give(page, 0, "1")
    give(page, 2, "2")
    page.keyboard.press("j")
    page.wait_for_selector("text=Text 2")
    give(page, 0, "1")
    go()
    saved(page, 2)
    settled(page)
    assert kept(folder) == {0: ("NAME", None, "YEAR"), 1: ("NAME", None, None, None)}
    assert "1 of 4 tokens labelled" in page.inner_text("#editor")
    page.keyboard.press("k")
    page.wait_for_selector("text=2 of 3 tokens labelled")


def test_away_and_back_before_the_label_is_saved(page, hold, folder):
    go = hold("label")
    give(page, 0, "1")
    page.keyboard.press("j")
    page.wait_for_selector("text=Text 2")
    page.keyboard.press("k")
    page.wait_for_selector("text=Text 1")
    give(page, 2, "2")
    page.wait_for_selector("text=2 of 3 tokens labelled")
    go()
    settled(page)
    saved(page, 1)
    assert kept(folder) == {0: ("NAME", None, "YEAR")}


def test_an_answer_from_before_a_label_does_not_take_it_away(page, hold, folder, studio):
    go = hold("text")
    studio.label(5, "NAME", "O")  # the page looks at everything again
    page.wait_for_selector("text=1 of 7 texts labelled")
    give(page, 0, "1")
    settled(page)
    go()
    page.wait_for_timeout(300)
    give(page, 2, "2")
    page.wait_for_selector("text=2 of 3 tokens labelled")
    settled(page)
    assert kept(folder)[0] == ("NAME", None, "YEAR")


def test_a_list_from_before_a_label_does_not_take_it_away(page, hold, folder):
    go = hold("texts")
    page.select_option("#order", "length")
    give(page, 0, "1")
    saved(page, 1)
    go()
    page.wait_for_selector(".row >> nth=0 >> text=no year")
    page.click(".row >> text=Ann")
    page.wait_for_selector("text=Text 3")
    page.click(".row >> text=Cy Fox")
    page.wait_for_selector("text=1 of 3 tokens labelled")
    give(page, 2, "2")
    settled(page)
    assert kept(folder)[0] == ("NAME", None, "YEAR")


def test_keys_after_next_are_for_the_next_text(page, hold, folder):
    go = hold("next")
    page.keyboard.press("n")
    page.keyboard.press("o")
    page.wait_for_timeout(100)
    assert kept(folder) == {}
    go()
    saved(page, 1)
    assert kept(folder) == {1: ("O", "O", "O", "O")}


def test_undo_is_for_the_text_that_was_labelled(page, hold, folder):
    give(page, 0, "1")
    saved(page, 1)
    page.keyboard.press("j")
    page.wait_for_selector("text=Text 2")
    give(page, 0, "1")
    saved(page, 2)
    page.keyboard.press("u")
    page.keyboard.press("u")
    page.keyboard.press("j")
    page.wait_for_selector("text=Text 2")
    settled(page)
    saved(page, 0)
    assert kept(folder) == {}
    assert page.locator("[data-act=u]").is_disabled()


def test_labels_that_wait_do_not_overwrite_those_of_another_tab(page, hold, folder, studio):
    go = hold("label")
    give(page, 0, "1")
    give(page, 1, "1")
    studio.label(0, None, None, "YEAR")  # another tab
    go()
    page.wait_for_selector("text=changed elsewhere")
    page.wait_for_selector("text=1 of 3 tokens labelled")
    page.wait_for_timeout(300)
    assert kept(folder) == {0: (None, None, "YEAR")}


def test_what_was_undone_elsewhere_is_not_undone_again(page, folder, studio):
    give(page, 0, "1")
    saved(page, 1)
    studio.label(0, "NAME", None, "YEAR")
    page.wait_for_selector("text=2 of 3 tokens labelled")
    page.keyboard.press("u")
    page.wait_for_selector("text=changed elsewhere")
    assert kept(folder) == {0: ("NAME", None, "YEAR")}


def test_a_label_that_could_not_be_saved_is_told_and_not_shown(page, folder):
    page.route("**/api/label", lambda route: route.abort())
    give(page, 0, "1")
    page.wait_for_selector("#toast >> text=not saved")
    page.wait_for_selector("text=not labelled")
    page.unroute("**/api/label")
    give(page, 2, "2")
    saved(page, 1)
    assert kept(folder) == {0: (None, None, "YEAR")}


def test_every_text_labelled_as_fast_as_keys_can_be_pressed(page, folder):
    page.keyboard.press("e")
    for number in range(len(TEXTS)):
        page.keyboard.press("Home")
        page.keyboard.press("1")
        page.keyboard.press("End")
        page.keyboard.press("2")
        page.keyboard.press("o")
        if number + 1 < len(TEXTS):
            page.keyboard.press("j")
            page.keyboard.press("e")
    saved(page, len(TEXTS))
    settled(page)
    for number, text in enumerate(TEXTS):
        n = len(text.split())
        assert kept(folder)[number] == ("NAME", *["O"] * (n - 2), "YEAR")
