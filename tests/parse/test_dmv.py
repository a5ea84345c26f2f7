"""The dependency model with valence: its probabilities, EM, its start, and trees induced with and without rules."""

from __future__ import annotations

import math

import numpy as np
import pytest
from structures.tree_twin import all_trees, nearest_arcs

from trellis.apps.parse.tree_inducer import TreeInducer
from trellis.apps.parse.tree_text import Stripped
from trellis.cli.app import main
from trellis.constraints import arcs, column
from trellis.data.conllu import read_conllu, write_conllu
from trellis.data.document import Document
from trellis.errors import DataError, UnknownNameError
from trellis.learn import UEM
from trellis.models import DMV, load_model
from trellis.models.dmv import LEFT, NONE_YET, RIGHT, SOME

from .toy import pairs, treebank

TEXT = [[("a", "A"), ("b", "B"), ("c", "A"), ("d", "C")], [("b", "B")], [("a", "A"), ("d", "C"), ("e", "C")]]
tag = column("upos")


def random_model(**settings) -> tuple[DMV, object]:
    model = DMV(**settings)
    batch = model.encode(TEXT, fit=True)
    model.randomize(np.random.default_rng(0), 5.0)
    return model, batch


def log_probability(model: DMV, words: list[tuple[str, str]], heads: tuple[int, ...]) -> float:
    """Eq. 57, a word at a time."""
    tags = [model.tag_names_.number(tag) for _, tag in words]
    n_tags = len(model.tag_names_)
    go_on, stop = model.stop_.reshape(2, n_tags, 2, 2)
    total = 0.0
    for c, h in enumerate(heads, start=1):
        if h == 0:
            total += math.log(model.root_[tags[c - 1], 0])
        else:
            side = LEFT if c < h else RIGHT
            v = NONE_YET if (h, c) in nearest_arcs(heads) else SOME
            total += math.log(go_on[tags[h - 1], side, v])
            total += math.log(model.child_[tags[c - 1], 2 * tags[h - 1] + side])
    for w in range(1, len(heads) + 1):
        for side, own in ((LEFT, range(1, w)), (RIGHT, range(w + 1, len(heads) + 1))):
            v = SOME if any(heads[c - 1] == w for c in own) else NONE_YET
            total += math.log(stop[tags[w - 1], side, v])
    return total


def test_scores_are_log_probabilities_of_tags_and_trees():
    model, batch = random_model()
    scores = model.scores(batch)
    for i, words in enumerate(TEXT):
        trees = all_trees(len(words), projective=True, single_root=True)
        logs = np.array([log_probability(model, words, heads) for heads in trees])
        one = scores.take(np.array([i]))
        found = np.array([one.score(np.array(heads, np.int32))[0] for heads in trees])
        np.testing.assert_allclose(found, logs, atol=1e-10)
        assert abs(one.infer().log_partition[0] - np.logaddexp.reduce(logs)) < 1e-10


def test_probabilities_of_all_short_sentences_add_up_to_their_share():
    """Sentences of one tag: probability 1 is spread over lengths, and a word with no dependents has its share."""
    model = DMV()
    batch = model.encode([[("a", "A")]], fit=True)
    model.randomize(np.random.default_rng(1), 3.0)
    total = 0.0
    for n in range(1, 13):
        words = [[("a", "A")] * n]
        total += math.exp(model.scores(model.encode(words)).infer().log_partition[0])
    # the unknown tag takes the rest
    assert 0.0 < total < 1.0
    ends = model.stop_.reshape(2, -1, 2, 2)[1, 0]
    alone = model.root_[0, 0] * ends[LEFT, NONE_YET] * ends[RIGHT, NONE_YET]
    found = math.exp(model.scores(batch).infer().log_partition[0])
    assert abs(found - alone) < 1e-12


