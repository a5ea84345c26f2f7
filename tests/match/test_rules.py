"""Constraints on the links of pairs, and alignments that are given: against all alignments, listed."""

from __future__ import annotations

import itertools
import json
from functools import cache

import numpy as np
import pytest

from tests.hostile.command import run
from tests.learn.margin.oracle import least
from tests.match.test_matcher import names
from tests.structures.monotone_twin import all_alignments
from tests.structures.test_graph_match import all_maps
from trellis import LCLR, SSVM, Matcher
from trellis.constraints import compile_constraints, each, links, parse_rules, word
from trellis.constraints.expression import read_constraint
from trellis.errors import ConstraintError, DataError, InfeasibleError
from trellis.learn.margin import JLIS, LatentSSVM
from trellis.models.matching import GraphPairs, StringPairs
from trellis.search import decode

NAMES = [("abca", "αβα"), ("bb", "βαβ"), ("ca", "γ"), ("abc", "αγβ")]
TEXTS = [
    ("the old house was sold", "was the old house sold"),
    ("a red car", "a car red"),
    ("dogs bark", "the dogs bark loudly"),
]


def strings(longest):
    model = StringPairs(bits=8, longest=longest)
    batch = model.encode(NAMES, fit=True)
    model.weights_ = np.random.default_rng(longest).standard_normal(256)
    return model, batch


def sentences():
    model = GraphPairs(min_count=1, wordnet="none", keep_guess=False)
    batch = model.encode(TEXTS, fit=True)
    model.weights_ = np.random.default_rng(0).standard_normal(len(model.weights_))
    return model, batch


@cache
def listed(kind):
    """Of every pair all outputs, with their links (i, j)."""
    model, batch = sentences() if kind == 0 else strings(kind)
    found = []
    for number, pair in enumerate(batch.pairs):
        if kind == 0:
            graph = batch.graphs[number]
            maps = all_maps(graph.words, list(map(tuple, graph.pairs.tolist())))
            own = [(np.array([dict(m).get(i, -1) for i in range(graph.words[0])]), list(m)) for m in maps]
        else:
            own = []
            for steps in all_alignments(*map(len, pair), kind):
                ends = np.cumsum(steps, axis=0)
                linked = [
                    (i, j)
                    for (a, b), (x, y) in zip(steps, ends.tolist(), strict=True)
                    for i, j in itertools.product(range(x - a, x), range(y - b, y))
                ]
                own.append((ends, linked))
        one = model.scores(batch.instances(number, number + 1))
        found.append([(float(one.score([output])[0]), linked) for output, linked in own])
    return found


