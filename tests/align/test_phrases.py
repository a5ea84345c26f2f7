"""Phrase tables: extraction against its definition, probabilities that add up, and the command."""

from __future__ import annotations

import gzip
import math
from collections import Counter, defaultdict

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.hostile.command import run
from trellis.apps.align.phrases import PhraseTable, phrase_pairs
from trellis.errors import DataError


def boxes(n_source, n_target, longest):
    for i1 in range(n_source):
        for i2 in range(i1, min(n_source, i1 + longest)):
            for j1 in range(n_target):
                for j2 in range(j1, min(n_target, j1 + longest)):
                    yield i1, i2, j1, j2


def weight(box, links):
    """Probability that a box holds a link and that none leaves it, from its definition."""
    i1, i2, j1, j2 = box
    rows = {link for link in links if i1 <= link[0] <= i2}
    columns = {link for link in links if j1 <= link[1] <= j2}
    leave = math.prod(1 - links[link] for link in rows ^ columns)
    return leave * (1 - math.prod(1 - links[link] for link in rows & columns))


sizes = st.integers(1, 6)


@given(sizes, sizes, st.integers(1, 7), st.data())
@settings(max_examples=150)
def test_phrase_pairs_of_links_are_the_boxes_that_no_link_leaves(n_source, n_target, longest, data):
    places = st.tuples(st.integers(0, n_source - 1), st.integers(0, n_target - 1))
    links = data.draw(st.sets(places, max_size=10))
    found = phrase_pairs(n_source, n_target, links, max_length=longest)
    expected = [box for box in boxes(n_source, n_target, longest) if weight(box, dict.fromkeys(links, 1)) == 1]
    assert [tuple(box) for box in found.boxes.tolist()] == expected
    assert np.allclose(found.weights, 1.0)


@given(sizes, sizes, st.data())
@settings(max_examples=100)
def test_weights_of_uncertain_links_are_the_probability_of_the_phrase_pair(n_source, n_target, data):
    places = st.tuples(st.integers(0, n_source - 1), st.integers(0, n_target - 1))
    links = data.draw(st.dictionaries(places, st.floats(0.01, 0.99), max_size=10))
    found = phrase_pairs(n_source, n_target, links, min_weight=0.05)
    own = {tuple(box): w for box, w in zip(found.boxes.tolist(), found.weights.tolist(), strict=True)}
    for box in boxes(n_source, n_target, 7):
        w = weight(box, links)
        assert own.get(box, 0.0) == pytest.approx(w if w >= 0.05 else 0.0, abs=1e-9) or abs(w - 0.05) < 1e-9


PAIRS = [
    ("the blue house", "la maison bleue", [(0, 0), (1, 2), (2, 1)]),
    ("the house", "la maison", [(0, 0), (1, 1)]),
    ("the flower , please", "la fleur", [(0, 0), (1, 1)]),
    ("", "", []),
    ("a", "", []),
]


@pytest.fixture(scope="module")
def entries():
    with PhraseTable() as table:
        for source, target, links in PAIRS:
            table.add(source.split(), target.split(), links)
        return list(table.entries())


def test_counts_and_probabilities_are_those_of_extracted_pairs(entries):
    counts = Counter()
    for source, target, links in PAIRS:
        s, t = source.split(), target.split()
        for i1, i2, j1, j2 in phrase_pairs(len(s), len(t), links).boxes.tolist():
            counts[" ".join(s[i1 : i2 + 1]), " ".join(t[j1 : j2 + 1])] += 1
    of_source, of_target = Counter(), Counter()
    for (s, t), n in counts.items():
        of_source[s] += n
        of_target[t] += n
    assert [(e.source, e.target) for e in entries] == sorted(counts)
    for e in entries:
        n = counts[e.source, e.target]
        assert (e.n, e.n_source, e.n_target) == (n, of_source[e.source], of_target[e.target])
        assert (e.forward, e.backward) == (n / e.n_source, n / e.n_target)


def test_probabilities_of_each_phrase_add_up_to_one(entries):
    forward, backward = defaultdict(float), defaultdict(float)
    for e in entries:
        forward[e.source] += e.forward
        backward[e.target] += e.backward
    assert np.allclose([*forward.values(), *backward.values()], 1.0)


def test_lexical_weights_are_means_over_links_and_null_translates_the_rest(entries):
    by = {(e.source, e.target): e for e in entries}
    assert by["blue house", "maison bleue"].lexical_forward == 1.0
    # "," has no link: its weight is w("," | NULL), and NULL stands for two words
    unlinked = by["flower ,", "fleur"]
    assert unlinked.lexical_forward == 1.0
    assert unlinked.lexical_backward == pytest.approx(1.0 * 1 / 3)  # "a", "," and "please" have no link


