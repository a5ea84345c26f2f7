"""Transfer: arcs projected through links, and a parser of a language that has no trees of its own."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest

from trellis.apps.parse.parser import Parser, tagged
from trellis.apps.parse.projected_arcs import (
    ETAS,
    SentencePair,
    conserved,
    coverage,
    is_fragment,
    left_headed_names,
    loosest,
    projected,
)
from trellis.apps.parse.transfer import Transfer, usable_pairs
from trellis.apps.parse.tree_text import strip
from trellis.cli.app import main
from trellis.data.conllu import read_conllu, write_conllu
from trellis.data.document import Document
from trellis.errors import DataError, UnknownNameError
from trellis.models import ArcParser, load_model

from .toy import treebank

PAIR = SentencePair(
    source=[("the", "DET"), ("dog", "NOUN"), ("sees", "VERB"), ("cats", "NOUN")], heads=[2, 3, 0, 3],
    target=[("ve", "VERB"), ("el", "DET"), ("perro", "NOUN"), ("los", "DET"), ("gatos", "NOUN")],
    links=[(0, 1), (1, 2), (2, 0), (3, 4), (3, 3)],
)  # fmt: skip


def test_arcs_are_projected_through_links_between_like_tags():
    assert projected(PAIR) == [(0, 1), (1, 3), (1, 5), (3, 2)]  # cats-los is a noun and a determiner
    many = SentencePair([("go", "VERB"), ("it", "PRON")], [0, 1], [("a", "VERB"), ("b", "VERB"), ("c", "PRON")],
                        [(0, 0), (0, 1), (1, 2)])  # fmt: skip
    assert projected(many) == [(0, 1), (0, 2), (1, 3), (2, 3)]


def test_names_hang_on_their_first_word():
    words = ["the", "Central", "European", "Bank", "of", "Spain", "acts"]
    tags = ["DET", "PROPN", "PROPN", "PROPN", "ADP", "PROPN", "VERB"]
    source = list(zip(words, tags, strict=True))
    pair = SentencePair(
        source, [4, 4, 4, 7, 6, 4, 0], source, [(i, i) for i in range(7)],
        ["det", "compound", "compound", "nsubj", "case", "nmod", "root"],
    )  # fmt: skip
    found = left_headed_names(pair)
    assert found.heads == [2, 7, 2, 2, 6, 2, 0]
    assert found.relations == ["det", "nsubj", "flat", "flat", "case", "nmod", "root"]
    nouns = replace(pair, source=[(word, "NOUN" if tag == "PROPN" else tag) for word, tag in source])
    assert left_headed_names(nouns) == nouns  # compounds of other nouns stay
    assert left_headed_names(PAIR) == PAIR  # no relations are known


def test_pairs_without_a_verb_are_fragments():
    assert not is_fragment(PAIR)
    assert is_fragment(SentencePair([("a", "NOUN")], [0], [("b", "VERB")], []))


def mirrored(s: Document) -> tuple[Document, list[tuple[int, int]]]:
    """A translation into a language that says everything the other way round, in other words; and its links."""
    n = len(s)
    words, tags = tuple(f"{w}o" for w in reversed(s.tokens)), tuple(reversed(s.labels or ()))
    heads = tuple(str(n + 1 - int(h)) if int(h) else "0" for h in reversed(s.columns["head"]))
    return Document(words, tags, {"head": heads}), [(i, n - 1 - i) for i in range(n)]


def bitext(n: int, seed: int, noise: float = 0.0):
    """Source trees, translations without trees, links of which some are wrong, and the right target trees."""
    rng = np.random.default_rng(seed)
    source = treebank(n, seed)
    both = [mirrored(s) for s in source]
    links = [
        [(i, int(rng.integers(len(t))) if rng.random() < noise else j) for i, j in own] for t, own in both
    ]  # fmt: skip
    return source, [t for t, _ in both], links


def pairs_of(source: list[Document], target: list[Document]) -> list[tuple[Document, Document]]:
    return list(zip(source, target, strict=True))


def paired(*size: int, **settings: float) -> tuple[list[tuple[Document, Document]], list[list[tuple[int, int]]]]:
    """Pairs of a bitext, and their links."""
    source, target, links = bitext(*size, **settings)
    return pairs_of(source, target), links


def attachment(found: list[Document], gold: list[Document]) -> float:
    right = []
    for s, t in zip(gold, found, strict=True):
        cells = zip(s.columns["head"], t.columns["head"], s.labels or (), strict=True)
        right += [a == b for a, b, tag in cells if tag != "PUNCT"]
    return float(np.mean(right))


@pytest.mark.slow
@pytest.mark.parametrize("model", ["margin", "likelihood", "dmv"])
@pytest.mark.parametrize("gamma", [0.0, 1.0])
def test_a_parser_is_carried_to_a_language_of_another_order(model, gamma):
    """Tags alone mislead (the order is reversed): projected arcs must teach it, a tenth of the links being wrong."""
    source, target, links = bitext(60, 1, noise=0.1)
    learner = Transfer(
        model=model,
        gamma=gamma,
        bits=14,
        min_count=1,
        max_iter=2 if model == "margin" else 3,
        eta=0.9,
        l2=1.0,
        n_jobs=1,
    ).fit(pairs_of(source, target), links)
    test = bitext(30, 9)[1]
    tags_alone = learner.source_model(usable_pairs(pairs_of(source, target), links, 20))
    stripped = [strip(t, words) for t, words in zip(test, tagged(test), strict=True)]
    direct = tags_alone.score(
        [own.words for own in stripped], [own.heads(t) for own, t in zip(stripped, test, strict=True)]
    )
    assert direct < 0.7
    assert attachment(learner.predict(test), test) > direct + 0.15
    assert learner.conserved_ > 0.6


def test_the_parser_is_the_mean_of_those_that_met_the_trees_in_other_orders():
    pairs = usable_pairs(*paired(20, 2), 20)
    text, trees = [pair.target for pair in pairs], [list(range(len(pair.target))) for pair in pairs]
    shared = {"bits": 10, "min_count": 1}
    made = Transfer(orders=3, passes=2, **shared).fit_trees(text, trees)
    alone = [
        ArcParser(**shared, max_iter=2, learning_rate=0.01, random_state=s).fit(text, trees).weights_ for s in range(3)
    ]
    assert not np.array_equal(alone[0], alone[1])
    np.testing.assert_allclose(made.weights_, sum(alone) / 3, atol=1e-12)


def test_the_dmv_knows_from_the_source_how_words_without_links_hang():
    source = treebank(40, seed=5)
    nouns_and_verbs = [[(i, i) for i, tag in enumerate(s.labels or ()) if tag in ("NOUN", "VERB")] for s in source]
    bare = [Document(tuple(f"{w}o" for w in s.tokens), s.labels) for s in source]
    learner = Transfer(model="dmv", n_jobs=1).fit(pairs_of(source, bare), nouns_and_verbs)
    assert learner.model_.decoding == "posterior"
    test = treebank(20, seed=6)
    assert attachment(learner.predict(test), test) == 1.0


def test_the_loosest_eta_is_taken_that_is_as_good_as_the_best():
    words = np.array([4, 9, 5, 7, 6, 8])
    best = np.array([4, 3, 5, 2, 6, 4])  # pairs differ much from each other: shares have a large standard error
    noise = np.array([1, -1, 1, -1, 1, 0])
    assert loosest({0.6: best - 2, 0.8: best - noise, 0.9: best - noise, 1.0: best}, words) == 0.8
    assert loosest({0.6: best - 2, 0.8: best - 1, 1.0: best}, words) == 1.0  # the difference has a small one
    assert loosest({0.8: best, 0.9: best - noise, 1.0: best - 2}, words) == 0.8
    assert loosest({0.8: best, 1.0: best}, words) == 0.8


def test_kept_heads_are_counted_in_each_pair():
    kept, words = conserved([PAIR, PAIR], [[0, 3, 1, 3, 1], [2, 0, 2, 1, 3]])
    assert kept.tolist() == [4, 0]
    assert words.tolist() == [4, 4]


@pytest.mark.parametrize("model", ["margin", "dmv"])
def test_eta_is_found_without_trees(model):
    """By what half of the pairs teaches about the other half, and then all of them teach."""
    settings = {"model": model, "bits": 10, "min_count": 1, "orders": 1, "source_passes": 1, "n_jobs": 1}
    pairs = usable_pairs(*paired(24, 2, noise=0.3), 20)
    start = Transfer(**settings).source_model(pairs)
    kept = {}
    for eta in ETAS:
        half = Transfer(**settings, eta=eta).fit_pairs(pairs[::2], start)
        kept[eta], words = conserved(pairs[1::2], half.model_.predict([pair.target for pair in pairs[1::2]]))
    found = Transfer(**settings, eta="auto").fit_pairs(pairs)
    assert found.eta_ == loosest(kept, words)
    known = Transfer(**settings, eta=found.eta_).fit_pairs(pairs)
    for name, value in known.model_.parameters().items():
        np.testing.assert_array_equal(found.model_.parameters()[name], value)
    with pytest.raises(DataError, match='eta "auto" needs at least two usable sentence pairs'):
        Transfer(**settings, eta="auto").fit_pairs(pairs[:1])


def with_relations(s: Document) -> Document:
    """The sentence with a relation that its tags decide."""
    return replace(s, columns={**s.columns, "deprel": tuple(f"is-{tag}" for tag in s.labels or ())})


def test_relations_are_transferred(tmp_path):
    source, target, links = bitext(60, 1, noise=0.1)
    learner = Transfer(bits=14, min_count=1).fit(pairs_of([with_relations(s) for s in source], target), links)
    learner.save(tmp_path / "t.trellis")
    for learned in (learner, load_model(tmp_path / "t.trellis")):
        test = [with_relations(s) for s in bitext(30, 9)[1]]
        scores = learned.attachment(test)
        assert scores.plain.las > 0.95 * scores.plain.uas > 0.7
    bare = Transfer(bits=14, min_count=1).fit(
        pairs_of([replace(s, columns={"head": s.columns["head"]}) for s in source], target), links
    )
    assert set(bare.predict(target)[0].columns["deprel"]) == {"_"}


def test_pairs_with_most_projected_heads_are_learned_from():
    source, target, links = bitext(20, 3)
    poor = [own if number % 2 else own[:3] for number, own in enumerate(links)]
    learner = Transfer(bits=10, min_count=1, max_pairs=8)
    pairs = usable_pairs(pairs_of(source, target), poor, 30)
    chosen = learner.best_pairs(pairs)
    assert len(chosen) == 8
    assert min(map(coverage, chosen)) >= max(coverage(pair) for pair in pairs if pair not in chosen)
    assert learner.fit(pairs_of(source, target), poor).n_pairs_ == 8


def test_a_saved_transfer_parses_the_same(tmp_path):
    learner = Transfer(bits=12, min_count=1, passes=1).fit(*paired(15, 2))
    learner.save(tmp_path / "t.trellis")
    text = bitext(5, 3)[1]
    assert load_model(tmp_path / "t.trellis").predict(text) == learner.predict(text)


def test_mistakes_are_told():
    source, target, links = bitext(5, 0)
    with pytest.raises(UnknownNameError, match="unknown model"):
        Transfer(model="hmm").fit(pairs_of(source, target), links)
    for eta in (1.5, "most"):
        with pytest.raises(DataError, match=r"eta must lie in 0\.\.1, got"):
            Transfer(eta=eta).fit(pairs_of(source, target), links)
    with pytest.raises(DataError, match="orders must be"):
        Transfer(orders=0).fit(pairs_of(source, target), links)
    with pytest.raises(DataError, match="has no link 0-99"):
        Transfer().fit(pairs_of(source, target), [[(0, 99)], *links[1:]])
    with pytest.raises(DataError, match="5 pairs of sentences but links for 4"):
        Transfer().fit(pairs_of(source, target), links[1:])
    with pytest.raises(DataError, match="no sentence pair is left"):
        Transfer().fit(pairs_of(source, target), [[] for _ in links])


@pytest.mark.slow
def test_the_command_line_carries_a_parser_over(tmp_path, capsys):
    source, target, links = bitext(60, 4)
    Parser(bits=14, min_count=1).fit(source).save(tmp_path / "en.trellis")
    write_conllu(tmp_path / "s.conllu", source)
    write_conllu(tmp_path / "t.conllu", target)
    (tmp_path / "links").write_text("\n".join(" ".join(f"{i}-{j}" for i, j in own) for own in links) + "\n")
    options = ["--source-parser", tmp_path / "en.trellis", "-s", tmp_path / "s.conllu", "-t", tmp_path / "t.conllu",
               "--links", tmp_path / "links", "--save", tmp_path / "es.trellis", "--parse", tmp_path / "t.conllu",
               "-o", tmp_path / "out.conllu", "-q"]  # fmt: skip
    with pytest.raises(SystemExit) as stop:
        main(["transfer", *map(str, options)])
    told = capsys.readouterr().err
    assert not stop.value.code, told
    assert "60 pairs" in told
    found = list(read_conllu(tmp_path / "out.conllu", columns=("head",)))
    assert attachment(found, target) > 0.9
    with pytest.raises(SystemExit) as stop:
        main(["parse", "predict", str(tmp_path / "t.conllu"), "--model", str(tmp_path / "es.trellis"),
              "-o", str(tmp_path / "again.conllu")])  # fmt: skip
    assert not stop.value.code
    assert (tmp_path / "again.conllu").read_bytes() == (tmp_path / "out.conllu").read_bytes()
    (tmp_path / "t.txt").write_text("\n".join(" ".join(s.tokens) for s in target) + "\n")
    with pytest.raises(SystemExit) as stop:
        main(["transfer", *map(str, [*options[:5], tmp_path / "t.txt", *options[6:]])])
    assert stop.value.code == 2
    assert (
        "t.txt has words without tags (UPOS): give a tagger for its language, --target-tagger"
        in capsys.readouterr().err
    )
    for eta in ("1.5", "most"):
        with pytest.raises(SystemExit) as stop:
            main(["transfer", *map(str, options), "--eta", eta])
        assert stop.value.code == 2
        assert f"--eta must be a number from 0 to 1, or auto, but got '{eta}'" in capsys.readouterr().err
    with pytest.raises(SystemExit) as stop:
        main(["transfer", *map(str, options), "--kind", "dmv", "--eta", "auto"])
    assert not stop.value.code
    assert re.search(r"^eta [0-9.]+; 60 pairs", capsys.readouterr().err, re.M)
    with pytest.raises(SystemExit):
        main(["evaluate", "--trees", str(tmp_path / "t.conllu"), str(tmp_path / "out.conllu")])
    assert re.search(r"all words +[0-9.]+ +[0-9.]+ ", capsys.readouterr().out)
