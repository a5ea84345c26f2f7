"""Constraints on arcs: which parts they name, what they say in words, and what they do to distributions over trees."""

from __future__ import annotations

import numpy as np
import pytest
from projection.oracle import enumerate_outputs, solve_primal
from structures.tree_twin import all_trees

from trellis.constraints import arcs, column, compile_constraints, count, few_arcs_per, parse_rules, root, word
from trellis.data.batch import Batch, Column
from trellis.data.ragged import offsets_of
from trellis.data.vocabulary import Vocabulary
from trellis.errors import ConstraintError, DataError, InfeasibleError
from trellis.projection import Projector, project
from trellis.structures import TreeParts, Trees

NO_LABELS = Vocabulary([], kind="label")
SENTENCES = [["the", "dog", "sees", "cats"], ["cats", "run"]]
TAGS = [["DET", "NOUN", "VERB", "NOUN"], ["NOUN", "VERB"]]
TAGS_FLAT = [tag for tags in TAGS for tag in tags]
tag = column("upos")


def batch_of(**columns: list[list[str]]) -> Batch:
    flat = {"word": SENTENCES, "upos": TAGS, **columns}
    n = sum(map(len, SENTENCES))
    return Batch(
        offsets_of(map(len, SENTENCES)), np.full(n, -1, np.int32), np.ones(len(SENTENCES)),
        {name: Column.of([cell for row in rows for cell in row]) for name, rows in flat.items()},
    )  # fmt: skip


def compiled(constraint, **columns):
    batch = batch_of(**columns)
    return compile_constraints([constraint.penalty(1.0)], batch, NO_LABELS, TreeParts(batch.offsets))


def named_arcs(constraint, **columns) -> set[tuple[int, int, int]]:
    """(sentence, head, child) of the arcs that a constraint's rows name."""
    rows = compiled(constraint, **columns)
    parts = rows.parts
    head, child = parts.arc_words()
    sentence = parts.instance_of(rows.part)
    return {
        (int(i), int(h - parts.offsets[i]) + 1 if h >= 0 else 0, int(c - parts.offsets[i]) + 1)
        for i, h, c in zip(sentence, head[rows.part], child[rows.part], strict=True)
    }


def every_arc() -> set[tuple[int, int, int]]:
    return {
        (i, h, c)
        for i, words in enumerate(SENTENCES)
        for c in range(1, len(words) + 1)
        for h in range(len(words) + 1)
        if h != c
    }


@pytest.mark.parametrize(
    "chosen, wanted",
    [
        (arcs(head=root), lambda i, h, c: h == 0),
        (arcs(head=tag == "VERB"), lambda i, h, c: h > 0 and TAGS[i][h - 1] == "VERB"),
        (arcs(child=word == "cats"), lambda i, h, c: SENTENCES[i][c - 1] == "cats"),
        (
            arcs(head=tag == "VERB", child=tag == "NOUN", direction="left"),
            lambda i, h, c: h > c and TAGS[i][h - 1] == "VERB" and TAGS[i][c - 1] == "NOUN",
        ),
        (arcs(direction="right"), lambda i, h, c: 0 < h < c),
        (arcs(distance=1), lambda i, h, c: h > 0 and abs(h - c) == 1),
        (arcs(distance=(2, 3)), lambda i, h, c: h > 0 and 2 <= abs(h - c) <= 3),
        (arcs([[(0, 3), (2, 1)], [(2, 1)]]), lambda i, h, c: (i, h, c) in {(0, 0, 3), (0, 2, 1), (1, 2, 1)}),
        (
            arcs([[(0, 3), (2, 1)], [(2, 1)]], child=tag == "DET"),
            lambda i, h, c: (i, h, c) == (0, 2, 1),
        ),
    ],
    ids=lambda value: repr(value)[:40] if not callable(value) else "",
)  # fmt: skip
def test_arcs_are_chosen_by_what_stands_at_their_ends(chosen, wanted):
    assert named_arcs(chosen.per("corpus") <= 0.5) == {arc for arc in every_arc() if wanted(*arc)}


def test_arcs_may_be_given_by_a_column():
    heads = [["2", "_", "0", "3"], ["2", ""]]
    found = named_arcs(arcs(column("projected")).per("corpus") <= 0.5, projected=heads)
    assert found == {(0, 2, 1), (0, 0, 3), (0, 3, 4), (1, 2, 1)}


def test_a_share_is_of_the_words_that_could_have_such_an_arc():
    rows = compiled(arcs(head=tag == "VERB", child=tag == "NOUN", share=True).per("corpus") >= 0.8)
    assert set(rows.coefficient.tolist()) == {-1 / 3}  # three nouns
    assert rows.bound.tolist() == [-0.8]
    rows = compiled(arcs([[(3, 4), (2, 1)], [(2, 1)]], share=True).per("corpus") >= 0.9)
    assert set(rows.coefficient.tolist()) == {-1 / 3}  # three words have a head given


