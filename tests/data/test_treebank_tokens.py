"""Tokenisation learned from a treebank."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from trellis.data.conllu import read_conllu
from trellis.data.document import Document
from trellis.data.treebank_tokens import TreebankTokeniser

FRENCH = """\
# text = L'ami du roi n'a pas dit "non", a-t-il dit.
1\tL'\t_\tDET\t_\t_\t2\tdet\t_\tSpaceAfter=No
2\tami\t_\tNOUN\t_\t_\t0\troot\t_\t_
3-4\tdu\t_\t_\t_\t_\t_\t_\t_\t_
3\tde\t_\tADP\t_\t_\t5\tcase\t_\t_
4\tle\t_\tDET\t_\t_\t5\tdet\t_\t_
5\troi\t_\tNOUN\t_\t_\t2\tnmod\t_\t_
6\tn'\t_\tADV\t_\t_\t2\tadvmod\t_\tSpaceAfter=No
7\ta\t_\tVERB\t_\t_\t2\tacl\t_\t_
8\t-t-il\t_\tPRON\t_\t_\t7\tnsubj\t_\t_
9\taujourd'hui\t_\tADV\t_\t_\t7\tadvmod\t_\tSpaceAfter=No
10\t.\t_\tPUNCT\t_\t_\t2\tpunct\t_\t_

"""


@pytest.fixture
def french(tmp_path):
    path = tmp_path / "fr.conllu"
    path.write_text(FRENCH * 2, encoding="utf-8")
    return TreebankTokeniser.fit(read_conllu(path))


@pytest.mark.parametrize(
    "text, words",
    [
        ("", []),
        ("   ", []),
        ("L'ami du roi.", ["L'", "ami", "de", "le", "roi", "."]),
        ("Du roi", ["De", "le", "roi"]),
        ("A-t-il n'importe?", ["A", "-t-il", "n'", "importe", "?"]),
        ("aujourd'hui, l'ami...", ["aujourd'hui", ",", "l'", "ami", "..."]),
        ("«L'ami»", ["«", "L'", "ami", "»"]),
        ("(du)", ["(", "de", "le", ")"]),
        ("peut-être", ["peut-être"]),
        ("L’ami n’importe aujourd’hui", ["L'", "ami", "n'", "importe", "aujourd'hui"]),
    ],
)
def test_clitics_contractions_and_punctuation(french, text, words):
    assert french.split(text) == words


def test_text_that_is_tokenised_stays_as_it_is(french):
    words = ["L'", "ami", "n'", "a", "-t-il", "aujourd'hui", "."]
    assert french.split(" ".join(words)) == words


def test_hyphens_are_split_if_the_treebank_splits_them():
    splitting = TreebankTokeniser.fit([Document(("third", "-", "party", "e-mail"))] * 2 + [Document(("a", "-", "b"))])
    assert splitting.split("well-known e-mail -") == ["well", "-", "known", "e-mail", "-"]
    keeping = TreebankTokeniser.fit([Document(("well-known", "things", "-"))])
    assert keeping.split("third-party") == ["third-party"]


def test_a_word_that_is_only_sometimes_a_contraction_is_not_expanded():
    often = Document(("des", "fleurs"))
    once = Document(("de", "les", "jours"), multiword=(("des", 0, 2),))
    assert TreebankTokeniser.fit([often] * 3 + [once] * 2).split("des") == ["des"]
    assert TreebankTokeniser.fit([often] * 2 + [once] * 3).split("des") == ["de", "les"]


def test_a_slip_of_the_treebank_does_not_keep_a_word_whole():
    split = Document(("it", "'s", "here"))
    slip, other = Document(("it's", "colour")), Document(("five", "o'clock"))
    assert TreebankTokeniser.fit([split] * 2 + [slip, other]).split("it's o'clock") == ["it", "'s", "o'clock"]
    assert TreebankTokeniser.fit([split] * 2 + [slip] * 3).split("it's") == ["it's"]


@given(st.text(max_size=40))
def test_no_character_is_lost_or_added_without_contractions(text):
    tokeniser = TreebankTokeniser(whole=frozenset({"Mr."}), before=("l'", "d'"), after=("n't", "'s"), hyphens=True)
    assert "".join(tokeniser.split(text)) == "".join(text.split()).replace("’", "'")


def test_a_long_word_of_clitics_is_split(french):
    assert len(french.split("n'" * 5000 + "a")) == 5001


def test_what_is_saved_is_the_tokeniser(french):
    assert TreebankTokeniser.from_json(french.to_json()) == french
