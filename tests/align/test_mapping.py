"""Links mapped between tokenisations: exact where both are known, and back again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.command import run
from trellis.apps.align.mapping import characters, corresponding, map_links
from trellis.errors import DataError

letters = st.text(st.sampled_from("abcdéß漢字คא😀"), min_size=1, max_size=5)
words = st.lists(letters, min_size=1, max_size=5)


@st.composite
def cuts(draw, tokens):
    """The same characters in other tokens, and where each begins and ends."""
    text = "".join(tokens)
    inner = draw(st.sets(st.integers(1, len(text) - 1))) if len(text) > 1 else set()
    ends = [0, *sorted(inner), len(text)]
    return [text[a:b] for a, b in pairwise(ends)]


@given(st.data(), words)
def test_tokens_correspond_if_they_share_a_character(data, tokens):
    others = data.draw(cuts(tokens))
    ends, found = [0], corresponding(tokens, others)
    for other in others:
        ends.append(ends[-1] + len(other))
    at = 0
    for token, own in zip(tokens, found, strict=True):
        inside = set(range(at, at + len(token)))
        assert own == [k for k in range(len(others)) if inside & set(range(ends[k], ends[k + 1]))]
        at += len(token)


MARKED = {
    "sentencepiece": lambda word, pieces: ["▁" + pieces[0], *pieces[1:]],
    "subword-nmt": lambda word, pieces: [*(f"{piece}@@" for piece in pieces[:-1]), pieces[-1]],
    "wordpiece": lambda word, pieces: [pieces[0], *(f"##{piece}" for piece in pieces[1:])],
}


@pytest.mark.parametrize("kind", MARKED)
@given(words, words, st.data())
def test_links_of_words_come_back_from_subwords(kind, source, target, data):
    def cut(side):
        return [piece for word in side for piece in MARKED[kind](word, data.draw(cuts([word])))]

    places = st.tuples(st.integers(0, len(source) - 1), st.integers(0, len(target) - 1))
    links = sorted(data.draw(st.sets(places)))
    pieces = cut(source), cut(target)
    there = map_links(links, corresponding(source, pieces[0]), corresponding(target, pieces[1]))
    assert map_links(there, corresponding(pieces[0], source), corresponding(pieces[1], target)) == links
    assert len(there) >= len(links)


def test_moses_entities_and_hyphens_are_understood():
    raw = ["It's", "a", "well-kept", "<garden>", "|", '"50']
    moses = ["It", "&apos;s", "a", "well", "@-@", "kept", "&lt;", "garden", "&gt;", "&#124;", "&quot;", "50"]
    assert corresponding(raw, moses) == [[0, 1], [2], [3, 4, 5], [6, 7, 8], [9], [10, 11]]
    assert [characters(token) for token in ("@", "@@", "##", "&", "▁")] == ["@", "@@", "##", "&", ""]


def test_tokenisers_of_hugging_face_need_no_marker():
    tokenizers = pytest.importorskip("tokenizers", reason="pip install tokenizers")
    model = tokenizers.Tokenizer(tokenizers.models.BPE(unk_token="[UNK]"))
    model.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    trainer = tokenizers.trainers.BpeTrainer(vocab_size=40, special_tokens=["[UNK]"])
    model.train_from_iterator(["the gardener waters the garden"] * 3, trainer)
    text = "the gardener waters"
    pieces = [text[a:b] for a, b in model.encode(text).offsets]
    back = map_links([(k, 0) for k in range(len(pieces))], corresponding(pieces, text.split()), None)
    assert back == [(0, 0), (1, 0), (2, 0)]


def test_other_text_is_refused_where_it_begins_to_differ():
    with pytest.raises(DataError, match="different characters, starting at 'ee' and 'oo'"):
        corresponding(["Ann", "Lee"], ["AnnLoo"])
    with pytest.raises(DataError, match="link to token 3, but the sentence has 1 tokens"):
        map_links([(3, 0)], [[0]], None)


@pytest.fixture
def files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "links": "0-0 1-1\n\n",
        "s": "the gardeners\n\n",
        "p": "▁the ▁gard eners\n\n",
        "t": "x\n",
    }.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_the_command_maps_one_side_and_back(files, capfd):
    assert run("align", "map", "--links", "links", "-s", "s", "--new-source", "p", "-o", "new") == 0
    assert (files / "new").read_text() == "0-0 1-1 2-1\n\n"
    assert run("align", "map", "--links", "new", "-s", "p", "--new-source", "s") == 0
    assert capfd.readouterr().out == "0-0 1-1\n\n"


@pytest.mark.parametrize(
    "more, said",
    [
        ((), "give --source with --new-source"),
        (("-s", "s"), "--source and --new-source must be given together"),
        (("-s", "s", "--new-source", "t"), "links, line 1: the two tokenisations contain different characters"),
        (("-t", "t", "--new-target", "t"), "there is a link to token 1, but the sentence has 1 tokens"),
        (("-s", "s", "--new-source", "p", "-t", "t", "--new-target", "t"), "link to token 1"),
    ],
)
def test_what_does_not_fit_is_named(more, said, files, capfd):
    assert run("align", "map", "--links", "links", *more) == 2
    assert said in " ".join(capfd.readouterr().err.split())
