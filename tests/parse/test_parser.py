"""The whole parser: heads and relations, files, the command line, and attachment scores."""

from __future__ import annotations

import tracemalloc
from dataclasses import replace

import numpy as np
import pytest
from structures.tree_twin import all_trees

from trellis.apps.parse.parser import Parser
from trellis.apps.parse.tree_inducer import TreeInducer
from trellis.cli.app import main
from trellis.constraints import arcs, column, root
from trellis.data.conllu import TREE, read_conllu, write_conllu
from trellis.data.document import Document
from trellis.errors import DataError
from trellis.metrics.attachment import Tree, compare_trees, score_trees
from trellis.models import load_model, tree_model
from trellis.models.dmv import DMV

from .toy import treebank


@pytest.fixture(scope="module")
def parser() -> Parser:
    return Parser(bits=14, min_count=1).fit(treebank(60))


def test_heads_and_relations_are_learned(parser):
    scores = parser.attachment(treebank(30, seed=7))
    assert scores.plain.uas > 0.97
    assert scores.plain.las > 0.97
    assert scores.plain.n_words < scores.total.n_words


def test_a_saved_parser_gives_the_same_trees(parser, tmp_path):
    parser.save(tmp_path / "p.trellis")
    text = [replace(s, columns={"lemma": s.tokens}) for s in treebank(10, seed=3)]
    found = load_model(tmp_path / "p.trellis").predict(text)
    assert found == parser.predict(text)
    assert found[0].columns["lemma"] == found[0].tokens


def test_rules_hold_in_trees_of_a_trained_parser(parser, tmp_path, capsys):
    text = [replace(s, columns={}) for s in treebank(6, seed=3)]
    rule = arcs(head=root, child=column("upos") == "NOUN") >= 1

    def roots(found):
        return [s.labels[s.columns["head"].index("0")] for s in found]

    assert set(roots(parser.predict(text))) == {"VERB"}
    ruled = parser.predict(text, [rule])
    assert set(roots(ruled)) == {"NOUN"}
    best, free = parser.infer(text, [rule]), parser.infer(text)
    for i, s in enumerate(text):  # the best of all trees that obey it
        scores = free.model.scores(free.batch.take(np.array([i])))
        trees = [t for t in all_trees(len(s), projective=True, single_root=True) if s.labels[t.index(0)] == "NOUN"]
        wanted = max(float(scores.score(np.array(t, np.int32))[0]) for t in trees) if len(s) <= 6 else best.values[i]
        assert best.values[i] == pytest.approx(wanted)
    parser.save(tmp_path / "p.trellis")
    write_conllu(tmp_path / "text.conllu", text)
    (tmp_path / "rules.toml").write_text(
        "[[rule]]\narcs = 'count'\nhead_root = true\nchild_column = { upos = 'NOUN' }\nat_least = 1\n"
    )
    assert run("parse", "predict", tmp_path / "text.conllu", "--model", tmp_path / "p.trellis", "--rules",
               tmp_path / "rules.toml", "-o", tmp_path / "out.conllu") == 0  # fmt: skip
    assert roots(read_conllu(tmp_path / "out.conllu", columns=TREE)) == roots(ruled)


def test_heads_alone_may_be_learned(tmp_path):
    parser = Parser(bits=12, min_count=1, label_passes=0).fit(treebank(20))
    parser.save(tmp_path / "p.trellis")
    found = load_model(tmp_path / "p.trellis").predict(treebank(2, seed=4))
    assert set(found[0].columns["deprel"]) == {"_"}


def test_words_without_tags_are_refused(parser):
    with pytest.raises(DataError, match="a.conllu, line 7: the word 'b' has no tag"):
        parser.predict([Document(("a", "b"), ("NOUN", None), path="a.conllu", line=6, rows=(6, 7))])


def run(*arguments: object) -> int:
    with pytest.raises(SystemExit) as stop:
        main([str(a) for a in arguments])
    return int(stop.value.code or 0)


def test_the_command_line_trains_predicts_and_evaluates(tmp_path, capsys):
    for name, n, seed in (("train", 60, 0), ("test", 20, 1)):
        write_conllu(tmp_path / f"{name}.conllu", treebank(n, seed))
    model, out = tmp_path / "m.trellis", tmp_path / "out.conllu"
    assert run("parse", "train", tmp_path / "train.conllu", "--bits", 14, "--dev", tmp_path / "test.conllu",
               "--save", model, "--quiet") == 0  # fmt: skip
    assert capsys.readouterr().out.startswith("UAS")
    assert run("parse", "predict", tmp_path / "test.conllu", "--model", model, "-o", out) == 0
    gold, found = (list(read_conllu(path, columns=TREE)) for path in (tmp_path / "test.conllu", out))
    assert [s.tokens for s in gold] == [s.tokens for s in found]
    assert run("evaluate", "--trees", tmp_path / "test.conllu", out) == 0
    shown = capsys.readouterr().out
    assert f"{100 * compare_trees(gold, found).plain.uas:8.2f}" in shown
    assert "whole trees" in shown


