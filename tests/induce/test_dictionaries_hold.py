"""A tag dictionary and closed classes hold for every word: frequent, rare, unknown, in training and in new text."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from trellis.apps.induce.inducer import Inducer, tag_text
from trellis.cli.app import app
from trellis.constraints import dictionary
from trellis.learn import UEM
from trellis.models import HMM, load_model

from .toy import WORDS, sentences

TEXT, _ = sentences(80)
RARE = ["the zebra sees a gnu", "a quick dog likes the yak", "the old ox swiftly finds a man"]
"""Each word that the toy language lacks occurs once, so that the default ``min_count`` makes it unknown."""
TEXT += [line.split() for line in RARE]
NEW = [
    line.split()
    for line in (
        "the zebra sees some lynx", "Some big lynx likes every gnu", "lynx lynx lynx", "every the a some",
        "a quick unheard thing swiftly sees the yak", "The Dog sees", "sees the the dog finds finds",
    )
]  # fmt: skip
TAGS = list("DANVR")
DICTIONARY = {
    **{word: [tag] for tag, words in WORDS.items() for word in words[:2]},
    "zebra": ["N"], "gnu": ["N"], "yak": ["N", "V"], "swiftly": ["R"], "quick": ["A"],  # rare in training
    "some": ["D"], "every": ["D"], "lynx": ["N"],  # in new text alone
}  # fmt: skip
CLOSED = {**{word: ["D"] for word in WORDS["D"]}, "some": ["D"], "every": ["D"], "swiftly": ["R"]}
CLOSED_TAGS = {"D", "R"}
SETTINGS = {"frequent": 5, "max_iter": 8, "em_iter": 4, "random_state": 0}
KINDS = [("em", "table"), ("em", "features"), ("sparse", "table"), ("sparse", "features"), ("vb", "table")]


def broken(text, tags, *, closed=False):
    """Tokens with a tag that their word may not have."""
    found = []
    for words, own in zip(text, tags, strict=True):
        for word, tag in zip(words, own, strict=True):
            if closed:
                allowed = CLOSED.get(word) or [t for t in own if t not in CLOSED_TAGS]
            else:
                allowed = DICTIONARY.get(word, TAGS)
            if tag not in allowed:
                found.append((word, tag))
    return found


@pytest.mark.parametrize("decoding", ["posterior", "viterbi"])
@pytest.mark.parametrize("knowledge", ["dictionary", "closed"])
@pytest.mark.parametrize("method, emissions", KINDS)
def test_no_token_gets_a_forbidden_tag(method, emissions, knowledge, decoding, tmp_path):
    closed = knowledge == "closed"
    known = {"closed_classes": CLOSED} if closed else {"tag_dictionary": DICTIONARY}
    inducer = Inducer(TAGS, method=method, emissions=emissions, decoding=decoding, **known, **SETTINGS).fit(TEXT)
    assert broken(TEXT, inducer.states(), closed=closed) == []
    assert broken(NEW, inducer.predict(NEW), closed=closed) == []
    assert broken(TEXT, inducer.predict(TEXT), closed=closed) == []
    inducer.save(tmp_path / "m.trellis")
    loaded = load_model(tmp_path / "m.trellis")
    assert tag_text(loaded, NEW, decoding) == inducer.predict(NEW)


@pytest.mark.parametrize("min_count", [1, 2, 5])
def test_closed_classes_and_a_dictionary_hold_together(min_count):
    """Closed words have closed tags, and of the other words those of the dictionary have the tags listed there."""
    listed = {"zebra": ["N"], "lynx": ["N", "V"], "dog": ["N"]}
    inducer = Inducer(
        TAGS, emissions="table", method="em", closed_classes=CLOSED, tag_dictionary=listed, min_count=min_count,
        **SETTINGS,
    ).fit(TEXT)  # fmt: skip
    for text, states in ((TEXT, inducer.states()), (NEW, inducer.predict(NEW))):
        assert broken(text, states, closed=True) == []
        for words, own in zip(text, states, strict=True):
            assert all(tag in listed.get(word, TAGS) for word, tag in zip(words, own, strict=True))


@pytest.mark.parametrize("emissions", ["table", "features"])
def test_the_dictionary_of_an_hmm_holds_for_rare_and_new_words(emissions, tmp_path):
    hmm = HMM(TAGS, emissions=emissions, tag_dictionary=DICTIONARY)
    learner = UEM(hmm, start="uniform", max_iter=5, tol=0.0).fit(TEXT)
    for text in (TEXT, NEW):
        assert broken(text, learner.predict(text)) == []
        assert broken(text, learner.model_.predict(text)) == []
    learner.model_.save(tmp_path / "m.trellis")
    assert broken(NEW, load_model(tmp_path / "m.trellis").predict(NEW)) == []


@pytest.mark.parametrize("emissions", ["table", "features"])
def test_labels_that_contradict_the_dictionary_are_not_learned(emissions):
    text, labels = [["the", "dog", "sees"]] * 3, [["N", "V", "D"]] * 3
    inducer = Inducer(TAGS, method="em", emissions=emissions, tag_dictionary=DICTIONARY, **SETTINGS)
    inducer.fit([*text, *TEXT], [*labels, *[None] * len(TEXT)])
    assert broken(text, inducer.predict(text)) == []


def test_words_outside_the_dictionary_have_other_labels():
    hmm = HMM(TAGS, tag_dictionary=CLOSED, other_labels=["A", "N", "V"])
    model = UEM(hmm, start="uniform", max_iter=5, tol=0.0).fit(TEXT).model_
    for text in (TEXT, NEW):
        assert broken(text, model.predict(text), closed=True) == []


@pytest.mark.parametrize("emissions", ["table", "features"])
def test_a_dictionary_constraint_holds_for_rare_and_new_words(emissions):
    learner = UEM(HMM(TAGS, emissions=emissions), [dictionary(DICTIONARY)], start="uniform", max_iter=5, tol=0.0)
    learner.fit(TEXT)
    assert broken(TEXT, learner.predict(TEXT)) == []
    assert broken(NEW, learner.predict(NEW)) == []


@pytest.mark.parametrize("knowledge", ["dictionary", "closed"])
@pytest.mark.parametrize("emissions", ["table", "features"])
def test_the_command_keeps_to_the_tags_of_words(knowledge, emissions, tmp_path):
    def lines(text):
        return "".join(" ".join(words) + "\n" for words in text)

    closed = knowledge == "closed"
    text, new, tags, model = (tmp_path / name for name in ("text.txt", "new.txt", "tags.tsv", "m.trellis"))
    text.write_text(lines(TEXT))
    new.write_text(lines(NEW))
    known = CLOSED if closed else DICTIONARY
    tags.write_text("".join(f"{word}\t{tag}\n" for word, own in known.items() for tag in own))
    run = CliRunner().invoke
    learned = run(
        app, ["induce", str(text), "-k", "5", f"--{knowledge}", str(tags), "--emissions", emissions, "--rounds", "6",
              "--em-rounds", "3", "--save", str(model), "-o", str(tmp_path / "text.tsv"), "--quiet"],
    )  # fmt: skip
    assert learned.exit_code == 0, learned.output
    applied = run(app, ["induce", str(new), "-m", str(model), "-o", str(tmp_path / "new.tsv")])
    assert applied.exit_code == 0, applied.output
    for given, path in ((TEXT, tmp_path / "text.tsv"), (NEW, tmp_path / "new.tsv")):
        assert broken(given, _tags_in(path), closed=closed) == []


def _tags_in(path: Path) -> list[list[str]]:
    blocks = path.read_text().strip().split("\n\n")
    return [[line.split("\t")[1] for line in block.splitlines()] for block in blocks]