def test_statistics_count_what_the_formula_multiplies():
    """log p(x, y) = counts · log θ, for certain trees."""
    model, _ = random_model()
    for words in TEXT:
        for heads in all_trees(len(words), projective=True, single_root=True)[::3]:
            batch = model.encode([words], [list(heads)])
            counted = model.collect(batch, model.scores(batch).certain(batch.labels))
            total = sum(
                float((getattr(counted, name) * np.log(getattr(model, f"{name}_"))).sum())
                for name in ("root", "child", "stop")
            )
            assert abs(total - log_probability(model, words, heads)) < 1e-10


@pytest.mark.slow
@pytest.mark.parametrize("gamma", [0.3, 1.0])
@pytest.mark.parametrize(
    "settings",
    [{}, {"child_prior": 1.5, "stop_prior": 1.1, "root_prior": 2.0},
     {"variational": True, "child_prior": 0.5, "stop_prior": 0.8, "root_prior": 0.5}],
    ids=["likelihood", "priors", "variational"],
)  # fmt: skip
@pytest.mark.parametrize("ruled", [False, True], ids=["free", "ruled"])
def test_the_objective_rises_at_every_round(gamma, settings, ruled):
    X, _ = pairs(treebank(25, seed=1))
    rules = [
        (arcs(head=tag == "NOUN", child=tag == "DET", share=True).per("corpus") >= 0.9).named("determiners"),
        (arcs(head=tag == "VERB", child=tag == "NOUN") >= 0.5).named("a noun under the verb"),
    ]
    learner = UEM(
        DMV(**settings), rules if ruled else [], gamma=gamma, start="uniform", max_iter=8, tol=0, projection_tol=1e-7
    )
    history = learner.fit(X).history_
    slack = 1e-6 * abs(history[0].objective) if ruled else 1e-9 * abs(history[0].objective)
    assert np.all(np.diff(history.objective) >= -slack)
    assert history.objective[-1] > history.objective[0]
    if ruled:
        assert max(history[-1].violation.values()) < 1e-4


def test_the_usual_start_prefers_words_that_are_near():
    model, batch = random_model()
    near = model.uniform(batch).infer().marginal
    parts = model.parts(batch)
    assert near[parts.arc_within(0, 1, 2)] > near[parts.arc_within(0, 1, 4)]
    model.harmonic = None
    alike = model.uniform(batch)
    assert np.all(alike.arc == 0.0)


def test_counting_trees_is_supervised_training():
    X, y = pairs(treebank(50))
    model = DMV().fit(X, y)
    assert model.score(*pairs(treebank(20, seed=4))) > 0.95
    np.testing.assert_allclose(model.child_.sum(axis=0), 1.0)
    verbs = model.tag_names_.number("VERB")
    assert model.root_[verbs, 0] == 1.0


def test_smoothing_lets_unseen_tags_be_parsed():
    X, y = pairs(treebank(20))
    for smoothing in (0.0, math.exp(-10)):
        heads = DMV(smoothing=smoothing).fit(X, y).predict([[("x", "NEW"), ("dog", "NOUN"), ("sees", "VERB")]])[0]
        assert heads[2] == 0


def test_posterior_decoding_gets_the_most_heads_right_in_expectation():
    """By enumeration: no tree has more; over many parameters it is not always the likeliest tree."""
    model = random_model(smoothing=0.0)[0]
    differ = 0
    for seed in range(20):
        model.randomize(np.random.default_rng(seed), 20.0)
        for words in TEXT:
            trees = np.array(all_trees(len(words), projective=True, single_root=True))
            logs = np.array([log_probability(model, words, tuple(heads)) for heads in trees.tolist()])
            share = np.exp(logs - np.logaddexp.reduce(logs))
            right = [share @ (trees == heads).sum(axis=1) for heads in trees]
            model.decoding = "posterior"
            [found] = model.predict([words])
            assert abs(share @ (trees == found).sum(axis=1) - max(right)) < 1e-12
            model.decoding = "viterbi"
            [likeliest] = model.predict([words])
            assert likeliest == trees[logs.argmax()].tolist()
            differ += found != likeliest
    assert differ
    with pytest.raises(UnknownNameError, match="unknown decoding 'beam'"):
        DMV(decoding="beam").fit(*pairs(treebank(3)))


