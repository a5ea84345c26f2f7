"""Tagger: tags of words it has not seen, files, bare text, and the way from bare text to trees."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from trellis import Inducer, Tagger, label, load_model, word
from trellis.cli.app import main
from trellis.data.columns import write_columns
from trellis.data.conllu import read_conllu, write_conllu
from trellis.data.document import Document
from trellis.errors import DataError, NotFittedError

from .toy import treebank


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return int(stop.value.code or 0)


@pytest.fixture(scope="module")
def tagger() -> Tagger:
    return Tagger(min_count=1).fit(treebank(60))


def test_tags_are_learned_and_saved(tagger, tmp_path):
    new = treebank(20, seed=5)
    assert tagger.score(new) > 0.95
    tagger.save(tmp_path / "t.trellis")
    bare = [replace(s, labels=None) for s in new]
    assert load_model(tmp_path / "t.trellis").predict(bare) == tagger.predict(bare)


def test_rules_hold_in_predictions(tagger, tmp_path, capsys):
    text = [replace(s, labels=None) for s in treebank(5, seed=5)]
    first = text[0].tokens[0]
    rule = (word == first).implies(label("VERB"))
    assert tagger.predict(text)[0].labels[0] != "VERB"
    ruled = tagger.predict(text, [rule])
    assert all(t == "VERB" for s in ruled for w, t in zip(s.tokens, s.labels, strict=True) if w == first)
    assert tagger.infer(text, [rule], search="exact").certificate.all()
    tagger.save(tmp_path / "t.trellis")
    (tmp_path / "rules.toml").write_text(f"[[rule]]\nif_word = '{first}'\nthen_label = 'VERB'\n")
    write_conllu(tmp_path / "text.conllu", text)
    run("tag", "predict", tmp_path / "text.conllu", "--model", tmp_path / "t.trellis", "--rules",
        tmp_path / "rules.toml", "-o", tmp_path / "tagged.conllu")  # fmt: skip
    assert [s.labels for s in read_conllu(tmp_path / "tagged.conllu")] == [s.labels for s in ruled]


def test_capitals_matter_where_a_text_has_them():
    names = [Document(("A", name), ("DET", "PROPN")) for name in ("Bill", "Rose", "Will", "Mark")]
    nouns = [Document(("A", noun), ("DET", "NOUN")) for noun in ("bill", "rose", "will", "mark")]
    tagger = Tagger(min_count=1).fit([*names, *nouns, *names, *nouns, *names])
    assert [s.labels[1] for s in tagger.predict([["A", "Bill"], ["A", "bill"]])] == ["PROPN", "NOUN"]


def test_text_without_capitals_is_tagged_without_features_of_case():
    """Only nouns are lower-case in training, so a tagger that trusted case would call every lower-case word a noun."""
    text = [Document(("Gardeners", "Plant", "roses"), ("NOUN", "VERB", "NOUN"))] * 4
    text += [Document(("Owners", "Paint", "walls"), ("NOUN", "VERB", "NOUN"))] * 4
    [found] = Tagger(min_count=1).fit(text).predict([["owners", "paint", "roses"]])
    assert found.labels == ("NOUN", "VERB", "NOUN")


def test_the_typographic_apostrophe_is_read_as_the_plain_one():
    text = [Document(("l'", "ami", "dort"), ("DET", "NOUN", "VERB")), Document(("il", "dort"), ("PRON", "VERB"))] * 3
    tagger = Tagger(min_count=1).fit(text)
    plain, raw = tagger.predict(["l'ami dort", "l’ami dort"])
    assert plain == raw
    assert plain.tokens == ("l'", "ami", "dort")
    assert tagger.described(["l’", "ami"]) == tagger.described(["l'", "ami"])


def test_raw_text_is_tokenised_as_the_treebank_is(tmp_path, capsys):
    tags = ("PRON", "AUX", "PART", "VERB", "PROPN", "PROPN", "PUNCT")
    one = Document(("I", "do", "n't", "know", "Mr.", "Lee", "."), tags)
    words = ("They", "did", "n't", "go", "de", "le", "jardin", ",", "no", ".")
    tags = ("PRON", "AUX", "PART", "VERB", "ADP", "DET", "NOUN", "PUNCT", "INTJ", "PUNCT")
    text = [one, Document(words, tags, multiword=(("du", 4, 6),))] * 3
    tagger = Tagger(min_count=1).fit(text)
    words = ("Mr.", "Lee", "does", "n't", "go", "de", "le", "jardin", ".")
    raw = "Mr. Lee doesn't go du jardin."
    assert tagger.predict([raw])[0].tokens == words
    tagger.save(tmp_path / "t.trellis")
    (tmp_path / "raw.txt").write_text(raw + "\n")
    for options, expected in (((), words), (("--tokenised",), tuple(raw.split()))):
        with pytest.raises(SystemExit) as stop:
            main(["tag", "predict", str(tmp_path / "raw.txt"), "--model", str(tmp_path / "t.trellis"),
                  "-o", str(tmp_path / "out.conllu"), *options])  # fmt: skip
        assert not stop.value.code, capsys.readouterr().err
        [found] = read_conllu(tmp_path / "out.conllu")
        assert found.tokens == expected


def test_words_without_tags_are_unknown_and_nothing_to_learn_from_is_told(tagger):
    some = [Document(("dogs", "bark"), ("NOUN", None)), *treebank(20)]
    assert len(Tagger(min_count=1).fit(some).predict(some)[0].labels) == 2
    with pytest.raises(DataError, match="no word has a tag"):
        Tagger().fit([Document(("a",))])
    with pytest.raises(DataError, match="no accuracy"):
        tagger.score([Document(("a",))])
    with pytest.raises(NotFittedError):
        Tagger().predict([])
    assert tagger.predict([Document(())])[0].labels == ()


@pytest.mark.slow
def test_from_bare_text_to_trees_of_another_language(tmp_path, capsys):
    trees = treebank(60)
    write_conllu(tmp_path / "trees.conllu", trees)
    for name in ("s.txt", "t.txt"):
        (tmp_path / name).write_text("".join(" ".join(s.tokens) + "\n" for s in trees) + "\n")
    (tmp_path / "links").write_text("".join(" ".join(f"{i}-{i}" for i in range(len(s))) + "\n" for s in trees) + "\n")
    tags, parser, made = tmp_path / "tags", tmp_path / "parser", tmp_path / "made"
    trained = ["tag", "train", tmp_path / "trees.conllu", "--min-count", 1, "--save", tags]
    assert run(*trained, "--dev", tmp_path / "trees.conllu") == 0
    assert float(capsys.readouterr().out.split()[1]) > 95
    assert run("tag", "predict", tmp_path / "s.txt", "--model", tags, "-o", tmp_path / "s.conllu") == 0
    assert len(list(read_conllu(tmp_path / "s.conllu"))) == 60
    assert run("parse", "train", tmp_path / "trees.conllu", "--bits", 14, "--save", parser, "-q") == 0
    both = ["-s", tmp_path / "s.txt", "-t", tmp_path / "t.txt", "--source-tagger", tags, "--target-tagger", tags]
    more = ["--parse", tmp_path / "t.txt", "-o", tmp_path / "out.conllu", "--links", tmp_path / "links"]
    assert run("transfer", "--source-parser", parser, *both, *more, "--save", made, "-q") == 0
    found = list(read_conllu(tmp_path / "out.conllu", columns=["head"]))
    heads = [(s.columns["head"], t.columns["head"]) for s, t in zip(found, trees, strict=True)]
    right = sum(a == b for one, other in heads for a, b in zip(one, other, strict=True))
    assert right > 0.8 * sum(map(len, trees))
    capsys.readouterr()
    assert run("tag", "predict", tmp_path / "s.txt", "--model", parser) == 2
    assert "not 'Tagger'" in capsys.readouterr().err


def test_induced_states_are_features_of_words(tmp_path):
    """By hand: a CRF over the tagger's own features and the state of every word."""
    text, new = treebank(30), treebank(10, seed=5)
    words = [list(s.tokens) for s in text]
    states = Inducer(4, method="em", emissions="table", max_iter=10, random_state=0).fit(words).model_
    tagger = Tagger(min_count=1, induced=states).fit(text)
    plain = Tagger(min_count=1).fit(text)
    own = [list(s.tokens) for s in new]
    expected = [
        [[*names, f"state={state}"] for names, state in zip(plain.described(one), found, strict=True)]
        for one, found in zip(own, states.infer(own).marginal_labels, strict=True)
    ]
    assert [tagger.described(one) for one in own] == expected
    assert [s.labels for s in tagger.predict(new)] == [tuple(tags) for tags in tagger.crf_.predict(expected)]
    tagger.save(tmp_path / "m")
    again = load_model(tmp_path / "m")
    assert [s.labels for s in again.predict(new)] == [s.labels for s in tagger.predict(new)]
    assert {name for name in tagger.crf_.feature_names_ if name.startswith("state=")}