def test_orientations_tell_swaps_from_monotone_phrases(entries):
    by = {(e.source, e.target): e for e in entries}
    assert by["blue", "bleue"].orientations[0] == (0, 1, 0)  # follows "maison", which stands for the next source word
    assert by["the", "la"].orientations[0] == (3, 0, 0)
    assert by["house", "maison"].orientations == ((1, 0, 1), (1, 1, 0))


def test_a_table_larger_than_memory_holds_is_the_same(monkeypatch, entries):
    monkeypatch.setattr("trellis.apps.align.phrases.HELD", 3)
    with PhraseTable() as table:
        for source, target, links in PAIRS:
            table.add(source.split(), target.split(), links)
        assert list(table.entries()) == entries


def test_links_outside_the_sentences_are_refused():
    with PhraseTable() as table, pytest.raises(DataError, match="link 2-0, but the sentences have 2 and 1 words"):
        table.add(["a", "b"], ["x"], [(2, 0)])


@pytest.fixture
def text(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "s").write_text("the blue house\nthe | house\n", encoding="utf-8")
    (tmp_path / "t").write_text("la maison bleue\nla | maison\n", encoding="utf-8")
    (tmp_path / "links").write_text("0-0 1-2 2-1\n0-0 1-1 2-2\n", encoding="utf-8")
    return tmp_path


COMMAND = ("align", "phrases", "-s", "s", "-t", "t", "--links", "links", "-q")


def test_the_command_writes_moses_format(text):
    assert run(*COMMAND, "-o", "table.gz", "--lexicon", "lex", "--reordering", "reordering") == 0
    lines = gzip.decompress((text / "table.gz").read_bytes()).decode().splitlines()
    assert lines == sorted(lines, key=lambda line: line.split(" ||| ")[:2])
    assert "house ||| maison ||| 1 1 1 1 ||| 0-0 ||| 2 2 2 ||| |||" in lines
    assert "&#124; ||| &#124; ||| 1 1 1 1 ||| 0-0 ||| 1 1 1 ||| |||" in lines  # the bar separates columns
    assert all(len(line.split(" ||| ")) == 6 for line in lines)
    assert "house\tmaison\t1\t1" in (text / "lex").read_text().splitlines()
    orders = (text / "reordering").read_text().splitlines()
    assert len(orders) == len(lines)
    assert all(np.isclose(sum(map(float, line.split(" ||| ")[2].split())), 2.0) for line in orders)


def test_weighted_links_need_probabilities_and_use_them(text, capfd):
    assert run(*COMMAND, "--weighted") == 2
    assert "links, line 1: a link has no probability" in capfd.readouterr().err
    (text / "links").write_text("0-0:0.9 1-2:0.5 2-1:1\n0-0:1 1-1:1 2-2:1\n")
    assert run(*COMMAND, "--weighted") == 0
    table = capfd.readouterr().out
    assert "blue ||| bleue ||| 1 0.5 1 0.5 ||| 0-0 ||| 0.5 0.5 0.5 ||| |||" in table
    assert "the ||| la ||| 0.808511 0.95 1 0.95 ||| 0-0 ||| 2.35 1.9 1.9 ||| |||" in table  # "the blue ||| la" has 0.45


@pytest.mark.parametrize(
    "links, said",
    [
        ("0-0\n", "the links end before line 2"),
        ("0-0\n\n\n", "the text ends before line 3"),
        ("0-0\n0-9\n", "line 2: there is a link 0-9"),
        ("0-0\nhouse\n", "line 2: 'house' is not a link"),
    ],
)
def test_links_that_do_not_fit_the_text_are_named_by_line_and_nothing_is_written(links, said, text, capfd):
    (text / "links").write_text(links)
    assert run(*COMMAND, "-o", "table") == 2
    assert said in capfd.readouterr().err
    assert sorted(p.name for p in text.iterdir()) == ["links", "s", "t"]


def test_lexical_weights_are_above_0_where_links_of_a_word_add_up_to_1():
    with PhraseTable(min_weight=0.1) as table:
        table.add(["a", "b"], ["x", "y"], {(0, 0): 0.9, (0, 1): 0.45, (1, 1): 0.55, (1, 0): 0.1})
        table.add(["a"], ["x", "y"], {(0, 0): 0.9, (0, 1): 0.3})
        entries = list(table.entries())
    assert min(min(entry.lexical_forward, entry.lexical_backward) for entry in entries) > 0.0