def test_the_command_line_refuses_other_models_and_other_texts(tmp_path, capsys):
    write_conllu(tmp_path / "a.conllu", treebank(3))
    write_conllu(tmp_path / "b.conllu", treebank(3, seed=1))
    assert run("evaluate", "--trees", tmp_path / "a.conllu", tmp_path / "b.conllu") == 2
    assert "is not the one at line" in capsys.readouterr().err
    from trellis.models import HMM

    HMM(min_count=1, unknown=None).fit([["a"]], [["A"]]).save(tmp_path / "hmm.trellis")
    assert run("parse", "predict", tmp_path / "a.conllu", "--model", tmp_path / "hmm.trellis") == 2
    assert "holds 'HMM', not a parser" in capsys.readouterr().err


def test_attachment_counts_words_without_punctuation_and_by_length():
    gold = Tree([2, 0, 2, None], ["nsubj", "root", "punct", "obj"], [False, False, True, False])
    found = Tree([2, 0, 1, 1], ["nsubj:pass", "root", "punct", "x"], [False, False, True, False])
    scores = score_trees([gold], [found])
    assert (scores.total.n_words, scores.total.n_heads, scores.total.n_labelled) == (3, 2, 2)
    assert (scores.plain.uas, scores.plain.las) == (1.0, 1.0)
    assert scores.up_to[10].n_words == 2
    assert scores.whole == 1.0
    wrong = score_trees([gold], [Tree([0, 0, 2, None], ["nsubj", "x", "punct", None], [False] * 4)])
    assert (wrong.plain.uas, wrong.plain.las, wrong.whole) == (0.5, 0.0, 0.0)
    with pytest.raises(DataError, match="sentence 1 has 4 words in gold but 1"):
        score_trees([gold], [Tree([0], ["root"], [False])])


@pytest.fixture
def small_bound(monkeypatch):
    """Sentences of more than 12 words are parsed in pieces of 6."""
    monkeypatch.setattr(tree_model, "LONGEST", 12)
    monkeypatch.setattr(tree_model, "PIECE", 6)


def long_line(n: int, **place: object) -> Document:
    """Sentences of the toy grammar on one line."""
    words, tags = ("the", "dog", "sees", "trees", "."), ("DET", "NOUN", "VERB", "NOUN", "PUNCT")
    return Document((words * n)[:n], (tags * n)[:n], **place)


@pytest.mark.parametrize("task", ["parser", "inducer"])
def test_a_long_sentence_is_parsed_in_pieces_and_the_others_as_ever(task, parser, small_bound):
    made = parser if task == "parser" else TreeInducer(max_iter=2).fit(treebank(10))
    short = [replace(s, columns={}) for s in treebank(3, seed=5) if len(s) <= 12]
    long = long_line(40, path="a.conllu", line=7)
    with pytest.warns(UserWarning, match=r"line 7 of a.conllu has \d+ words.*pieces of at most 6") as warned:
        found = made.predict([short[0], long, *short[1:]])
    assert len(warned) == 1
    assert [found[0], *found[2:]] == made.predict(short)
    heads = [int(head) for head in found[1].columns["head"]]
    assert heads.count(0) == 1
    assert heads_reach_root(heads)
    if task == "parser":  # punctuation that is put back may cross arcs
        DMV().fit([[("a", "A")] * 40], [heads])  # refuses arcs that cross


def heads_reach_root(heads: list[int]) -> bool:
    reached = {0}
    for _ in heads:
        reached |= {c for c, head in enumerate(heads, start=1) if head in reached}
    return len(reached) == len(heads) + 1


def test_pieces_end_at_punctuation_and_have_the_trees_that_they_have_alone(parser, small_bound):
    with pytest.warns(UserWarning, match="sentence 0 has 20 words"):
        [found] = parser.predict([long_line(20)])
    [alone] = parser.predict([long_line(5)])
    heads, own = ([int(head) for head in s.columns["head"]] for s in (found, alone))
    root = own.index(0) + 1
    assert heads == own + [root if head == 0 else head + 5 * i for i in (1, 2, 3) for head in own]


def test_a_line_of_20000_words_takes_little_memory(parser, tmp_path):
    parser.save(tmp_path / "p.trellis")
    write_conllu(tmp_path / "long.conllu", [*treebank(2, seed=9), long_line(20_000), *treebank(2, seed=10)])
    tracemalloc.start()
    try:
        with pytest.warns(UserWarning, match=r"line 13 of .*long.conllu has 20000 words") as warned:
            code = run("parse", "predict", tmp_path / "long.conllu", "-m", tmp_path / "p.trellis", "-o", tmp_path / "o")
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert code == 0
    assert peak < 300e6
    assert len(warned) == 1
    assert [len(s) for s in read_conllu(tmp_path / "o")] == [len(s) for s in read_conllu(tmp_path / "long.conllu")]


def test_probabilities_of_all_arcs_of_a_very_long_sentence_are_refused(parser):
    with pytest.raises(DataError, match="sentence 0 has 20000 words.*at most 2000 words"):
        parser.arcs_.predict_proba([[("a", "NOUN")] * 20_000])