CASES = {
    "at most": (links() <= 1, lambda pair, every, own: [max(0, len(own) - 1)]),
    "at least": ((links() >= 2).penalty(1.5), lambda pair, every, own: [max(0, 2 - len(own))]),
    "each source": (
        (links(source=each) >= 1).penalty(0.7),
        lambda pair, every, own: [max(0, 1 - sum(i == k for i, _ in own)) for k in sorted({i for i, _ in every})],
    ),
    "each target": (
        links(target=each) <= 1,
        lambda pair, every, own: [max(0, sum(j == k for _, j in own) - 1) for k in sorted({j for _, j in every})],
    ),
    "conditions": (
        links(source=word.isin("a", "old", "red"), target=word.isin("α", "γ", "old", "red")) <= 0,
        lambda pair, every, own: [
            sum(pair[0][i] in ("a", "old", "red") and pair[1][j] in ("α", "γ", "old", "red") for i, j in own)
        ],
    ),
    "condition and each": (
        (links(source=word.isin("b", "sold", "car"), target=each) <= 0).penalty(2),
        lambda pair, every, own: [sum(pair[0][i] in ("b", "sold", "car") for i, _ in own)],
    ),
    "in order": (
        links.in_order(),
        lambda pair, every, own: [
            sum(i < k and m < j for i, j in own for k, m in own)
        ],
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", [0, 1, 2], ids=["sentences", "characters", "segments"])
@pytest.mark.parametrize("case", CASES)
def test_the_best_alignment_under_rules_is_the_best_of_all(case, kind):
    constraint, excess = CASES[case]
    model, batch = sentences() if kind == 0 else strings(kind)
    # words that both sentences have must be mapped: not every rule can hold
    constraint = constraint.penalty(3) if kind == 0 else constraint
    scores = model.scores(batch)
    price = constraint.strength.amount
    best = []
    for pair, found in zip(batch.pairs, listed(kind), strict=True):
        words = [side.split(" ") if kind == 0 else list(side) for side in pair]
        every = {link for value, linked in found for link in linked if kind or value > -np.inf}
        values = []
        for value, own in found:
            # strings are aligned in order: characters of one step are no links that cross
            broken = 0 if case == "in order" and kind else sum(excess(words, every, own))
            hard = constraint.strength.kind == 0
            values.append(-np.inf if hard and broken else value - (0.0 if hard else price * broken))
        best.append(max(values))
    decoded = decode(scores, compile_constraints([constraint], batch, model.label_names_, scores.parts))
    np.testing.assert_allclose(decoded.value, best, atol=1e-6)
    assert decoded.proved.all()


@pytest.mark.parametrize("constraint", [one for one, _ in CASES.values()], ids=list(CASES))
def test_rules_on_links_are_read_as_they_are_written(constraint):
    assert read_constraint(constraint.code()).code() == constraint.code()


def test_rules_of_a_file_are_those_of_python():
    rules = parse_rules(
        """
        [[rule]]
        links = "count"
        source_word = ["a", "e"]
        target_word = "β"
        at_most = 0
        [[rule]]
        links = "count"
        per = "target"
        at_least = 1
        penalty = 0.5
        [[rule]]
        links = "in_order"
        """
    )
    wanted = [
        links(source=word.isin("a", "e"), target=word == "β") <= 0,
        (links(target=each) >= 1).penalty(0.5),
        links.in_order(),
    ]
    assert [repr(rule) for rule in rules] == [repr(rule) for rule in wanted]


@pytest.mark.parametrize(
    "keys", ['links = "number"', 'links = "in_order"\nat_most = 1', 'links = "count"', 'links = "count"\nper = "word"',
             'links = "count"\nper = "source"\nsource_word = "a"\nat_most = 1']
)  # fmt: skip
def test_rules_on_links_that_say_nothing_are_refused(keys):
    with pytest.raises(DataError, match="line"):
        parse_rules(f"[[rule]]\n{keys}")


def test_links_are_joined_by_words_that_are_there():
    model, batch = strings(1)
    with pytest.raises(ConstraintError, match="takes each, or a condition"):
        links(source="a")
    with pytest.raises(InfeasibleError, match="links"):
        decode(model.scores(batch), compile_constraints([links() >= 4], batch, model.label_names_, model.parts(batch)))


@pytest.mark.parametrize("method", ["joint", "approximate", "two-stage"])
def test_lclr_keeps_to_rules_in_training_and_prediction(method):
    pairs = names(12)
    X, z = [*pairs, *zip([a for a, _ in pairs], [b for _, b in pairs[1:]], strict=False)], [1] * 12 + [-1] * 11
    model = StringPairs(bits=12)
    model.guess(model.encode(X, fit=True))
    rules = [links(source=word.isin(*"aeiou"), target=word.isin(*"βγδκλμνπρστ")) <= 0, links() >= 2]
    learner = LCLR(model, rules, start="model", method=method, max_iter=3, tol=0.0).fit(X, z)
    assert learner.violations(X) == {rule.name: 0.0 for rule in rules}
    assert sum(learner.violations(X, constrained=False).values()) > 0
    for aligned in learner.best_structures(X):
        assert not any(a in "aeiou" and b in "βγδκλμνπρστ" for a, b, _ in aligned if a and b)
        assert sum(bool(a and b) for a, b, _ in aligned) >= 2
    if method == "joint":
        assert np.all(np.diff(learner.history_.objective) >= 0.0)


def test_a_matcher_takes_rules_and_its_file_holds_them(tmp_path, capfd):
    (tmp_path / "rules.toml").write_text(
        'rule = [{links = "count", source_word = "a", target_word = ["β", "δ", "μ"], at_most = 0, name = "no a"}]'
    )
    (tmp_path / "names.tsv").write_text("".join(f"{a}\t{b}\n" for a, b in names(12)))
    asked = ("--rules", tmp_path / "rules.toml", "--negatives", 2, "-q", "--threads", 1)
    assert run("match", "train", tmp_path / "names.tsv", *asked, "--save", tmp_path / "m") == 0
    (tmp_path / "new.tsv").write_text("damiko\tδμικο\nabdal\tμβδλ\n")
    assert run("match", "predict", tmp_path / "new.tsv", "-m", tmp_path / "m", "--json", "--threads", 1) == 0
    for line in capfd.readouterr().out.splitlines():
        assert not {("a", "β"), ("a", "δ"), ("a", "μ")} & set(map(tuple, json.loads(line)["alignment"]))
    loaded = Matcher.load(tmp_path / "m")
    assert [rule.name for rule in loaded.rules] == ["no a"]
    fresh = Matcher(rules=loaded.rules, negatives=2, n_jobs=1).fit(names(12))
    assert fresh.match(names(5)) == loaded.match(names(5))


def test_words_of_sentences_may_be_mapped_in_order_alone():
    X = [*TEXTS, ("one two three", "three two one"), ("x y", "z"), ("up down left", "north south up")]
    model = GraphPairs(min_count=1, wordnet="none")
    model.guess(model.encode(X, fit=True))
    # words that both sentences have must be mapped, so crossing links can be made dear but not forbidden
    learner = LCLR(model, [links.in_order().penalty(50)], start="model", max_iter=2, tol=0.0)
    learner.fit(X, [1, 1, 1, -1, -1, -1])
    assert learner.violations(X, constrained=False) == pytest.approx(learner.violations(X))


# alignments that are given

GIVEN = [
    [("a", "α"), ("b", "β"), ("c", ""), ("a", "α")],
    [("", "β"), ("b", "α"), ("b", "β")],
    [("c", "γ"), ("a", "")],
]


def test_given_alignments_are_found_again():
    learner = SSVM(StringPairs(bits=12), C=10.0, tol=1e-3).fit(NAMES[:3], GIVEN)
    assert [[(a, b) for a, b, _ in own] for own in learner.predict(NAMES[:3])] == GIVEN
    assert learner.score(NAMES[:3], GIVEN) == 1.0
    graphs = GraphPairs(min_count=1, wordnet="none")
    y = [[(0, 1), (1, 2), (2, 3), (3, 0)], [(0, 0), (2, 1)], [(0, 1), (1, 2)]]
    learner = SSVM(graphs, C=10.0, tol=1e-3).fit(TEXTS, y)
    assert 0.0 <= learner.score(TEXTS, y) <= 1.0
    assert LatentSSVM(StringPairs(bits=12)).fit(NAMES[:3], [GIVEN[0], None, GIVEN[2]]).score(NAMES[:3], GIVEN) > 0


@pytest.mark.parametrize(
    "wrong", [[("a", "α")], [("abca", "αβα")], "ab"], ids=["too few", "too long", "text"]
)  # fmt: skip
def test_alignments_that_are_none_are_refused(wrong):
    with pytest.raises(DataError):
        SSVM(StringPairs(bits=8)).fit(NAMES[:1], [wrong])
    with pytest.raises(DataError):
        SSVM(GraphPairs(min_count=1, wordnet="none")).fit(TEXTS[:1], [[(0, 0)]])


def test_an_ssvm_of_given_alignments_reaches_the_optimum():
    model = StringPairs(bits=6)
    learner = SSVM(model, C=0.7, tol=1e-6, max_iter=400).fit(NAMES[:3], GIVEN)
    batch = learner.model_.encode(NAMES[:3], GIVEN)
    groups = []
    for number, pair in enumerate(batch.pairs):
        one = batch.instances(number, number + 1)
        outputs = [np.cumsum(steps, axis=0) for steps in all_alignments(*map(len, pair), 1)]
        gold, parts = batch.labels[number], learner.model_.parts(one)
        own = learner.model_.phi(one, [gold]).toarray()[0]
        cuts = []
        for output in outputs:
            missed = len(set(parts.of([gold]).tolist()) - set(parts.of([output]).tolist()))
            cuts.append((own - learner.model_.phi(one, [output]).toarray()[0], float(missed)))
        groups.append((0.7, cuts))
    assert learner.objective_ == pytest.approx(least(groups, 2)[0], rel=1e-5)


def test_alignments_and_answers_are_learned_from_together():
    pairs = names(40)
    others = list(zip([a for a, _ in pairs], [b for _, b in pairs[3:]], strict=False))
    y = [marked(name, text) for name, text in pairs]
    learner = JLIS(StringPairs(bits=12), max_iter=5, tol=0.0)
    learner.fit(pairs[:1], y[:1], binary=(pairs[1:] + others, [1] * 39 + [-1] * 37))
    assert np.all(np.diff(learner.history_.objective) >= 0.0)
    alone = SSVM(StringPairs(bits=12)).fit(pairs[:1], y[:1])
    assert learner.score(pairs[1:], y[1:]) > alone.score(pairs[1:], y[1:]) + 0.02


def marked(name, text):
    """The letters of a name, each with the one beside it: every letter but an inner a has one."""
    rest = iter(text)
    return [(c, "" if c == "a" and k < len(name) - 1 else next(rest)) for k, c in enumerate(name)]