def test_rows_count_arcs_of_every_tree():
    constraint = arcs(child=tag == "NOUN", direction="left") <= 0.5
    rows = compiled(constraint)
    for i, words in enumerate(SENTENCES):
        own = np.flatnonzero(rows.instance == i)[0]
        parts = rows.part[rows.start[own] : rows.start[own + 1]]
        for heads in all_trees(len(words), projective=True, single_root=True):
            other = next(t for t in all_trees(len(SENTENCES[1 - i]), projective=True, single_root=True))
            used = rows.parts.of(np.array((*heads, *other) if i == 0 else (*other, *heads), np.int32))
            wanted = sum(TAGS[i][c - 1] == "NOUN" and h > c for c, h in enumerate(heads, start=1))
            assert np.isin(parts, used).sum() == wanted


def test_counts_of_words_stand_beside_counts_of_arcs():
    nouns = count(where=tag == "NOUN").per("corpus")
    rows = compiled(arcs(child=tag == "NOUN", head=tag == "VERB").per("corpus") >= 0.5 * nouns)
    assert rows.bound.tolist() == [-1.5]


def test_constraints_on_arcs_say_what_they_are():
    said = (arcs(head=tag == "VERB", child=tag == "NOUN").per("corpus") >= 2).describe()
    assert said == (
        "Over the corpus the expected number of arcs from a word where the upos is 'VERB' to a word where the upos is "
        "'NOUN' is at least 2, as a hard constraint."
    )
    assert repr(arcs(head=root, child=tag == "VERB") >= 1) == "arcs(head=root, child=(column('upos') == 'VERB')) >= 1"


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: arcs(head="VERB"), "head= takes a condition"),
        (lambda: arcs(child=root), "the root has no head"),
        (lambda: arcs(direction="up"), "'left' or 'right'"),
        (lambda: arcs(distance=0), "distance must be a number"),
        (lambda: arcs(distance=(3, 2)), "distance must be a number"),
        (lambda: arcs(head=root, distance=1), "no direction"),
        (lambda: arcs("projected"), "write column"),
    ],
)
def test_what_has_no_meaning_is_refused(make, words):
    with pytest.raises(ConstraintError, match=words):
        make()


def test_labels_are_refused_of_trees_and_arcs_of_labels():
    with pytest.raises(ConstraintError, match="these dependency trees have none"):
        compiled(count("NOUN") >= 1)
    from trellis.structures import ChainParts

    batch = batch_of()
    with pytest.raises(ConstraintError, match="arcs between words"):
        compile_constraints([arcs() <= 1], batch, Vocabulary(["A"]), ChainParts(batch.offsets, 1))


def test_given_arcs_must_be_arcs_of_the_sentences():
    with pytest.raises(DataError, match="sentence 2 has 2 words, so it has no arc from 3 to 1"):
        compiled(arcs([[], [(3, 1)]]).per("corpus") >= 1)
    with pytest.raises(DataError, match="given for 1 sentences, but the batch has 2"):
        compiled(arcs([[]]).per("corpus") >= 1)
    with pytest.raises(ConstraintError, match="not the number of a head"):
        compiled(arcs(column("p")).per("corpus") >= 1, p=[["x"] * 4, ["_"] * 2])


def test_more_than_any_tree_has_is_refused_at_once():
    batch = batch_of()
    with pytest.raises(InfeasibleError, match="at most 1"):
        compile_constraints([arcs(head=root) >= 2], batch, NO_LABELS, TreeParts(batch.offsets))


@pytest.mark.parametrize("gamma", [0.5, 1.0, 2.0])
def test_projection_moves_trees_to_the_bound(gamma):
    batch = batch_of()
    scores = Trees(batch.offsets, np.random.default_rng(0).normal(size=20))
    rules = [
        (arcs(head=tag == "VERB", child=tag == "NOUN", share=True).per("corpus") >= 0.9).named("nouns"),
        (arcs(child=tag == "DET", direction="left", share=True) >= 0.7).named("determiners").slack(0.0),
    ]
    rows = compile_constraints(rules, batch, NO_LABELS, scores.parts)
    projector = Projector(rows, np.array([0, 2]), tolerance=1e-8)
    found = projector.run(lambda number: scores, gamma, then=lambda number, answer: answer.posterior)
    q = found.results[0]
    assert np.all(rows.excess(rows.expect(q)) < 1e-6)
    before = scores.temper(gamma).infer()
    assert np.any(rows.excess(rows.expect(before)) > 0.05)