def test_a_saved_model_predicts_the_same_bits(tmp_path):
    for settings in ({}, {"variational": True}):
        model, batch = random_model(**settings)
        model.save(tmp_path / "dmv.trellis")
        again = load_model(tmp_path / "dmv.trellis")
        np.testing.assert_array_equal(model.scores(batch).arc, again.scores(again.encode(TEXT)).arc)


def test_a_posterior_without_nearest_dependents_is_refused():
    model, batch = random_model()
    scores = model.scores(batch)
    q = scores.posterior(np.zeros(0, np.int64), np.zeros(0))
    with pytest.raises(DataError, match="must know nearest dependents"):
        model.collect(batch, q)


# trees without a treebank

RULES = """
[[rule]]
name = "verbs are roots"
arcs = "share"
head_root = true
child_column = { upos = "VERB" }
at_least = 0.9
per = "corpus"

[[rule]]
name = "phrases"
arcs = "share"
head_column = { upos = "NOUN" }
child_column = { upos = ["DET", "ADJ"] }
direction = "left"
at_least = 0.9
per = "corpus"
"""


def attachment(inducer: TreeInducer, trees: list[Document]) -> float:
    right = [a == b for s, t in zip(trees, inducer.predict(trees), strict=True)
             for a, b in zip(s.columns["head"], t.columns["head"], strict=True)]  # fmt: skip
    return float(np.mean(right))


def test_rules_teach_what_text_alone_does_not():
    trees = treebank(80, seed=6)
    plain, ruled = TreeInducer(max_iter=15).fit(trees), TreeInducer(max_iter=15, rules=RULES).fit(trees)
    assert attachment(ruled, trees) > 0.95
    assert attachment(ruled, trees) > attachment(plain, trees) + 0.1
    assert max(ruled.history_[-1].violation.values()) < 1e-2


def test_punctuation_is_stripped_and_put_back():
    own = Stripped([("a", "X"), ("b", "X")], [1, 3], 5)
    assert own.whole([2, 0]) == [4, 4, 4, 0, 4]
    assert Stripped([], [], 2).whole([]) == [0, 1]
    tree = Document(tuple("vwxyz"), ("P", "X", "P", "X", "P"), {"head": ("4", "3", "4", "0", "_")})
    assert own.heads(tree) == [2, 0]


def test_induced_trees_through_the_command_line(tmp_path, capsys):
    trees = treebank(40, seed=2)
    write_conllu(tmp_path / "text.conllu", trees)
    (tmp_path / "rules.toml").write_text(RULES, encoding="utf-8")
    model, out, again = tmp_path / "m.trellis", tmp_path / "out.conllu", tmp_path / "again.conllu"
    common = ["induce-trees", str(tmp_path / "text.conllu")]
    for extra in (["--rules", str(tmp_path / "rules.toml"), "--save", str(model), "-o", str(out), "-I", "10", "-q"],
                  ["--model", str(model), "-o", str(again)]):  # fmt: skip
        with pytest.raises(SystemExit) as stop:
            main(common + extra)
        assert not stop.value.code, capsys.readouterr().err
    assert out.read_bytes() == again.read_bytes()
    found = list(read_conllu(out, columns=("head",)))
    right = [a == b for s, t in zip(trees, found, strict=True)
             for a, b in zip(s.columns["head"], t.columns["head"], strict=True)]  # fmt: skip
    assert np.mean(right) > 0.9
    with pytest.raises(SystemExit) as stop:
        main([*common, "--model", str(model), "--save", str(tmp_path / "x")])
    assert stop.value.code == 2