def test_states_help_where_few_sentences_are_tagged(tmp_path):
    """A word that no tagged sentence has is known by its state, through the command line."""
    rng = np.random.default_rng(0)
    nouns, verbs = [f"xa{i}" for i in range(20)], [f"xa{i}" for i in range(20, 40)]
    text = [["the", str(rng.choice(nouns)), str(rng.choice(verbs)), "."] for _ in range(300)]
    write_columns(tmp_path / "text.tsv", [Document(tuple(s)) for s in text])
    tags = ("D", "N", "V", "P")
    some = [Document(("the", "xa1", "xa21", "."), tags), Document(("the", "xa2", "xa22", "."), tags)]
    others = [Document((noun, verb), ("N", "V")) for noun, verb in zip(nouns[5:], verbs[5:], strict=True)]
    for name, own in (("few", some), ("gold", others)):
        write_conllu(tmp_path / f"{name}.conllu", own)
    settings = ["-k", "4", "--emissions", "table", "--method", "em", "--rounds", "60", "--min-count", "1", "-q"]
    states, model = tmp_path / "states", tmp_path / "m"
    assert run("induce", tmp_path / "text.tsv", *settings, "-o", tmp_path / "s.tsv", "--save", states) == 0
    few = tmp_path / "few.conllu"
    assert run("tag", "train", few, "--min-count", "1", "--induced", states, "--save", model, "-q") == 0
    assert Tagger.load(model).score(others) > Tagger(min_count=1).fit(some).score(others) + 0.1


def test_states_of_another_kind_are_refused():
    with pytest.raises(DataError, match="must be a trained HMM"):
        Tagger(induced="states").fit(treebank(3))
