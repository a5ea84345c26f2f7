"""Tokens point into their text, and lose nothing of it but white space."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.extract.test_cli import run
from trellis.apps.extract.extractor import Extractor
from trellis.data.document import Document, fields_of
from trellis.data.tokens import TOKENISERS, Tokeniser, tokenise
from trellis.errors import DataError
from trellis.models import load_model

TEXTS = st.one_of(st.text(), st.text(alphabet="ab1 .,-'@/:_é\t\u00a0\u2028ﬁ$http"))


@given(TEXTS)
def test_tokens_are_the_characters_they_point_at(text):
    cut = tokenise(text)
    assert cut.text == text
    assert [text[start:end] for start, end in cut.offsets] == list(cut.tokens)


@given(TEXTS)
def test_spans_rise_do_not_overlap_and_cover_all_but_white_space(text):
    cut = tokenise(text)
    at = 0
    for start, end in cut.offsets:
        assert at <= start < end
        assert text[at:start].isspace() or at == start
        assert not any(sign.isspace() for sign in text[start:end])
        at = end
    assert not text[at:].strip()


@given(st.lists(st.text(alphabet="ab.,1", min_size=1), max_size=6))
def test_sentences_read_as_tokens_are_joined_by_single_spaces(words):
    text = Document(tuple(words))
    assert text.text == " ".join(words)
    assert [text.text[a:b] for a, b in text.offsets] == words


@given(TEXTS, st.data())
def test_fields_cover_the_labelled_tokens_and_end_where_labels_change(text, data):
    cut = tokenise(text)
    labels = data.draw(st.lists(st.sampled_from(["A", "B", "O", None]), min_size=len(cut), max_size=len(cut)))
    fields = fields_of(cut, labels)
    found = [None if label in (None, "O") else label for label in labels]
    rebuilt = [None] * len(cut)
    for field in fields:
        assert (field.start, field.end) == (cut.offsets[field.first][0], cut.offsets[field.last - 1][1])
        rebuilt[field.first : field.last] = [field.label] * (field.last - field.first)
    assert rebuilt == found
    assert all(a.last < b.first or a.label != b.label for a, b in pairwise(fields))


@pytest.mark.parametrize(
    "text, words",
    [
        ("pp. 62-68.", ["pp", ".", "62-68", "."]),
        ("$1,200 at 10:30", ["$", "1,200", "at", "10:30"]),
        ("Mail ann.lee@flats.example.org, please", ["Mail", "ann.lee@flats.example.org", ",", "please"]),
        ("see https://a.example/b?c=1.", ["see", "https://a.example/b?c=1", "."]),
        ("Moto-oka's ``quoted''", ["Moto-oka's", "`", "`", "quoted", "'", "'"]),
        ("हिन्दी में 5 m²", ["हिन्दी", "में", "5", "m²"]),
        ("cafe\u0301, ฉันเป็นนักเรียน", ["cafe\u0301", ",", "ฉันเป็นนักเรียน"]),
        ("", []),
    ],
)
def test_tokens_of_plain_text(text, words):
    assert list(tokenise(text).tokens) == words


@given(TEXTS, st.sampled_from([r"\d+|[a-z]+", r"a*", r".b", r"\S", r"x|\s+"]))
def test_a_pattern_of_ones_own_loses_nothing_either(text, pattern):
    for cut in (Tokeniser("pattern", pattern).cut(text), *(Tokeniser(kind).cut(text) for kind in TOKENISERS)):
        assert [text[start:end] for start, end in cut.offsets] == list(cut.tokens)
        assert all(a[1] <= b[0] for a, b in pairwise(cut.offsets))
        covered = {at for start, end in cut.offsets for at in range(start, end)}
        assert {at for at, sign in enumerate(text) if not sign.isspace()} <= covered
    assert list(Tokeniser("whitespace").cut(text).tokens) == text.split()


def test_a_way_of_cutting_goes_with_the_model(tmp_path):
    rules = "labels = ['CODE', 'REST']\ntoken_pattern = '[A-Z]+[0-9]+|[a-z]+'\n"
    few = ["AB12:ok,fine", "XY7 well:done"]
    labels = [["CODE", "REST", "REST", "REST", "REST"], ["CODE", "REST", "REST", "REST"]]
    made = Extractor(rules, method="supervised").fit(few, labels)
    made.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    [text] = again.extract(["QQ3:yes"])
    assert text.tokens == ("QQ3", ":", "yes")
    assert (text.spans[0].text, text.labels[0]) == ("QQ3", "CODE")
    assert 0.5 < text.spans[0].probability <= 1.0


def test_tokens_are_cut_as_asked(tmp_path, capfd):
    (tmp_path / "text.txt").write_text("AB12:ok, fine\n")
    (tmp_path / "rules.toml").write_text("tokens = 'whitespace'\n")
    for arguments, words in (
        ((), ["AB12", ":", "ok", ",", "fine"]),
        (("--by", "whitespace"), ["AB12:ok,", "fine"]),
        (("--by", "characters"), list("AB12:ok,fine")),
        (("--rules", tmp_path / "rules.toml"), ["AB12:ok,", "fine"]),
        (("--by", "[A-Z]+|[0-9]+"), ["AB", "12", ":ok,", "fine"]),
    ):
        assert run("extract", "tokens", tmp_path / "text.txt", *arguments) == 0
        assert [line.split("\t")[0] for line in capfd.readouterr().out.splitlines() if line] == words
    assert run("extract", "tokens", tmp_path / "text.txt", "--by", "(", "-o", tmp_path / "x.tsv") == 2
    assert "not a valid regular expression" in capfd.readouterr().err
    assert run("extract", "tokens", tmp_path / "text.txt", "--by", "words", "--rules", tmp_path / "rules.toml") == 2


@pytest.mark.slow
def test_a_pattern_that_does_not_end_is_stopped():
    with pytest.raises(DataError, match="takes too long"):
        Tokeniser("pattern", "(a|aa)+$").cut("a" * 60 + "b")


def test_characters_are_tokens_with_their_marks():
    cut = Tokeniser("characters").cut("เป็น 学生\n")
    assert cut.tokens == ("เ", "ป็", "น", "学", "生")
    assert Tokeniser("characters").cut("").tokens == ()