class AllTrees:
    """Every tree of the sentences, for the oracle."""

    def __init__(self, scores: Trees) -> None:
        self.scores, self.parts, self.weight = scores, scores.parts, np.ones(len(scores))
        self.n_instances, self.n_parts = len(scores), scores.parts.n_parts

    def listing(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        n = int(self.parts.offsets[i + 1] - self.parts.offsets[i])
        use = []
        for heads in all_trees(n, projective=True, single_root=True):
            own = np.zeros(self.n_parts)
            own[[self.parts.arc_within(i, h, c) for c, h in enumerate(heads, start=1)]] = 1.0
            use.append(own)
        return np.array(use), np.array(use) @ self.scores.arc


@pytest.mark.parametrize("gamma, strength", [(1.0, 0.4), (1.0, 3.0), (0.5, 1.0)])
def test_arcs_that_join_few_pairs_of_tags_are_those_of_the_convex_program(gamma, strength):
    batch = batch_of()
    scores = Trees(batch.offsets, np.random.default_rng(2).normal(size=20))
    rows = compile_constraints([few_arcs_per(tag, strength=strength)], batch, NO_LABELS, scores.parts)
    head, child = scores.parts.arc_words()
    pairs = {(TAGS_FLAT[h], TAGS_FLAT[c]) for h, c in zip(head.tolist(), child.tolist(), strict=True) if h >= 0}
    assert rows.sparsity[0].n_keys == len(pairs)
    case = AllTrees(scores)
    wanted, value = solve_primal(enumerate_outputs(case, rows), gamma)
    found = project(scores, rows, gamma, tolerance=1e-6, max_rounds=2000, at=np.arange(20))
    expected = sum(q @ case.listing(i)[0] for i, q in enumerate(wanted))
    np.testing.assert_allclose(found.posterior.at(np.arange(20)), expected, atol=1e-4)
    assert found.value == pytest.approx(value, abs=1e-5)


def test_few_pairs_of_tags_say_what_they_are():
    rule = few_arcs_per(tag, strength=2).named("few pairs")
    assert repr(rule) == "few_arcs_per(column('upos'), strength=2).named('few pairs')"
    [read] = parse_rules('[[rule]]\nname = "few pairs"\nfew_arcs_per = "upos"\npenalty = 2').constraints
    assert repr(read) == repr(rule)
    with pytest.raises(DataError, match="set penalty"):
        parse_rules('[[rule]]\nfew_arcs_per = "upos"')
    for wrong in (lambda: few_arcs_per("upos", strength=1), lambda: few_arcs_per(tag, strength="much"), rule.hard):
        with pytest.raises(ConstraintError):
            wrong()


RULES = """
[[rule]]
name = "nouns hang on verbs"
arcs = "share"
head_column = { upos = ["VERB", "AUX"] }
child_column = { upos = "NOUN" }
at_least = 0.5
per = "corpus"

[[rule]]
name = "near"
arcs = "count"
child_word = "The"
direction = "left"
distance = [1, 3]
ignore_case = true
at_least = 0.9

[[rule]]
name = "roots"
arcs = "count"
head_root = true
child_column = { upos = "VERB" }
at_least = 1

[[rule]]
name = "projected"
arcs = "share"
given_heads = "projected"
at_least = 0.9
"""


def test_the_rules_file_has_the_same_words():
    nouns, near, roots, projected = parse_rules(RULES).constraints
    ends = "head=column('upos').isin('VERB', 'AUX'), child=(column('upos') == 'NOUN')"
    assert nouns.code() == f"arcs({ends}, share=True).per('corpus') >= 0.5"
    assert near.code() == "arcs(child=word.isin('The', ignore_case=True), direction='left', distance=(1, 3)) >= 0.9"
    assert roots.code() == "arcs(head=root, child=(column('upos') == 'VERB')) >= 1"
    assert projected.code() == "arcs(column('projected'), share=True) >= 0.9"


@pytest.mark.parametrize(
    "text, words",
    [
        ('arcs = "some"\nat_least = 1', "unknown value of arcs"),
        ('arcs = "count"\nhead_root = true\ndistance = 1\nat_least = 1', "no direction"),
        ('arcs = "count"\nhead_root = true\nhead_word = "a"\nat_least = 1', "leave out head_word"),
        ('arcs = "count"\ndistance = [2, 1]\nat_least = 1', "distance must be"),
        ('arcs = "count"\nchild_column = {}\nat_least = 1', "must name a column"),
        ('arcs = "count"\nif_word = "a"\nat_least = 1', "if_word is not allowed"),
    ],
)
def test_mistakes_in_a_rules_file_are_told_with_their_line(text, words):
    with pytest.raises(DataError, match=words) as caught:
        parse_rules("[[rule]]\n" + text)
    assert caught.value.line is not None
